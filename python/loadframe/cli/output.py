"""What commands print with: results to standard output, progress and remarks to standard error."""

import json
from typing import Annotated, Any

import typer

from loadframe.terminal import PrintableConsole

#: Results go to standard output, progress and remarks to standard error, so that `--json | jq` works.
#: Texts are shown as they are: `:name:` is not a picture, and rich reads a long list of pictures for it.
out = PrintableConsole(emoji=False)
err = PrintableConsole(stderr=True, emoji=False)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def tell(text: str, style: str | None = None) -> None:
    """Write a line of progress or a remark, as it is: one line however long, so that a path in it can be copied."""
    err.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(result: Any) -> None:
    """Write a result as JSON for programs, one object, indented."""
    print(json.dumps(result, indent=2))
