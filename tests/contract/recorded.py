"""Load for the duration of a change to the cluster: a recorded run, or one phase on the engine."""

import csv
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from held import Held

from loadframe.base import folders
from loadframe.experiment.runner.listener import Labels, Listener
from loadframe.experiment.runner.session import Session
from loadframe.load import Generator, Progress, run_phase
from loadframe.record import Run
from loadframe.workload import load_workload

DOCUMENTS = 1000
#: Ids of filled and of added documents are consecutive.
WORKLOAD = """\
workload: contract
collections: {{things: {{{family}: {collection}}}}}
variables:
  first: {{sequential: {{from: 0}}}}
  there: {{uniform: [0, {last}]}}
  new: {{sequential: {{from: {new}}}}}
operations:
  fill: {{insert: {{collection: things, id: "${{first}}", document: {{name: Ann, age: "${{first}}"}}}}}}
  look: {{read: {{collection: things, id: "${{there}}"}}, assert: {{fields: {{age: "${{there}}"}}}}}}
  put: {{insert: {{collection: things, id: "${{new}}", document: {{name: Bob, age: "${{new}}"}}}}}}
phases:
  - {{name: fill, prepares: true, operation: fill, clients: 16, requests: {documents}}}
  - name: mixed
    duration: 20m
    streams:
      - {{operation: put, rate: 50/s}}
      - {{operation: look, rate: 50/s}}
"""


class _Until(Listener):
    """Ends a run as an interrupt does."""

    def __init__(self) -> None:
        #: Load runs, and is to end.
        self.begun, self.over = threading.Event(), threading.Event()

    def progress(self, progress: Progress) -> None:
        self.begun.set()
        if self.over.is_set():
            raise KeyboardInterrupt


class Loaded:
    """A store with a thousand documents, and load on it."""

    def __init__(self, store: Held, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def session(self, new: int = DOCUMENTS, listener: Listener | None = None) -> Session:
        """Return a session that gives new documents ids from `new` on."""
        kind = self._store.cluster.store
        text = WORKLOAD.format(
            family=kind.family,
            collection=json.dumps(self._store.subject.collection),
            documents=DOCUMENTS,
            last=DOCUMENTS - 1,
            new=new,
        )
        (self._folder / "w.yaml").write_text(text)
        workload = load_workload(str(self._folder / "w.yaml"), {}).for_family(kind.family, self._store.subject.nodes)
        generator = Generator(spread="round_robin")
        return Session(self._store.cluster, workload, seed=1, generator=generator, listener=listener or Listener())

    def fill(self) -> None:
        """Create the collection and put a thousand documents into it."""
        session = self.session()
        session.create_collections(replace=True)
        session.prepare([phase for phase in session.workload.phases if phase.prepares], self._folder)
        self._store.filled = True

    def record(self, change: Callable[[], None], new: int = DOCUMENTS) -> Run:
        """Record a run that ends when the change is done; raise the change's error if it fails."""
        until = _Until()
        session = self.session(new, until)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                assert until.begun.wait(120), "no load has begun"
                time.sleep(1)
                change()
                time.sleep(2)
            except BaseException as failure:
                failures.append(failure)
            finally:
                until.over.set()

        thread = threading.Thread(target=work)
        thread.start()
        phases = [phase for phase in session.workload.phases if not phase.prepares]
        try:
            with pytest.raises(KeyboardInterrupt):
                session.record(self._folder, "run", phases, Labels(), keep_interrupted=True)
        finally:
            thread.join()
        if failures:
            raise failures[0]
        return Run(self._folder / "run")


@contextmanager
def run_while(store: Held, folder: Path, operations: dict[str, Any], rate: float = 100) -> Iterator[Callable[[], dict]]:
    """Send `rate` operations per second; `new` counts from 0. Yield a function that returns the outcome afterwards."""
    plan = store.plan(operations, variables={"new": {"sequential": {"from": 0}}})
    plan["target"] |= {"spread": "round_robin"}
    plan["streams"][0] |= {"pacing": {"open": {"rate": rate}}, "stop": {"duration": 900}}
    outcomes, over = [], threading.Event()

    def tell(_progress) -> None:
        if over.is_set():
            raise KeyboardInterrupt

    def run() -> None:
        outcomes.append(run_phase(plan, folders.make(folder), tell, lambda: store.cluster.addresses))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: outcomes[0]
    finally:
        over.set()
        thread.join()


def served(folder: Path, outcome: dict) -> list[Counter[str]]:
    """Return how many requests each host served in each second of a phase."""
    seconds: dict[int, Counter[str]] = {}
    with (folder / "nodes.csv").open() as lines:
        for row in csv.DictReader(lines):
            second = seconds.setdefault(int(row["second"]), Counter())
            second[outcome["hosts"][int(row["node"])]] += int(row["requests"])
    return [seconds[second] for second in sorted(seconds)]


def totals(run: Run, column: str, operation: str | None = None) -> int:
    """Sum a column of a run's series, of one operation or of all."""
    return sum(row[column] for row in run.series.to_pylist() if operation in (None, row["operation"]))


def written(run: Run) -> tuple[int, int]:
    """Return the least and the most documents that a run has added: acknowledged, and perhaps besides."""
    open_end = sum(phase["operations"]["put"]["in_flight_at_end"] for phase in run.raw_summary["phases"])
    successes = totals(run, "successes", "put")
    return successes, totals(run, "requests", "put") + open_end


def errors(run: Run) -> dict[str, dict[str, int]]:
    """Return how many requests of each operation failed, by the class of error."""
    operations = run.raw_summary["phases"][0]["operations"]
    return {
        name: {kind: count for kind, count in operation["errors"].items() if count}
        for name, operation in operations.items()
    }
