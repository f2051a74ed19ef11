"""`loadframe import`: create workload files from your data, or from the files of other tools.

Modules of this package add importers as commands to `commands`. No list names them.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base import interrupts
from loadframe.cli.app import SUMMARIES, Application, Group, Topic, app, option
from loadframe.cli.output import print_json, tell

if TYPE_CHECKING:
    from typer._click import Command, Context

    from loadframe.workload.importers.imported import Imported


class Importers(Group):
    """The group of all importers: the modules of this package."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Import all importers, and return their names, sorted."""
        with interrupts.deferred():
            for module in pkgutil.iter_modules(__path__):
                importlib.import_module(f"{__name__}.{module.name}")
        self.commands = dict(sorted(typer.main.get_group(commands).commands.items()))
        return list(self.commands)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Import the modules of all importers, and return the command `cmd_name`, or None if it does not exist."""
        self.list_commands(ctx)
        return self.commands.get(cmd_name)


commands = Application(cls=Importers, no_args_is_help=True, help=SUMMARIES["import"], rich_markup_mode=None)
app.add_typer(commands, name="import")

Output = Annotated[
    Path | None, option(Topic.OUTPUT, "--output", "-o", help="Workload file to write. Default: standard output.")
]
NamedOutput = Annotated[
    Path | None, option(Topic.OUTPUT, "--output", "-o", help="Workload file to write. Default: NAME.yaml.")
]
Generate = Annotated[
    int | None, option(Topic.DATA, min=1, help="Documents to generate. Default: the number of sampled documents.")
]
Queries = Annotated[
    Path | None,
    option(Topic.DATA, help="Slow log, or file of searches, MongoDB commands or SELECT statements."),
]


def output_of(output: Path | None, name: str) -> Path:
    """Return the workload file to write, by default NAME.yaml.

    BadInput if it exists, or its corpus next to it (STEM-documents.ndjson).
    """
    from loadframe.workload.importers.imported import refuse_existing

    output = output or Path(f"{name}.yaml")
    for path in (output, output.with_name(f"{output.stem}-documents.ndjson")):
        refuse_existing(path)
    return output


def write_or_print(imported: "Imported", output: Path | None, as_json: bool) -> None:
    """Write the workload to `output`, or print it without; list the parts that were left out on standard error.

    With `as_json`, print the path, the text, the paths of further files and these parts as JSON instead of the text.
    """
    files: list[Path] = []
    if output is None:
        text, imported = imported.valid()
    else:
        text, imported, files = imported.write(output)
        tell(f"workload: {output}")
    if as_json:
        print_json(
            {
                "file": None if output is None else str(output),
                "text": text,
                "requests": [str(path) for path in files],
                "left_out": list(imported.left_out),
            }
        )
    elif output is None:
        print(text, end="")
    if imported.left_out:
        tell(f"left out: {len(imported.left_out)}")
        for entry in imported.left_out:
            tell(f"  - {entry}")
