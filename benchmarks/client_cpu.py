"""CPU time of the client per document and per search, compared with another search client on the same real node.

Both use the same corpus, bulk size, search and number of clients, and a new collection. Start-up cost is excluded: each
client runs a small and a large job, and only the difference counts. The peers take a varying number of seconds to
start, so there are several rounds, and the median counts. A first run warms the caches and is discarded.

wrk sends the same requests, ignores the answers, and uses a minimum of system calls. Its CPU time is the lower limit
for any client.
"""

import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import engine_run, wrk
from benchmarks.rally import COLLECTION, Tool

from loadframe.base.units import format_count, format_duration
from loadframe.cluster import Cluster, ClusterSpec

TRIPS = Path(__file__).parents[1] / "tests" / "data" / "nyc_taxis" / "documents-1k.json"
CLIENTS = 8
BULK_SIZE = 5_000
ROUNDS = 3
#: Documents and search requests of the small and of the large job.
DOCUMENTS = (50_000, 1_000_000)
SEARCHES = (1_600, 12_800)
#: Length of a run of wrk, s: a few hundred bulk requests.
WRK = 10
LOAD = {"operation": {"operation-type": "bulk", "bulk-size": BULK_SIZE}, "clients": CLIENTS}
REFRESH = {"operation": {"operation-type": "refresh"}}
SEARCH = {"query": {"range": {"total_amount": {"gte": 5, "lt": 15}}}, "size": 10}
DEFINITION = {"settings": {"number_of_shards": 1, "number_of_replicas": 0}}
#: Maximum ratio of the engine's CPU time to the peer's, per document and per search.
AIM_DOCUMENT, AIM_SEARCH = 1 / 8, 1 / 60


def compare(peer: Tool, spec: ClusterSpec) -> None:
    """Measure both clients on a new cluster, and print the ratios."""
    peer.find()
    with tempfile.TemporaryDirectory() as folder, Cluster.start(spec) as cluster:
        address = cluster.addresses[0]
        target = {"driver": cluster.store.driver, "hosts": [address], **cluster.target()}
        corpora = {documents: _corpus(Path(folder), documents) for documents in DOCUMENTS}

        def engine(operation: dict[str, Any], stop: Any, **parts: Any) -> float:
            pacing = {"closed": {"clients": CLIENTS}}
            return engine_run.measure(engine_run.phase(target, operation, pacing, stop, warmup=0.0, **parts)).cpu

        def load(documents: int) -> list[float]:
            corpus = corpora[documents]
            theirs = peer.cpu(address, DEFINITION, corpus, documents, [LOAD])
            cluster.drop_collection(COLLECTION)
            cluster.create_collection(COLLECTION, DEFINITION)
            operation = {"bulk": {"collection": COLLECTION, "corpus": "trips", "size": BULK_SIZE}}
            return [theirs, engine(operation, "exhausted", corpora={"trips": {"files": [str(corpus)]}})]

        def search(searches: int) -> list[float]:
            asked = {"name": "search", "operation-type": "search", "index": COLLECTION, "body": SEARCH, "cache": False}
            task = {"operation": asked, "clients": CLIENTS, "iterations": searches // CLIENTS}
            theirs = peer.cpu(address, DEFINITION, corpora[DOCUMENTS[0]], DOCUMENTS[0], [LOAD, REFRESH, task])
            operation = {"search": {"collection": COLLECTION, "body": SEARCH, "request_cache": False}}
            return [theirs, engine(operation, {"requests": searches})]

        def least(path: str, body: str) -> float:
            return statistics.median(1 / wrk.post(address, path, body, CLIENTS, WRK) for _ in range(ROUNDS))

        load(DOCUMENTS[0])
        print(f"  {CLIENTS} clients, bulk requests of {format_count(BULK_SIZE)} documents, {ROUNDS} rounds")
        documents = _rounds(load, DOCUMENTS)
        trips = corpora[DOCUMENTS[0]].read_text().splitlines()[:BULK_SIZE]
        body = "".join(f'{{"index":{{}}}}\n{trip}\n' for trip in trips)
        path = f"/{COLLECTION}/{'_doc/' if peer.typed else ''}_bulk"
        _print(peer, "document", documents, AIM_DOCUMENT, least(path, body) / BULK_SIZE)
        searches = _rounds(search, SEARCHES)
        path = f"/{COLLECTION}/_search?request_cache=false"
        _print(peer, "search request", searches, AIM_SEARCH, least(path, json.dumps(SEARCH)))


def _corpus(folder: Path, documents: int) -> Path:
    path = folder / f"trips-{documents}.json"
    path.write_text(TRIPS.read_text() * (documents // 1_000))
    return path


def _rounds(run: Callable[[int], list[float]], counts: tuple[int, int]) -> list[list[float]]:
    """Return the marginal CPU time of both clients per round, s; `run` returns the CPU time of a job."""
    rounds = []
    for _ in range(ROUNDS):
        little, much = run(counts[0]), run(counts[1])
        rounds.append([(after - before) / (counts[1] - counts[0]) for before, after in zip(little, much, strict=True)])
    return rounds


def _print(peer: Tool, what: str, rounds: list[list[float]], aim: float, least: float) -> None:
    theirs, ours = (statistics.median(costs) for costs in zip(*rounds, strict=True))
    ratios = sorted(peer_s / values for peer_s, values in rounds)
    print(
        f"  CPU per {what}: {peer.name} {format_duration(theirs)}, search driver {format_duration(ours)};"
        f" ratio 1/{theirs / ours:.0f} (1/{ratios[-1]:.0f} to 1/{ratios[0]:.0f}), aim 1/{1 / aim:.0f}"
    )
    print(
        f"    wrk {format_duration(least)}: the search driver takes {ours / least:.2f} of that, and wrk itself"
        f" 1/{theirs / least:.0f} of {peer.name}"
    )
