"""Workloads from your data, and from the files of other tools."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Unpack

from loadframe.base.errors import BadInput
from loadframe.base.units import counted, parse_duration, parse_size
from loadframe.cluster import Cluster as LiveCluster
from loadframe.library.arguments import Count, checked, in_python, listed
from loadframe.library.cluster import Cluster, existing_cluster
from loadframe.library.options import Access, attachment, parsed_as
from loadframe.library.tables import html_table
from loadframe.library.workload import Value, Workload
from loadframe.workload.importers import queries as steps
from loadframe.workload.importers import rally
from loadframe.workload.importers import ycsb as properties_files
from loadframe.workload.importers.imported import Imported as ConvertedWorkload
from loadframe.workload.importers.imported import name_of
from loadframe.workload.sampling import Profile, Source, collection_of, of_mapping, of_schema, queries
from loadframe.workload.sampling import workload as sampled_workload
from loadframe.workload.sampling.documents import read, storable


class Imported:
    """A workload that was converted from another format, and what could not be converted.

    >>> imported = loadframe.import_ycsb("results/workloadc")
    >>> imported.workload.phases
    ['load', 'refresh', 'transactions']
    >>> imported.left_out
    []
    """

    def __init__(self, converted: ConvertedWorkload) -> None:
        """Check the workload; BadInput if no phase of it is valid."""
        self._text, self._converted = converted.valid()

    @property
    def text(self) -> str:
        """The text of the workload file."""
        return self._text

    @property
    def left_out(self) -> list[str]:
        """The parts that could not be converted, with the reasons."""
        return [in_python(entry) for entry in self._converted.left_out]

    @property
    def files(self) -> list[str]:
        """The names of further files, such as generated documents; `save` writes them next to the workload file."""
        return list(self._converted.files)

    @property
    def workload(self) -> Workload:
        """The workload. BadInput if it needs further files: save it, and load the workload file."""
        if self.files:
            raise BadInput(
                f"the workload needs further files: {', '.join(self.files)}",
                remedy="write them with save(path), and load the workload with Workload.load(path)",
            )
        return Workload(self._converted.data)

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the workload file and its further files next to it, and return its path.

        BadInput if one of them exists already, or if the name does not end with .yaml or .yml.
        """
        self._converted.write(Path(path), "path")
        return Path(path)

    def __repr__(self) -> str:
        name = self._converted.data["workload"]
        return f"<Imported {name}: {counted(len(self._converted.data['phases']), 'phase')}>"

    def _repr_html_(self) -> str:
        """Return an HTML table for a notebook: name, number of phases, and the parts that were left out."""
        rows = [("phases", len(self._converted.data["phases"])), *(("left out", entry) for entry in self.left_out)]
        return html_table((self._converted.data["workload"], ""), rows)


@checked
def import_rally(
    track: str | os.PathLike[str],
    *,
    challenge: str | None = None,
    parameters: Mapping[str, Value] | None = None,
    root: str | os.PathLike[str] | None = None,
    test_mode: bool = False,
    allow_code: bool = False,
    time_limit: str | float = "20s",
    memory_limit: str | int = "1GiB",
    draws: Count = 100_000,
) -> Imported:
    """Import a track of Rally or a workload of OpenSearch Benchmark, by its folder or JSON file.

    `parameters` are parameters of the track. Its Python code runs only with `allow_code`, within the limits of CPU time
    and memory; `draws` is the maximum number of requests of an operation that it generates. Other arguments are the
    options of `loadframe import rally`.

    >>> imported = loadframe.import_rally("results/track", parameters={"hits": 5})
    >>> imported.workload.phases
    ['all']
    """
    path = Path(track)
    limits = rally.isolated.Limits(
        cpu=math.ceil(parsed_as(parse_duration, time_limit, "time_limit")) or 1,
        memory=parsed_as(parse_size, memory_limit, "memory_limit"),
        draws=draws,
    )
    return Imported(
        rally.import_rally(
            path,
            challenge,
            {},
            values=parameters,
            root=None if root is None else Path(root),
            test_mode=test_mode,
            allow_code=allow_code,
            limits=limits,
            requests=f"{name_of(path.stem)}-requests",
        )
    )


@checked
def import_ycsb(file: str | os.PathLike[str], *, properties: Mapping[str, Value] | None = None) -> Imported:
    """Import a properties file of YCSB's core workload, for all stores. `properties` override properties of the file.

    >>> loadframe.import_ycsb("results/workloadc", properties={"threadcount": 8}).workload.parameters["clients"]
    8
    """
    given = properties or {}
    # Java writes true and false.
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
    return Imported(properties_files.import_ycsb(Path(file), texts))


