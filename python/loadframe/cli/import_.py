"""`loadframe import`: makes workload files of what other tools have: query lists, YCSB properties, Rally tracks."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadframe.cli.app import Group, app
from loadframe.cli.choices import assignments
from loadframe.cli.output import tell
from loadframe.errors import BadInput
from loadframe.units import parse_duration, parse_size

if TYPE_CHECKING:
    from loadframe.workload.importers import Imported

commands = typer.Typer(
    cls=Group, no_args_is_help=True, help="Make a workload file of another tool's: queries, ycsb, rally."
)
app.add_typer(commands, name="import")

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The workload file to write; standard output if not given.")
]

_QUERIES = """\b
Examples:
  loadframe import queries steps.json --output steps.yaml
  loadframe import queries steps.json | less
  loadframe import queries steps.json --index index.json --documents documents.json --bulk-size 10000
"""
_YCSB = """\b
Examples:
  loadframe import ycsb workloada --output ycsb-a.yaml
  loadframe import ycsb workloade --property recordcount=100000 --property threadcount=16
"""
_RALLY = """\b
Examples:
  loadframe import rally ./my-track --output my-track.yaml
  loadframe import rally ./my-track --challenge append-only --set bulk_size=1000
  loadframe import rally ./my-track --params my-params.json --output my-track.yaml
  loadframe import rally ./my-track --test-mode --output small.yaml
  loadframe import rally ./my-track --allow-code --time-limit 2m --output my-track.yaml
"""


@commands.command(epilog=_QUERIES)
def queries(
    file: Annotated[Path, typer.Argument(help="The list of steps, in JSON.")],
    index: Annotated[
        Path | None, typer.Option(help="The definition of its index, in JSON; goes with --documents.")
    ] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Its documents, a JSON object a line, plain or compressed.")
    ] = None,
    bulk_size: Annotated[
        int | None, typer.Option(min=1, help="Documents of a bulk request; 1,000 if not given, as in the benchmarker.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Shards; one for each node if not given, as in the benchmarker.")
    ] = None,
    output: Output = None,
) -> None:
    """Import the MPI benchmarker's files: steps of searches, each with a warm-up, a duration and a pause, and with
    --index and --documents what it loads before them."""
    from loadframe.workload.importers import Triple, import_queries

    if index is None or documents is None:
        for option, value in (("--index", index), ("--documents", documents)):
            if value is not None:
                missing = "--documents" if index else "--index"
                raise BadInput(f"{option} has no meaning without {missing}", remedy=f"add {missing}")
        for option, number in (("--bulk-size", bulk_size), ("--shards", shards)):
            if number is not None:
                raise BadInput(f"{option} goes with documents to load", remedy="add --index and --documents")
        _write(import_queries(file), output)
        return
    loaded = Triple(index, documents, **({} if bulk_size is None else {"bulk_size": bulk_size}), shards=shards)
    _write(import_queries(file, loaded), output)


@commands.command(epilog=_YCSB)
def ycsb(
    file: Annotated[Path, typer.Argument(help="The properties file.")],
    property_: Annotated[
        list[str], typer.Option("--property", "-p", help="A property that goes before the file's, key=value; repeat.")
    ] = [],
    output: Output = None,
) -> None:
    """Import a properties file of YCSB's core workload, for every family of stores."""
    from loadframe.workload.importers import import_ycsb

    _write(import_ycsb(file, assignments(property_, option="-p")), output)


@commands.command(epilog=_RALLY)
def rally(
    path: Annotated[Path, typer.Argument(help="The track's folder, or its JSON file.")],
    challenge: Annotated[
        str | None, typer.Option(help="The challenge, or test procedure; the track's default if not given.")
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", help="A track parameter, name=value; may be repeated.")] = [],
    params: Annotated[
        Path | None, typer.Option(help="A JSON file of track parameters, as Rally's --track-params takes it.")
    ] = None,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Run the track's Python code, to see what parameters it makes.")
    ] = False,
    test_mode: Annotated[
        bool, typer.Option("--test-mode", help="Make everything small, to try it once: as Rally's option does.")
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(help="The folder whose files the track may include; the checkout around it if not given."),
    ] = None,
    time_limit: Annotated[str, typer.Option(help="The CPU time that its templates may take, and its code.")] = "20s",
    draws: Annotated[
        int, typer.Option(min=1, help="The most requests of an operation that its Python code makes ahead.")
    ] = 100_000,
    memory_limit: Annotated[str, typer.Option(help="The memory that its templates may take, and its code.")] = "1GiB",
    output: Output = None,
) -> None:
    """Import a track of Rally or a workload of OpenSearch Benchmark; its Python code runs only with --allow-code."""
    from loadframe.workload.importers import import_rally, parameters_of
    from loadframe.workload.importers.rally.isolated import Limits

    limits = Limits(cpu=math.ceil(parse_duration(time_limit)) or 1, memory=parse_size(memory_limit), draws=draws)
    if allow_code:
        tell(f"runs the Python code of {path}: import only tracks that you trust")
    imported = import_rally(
        path,
        challenge,
        assignments(set_),
        values=None if params is None else parameters_of(params),
        root=root,
        test_mode=test_mode,
        allow_code=allow_code,
        limits=limits,
        requests=None if output is None else f"{output.stem}-requests",
    )
    _write(imported, output)


def _write(imported: "Imported", output: Path | None) -> None:
    """Write the workload file where it is wanted, and say what is not in it."""
    text, imported = imported.valid()
    if output is None:
        print(text, end="")
    else:
        _to_file(text, output)
        for name, lines in imported.files.items():
            _requests(lines, output.parent / name)
        tell(f"workload: {output}")
    if imported.left_out:
        tell(f"left out: {len(imported.left_out)}")
        for entry in imported.left_out:
            tell(f"  - {entry}")


def _requests(lines: Sequence[str], file: Path) -> None:
    """Write the requests that a track's code made."""
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        what = f"the requests of its code cannot be written: {error.strerror}"
        raise BadInput(what, where=str(file), remedy="name another workload file with --output") from None


def _to_file(text: str, output: Path) -> None:
    if output.suffix not in (".yaml", ".yml"):
        raise BadInput(f"{output} would be no workload file", remedy="a workload's path ends with .yaml")
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput("it exists already", where=str(output), remedy="name another file with --output") from None
    except OSError as error:
        what = f"the workload cannot be written: {error.strerror}"
        raise BadInput(what, where=str(output), remedy="name another file with --output") from None
