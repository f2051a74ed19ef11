"""The application object that each command's module adds itself to, and what commands print with."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from loadframe import __version__

app = typer.Typer(
    name="loadframe",
    help="A testing machine for data stores: it brings a cluster up, loads it, measures it, says what to believe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

#: Results go to standard output, progress and remarks to standard error, so that `--json | jq` works.
out = Console()
err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


def _print_version(asked: bool) -> None:
    if asked:
        out.print(f"loadframe {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Take the options of `loadframe` itself."""


def print_json(result: Any) -> None:
    """Write a result as JSON for programs, one object, indented."""
    print(json.dumps(result, indent=2))