@checked
def import_queries(
    file: str | os.PathLike[str],
    *,
    index: str | os.PathLike[str] | None = None,
    documents: str | os.PathLike[str] | None = None,
    bulk_size: Count | None = None,
    shards: Count | None = None,
    warmup: str | float | None = None,
    execution: str | float | None = None,
    sleep: str | float | None = None,
) -> Imported:
    """Import the steps of searches of the MPI benchmarker; with `index` and `documents`, also the load of its data.

    `warmup`, `execution` and `sleep` replace the times of all steps, s or texts such as "10s". `index`, `documents`,
    `bulk_size` and `shards` require `index` and `documents`.

    >>> loadframe.import_queries("results/steps.json", execution="1s").workload.phases
    ['step_1']
    """
    return Imported(
        converted_queries(
            Path(file),
            index=None if index is None else Path(index),
            documents=None if documents is None else Path(documents),
            bulk_size=bulk_size,
            shards=shards,
            times={"warmup": warmup, "execution": execution, "sleep": sleep},
        )
    )


def converted_queries(
    file: Path,
    *,
    index: Path | None,
    documents: Path | None,
    bulk_size: int | None,
    shards: int | None,
    times: Mapping[str, str | float | None],
    written: Callable[[str], str] = str,
) -> ConvertedWorkload:
    """Convert the steps of the MPI benchmarker in a file. `written` returns the name of an argument for messages.

    `times` (`warmup`, `execution` and `sleep`; s or texts such as "10s") replace the times of all steps unless None.
    BadInput for `execution` 0, and for options that require `index` and `documents`.
    """
    parsed = {name: None if it is None else parsed_as(parse_duration, it, written(name)) for name, it in times.items()}
    if parsed["execution"] == 0:
        raise BadInput(f"{written('execution')} 0 measures nothing", remedy="give a time above 0")
    missing = [written(name) for name, value in (("index", index), ("documents", documents)) if value is None]
    for name, value in (("index", index), ("documents", documents), ("bulk_size", bulk_size), ("shards", shards)):
        if value is not None and missing:
            raise BadInput(f"{written(name)} requires {' and '.join(missing)}", remedy=f"add {' and '.join(missing)}")
    loaded = None
    if index is not None and documents is not None:
        loaded = steps.Triple(
            index, documents, **({} if bulk_size is None else {"bulk_size": bulk_size}), shards=shards
        )
    return steps.import_queries(file, loaded, steps.StepTimes(**parsed))


@checked
def import_mapping(
    file: str | os.PathLike[str] | None = None,
    *,
    collection: str | None = None,
    database: str | None = None,
    store: str = "opensearch",
    hosts: str | Sequence[str] | None = None,
    cluster: str | Cluster | None = None,
    generate: Count = 10_000,
    seed: int = 1,
    name: str | None = None,
    **access: Unpack[Access],
) -> Imported:
    """Create a workload from a schema alone: `generate` synthetic documents with the types of its fields.

    The schema is a mapping of Elasticsearch or OpenSearch in a JSON `file`, or that of a `collection` of the cluster at
    `hosts`, or named or running `cluster`. `access` are the credentials and TLS options of `bench`. `name` is the name
    of the workload and its files. The same `seed` repeats the documents.

    >>> imported = loadframe.import_mapping("results/mapping.json", generate=10)
    >>> loadframe.Workload.load(imported.save("results/orders.yaml")).phases[0], imported.files
    ('load', ['mapping-documents.ndjson'])
    """
    origin = _origin(file, collection, database, store, hosts, cluster, access)
    return Imported(converted_mapping(origin, collection, database, generate, seed, name or _stem(file, collection)))


@checked
def import_sample(
    file: str | os.PathLike[str] | None = None,
    *,
    collection: str | None = None,
    database: str | None = None,
    store: str = "opensearch",
    hosts: str | Sequence[str] | None = None,
    cluster: str | Cluster | None = None,
    documents: Count = 10_000,
    generate: Count | None = None,
    keep: str | Sequence[str] = (),
    queries: str | os.PathLike[str] | None = None,
    seed: int = 1,
    name: str | None = None,
    **access: Unpack[Access],
) -> Imported:
    """Create a workload with generated documents that follow the distributions of your own.

    Samples `documents` of an NDJSON, CSV or Parquet `file`, or of a `collection` of a cluster, which is named as for
    `import_mapping`. `generate` is the number to generate (default: as many as were sampled). Keywords, words and long
    numbers are replaced, except in the fields `keep`. `queries` is a slow log, or a file of searches, MongoDB commands
    or SELECT statements. `name` is the name of the workload and its files.

    >>> imported = loadframe.import_sample("results/orders.ndjson", generate=100)
    >>> imported.files
    ['orders-documents.ndjson']
    """
    origin = _origin(file, collection, database, store, hosts, cluster, access)
    converted = converted_sample(
        origin,
        collection,
        database,
        name or _stem(file, collection),
        documents=documents,
        generate=generate,
        keep=listed(keep),
        queries_file=None if queries is None else Path(queries),
        seed=seed,
    )
    return Imported(converted)


