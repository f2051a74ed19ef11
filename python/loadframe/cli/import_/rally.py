"""`loadframe import rally`: tracks of Rally and workloads of OpenSearch Benchmark."""

import math
from pathlib import Path
from typing import Annotated

import typer

from loadframe.base.units import parse_duration, parse_size
from loadframe.cli.app import Topic, option
from loadframe.cli.choices import assignments
from loadframe.cli.import_ import Output, commands, write_or_print
from loadframe.cli.output import Json, tell

_EXAMPLES = """\b
Examples:
  loadframe import rally ./my-track --output my-track.yaml
  loadframe import rally ./my-track --challenge append-only --set bulk_size=1000
  loadframe import rally ./my-track --params my-params.json --output my-track.yaml
  loadframe import rally ./my-track --test-mode --output small.yaml
  loadframe import rally ./my-track --allow-code --time-limit 2m --output my-track.yaml
"""


@commands.command(epilog=_EXAMPLES)
def rally(
    path: Annotated[Path, typer.Argument(help="Folder or JSON file of the track.")],
    challenge: Annotated[
        str | None, option(Topic.TRACK, help="Challenge, or test procedure. Default: the track's default.")
    ] = None,
    set_: Annotated[list[str], option(Topic.TRACK, "--set", help="Track parameter as name=value. Repeatable.")] = [],
    params: Annotated[
        Path | None, option(Topic.TRACK, help="JSON file of track parameters, as for Rally's --track-params.")
    ] = None,
    test_mode: Annotated[
        bool, option(Topic.TRACK, "--test-mode", help="Reduce all sizes for a quick try, as Rally's option does.")
    ] = False,
    root: Annotated[
        Path | None,
        option(Topic.TRACK, help="Folder from which the track may include files. Default: its checkout."),
    ] = None,
    allow_code: Annotated[
        bool, option(Topic.SANDBOX, "--allow-code", help="Run the track's Python code to get its parameters.")
    ] = False,
    time_limit: Annotated[str, option(Topic.SANDBOX, help="CPU time limit for templates and code.")] = "20s",
    memory_limit: Annotated[str, option(Topic.SANDBOX, help="Memory limit for templates and code.")] = "1GiB",
    draws: Annotated[
        int, option(Topic.SANDBOX, min=1, help="Maximum requests of an operation that the code generates in advance.")
    ] = 100_000,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Import a Rally track or an OpenSearch Benchmark workload. Its Python code runs only with --allow-code."""
    from loadframe.workload.importers.rally import import_rally, parameters_of
    from loadframe.workload.importers.rally.isolated import Limits

    limits = Limits(cpu=math.ceil(parse_duration(time_limit)) or 1, memory=parse_size(memory_limit), draws=draws)
    if allow_code:
        tell(f"running the Python code of {path}: import only tracks that you trust")
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
    write_or_print(imported, output, as_json)
