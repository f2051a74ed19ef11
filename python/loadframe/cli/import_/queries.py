"""`loadframe import queries`: the steps of searches of the MPI benchmarker."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli.app import Topic, option
from loadframe.cli.choices import option_name
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
