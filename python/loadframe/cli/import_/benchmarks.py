"""`loadframe import rally|ycsb|queries`: workloads of other benchmarks."""

import math
from pathlib import Path
from typing import Annotated

import typer

from loadframe.base.units import parse_duration, parse_size
from loadframe.cli.app import Topic, option
from loadframe.cli.choices import assignments, option_name
from loadframe.cli.import_ import Output, commands, write_or_print
from loadframe.cli.output import Json, tell

_RALLY_EXAMPLES = """\b
Examples:
  loadframe import rally ./my-track --output my-track.yaml
  loadframe import rally ./my-track --challenge append-only --set bulk_size=1000
  loadframe import rally ./my-track --params my-params.json --output my-track.yaml
  loadframe import rally ./my-track --test-mode --output small.yaml
  loadframe import rally ./my-track --allow-code --time-limit 2m --output my-track.yaml
"""


@commands.command(epilog=_RALLY_EXAMPLES)
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


_YCSB_EXAMPLES = """\b
Examples:
  loadframe import ycsb workloada --output ycsb-a.yaml
  loadframe import ycsb workloade --property recordcount=100000 --property threadcount=16
"""


@commands.command(epilog=_YCSB_EXAMPLES)
def ycsb(
    file: Annotated[Path, typer.Argument(help="Properties file.")],
    property_: Annotated[
        list[str], typer.Option("--property", "-p", help="Property as key=value, which overrides the file. Repeatable.")
    ] = [],
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Import a properties file of YCSB's core workload, for all stores."""
    from loadframe.workload.importers.ycsb import import_ycsb

    write_or_print(import_ycsb(file, assignments(property_, option="-p")), output, as_json)


_QUERIES_EXAMPLES = """\b
Examples:
  loadframe import queries steps.json --output steps.yaml
  loadframe import queries steps.json | less
  loadframe import queries steps.json --warmup 5s --execution 30s --sleep 20ms --output short.yaml
  loadframe import queries steps.json --index index.json --documents documents.json --bulk-size 10000
"""


@commands.command(epilog=_QUERIES_EXAMPLES)
def queries(
    file: Annotated[Path, typer.Argument(help="List of steps, in JSON.")],
    index: Annotated[
        Path | None, option(Topic.WORKLOAD, help="Definition of the index, in JSON. Requires --documents.")
    ] = None,
    documents: Annotated[
        Path | None,
        option(Topic.WORKLOAD, help="Documents, one JSON object on each line, plain or compressed. Requires --index."),
    ] = None,
    bulk_size: Annotated[
        int | None,
        option(Topic.WORKLOAD, min=1, help="Documents in a bulk request. Default: 1,000, as in the benchmarker."),
    ] = None,
    shards: Annotated[
        int | None, option(Topic.WORKLOAD, min=1, help="Shards. Default: one for each node, as in the benchmarker.")
    ] = None,
    warmup: Annotated[
        str | None, option(Topic.LOAD, help="Warm-up of all steps, such as 60s. Default: the file's.")
    ] = None,
    execution: Annotated[
        str | None, option(Topic.LOAD, help="Measured time of all steps, such as 300s. Default: the file's.")
    ] = None,
    sleep: Annotated[
        str | None, option(Topic.LOAD, help="Pause after each request, such as 20ms. Default: the file's.")
    ] = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Import files of the MPI benchmarker: steps of searches, each with a warm-up, a duration and a pause.

    With --index and --documents, the workload also loads the benchmarker's documents.
    """
    from loadframe.library.imports import converted_queries

    converted = converted_queries(
        file,
        index=index,
        documents=documents,
        bulk_size=bulk_size,
        shards=shards,
        times={"warmup": warmup, "execution": execution, "sleep": sleep},
        written=option_name,
    )
    write_or_print(converted, output, as_json)
