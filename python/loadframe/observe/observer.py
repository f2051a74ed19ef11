"""Samplers with their samples, gaps and rates of counters; and the observer, which runs them once a second.

Samplers that only read files share one thread. A sampler that waits for answers has its own thread, so that a slow
answer does not delay other samplers. A sample that takes longer than a second skips the missed seconds.
"""

import math
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from loadframe.base.errors import LoadframeError
from loadframe.base.event_kinds import GAP, GAP_OVER
from loadframe.base.procfs import unread_of_pipe, unread_of_port

if TYPE_CHECKING:
    # Agents on other machines import this module, and lack the libraries that the record needs.
    from loadframe.record import RunWriter
from typing import Any

from loadframe.store import Health
from loadframe.store.base import WHOLE


@dataclass(frozen=True)
class Sample:
    """One figure of one source. The schema of run folders defines metrics and units."""

    source: str
    metric: str
    value: float


@dataclass(frozen=True)
class Gap:
    """A source whose sample failed, and the cause."""

    source: str
    cause: str


class Sampler(Protocol):
    """A source of samples, called by one thread."""

    @property
    def name(self) -> str:
        """Name for gaps and threads."""

    @property
    def waits(self) -> bool:
        """Whether samples wait for answers, so that the sampler needs its own thread."""

    def sample(self, now: float) -> Iterable[Sample | Gap]:
        """Return or yield samples, and gaps for sources that failed; `now` is the time for rates, s."""


class Rates:
    """Rates of counters between two samples."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, tuple[float, float]]] = {}
        #: Calls in a row with a lower value than before, by source and metric.
        self._dips: dict[tuple[str, str], int] = {}

    def of(self, source: str, now: float, totals: Mapping[str, float], *, dips: int = 0) -> Iterator[Sample]:
        """Yield the growth per second of each counter in `totals` (metric -> value) since the last call for `source`.

        Nothing for a counter's first value and after a reset, a value lower than before. `now` is in s. The first
        `dips` lower values in a row are ignored, and the next rate covers the time since the value before them.
        """
        last = self._last.setdefault(source, {})
        for metric, total in totals.items():
            before = last.get(metric)
            fallen = self._dips.pop((source, metric), 0)
            if before is not None and total < before[1] and fallen < dips:
                self._dips[source, metric] = fallen + 1
                continue
            last[metric] = (now, total)
            if before is not None and now > before[0] and total >= before[1]:
                yield Sample(source, metric, (total - before[1]) / (now - before[0]))

    def forget(self, source: str) -> None:
        """Forget the counters of `source`, because another object gets its name; the next values give no rates."""
        self._last.pop(source, None)


#: Maximum wait for running samples at the end, s.
_PATIENCE = 2.0


class Observer:
    """Runs samplers while it is entered, at once and then at each whole second of the run writer's clock.

    Samples are written to the run. The events `gap` and `gap over` mark the times in which sampling of a source fails.
    Leaving raises LoadframeError if samples could not be written.
    """

    def __init__(
        self,
        samplers: Sequence[Sampler],
        writer: "RunWriter",
        machine_of: Callable[[str], str | None] = lambda _: platform.node(),
    ):
        """Create a thread for each sampler that waits for answers, and one for all others; entering starts them.

        `writer` receives samples and events. `machine_of` returns the machine of a source, or None for a source without
        a single machine.
        """
        self._writer = writer
        self._machine_of = machine_of
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._left = False
        self._failure: LoadframeError | None = None
        groups = [[sampler] for sampler in samplers if sampler.waits]
        quick = [sampler for sampler in samplers if not sampler.waits]
        self._threads = [
            threading.Thread(target=self._run, args=(group,), name=f"observe-{_title(group)}", daemon=True)
            for group in (*groups, quick)
            if group
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
        with self._lock:
            # A thread that still waits for an answer must not write to a finished run.
            self._left = True
        if self._failure is not None and kind is None:
            raise self._failure

    def _run(self, samplers: Sequence[Sampler]) -> None:
        """Run samplers once a second until the observer is left; write their results and the thread's CPU use (cores).

        A LoadframeError ends the loop, and is raised on leaving.
        """
        gaps: dict[str, set[str]] = {sampler.name: set() for sampler in samplers}
        cost, source = Rates(), f"observer:{_title(samplers)}"
        try:
            while not self._leaving.is_set():
                for sampler in samplers:
                    now = self._writer.elapsed()
                    gaps[sampler.name] = self._write(sampler.name, now, list(sampler.sample(now)), gaps[sampler.name])
                now = self._writer.elapsed()
                self._write(source, now, list(cost.of(source, now, {"cpu": time.thread_time()})), set())
                # Wait slightly beyond the whole second: an early timer would sample the same second twice.
                self._leaving.wait(math.floor(now) + 1.001 - now)
        except LoadframeError as error:
            self._failure = error

    def _write(self, name: str, now: float, seen: Sequence[Sample | Gap], gaps: set[str]) -> set[str]:
        """Write a sampler's results at `now`, and events where gaps begin or end; return the sources with gaps.

        `gaps` are the sources with gaps in the previous sample. After the observer is left, writes nothing and returns
        `gaps`.
        """
        causes = {look.source: look.cause for look in seen if isinstance(look, Gap)}
        with self._lock:
            if self._left:
                return gaps
            for look in seen:
                if isinstance(look, Sample):
                    machine = self._machine_of(look.source)
                    self._writer.telemetry(now, look.source, look.metric, look.value, machine)
            for source in sorted(causes.keys() - gaps):
                self._writer.event(GAP, now, sampler=name, source=source, cause=causes[source])
            for source in sorted(gaps - causes.keys()):
                self._writer.event(GAP_OVER, now, sampler=name, source=source)
        return set(causes)


def _title(samplers: Sequence[Sampler]) -> str:
    """Return the name for the thread of these samplers: the name of the sampler that waits for answers, or `system`.

    `samplers` must not be empty.
    """
    return samplers[0].name if samplers[0].waits else "system"


@dataclass(frozen=True)
class Look:
    """Results of all samplers at one time."""

    figures: Mapping[str, Mapping[str, float]]  #: source, such as `node:node-0` or `host` -> metric -> value
    gaps: Mapping[str, str]  #: source -> cause of its gap


@dataclass
class Live:
    """Samples for live displays. For each metric in `totals`, adds its rate per second as `METRIC/s`."""

    samplers: Sequence[Sampler]
    totals: Sequence[str] = ()
    _rates: Rates = field(default_factory=Rates)

    def look(self, now: float) -> Look:
        """Run all samplers and return their results, with rates; `now` is the time on the caller's clock, s.

        The growth per second of a metric in `totals` is added as `METRIC/s`. A rate covers the time since the last
        call, so the first call yields none.
        """
        figures: dict[str, dict[str, float]] = {}
        gaps = {}
        for sampler in self.samplers:
            for seen in sampler.sample(now):
                if isinstance(seen, Gap):
                    gaps[seen.source] = seen.cause
                else:
                    figures.setdefault(seen.source, {})[seen.metric] = seen.value
        for source, metrics in figures.items():
            totals = {metric: metrics[metric] for metric in self.totals if metric in metrics}
            for rate in list(self._rates.of(source, now, totals)):
                metrics[f"{rate.metric}/s"] = rate.value
        return Look(figures, gaps)


class StoreSampler:
    """Sampler of a store's statistics: `statistics` returns node -> metric -> value.

    Values are recorded unchanged, counters as counters; the store's page documents them. A missing or unexpected answer
    is a gap, and does not fail the run.
    """

    name = "store"
    waits = True

    def __init__(self, statistics: Callable[[], Mapping[str, Mapping[str, float]]]):
        self._statistics = statistics

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node (source `node:NAME`) and of the cluster (source `cluster`).

        Yields one gap with the source `store` instead if the store does not answer as expected.
        """
        try:
            nodes = self._statistics()
        except LoadframeError as error:
            yield Gap("store", error.what)
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            yield Gap("store", f"unexpected answer: {type(error).__name__}: {error}")
            return
        for node, figures in nodes.items():
            for metric, value in figures.items():
                yield Sample("cluster" if node == WHOLE else f"node:{node}", metric, value)