#: The origin of documents or a schema: a file, or a function that returns an existing cluster.
Origin = Path | Callable[[], AbstractContextManager[LiveCluster]]


def converted_mapping(
    origin: Origin, collection: str | None, database: str | None, generate: int, seed: int, stem: str
) -> ConvertedWorkload:
    """Return a workload of `generate` synthetic documents for the schema in a file or of a collection.

    `stem` is the name of the workload and its files. `collection` and `database` apply only to a cluster. The same
    `seed` repeats the documents. BadInput for an invalid mapping, a missing collection, and a schema without fields.
    """
    if isinstance(origin, Path):
        source = of_mapping(origin, collection_of(stem))
    else:
        with origin() as live:
            source, _ = _from_cluster(live, str(collection), database, 1, empty=True)
    return of_schema(source, generate, stem, seed)


def converted_sample(
    origin: Origin,
    collection: str | None,
    database: str | None,
    stem: str,
    *,
    documents: int,
    generate: int | None,
    keep: Sequence[str],
    queries_file: Path | None,
    seed: int,
    mapping: Path | None = None,
) -> ConvertedWorkload:
    """Return a workload with generated documents that follow the documents of a file or a collection.

    Samples `documents`, and generates `generate`, by default as many as were sampled. Values of the fields `keep` are
    kept. `stem` is the name of the workload and its files. `queries_file` is a slow log or a file of queries. For a
    file, `mapping` is the file of its mapping, by default inferred; `collection` and `database` apply only to a
    cluster. BadInput without documents, and for invalid files.
    """
    sampled: Sequence[Mapping[str, Any]]
    if isinstance(origin, Path):
        name = collection_of(stem)
        source = Source(origin.name, name) if mapping is None else of_mapping(mapping, name)
        sampled = read(origin, documents, seed)
    else:
        with origin() as live:
            source, sampled = _from_cluster(live, str(collection), database, documents)
    profile = Profile(sampled, keep=keep, seed=seed)
    asked, ignored = queries.read(queries_file, source.collection, profile) if queries_file else ((), ())
    return sampled_workload(source, profile, generate or profile.sampled, stem, asked, ignored)


def require_one_origin(
    file: Any, collection: Any, database: Any, clusters: Iterable[str], written: Callable[[str], str] = str
) -> None:
    """Raise BadInput unless either a file, or a collection of one cluster, is given.

    `clusters` are the given arguments among `hosts` and `cluster`. `database` requires a cluster. `written` returns the
    name of an argument for messages.
    """
    given = list(clusters)
    if (file is None) == (not given):
        both = "neither" if file is None else "both"
        what = f"expected either a file or {written('hosts')}; got {both}"
        raise BadInput(what, remedy="name a file of documents, or a cluster")
    if len(given) > 1:
        raise BadInput(f"{written('hosts')} and {written('cluster')} exclude each other", remedy="remove one of them")
    if file is not None:
        for name, value in (("collection", collection), ("database", database)):
            if value is not None:
                what = f"{written(name)} requires {written('hosts')} or {written('cluster')}"
                raise BadInput(what, remedy=f"remove {written(name)}")
    elif collection is None:
        what = f"{written('hosts')} and {written('cluster')} require {written('collection')}"
        raise BadInput(what, remedy=f"add {written('collection')}")


def _origin(
    file: str | os.PathLike[str] | None,
    collection: str | None,
    database: str | None,
    store: str,
    hosts: str | Sequence[str] | None,
    cluster: str | Cluster | None,
    access: Access,
) -> Origin:
    """Return the path of `file`, or a function that attaches to the cluster; BadInput unless exactly one is given."""
    clusters = [name for name, value in (("hosts", hosts), ("cluster", cluster)) if value is not None]
    require_one_origin(file, collection, database, clusters)
    attached = attachment(store, hosts, access, lambda _: None, loads=False)
    return attached or existing_cluster(cluster) or Path(str(file))


def _stem(file: str | os.PathLike[str] | None, collection: str | None) -> str:
    """Return the name of a workload: the file's name up to its first dot, or the name of the collection."""
    return name_of((Path(file).name if file is not None else str(collection)).partition(".")[0])


def _from_cluster(
    live: LiveCluster, collection: str, database: str | None, documents: int, *, empty: bool = False
) -> tuple[Source, Sequence[Mapping[str, Any]]]:
    """Return a collection's definition and up to `documents` random documents of it.

    BadInput if the collection is missing, or if it has no documents, unless `empty`.
    """
    sampled = live.store.sample(live.addresses, collection, documents, database)
    if not sampled.documents and not empty:
        what = f"the collection {collection} has no documents"
        raise BadInput(what, where=", ".join(live.addresses), remedy="name a collection with documents")
    title = f"the collection {collection} of {live.store.kind}"
    return Source(title, collection, live.store.family, sampled.definition, sampled.key), storable(sampled.documents)
