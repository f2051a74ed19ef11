"""`loadframe import mapping`: generated documents for a mapping or the schema of a collection."""

from pathlib import Path
from typing import Annotated

import typer

from loadframe.cli import access
from loadframe.cli.choices import ClusterHosts, ClusterName, StoreKind
from loadframe.cli.import_ import NamedOutput, commands, output_of, write_or_print
from loadframe.cli.import_.sample import Collection, Database, collection_or_file, from_cluster
from loadframe.cli.output import Json
from loadframe.cli.topics import Topic, option

_EXAMPLES = """\b
Examples:
  loadframe import mapping mapping.json --generate 100000 --output orders.yaml
  loadframe import mapping --store opensearch --hosts 10.0.0.5:9200 --collection orders
"""


@commands.command(epilog=_EXAMPLES)
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

    name = collection_or_file(file, hosts, cluster, collection, database)
    output = output_of(output, name.partition(".")[0])
    source = of_mapping(file, output.stem) if file is not None else from_cluster(context, name, 1, empty=True)[0]
    write_or_print(of_schema(source, generate, output.stem, seed), output, as_json)
