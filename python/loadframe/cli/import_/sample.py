"""`loadframe import sample`: generated documents that resemble a file or a collection."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.base.errors import BadInput
from loadframe.cli import access
from loadframe.cli.choices import ClusterHosts, ClusterName, StoreKind
from loadframe.cli.import_ import Generate, NamedOutput, Queries, commands, output_of, queries_of, write_or_print
from loadframe.cli.output import Json
from loadframe.cli.topics import Topic, option

if TYPE_CHECKING:
    from loadframe.workload.sampling import Source

Collection = Annotated[
    str | None,
    option(Topic.EXISTING, help="Index, table, collection or key prefix to sample; SCHEMA.TABLE is allowed."),
]
Database = Annotated[
    str | None,
    option(Topic.EXISTING, help="PostgreSQL or MongoDB database, or Cassandra keyspace. Default: loadframe."),
]

_EXAMPLES = """\b
Examples:
  loadframe import sample orders.csv --output orders.yaml
  loadframe import sample --store postgresql --hosts 10.0.0.5 --user app --database shop --collection orders
  loadframe import sample trips.parquet --generate 1000000 --keep vendor_id --output trips.yaml
"""


@commands.command(epilog=_EXAMPLES)
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

    name = collection_or_file(file, hosts, cluster, collection, database)
    output = output_of(output, name.partition(".")[0])
    sampled: Sequence[Mapping[str, Any]]
    if file is not None:
        source, sampled = Source(file.name, output.stem), read_documents(file, documents, seed)
    else:
        source, sampled = from_cluster(context, name, documents)
    profile = Profile(sampled, keep=keep, seed=seed)
    asked, ignored = queries_of(queries, source, profile)
    write_or_print(workload(source, profile, generate or profile.sampled, output.stem, asked, ignored), output, as_json)


def collection_or_file(
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


def from_cluster(
    context: typer.Context, collection: str, documents: int, *, empty: bool = False
) -> "tuple[Source, Sequence[Mapping[str, Any]]]":
    """Return a collection's definition and random documents; BadInput if it is missing, or empty unless `empty`."""
    from loadframe.cluster import Cluster
    from loadframe.workload.sampling import Source
    from loadframe.workload.sampling.documents import storable

    given = context.params
    if given["cluster"] is not None:
        live = access.named_cluster(given["cluster"], given["store"], context)
    else:
        addresses, reached = access.existing(given, loads=False)
        live = Cluster.attach(addresses, given["store"], reached)
    sampled = live.store.sample(live.addresses, collection, documents, given["database"])
    if not sampled.documents and not empty:
        what = f"the collection {collection} has no documents"
        raise BadInput(what, where=", ".join(live.addresses), remedy="name a collection with documents")
    title = f"the collection {collection} of {live.store.kind}"
    return Source(title, collection, live.store.family, sampled.definition, sampled.key), storable(sampled.documents)
