"""`loadframe import sample|mapping`: documents that resemble those of a file or a collection, or follow its schema."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.base.errors import BadInput
from loadframe.cli import access
from loadframe.cli.app import Topic, option
from loadframe.cli.choices import ClusterHosts, ClusterName, StoreKind
from loadframe.cli.import_ import Generate, NamedOutput, Queries, commands, output_of, queries_of, write_or_print
from loadframe.cli.output import Json

if TYPE_CHECKING:
    from loadframe.workload.sampling import Source

#: Options that name a collection, by parameter: annotation and default. Commands read them from their context.
_COLLECTION: Mapping[str, tuple[Any, Any]] = {
    "store": (StoreKind, access.DEFAULT_STORE),
    "hosts": (ClusterHosts, None),
    "cluster": (ClusterName, None),
    "collection": (
        Annotated[
            str | None,
            option(Topic.EXISTING, help="Index, table, collection or key prefix to sample; SCHEMA.TABLE is allowed."),
        ],
        None,
    ),
    "database": (
        Annotated[
            str | None,
            option(Topic.EXISTING, help="PostgreSQL or MongoDB database, or Cassandra keyspace. Default: loadframe."),
        ],
        None,
    ),
}

_SAMPLE_EXAMPLES = """\b
Examples:
  loadframe import sample orders.csv --output orders.yaml
  loadframe import sample --store postgresql --hosts 10.0.0.5 --user app --database shop --collection orders
  loadframe import sample trips.parquet --generate 1000000 --keep vendor_id --output trips.yaml
"""


@commands.command(epilog=_SAMPLE_EXAMPLES)
@access.with_options(_COLLECTION)
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
    output: NamedOutput = None,
    as_json: Json = False,
) -> None:
    """Create a workload with generated documents that follow the distributions of your own.

    The documents come from a file or from a collection of a cluster. Keywords, words and long numbers are replaced;
    --keep keeps the values of a field.
    """
    from loadframe.workload.sampling import Profile, Source, workload
    from loadframe.workload.sampling.documents import read as read_documents

    name = _collection_or_file(file, context.params)
    output = output_of(output, name.partition(".")[0])
    sampled: Sequence[Mapping[str, Any]]
    if file is not None:
        source, sampled = Source(file.name, output.stem), read_documents(file, documents, seed)
    else:
        source, sampled = _from_cluster(context, name, documents)
    profile = Profile(sampled, keep=keep, seed=seed)
    asked, ignored = queries_of(queries, source, profile)
    write_or_print(workload(source, profile, generate or profile.sampled, output.stem, asked, ignored), output, as_json)


def _collection_or_file(file: Path | None, given: Mapping[str, Any]) -> str:
    """Return the name of the file or collection to sample; BadInput unless exactly one is given."""
    hosts, cluster, collection = given["hosts"], given["cluster"], given["collection"]
    if (file is None) == (hosts is None and cluster is None):
        both = "neither" if file is None else "both"
        raise BadInput(f"expected a file or --hosts, not {both}", remedy="name a file of documents, or a cluster")
    if hosts and cluster:
        raise BadInput("--hosts and --cluster exclude each other", remedy="remove one of them")
    if file is not None:
        for name in ("collection", "database"):
            if given[name] is not None:
                raise BadInput(f"--{name} requires --hosts or --cluster", remedy=f"remove --{name}")
        return file.name
    if collection is None:
        raise BadInput("--hosts and --cluster require --collection", remedy="add --collection NAME")
    return str(collection)


def _from_cluster(
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


_MAPPING_EXAMPLES = """\b
Examples:
  loadframe import mapping mapping.json --generate 100000 --output orders.yaml
  loadframe import mapping --store opensearch --hosts 10.0.0.5:9200 --collection orders
"""


@commands.command(epilog=_MAPPING_EXAMPLES)
@access.with_options(_COLLECTION)
def mapping(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="Mapping of Elasticsearch or OpenSearch, in JSON. Or give --hosts.")
    ] = None,
    generate: Annotated[int, option(Topic.DATA, min=1, help="Documents to generate.")] = 10_000,
    seed: Annotated[int, option(Topic.DATA, help="Seed of the generated documents.")] = 1,
    output: NamedOutput = None,
    as_json: Json = False,
) -> None:
    """Create a workload from a schema alone: synthetic documents with the types of its fields.

    The schema is a mapping in a file, or the schema of a collection: an index of the search family, or a table of
    PostgreSQL or Cassandra.
    """
    from loadframe.workload.sampling import of_mapping, of_schema

    name = _collection_or_file(file, context.params)
    output = output_of(output, name.partition(".")[0])
    source = of_mapping(file, output.stem) if file is not None else _from_cluster(context, name, 1, empty=True)[0]
    write_or_print(of_schema(source, generate, output.stem, seed), output, as_json)
