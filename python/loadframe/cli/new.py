"""`loadframe new`: create a workload and an experiment from documents, a mapping and queries."""

import json
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.cli import access
from loadframe.cli.app import Topic, app, option
from loadframe.cli.choices import StoreKind
from loadframe.cli.import_ import Generate, NamedOutput, Queries, output_of
from loadframe.cli.output import Json, print_json, tell

_EXAMPLES = """\b
Examples:
  loadframe new orders.ndjson
  loadframe new orders.csv --store postgresql --queries slow.log
  loadframe new orders.ndjson --mapping mapping.json --queries searches.ndjson --output search/orders.yaml
"""

_EXPERIMENT = """\
experiment: {name}
store: {{kind: {kind}, nodes: 1, limits: {{cpus: 1, memory: 2g}}}}
workload: {file}
kind: scale
scaling: strong
factors: {{clients: [1, 2, 4, 8, 16]}}
measure: queries
repetitions: 3
"""


@app.command(epilog=_EXAMPLES)
def new(
    documents: Annotated[Path, typer.Argument(help="Documents: NDJSON, CSV or Parquet.")],
    mapping: Annotated[
        Path | None, option(Topic.DATA, help="Mapping of Elasticsearch or OpenSearch, in JSON. Default: inferred.")
    ] = None,
    queries: Queries = None,
    store: StoreKind = access.DEFAULT_STORE,
    sample: Annotated[int, option(Topic.DATA, min=1, help="Documents to sample.")] = 10_000,
    generate: Generate = None,
    keep: Annotated[
        list[str],
        option(Topic.DATA, help="Field to keep with its original values. Repeatable."),
    ] = [],
    seed: Annotated[int, option(Topic.DATA, help="Seed of the sample and the generated documents.")] = 1,
    output: NamedOutput = None,
    as_json: Json = False,
) -> None:
    """Create a workload and an experiment from your documents, and check both.

    The workload has generated documents, as with `loadframe import sample`. The experiment measures its queries with 1
    to 16 clients.
    """
    from loadframe.experiment.file.reader import load_experiment
    from loadframe.library.imports import converted_sample
    from loadframe.load import render_operations
    from loadframe.store import find
    from loadframe.workload import load_workload
    from loadframe.workload.importers.imported import name_of, refuse_existing

    kind = find(store)
    if mapping is not None and kind.family != "elasticsearch":
        raise BadInput(f"--mapping does not apply to {store}", remedy="remove --mapping, or choose another --store")
    output = output_of(output, documents.name.partition(".")[0])
    experiment = output.with_name(f"{output.stem}-experiment.yaml")
    refuse_existing(experiment)
    imported = converted_sample(
        documents,
        None,
        None,
        output.stem,
        documents=sample,
        generate=generate,
        keep=keep,
        queries_file=queries,
        seed=seed,
        mapping=mapping,
    )
    with TemporaryDirectory(prefix="loadframe-new-") as folder:
        # Check all files before the first is written.
        tried = Path(folder) / output.name
        imported.write(tried)
        text = _EXPERIMENT.format(name=name_of(output.stem), kind=store, file=json.dumps(f"./{output.name}"))
        (Path(folder) / experiment.name).write_text(text, encoding="utf-8")
        load_experiment(Path(folder) / experiment.name)
        resolved = load_workload(str(tried)).for_family(kind.family, 1, offline=True)
        operations = [
            name
            for phase in resolved.phases
            # A placeholder: nothing is sent.
            for name, _ in render_operations(phase.plan(seed=seed, hosts=["127.0.0.1:9"], driver=kind.driver))
        ]
    _, imported, _ = imported.write(output)
    experiment.write_text(text, encoding="utf-8")
    following = shlex.join(["loadframe", "run", str(experiment)])
    if as_json:
        files = {"workload": str(output), "experiment": str(experiment)}
        print_json({**files, "operations": operations, "left_out": list(imported.left_out), "next": following})
        return
    tell(f"workload: {output}")
    tell(f"experiment: {experiment}")
    for entry in imported.left_out:
        tell(f"left out: {entry}")
    tell(f"checked: {counted(len(operations), 'operation')}, valid for {store}")
    tell(f"next: {following}")
