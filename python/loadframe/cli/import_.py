"""`loadframe import`: create workload files from query lists, YCSB properties, Rally tracks and your own data."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import parse_duration, parse_size
from loadframe.cli import access
from loadframe.cli.app import Application, Group, app
from loadframe.cli.choices import ClusterHosts, ClusterName, StoreKind, assignments
from loadframe.cli.output import Json, print_json, tell
from loadframe.cli.topics import Topic, option

if TYPE_CHECKING:
    from loadframe.workload.importers import Imported
    from loadframe.workload.sampling import Profile, Query, Source

commands = Application(
    cls=Group,
    no_args_is_help=True,
    help="Create a workload from your data (sample, mapping) or another tool: queries, ycsb, rally.",
)
app.add_typer(commands, name="import")

Output = Annotated[
    Path | None, option(Topic.OUTPUT, "--output", "-o", help="Workload file to write. Default: standard output.")
]
NamedOutput = Annotated[
    Path | None, option(Topic.OUTPUT, "--output", "-o", help="Workload file to write. Default: NAME.yaml.")
]
Collection = Annotated[
    str | None,
    option(Topic.EXISTING, help="Index, table, collection or key prefix to sample; SCHEMA.TABLE is allowed."),
]
Generate = Annotated[
    int | None, option(Topic.DATA, min=1, help="Documents to generate. Default: as many as were sampled.")
]
Queries = Annotated[
    Path | None,
    option(Topic.DATA, help="Slow log, or file of searches, MongoDB commands or SELECT statements."),
]
Database = Annotated[
    str | None,
    option(Topic.EXISTING, help="PostgreSQL or MongoDB database, or Cassandra keyspace. Default: loadframe."),
]

_QUERIES = """\b
Examples:
  loadframe import queries steps.json --output steps.yaml
  loadframe import queries steps.json | less
  loadframe import queries steps.json --warmup 5s --execution 30s --sleep 20ms --output short.yaml
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
_SAMPLE = """\b
Examples:
  loadframe import sample orders.csv --output orders.yaml
  loadframe import sample --store postgresql --hosts 10.0.0.5 --user app --database shop --collection orders
  loadframe import sample trips.parquet --generate 1000000 --keep vendor_id --output trips.yaml
"""
_MAPPING = """\b
Examples:
  loadframe import mapping mapping.json --generate 100000 --output orders.yaml
  loadframe import mapping --store opensearch --hosts 10.0.0.5:9200 --collection orders
"""


@commands.command(epilog=_MAPPING)
@access.with_options
def mapping(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="Mapping of Elasticsearch or OpenSearch, in JSON. Or give --hosts.")
    ] = None,
    generate: Annotated[int, option(Topic.DATA, min=1, help="Documents to generate.")] = 10_000,
    seed: Annotated[int, option(Topic.DATA, help="Seed of the generated documents.")] = 1,
    store: StoreKind = access.DEFAULT_STORE,
    hosts: ClusterHosts = None,
    cluster: ClusterName = None,
    collection: Collection = None,
    database: Database = None,
    output: NamedOutput = None,
    as_json: Json = False,
) -> None:
    """Create a workload from a schema alone: synthetic documents with the types of its fields.

    The schema is a mapping in a file, or the schema of a collection: an index of the search family, or a table of
    PostgreSQL or Cassandra.
    """
    from loadframe.workload.sampling import of_mapping, of_schema

    name = _collection_or_file(file, hosts, cluster, collection, database)
    output = output_of(output, name.partition(".")[0])
    source = of_mapping(file, output.stem) if file is not None else _from_cluster(context, name, 1, empty=True)[0]
    _write(of_schema(source, generate, output.stem, seed), output, as_json)


