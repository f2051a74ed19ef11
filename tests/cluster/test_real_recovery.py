"""Clients of each store after an outage: they succeed again soon after another client is answered."""

import contextlib
import csv
import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadframe.base import folders
from loadframe.base.errors import LoadframeError
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.host.netns import NetnsHost
from loadframe.load import Progress, run_phase
from loadframe.store import find

OBSTACLE = NetnsHost().obstacle
pytestmark = [
    pytest.mark.store,
    pytest.mark.alone,
    pytest.mark.skipif(
        OBSTACLE is not None, reason=f"requires networks of nodes with links that can be cut: {OBSTACLE}"
    ),
]

#: Numbers of clients of the loads that see the same outage.
CLIENTS = (1, 100, 500)
#: Fewer for PostgreSQL, which starts a process for each connection. After a pause it first serves those that clients
#: gave up after `TIMEOUT`, so that hundreds of clients that connect at once may never be answered in time.
CLIENTS_OF = {"postgresql": (1, 50)}
#: Start settings of each store: connections for all clients and more, and little memory.
SETTINGS: dict[str, dict[str, Any]] = {
    "redis": {},
    "postgresql": {"max_connections": 700},
    "mongodb": {},
    "cassandra": {"heap": "320m"},
}
COLLECTIONS: dict[str, dict[str, Any]] = {
    "postgresql": {"columns": {"age": "integer"}},
    "cassandra": {"columns": {"age": "int"}},
}
#: Seconds that a request may take, which all outages outlast.
TIMEOUT = 1.0
OUTAGE = 2.5
#: Seconds after the answer to another client in which one request must succeed: a request that was lost, the pause
#: after it, another request, and the rest of a busy second. Clients that back off for longer fail.
WITHIN = 4
#: Seconds that anything may take before the test fails.
PATIENCE = 240.0


@pytest.fixture(scope="module", params=SETTINGS)
def cluster(request: pytest.FixtureRequest, module_state: Path) -> Iterator[Cluster]:
    """One node of the store, with an empty collection, for all of its tests."""
    kind: str = request.param
    if kind == "redis" and not (shutil.which("redis-server") or shutil.which("valkey-server")):
        pytest.skip("neither redis-server nor valkey-server is installed")
    spec = ClusterSpec(store=kind, name=f"outage-{kind}", host="netns", settings=SETTINGS[kind])
    with Cluster.start(spec) as started:
        started.create_collection("things", COLLECTIONS.get(kind, {}))
        yield started


def pause(cluster: Cluster) -> None:
    """Have the node stand still for longer than a request may take."""
    cluster.pause("node-0")
    time.sleep(OUTAGE)
    cluster.resume("node-0")


def kill(cluster: Cluster) -> None:
    """Kill the node, and start it again."""
    cluster.kill("node-0")
    time.sleep(OUTAGE)
    cluster.mend()


def cut(cluster: Cluster) -> None:
    """Cut the node's link for longer than a request may take."""
    cluster.cut("node-0")
    time.sleep(OUTAGE)
    cluster.restore("node-0")


class Load:
    """Clients that insert documents in the background."""

    def __init__(self, cluster: Cluster, clients: int, folder: Path) -> None:
        self._cluster, self._clients, self._folder = cluster, clients, folders.make(folder)
        self._answered = threading.Condition()
        #: The load ends when it has had so many seconds.
        self._last = math.inf
        #: Successes in each second so far.
        self._successes: list[int] = []
        self._began = math.nan
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._last = 0
        self._thread.join()

    def _run(self) -> None:
        target = {"driver": self._cluster.store.driver, "hosts": self._cluster.addresses, **self._cluster.target()}
        document = {"collection": "things", "id": f"{self._folder.name}-${{new}}", "document": {"age": "${new}"}}
        stream = {
            "name": "s",
            "mix": [["put", 1]],
            "pacing": {"closed": {"clients": self._clients, "think_time": 0.2}},
            "stop": {"duration": 900},
        }
        plan = {
            "seed": 1,
            "phase": "p",
            "target": target,
            "variables": {"new": {"sequential": {"from": 0}}},
            "operations": {"put": {"insert": document, "timeout": TIMEOUT}},
            "streams": [stream],
        }
        try:
            run_phase(plan, self._folder, self._tell, lambda: self._cluster.addresses, started=self._start)
        except BaseException as failure:
            self._failures.append(failure)

    def _start(self, _: float) -> None:
        self._began = time.monotonic()

    def _tell(self, progress: Progress) -> None:
        with self._answered:
            # Only the last of several new seconds has a figure.
            self._successes += [0] * (progress.seconds - len(self._successes) - 1)
            self._successes += [progress.throughput] * (progress.seconds - len(self._successes))
            self._answered.notify_all()
            over = len(self._successes) >= self._last
        if over:
            raise KeyboardInterrupt

    def end(self) -> None:
        """End the load once the current second of the phase is recorded, without waiting for that."""
        with self._answered:
            self._last = len(self._successes) + 1

    def wait_for_success(self, first: int, last: int) -> None:
        """Wait until a request succeeded in one of the seconds from `first` to `last`, or until these are over."""

        def over() -> bool:
            return any(self._successes[first : last + 1]) or len(self._successes) > last or bool(self._failures)

        with self._answered:
            assert self._answered.wait_for(over, PATIENCE)
        assert not self._failures, self._failures

    def now(self) -> float:
        """Return the instant, in s of the phase."""
        return time.monotonic() - self._began

    def successes(self) -> dict[int, int]:
        """Return how many requests succeeded in each second, after the load has ended."""
        assert not self._failures, self._failures
        seconds: dict[int, int] = {}
        with (self._folder / "series.csv").open() as lines:
            for row in csv.DictReader(lines):
                seconds[int(row["second"])] = seconds.get(int(row["second"]), 0) + int(row["successes"])
        return seconds


def wait_for_answer(cluster: Cluster) -> None:
    """Return when a client that is new is answered."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if find(cluster.store.kind).with_access(cluster.access).health(cluster.addresses).ready:
                return
        except LoadframeError:
            assert time.monotonic() < end, "the store does not answer"


@pytest.mark.parametrize("outage", [pause, cut, kill])
def test_clients_succeed_as_soon_as_another_client_does(
    cluster: Cluster, outage: Callable[[Cluster], None], tmp_path: Path
) -> None:
    chosen = CLIENTS_OF.get(cluster.store.kind, CLIENTS)
    with contextlib.ExitStack() as stack:
        loads = [
            stack.enter_context(Load(cluster, clients, tmp_path / f"{outage.__name__}-{clients}")) for clients in chosen
        ]
        for load in loads:
            # A store that has just started may answer no request in time at first.
            load.wait_for_success(0, int(PATIENCE))
        outage(cluster)
        wait_for_answer(cluster)
        instants = [load.now() for load in loads]
        # The outage left at least one whole second without an answer before the first of these seconds.
        expected = [range(math.floor(instant), math.floor(instant) + WITHIN) for instant in instants]
        for load, seconds in zip(loads, expected, strict=True):
            load.wait_for_success(seconds[0], seconds[-1])
        for load in loads:
            load.end()
    for clients, load, instant, seconds in zip(chosen, loads, instants, expected, strict=True):
        successes = load.successes()
        recovered = [second for second in seconds if successes.get(second)]
        assert recovered, (
            f"{clients} clients: another client was answered at {instant:.2f} s; successes by second: {successes}"
        )
