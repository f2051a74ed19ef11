"""CPU time of the client per document and per search request, beside OpenSearch Benchmark, on the same real node.

Both get the same corpus, bulk size, search and number of clients, and a collection that is made anew. What starting up
costs is left out: each runs twice, with little and with much to do, and the difference counts.
"""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import engine_run, osb

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.units import format_count, format_duration

TRIPS = Path(__file__).parents[1] / "tests" / "data" / "nyc_taxis" / "documents-1k.json"
CLIENTS = 8
BULK_SIZE = 5_000
#: Documents, and search requests, of the run with little to do and of that with much.
DOCUMENTS = (50_000, 400_000)
SEARCHES = (1_600, 12_800)
SEARCH = {"query": {"range": {"total_amount": {"gte": 5, "lt": 15}}}, "size": 10}
DEFINITION = {"settings": {"number_of_shards": 1, "number_of_replicas": 0}}
#: What the engine may need of OpenSearch Benchmark's CPU time, per document and per search request.
AIM_DOCUMENT, AIM_SEARCH = 1 / 8, 1 / 60


def main() -> None:
    """Measure both clients and print the ratios."""
    osb.find()
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.start(ClusterSpec(settings={"heap": "1g"})) as cluster,
    ):
        address = cluster.addresses[0]
        corpora = [_corpus(Path(folder), documents) for documents in DOCUMENTS]
        theirs, ours = _documents(cluster, address, corpora)
        _print("document", theirs, ours, AIM_DOCUMENT)
        # The collection is full now, for both.
        theirs, ours = _searches(address, corpora[0])
        _print("search request", theirs, ours, AIM_SEARCH)


def _corpus(folder: Path, documents: int) -> Path:
    path = folder / f"trips-{documents}.json"
    path.write_text(TRIPS.read_text() * (documents // 1_000))
    return path


def _documents(cluster: Cluster, address: str, corpora: list[Path]) -> tuple[float, float]:
    """Return CPU time per document of both, s."""
    task = {"operation": {"operation-type": "bulk", "bulk-size": BULK_SIZE}, "clients": CLIENTS}
    operation = {"bulk": {"collection": osb.COLLECTION, "corpus": "trips", "size": BULK_SIZE}}
    theirs, ours = [], []
    for corpus, documents in zip(corpora, DOCUMENTS, strict=True):
        theirs.append(osb.cpu(address, DEFINITION, corpus, documents, [task]))
        cluster.drop_collection(osb.COLLECTION)
        cluster.create_collection(osb.COLLECTION, DEFINITION)
        measured = _engine(address, operation, "exhausted", corpora={"trips": {"files": [str(corpus)]}})
        ours.append(measured.cpu)
    print(
        f"  {format_count(documents)} documents in bulk requests of {format_count(BULK_SIZE)}, {CLIENTS} clients:"
        f" {format_count(documents / measured.seconds)}/s by the engine"
    )
    return _each(theirs, DOCUMENTS), _each(ours, DOCUMENTS)


def _searches(address: str, corpus: Path) -> tuple[float, float]:
    """Return CPU time per search request of both, s."""
    load = {"operation": {"operation-type": "bulk", "bulk-size": BULK_SIZE}, "clients": CLIENTS}
    refresh = {"operation": {"operation-type": "refresh"}}
    search = {"name": "search", "operation-type": "search", "index": osb.COLLECTION, "body": SEARCH, "cache": False}
    operation = {"search": {"collection": osb.COLLECTION, "body": SEARCH, "request_cache": False}}
    theirs, ours = [], []
    for searches in SEARCHES:
        task = {"operation": search, "clients": CLIENTS, "iterations": searches // CLIENTS}
        theirs.append(osb.cpu(address, DEFINITION, corpus, DOCUMENTS[0], [load, refresh, task]))
        measured = _engine(address, operation, {"requests": searches})
        ours.append(measured.cpu)
    print(
        f"  {format_count(searches)} search requests, {CLIENTS} clients: {format_count(measured.rate)}/s by the engine"
    )
    return _each(theirs, SEARCHES), _each(ours, SEARCHES)


def _each(spent: list[float], counts: tuple[int, int]) -> float:
    """Return the CPU time of one more, s."""
    return (spent[1] - spent[0]) / (counts[1] - counts[0])


def _engine(address: str, operation: dict[str, Any], stop: Any, **parts: Any) -> engine_run.Measured:
    target = {"driver": "search", "hosts": [address]}
    plan = engine_run.phase(target, operation, {"closed": {"clients": CLIENTS}}, stop, warmup=0.0, **parts)
    return engine_run.measure(plan)


def _print(what: str, theirs: float, ours: float, aim: float) -> None:
    print(
        f"  CPU per {what}: OpenSearch Benchmark {format_duration(theirs)}, search driver {format_duration(ours)};"
        f" ratio 1/{theirs / ours:.0f}, aim 1/{1 / aim:.0f}"
    )