@commands.command(epilog=_SAMPLE)
@access.with_options
def sample(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="Documents: NDJSON, CSV or Parquet. Or give --hosts. NDJSON and CSV may be compressed."),
    ] = None,
    documents: Annotated[int, option(Topic.DATA, min=1, help="Documents to sample.")] = 10_000,
    generate: Generate = None,
    keep: Annotated[
        list[str],
        option(Topic.DATA, help="Field whose original values are kept, such as `address.country`. Repeatable."),
    ] = [],
    seed: Annotated[int, option(Topic.DATA, help="Seed of the sample and the generated documents.")] = 1,
    queries: Queries = None,
    store: StoreKind = access.DEFAULT_STORE,
    hosts: ClusterHosts = None,
    cluster: ClusterName = None,
    collection: Collection = None,
    database: Database = None,
    output: NamedOutput = None,
    as_json: Json = False,
) -> None:
    """Create a workload with generated documents that follow the distributions of your own.

    The documents come from a file or from a collection of a cluster. Keywords, words and long numbers are replaced;
    --keep keeps the values of a field.
    """
    from loadframe.workload.sampling import Profile, Source, workload
    from loadframe.workload.sampling.documents import read as read_documents

    name = _collection_or_file(file, hosts, cluster, collection, database)
    output = output_of(output, name.partition(".")[0])
    sampled: Sequence[Mapping[str, Any]]
    if file is not None:
        source, sampled = Source(file.name, output.stem), read_documents(file, documents, seed)
    else:
        source, sampled = _from_cluster(context, name, documents)
    profile = Profile(sampled, keep=keep, seed=seed)
    asked, ignored = queries_of(queries, source, profile)
    _write(workload(source, profile, generate or profile.sampled, output.stem, asked, ignored), output, as_json)


def queries_of(file: Path | None, source: "Source", profile: "Profile") -> "tuple[Sequence[Query], Sequence[str]]":
    """Return the queries of a file with pseudonyms, and its parts that were left out; nothing without a file."""
    from loadframe.workload.sampling import queries

    return ((), ()) if file is None else queries.read(file, source.collection, profile)


def _collection_or_file(
    file: Path | None, hosts: str | None, cluster: str | None, collection: str | None, database: str | None
) -> str:
    """Return the name of the file or collection to sample; BadInput unless exactly one is given."""
    if (file is None) == (hosts is None and cluster is None):
        given = "neither" if file is None else "both"
        raise BadInput(f"expected a file or --hosts, not {given}", remedy="name a file of documents, or a cluster")
    if hosts and cluster:
        raise BadInput("--hosts and --cluster exclude each other", remedy="remove one of them")
    if file is not None:
        for name, value in (("--collection", collection), ("--database", database)):
            if value is not None:
                raise BadInput(f"{name} requires --hosts or --cluster", remedy=f"remove {name}")
        return file.name
    if collection is None:
        raise BadInput("--hosts and --cluster require --collection", remedy="add --collection NAME")
    return collection


def _from_cluster(
    context: typer.Context, collection: str, documents: int, *, empty: bool = False
) -> "tuple[Source, Sequence[Mapping[str, Any]]]":
    """Return a collection's definition and random documents; BadInput if it is missing, or empty unless `empty`."""
    from loadframe.cluster import Cluster
    from loadframe.workload.sampling import Source
    from loadframe.workload.sampling.documents import storable

    given = context.params
    if given["cluster"] is not None:
        live = access.named(given["cluster"], given["store"], context)
    else:
        addresses, reached = access.existing(given, loads=False)
        live = Cluster.attach(addresses, given["store"], reached)
    sampled = live.store.sample(live.addresses, collection, documents, given["database"])
    if not sampled.documents and not empty:
        what = f"the collection {collection} has no documents"
        raise BadInput(what, where=", ".join(live.addresses), remedy="name a collection with documents")
    title = f"the collection {collection} of {live.store.kind}"
    return Source(title, collection, live.store.family, sampled.definition, sampled.key), storable(sampled.documents)


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


@commands.command(epilog=_QUERIES)
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
    from loadframe.workload.importers import StepTimes, Triple, import_queries

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
        _write(import_queries(file, times=times), output, as_json)
        return
    loaded = Triple(index, documents, **({} if bulk_size is None else {"bulk_size": bulk_size}), shards=shards)
    _write(import_queries(file, loaded, times), output, as_json)


@commands.command(epilog=_YCSB)
def ycsb(
    file: Annotated[Path, typer.Argument(help="Properties file.")],
    property_: Annotated[
        list[str], typer.Option("--property", "-p", help="Property as key=value, which overrides the file. Repeatable.")
    ] = [],
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Import a properties file of YCSB's core workload, for all stores."""
    from loadframe.workload.importers import import_ycsb

    _write(import_ycsb(file, assignments(property_, option="-p")), output, as_json)


@commands.command(epilog=_RALLY)
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
    from loadframe.workload.importers import import_rally, parameters_of
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
    _write(imported, output, as_json)


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


def _write(imported: "Imported", output: Path | None, as_json: bool) -> None:
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
