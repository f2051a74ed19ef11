"""Results that print as text, show in notebooks and save themselves."""

import os
from collections.abc import Callable, Mapping
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput
from loadframe.base.terminal import PrintableConsole

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of printed text.
_WIDTH = 100


def text_of(show: "Callable[[Console], None]") -> str:
    """Return the text that a function prints on a console, without styles."""
    file = StringIO()
    # In a notebook, rich would display the text instead of writing it to the file.
    show(
        PrintableConsole(
            file=file, width=_WIDTH, emoji=False, force_terminal=False, force_jupyter=False, color_system=None
        )
    )
    return file.getvalue()


def save_text(text: str, path: str | os.PathLike[str]) -> Path:
    """Write a file and return its path; BadInput if that fails."""
    target = Path(path)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"the file cannot be written: {error.strerror}", where=str(target), remedy="name another file"
        ) from error
    return target


class Answer:
    """A result of an analysis: `print` it, show it in a notebook, or take its values with `as_dict`."""

    def __init__(self, document: Mapping[str, Any], show: "Callable[[Console], None]") -> None:
        """Create the result from its values and the function that prints it."""
        self._document = dict(document)
        self._show = show

    def as_dict(self) -> dict[str, Any]:
        """Return the values that the command prints with `--json`. Times are s, rates 1/s."""
        return self._document

    def __str__(self) -> str:
        return text_of(self._show).rstrip("\n")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {next(iter(str(self).splitlines()), '')}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
