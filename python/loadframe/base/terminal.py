"""A rich console that removes control characters from printed text."""

import errno
import os
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from loadframe.base.untrusted import printable


class PrintableConsole(Console):
    """A console whose only control characters are those of its own styles and bars.

    Use it wherever a text may come from a store or a run folder.
    """

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, for the exit code of a closed output. Rich exits with 1, the code of a failure."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of `renderable`, made printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
