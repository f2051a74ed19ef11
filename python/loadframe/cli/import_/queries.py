"""`loadframe import queries`: the steps of searches of the MPI benchmarker."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_duration
from loadframe.cli.app import Topic, option
from loadframe.cli.import_ import Output, commands, write_or_print
from loadframe.cli.output import Json

_EXAMPLES = """\b
Examples:
  loadframe import queries steps.json --output steps.yaml
  loadframe import queries steps.json | less
  loadframe import queries steps.json --warmup 5s --execution 30s --sleep 20ms --output short.yaml
  loadframe import queries steps.json --index index.json --documents documents.json --bulk-size 10000
"""


@commands.command(epilog=_EXAMPLES)
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
    from loadframe.workload.importers.queries import StepTimes, Triple, import_queries

    times = StepTimes(*(None if text is None else parse_duration(text) for text in (warmup, execution, sleep)))
    if times.execution == 0:
        raise BadInput("--execution 0 measures nothing", remedy="give a time above 0")
    if index is None or documents is None:
        for name, value in (("--index", index), ("--documents", documents)):
            if value is not None:
                missing = "--documents" if index else "--index"
                raise BadInput(f"{name} requires {missing}", remedy=f"add {missing}")
        for name, number in (("--bulk-size", bulk_size), ("--shards", shards)):
            if number is not None:
                raise BadInput(f"{name} requires --index and --documents", remedy="add --index and --documents")
        write_or_print(import_queries(file, times=times), output, as_json)
        return
    loaded = Triple(index, documents, **({} if bulk_size is None else {"bulk_size": bulk_size}), shards=shards)
    write_or_print(import_queries(file, loaded, times), output, as_json)
