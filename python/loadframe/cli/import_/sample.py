"""`loadframe import sample|mapping`: documents that resemble those of a file or a collection, or follow its schema."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadframe.cli import access
from loadframe.cli.app import Topic, option
from loadframe.cli.choices import ClusterHosts, ClusterName, StoreKind, option_name
from loadframe.cli.import_ import Generate, NamedOutput, Queries, commands, output_of, write_or_print
from loadframe.cli.output import Json

if TYPE_CHECKING:
    from loadframe.library.imports import Origin

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
    from loadframe.library.imports import converted_sample

    origin, name = _origin(file, context)
    output = output_of(output, name.partition(".")[0])
    given = context.params
    converted = converted_sample(
        origin,
        given["collection"],
        given["database"],
        output.stem,
        documents=documents,
        generate=generate,
        keep=keep,
        queries_file=queries,
        seed=seed,
    )
    write_or_print(converted, output, as_json)


def _origin(file: Path | None, context: typer.Context) -> "tuple[Origin, str]":
    """Return the file to sample, or a function that opens the cluster, and the name of the file or collection.

    BadInput unless exactly one file, or a collection of one cluster, is given.
    """
    from loadframe.library.imports import require_one_origin

    given = context.params
    clusters = [name for name in ("hosts", "cluster") if given[name] is not None]
    require_one_origin(file, given["collection"], given["database"], clusters, option_name)
    attach = access.existing(given, loads=False)
    if file is not None:
        return file, file.name
    if attach is None:
        attach = partial(access.named_cluster, given["cluster"], given["store"], context)
    return attach, given["collection"]


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
    from loadframe.library.imports import converted_mapping

    origin, name = _origin(file, context)
    output = output_of(output, name.partition(".")[0])
    given = context.params
    converted = converted_mapping(origin, given["collection"], given["database"], generate, seed, output.stem)
    write_or_print(converted, output, as_json)
