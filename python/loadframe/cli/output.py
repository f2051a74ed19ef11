"""What commands print with: results to standard output, progress and remarks to standard error."""

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from loadframe.printable import printable


class _Console(Console):
    """A console that prints no control characters but those of its own styles and bars."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is printed, made printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


#: Results go to standard output, progress and remarks to standard error, so that `--json | jq` works.
#: Texts are shown as they are: `:name:` is not a picture, and rich reads a long list of pictures for it.
out = _Console(emoji=False)
err = _Console(stderr=True, emoji=False)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def tell(text: str, style: str | None = None) -> None:
    """Write a line of progress or a remark, as it is: one line however long, so that a path in it can be copied."""
    err.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(result: Any) -> None:
    """Write a result as JSON for programs, one object, indented."""
    print(json.dumps(result, indent=2))