class HealthSampler:
    """Sampler of a store's health. A missing or unexpected answer is a gap."""

    name = "health"
    waits = True

    def __init__(self, health: Callable[[], Health]):
        self._health = health

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the numbers of nodes that serve, and of moving and missing pieces of data (`Health`); or one gap.

        The source is `cluster`.
        """
        try:
            health = self._health()
        except LoadframeError as error:
            yield Gap("cluster", error.what)
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            yield Gap("cluster", f"unexpected answer: {type(error).__name__}: {error}")
            return
        yield Sample("cluster", "nodes", health.nodes)
        yield Sample("cluster", "data.moving", health.moving)
        yield Sample("cluster", "data.missing", health.missing)


#: Counters of a phase; `visible` exists only with visibility probes.
_TOTALS = ("lines", "dropped", "accepted", "indexed", "visible", "dead_letters")
_LEVELS = ("unacknowledged", "waiting", "spilled")


class SourcesSampler:
    """Sampler of sources' counters and levels. Any thread may call `tell`."""

    name = "sources"
    waits = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: Mapping[str, Mapping[str, Any]] = {}
        self._rates = Rates()
        self._threads = Rates()

    def tell(self, sources: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the current metrics of each source: source name -> metric -> value. Empty at the end of a phase.

        The metrics are all of `SourceProgress` (totals so far), `unacknowledged`, and `stdin`: whether the source reads
        standard input. Rates of a source that is no longer named start again.
        """
        with self._lock:
            for ended in self._current.keys() - sources.keys():
                self._rates.forget(f"source:{ended}")
                self._threads.forget(f"source:{ended}")
            self._current = sources

    def sample(self, now: float) -> Iterator[Sample]:
        """Yield each source's rates (1/s), levels, CPU use of the busiest reader (cores), and unread bytes if known.

        Rates and CPU use cover the time since the previous sample, and need two samples. Bytes are unread in the pipe
        of standard input, or at the source's port.
        """
        with self._lock:
            for name, metrics in self._current.items():
                source = f"source:{name}"
                totals = {metric: metrics[metric] for metric in _TOTALS if metrics.get(metric) is not None}
                yield from self._rates.of(source, now, totals)
                yield from (Sample(source, level, metrics[level]) for level in _LEVELS)
                threads = {str(number): spent for number, spent in enumerate(metrics["reader_cpu"])}
                busy = [sample.value for sample in self._threads.of(source, now, threads)]
                if busy:
                    yield Sample(source, "reader_cpu", max(busy))
                unread = unread_of_pipe(0) if metrics["stdin"] else None
                if metrics["address"]:
                    unread = unread_of_port(metrics["address"])
                if unread is not None:
                    yield Sample(source, "unread", unread)
