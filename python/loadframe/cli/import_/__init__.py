"""`loadframe import`: create workload files from your data, or from the files of other tools.

An importer is a module of this package that adds a command to `commands`. No list names it.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.base import interrupts
from loadframe.base.errors import BadInput
from loadframe.cli.app import SUMMARIES, Application, Group, Topic, app, option
from loadframe.cli.output import print_json, tell

if TYPE_CHECKING:
    from typer._click import Command, Context

    from loadframe.workload.importers.imported import Imported
    from loadframe.workload.sampling import Profile, Query, Source


class Importers(Group):
    """The group of all importers: the modules of this package."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Import all importers, and return their names."""
        with interrupts.deferred():
            for module in pkgutil.iter_modules(__path__):
                importlib.import_module(f"{__name__}.{module.name}")
        self.commands = typer.main.get_group(commands).commands
        return sorted(self.commands)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Return the importer of this name; None if there is none."""
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
    int | None, option(Topic.DATA, min=1, help="Documents to generate. Default: as many as were sampled.")
]
Queries = Annotated[
    Path | None,
    option(Topic.DATA, help="Slow log, or file of searches, MongoDB commands or SELECT statements."),
]


def queries_of(file: Path | None, source: "Source", profile: "Profile") -> "tuple[Sequence[Query], Sequence[str]]":
    """Return the queries of a file with pseudonyms, and its parts that were left out; nothing without a file."""
    from loadframe.workload.sampling import queries

    return ((), ()) if file is None else queries.read(file, source.collection, profile)


def output_of(output: Path | None, name: str) -> Path:
    """Return the workload file to write; BadInput if it or its corpus exists."""
    output = output or Path(f"{name}.yaml")
    for path in (output, output.with_name(f"{output.stem}-documents.ndjson")):
        refuse_existing(path)
    return output


def refuse_existing(path: Path) -> None:
    """Refuse to overwrite a file, or to write through a link, even one that leads nowhere."""
    if path.exists() or path.is_symlink():
        raise BadInput("it exists already", where=str(path), remedy="name another file with --output")


def write(imported: "Imported", output: Path) -> "tuple[str, Imported, list[Path]]":
    """Write the workload file and the files that belong to it.

    Returns the workload's text, the import without invalid entries, and the paths of the other files.
    """
    text, imported = imported.valid()
    files = [output.parent / name for name in imported.files]
    for path in files:
        refuse_existing(path)
    _to_file(text, output)
    for path, lines in zip(files, imported.files.values(), strict=True):
        _requests(lines, path)
    return text, imported, files


def write_or_print(imported: "Imported", output: Path | None, as_json: bool) -> None:
    """Write the workload to a file or standard output, and list the parts that were left out."""
    files: list[Path] = []
    if output is None:
        text, imported = imported.valid()
    else:
        text, imported, files = write(imported, output)
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


def _requests(lines: Sequence[str], file: Path) -> None:
    """Write a file that belongs to the workload: generated documents, or requests of a track's code."""
    try:
        file.parent.mkdir(exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.writelines(f"{line}\n" for line in lines)
    except FileExistsError:
        refuse_existing(file)
    except OSError as error:
        problem = f"the file cannot be written: {error.strerror}"
        raise BadInput(problem, where=str(file), remedy="name another workload file with --output") from None


def _to_file(text: str, output: Path) -> None:
    if output.suffix not in (".yaml", ".yml"):
        raise BadInput(f"{output} is not a workload file", remedy="choose a name that ends with .yaml")
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput("it exists already", where=str(output), remedy="name another file with --output") from None
    except OSError as error:
        problem = f"the workload cannot be written: {error.strerror}"
        raise BadInput(problem, where=str(output), remedy="name another file with --output") from None
