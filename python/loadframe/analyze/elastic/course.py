"""Course of one elastic run, second by second, with the changes of its cluster.

A percentile needs a response, and a line drawn across such seconds hides the outage. But requests were
in flight, and their waiting times so far are lower bounds of their response times:

- The run records at the end of each second the number of unanswered requests and the age of the oldest.
- A request that ends in second j with a response time R was in flight for at least R - (j - i) at the end of an earlier
  second i. This also covers recordings without these figures.

The population of a second is the requests that ended in it or waited throughout it. In a second without a
response, it is all requests known to have waited at its end. A second with neither is unknown.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.percentiles import at_most
from loadframe.analyze.rates import EVENTS, THROUGHPUT, Rate
from loadframe.base.event_kinds import (
    BALANCED,
    BALANCING,
    FAILED,
    JOINED,
    KILLED,
    LEAVING,
    LEFT,
    REQUESTED,
    RESTARTED,
)
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary, whole_seconds

if TYPE_CHECKING:
    from loadframe.record import Histogram


Series = npt.NDArray[np.float64]

#: Number of values that represent a second's slow requests, and the smallest share of waiting ones that changes p99.
_VALUES = 100
_SHARE = 0.01
#: Requests that took longer than this, s, waited throughout a second.
_SECOND = 1.0


@dataclass(frozen=True, eq=False)
class SecondResponses:
    """Requests that ended in one second, by their response times.

    The second's figures come from `answered`. `others` (failures, requests without an answer at the end, and late
    responses of the warm-up) only show who waited before. A second may have several entries, but only one with
    `answered`.
    """

    second: int
    answered: "Histogram | None"
    others: "Histogram | None"


def responses(done: list[SecondResponses], unanswered: Series, oldest: Series, lost: int) -> Series:
    """Return median and p99 of response times by second, s, as an array of shape (2, seconds); nan if unknown.

    Requests in flight count with their waiting times so far. `done` has the requests by second of their end, which may
    be after these seconds. `unanswered` and `oldest` are the recorded number and age (s) of requests in flight at the
    end of each second, nan if not recorded. `lost` is the number of requests that `done` lacks, because they had not
    ended with the phase.
    """
    length = len(unanswered)
    answers = {
        entry.second: entry.answered
        for entry in done
        if entry.answered is not None and entry.answered.count and 0 <= entry.second < length
    }
    series, counts = np.full((2, length), np.nan), np.zeros(length)
    for second, histogram in answers.items():
        series[:, second], counts[second] = _figures(histogram), histogram.count
    for second, waited in _waited(done, counts).items():
        # A bound never lowers a measured figure.
        series[:, second] = np.fmax(series[:, second], _together(answers.get(second), waited))
    for second in np.flatnonzero(np.isfinite(oldest) & (unanswered > 0)).tolist():
        age = oldest[second]
        if not counts[second]:
            series[:, second] = np.fmax(series[:, second], [age / 2, age])
        elif age >= 1 and min(unanswered[second], lost) > _SHARE * (counts[second] + unanswered[second]):
            series[1, second] = max(series[1, second], age)
    return series


def _waited(done: list[SecondResponses], counts: Series) -> dict[int, list[tuple[Series, float]]]:
    """Return by second the requests that waited at its end and ended later.

    Each entry has ages at the end of the second, s, and the number of requests that each age represents. `counts` are
    the answered requests by second; in a second with answers, only ages of 1 s or more count.
    """
    samples: dict[int, list[tuple[Series, float]]] = defaultdict(list)
    for entry in done:
        for histogram in (entry.answered, entry.others):
            # A request that took less than a second did not wait throughout one.
            if histogram is None or not histogram.count or (histogram.max or 0.0) <= _SECOND:
                continue
            values, weight = _slow(histogram)
            for second in range(max(entry.second - int(values[-1]), 0), min(entry.second, len(counts))):
                ages = values - (entry.second - second)
                ages = ages[ages >= _SECOND if counts[second] else ages > 0.0]
                if len(ages):
                    samples[second].append((ages, weight))
    return samples


def _slow(histogram: "Histogram") -> tuple[Series, float]:
    """Return up to 100 times (s) that represent the requests above 1 s, and the number of requests per time.

    The maximum is among them. Empty, with a number of 1, without such requests.
    """
    quick = at_most(histogram, _SECOND)
    slow = histogram.count - quick
    if not slow:
        return np.zeros(0), 1.0
    size = min(slow, _VALUES)
    ranks = quick + (np.arange(size) + 0.5) * slow / size
    values = [histogram.quantile(rank / histogram.count) or 0.0 for rank in ranks]
    values[-1] = histogram.max or values[-1]
    return np.array(values), slow / size


def _figures(histogram: "Histogram") -> tuple[float, float]:
    """Return median and 99th percentile of a histogram, s."""
    return histogram.quantile(0.5) or 0.0, histogram.quantile(0.99) or 0.0


def _together(answered: "Histogram | None", waited: list[tuple[Series, float]]) -> Series:
    """Return an array of the median and the 99th percentile of a second's answers and its waiting requests.

    `waited` has ages, of 1 s or more beside answers, and the number of requests that each age represents.
    """
    quick = at_most(answered, _SECOND) if answered else 0
    slow = [*waited, *([_slow(answered)] if answered else [])]
    values = np.concatenate([values for values, _ in slow])
    weights = np.concatenate([np.full(len(values), weight) for values, weight in slow])
    order = np.argsort(values)
    ranks = quick + np.cumsum(weights[order])
    figures = []
    for rank in np.array([0.5, 0.99]) * ranks[-1] - 1e-9:
        if answered and rank <= quick:
            figures.append(answered.quantile(rank / answered.count) or 0.0)
        else:
            figures.append(float(values[order][min(np.searchsorted(ranks, rank), len(order) - 1)]))
    return np.array(figures)


Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Event:
    """A change of the cluster, or an observation of it."""

    time: float
    kind: str
    nodes: tuple[str, ...] = ()
    step: int | None = None
    words: str = ""


@dataclass(frozen=True, eq=False)
class Course:
    """Figures by whole second: throughput of all operations, response times of the main operation.

    Second i covers `start` + i to `start` + i + 1. Throughput is in the unit of `rate`; if the phase ingests events, it
    counts only these. Response times cover the requests answered in a second and the requests that waited throughout
    it, with their waiting time so far. `quiet` marks seconds without any due request, `unasked` those without one of
    the main operation. `missing` is the number of unserved replicas over time, if the store reports it. `left` is the
    amount still to be moved, in `unit`, as the change reported it.
    """

    start: float
    throughput: Series  #: 1/s
    failures: Series  #: 1/s, failed or never sent
    response_p50: Series  #: s; nan in a second without a response and without a known waiting request
    response_p99: Series
    events: tuple[Event, ...]
    missing: tuple[tuple[float, float], ...] = ()
    left: tuple[tuple[float, float], ...] = ()
    unit: str = ""
    quiet: Flags | None = None
    unasked: Flags | None = None
    rate: Rate = THROUGHPUT
    succeeded: Series | None = None  #: successful requests, 1/s; None if throughput counts them
    worst_errors: Series | None = None  #: largest share of failures of an operation, by second
    #: Largest factor from measured to true throughput, and smallest from measured to true response times: bounds of the
    #: effect of the load generator.
    most: float = 1.0
    fastest: float = 1.0

    @property
    def successes(self) -> Series:
        """Successful requests, 1/s, independent of the unit of throughput."""
        return self.throughput if self.succeeded is None else self.succeeded

    @property
    def error_share(self) -> Series:
        """The largest share of failures of an operation by second; of all together if not recorded; 0 without any."""
        if self.worst_errors is not None:
            return self.worst_errors
        return _share(self.failures, self.successes)

    @property
    def idle(self) -> Flags:
        """By second, whether no request was due in it; False if that was not recorded."""
        return np.zeros(len(self.throughput), dtype=bool) if self.quiet is None else self.quiet

    @property
    def unknown(self) -> Flags:
        """By second, whether it lacks a response time although the main operation was requested."""
        missing: Flags = ~np.isfinite(self.response_p99)
        return missing if self.unasked is None else missing & ~self.unasked

    @property
    def times(self) -> Series:
        """The middle of each second, s since the measured window began."""
        middles: Series = self.start + np.arange(len(self.throughput), dtype=float) + 0.5
        return middles

    @property
    def end(self) -> float:
        """The end of the last second, s since the measured window began."""
        return self.start + len(self.throughput)

    def within(self, begin: float, end: float) -> slice:
        """Return the slice from the second that contains `begin` up to, and without, the one that contains `end`.

        Both are in s since the measured window began; the slice stays within the course.
        """
        first = max(math.floor(begin - self.start + 1e-9), 0)
        return slice(first, max(min(math.floor(end - self.start + 1e-9), len(self.throughput)), first))


def _share(failed: Series, succeeded: Series) -> Series:
    """Return failures as a share of failed and succeeded requests, by second; 0 in a second without failures."""
    return np.divide(failed, failed + succeeded, out=np.zeros(len(failed)), where=failed > 0)


#: Kind of the histograms of requests without an answer at the end.
_ABANDONED = "abandoned"
#: Names of nodes that count in the size of a cluster, not further servers of a shard, routers and other companions.
_COUNTED = re.compile(r"(node|app)-\d+")


def node_changes(events: Iterable[Event]) -> Iterator[tuple[Event, int, int]]:
    """Yield each event, by time, with two changes: of the number of running members, and of nodes with balanced data.

    A killed node does not count until it is restarted; a second kill or restart in a row changes nothing. A leaving
    node has no balanced data. Only names such as `node-1` and `app-1` count, not companions.
    """
    requested: set[str] = set()  # not yet members
    waiting: set[str] = set()  # members without their data
    leaving: set[str] = set()
    dead: set[str] = set()
    for event in sorted(events, key=lambda entry: entry.time):
        nodes = {name for name in event.nodes if _COUNTED.fullmatch(name)}
        members = served = 0
        if event.kind == REQUESTED:
            requested |= nodes
            dead -= nodes
        elif event.kind == JOINED:
            requested -= nodes
            waiting |= nodes - dead
            members = len(nodes - dead)
        elif event.kind == BALANCED:
            served = len(waiting)
            waiting.clear()
        elif event.kind == LEAVING:
            served = -len(nodes - waiting - dead)
            leaving |= nodes - dead
            waiting -= nodes
        elif event.kind == LEFT:
            # A removal that failed after it had moved the data may go on later.
            members, served = -len(nodes - dead), -len(nodes - dead - waiting - leaving)
            waiting -= nodes
            leaving -= nodes
        elif event.kind == FAILED and (not event.words or event.words.startswith("remove ")):
            # A node stays if its data could not be moved. Other changes may fail during its removal.
            served = len(leaving)
            leaving.clear()
        elif event.kind == KILLED:
            died = nodes - dead
            members, served = -len(died - requested), -len(died - requested - waiting - leaving)
            dead |= died
            waiting -= died
            leaving -= died
        elif event.kind == RESTARTED:
            members = served = len(nodes & dead)
            requested -= nodes
            dead -= nodes
        yield event, members, served


def read_course(run: Run, rate: Rate = THROUGHPUT) -> Course | None:
    """Return the course of a run's first measured phase; None if the run ended before it.

    Throughput is in the unit of `rate`, except that the default becomes events if the phase ingests events.
    """
    phase = next(iter(run.summary.measured), None)
    if phase is None:
        return None
    zero = phase.begin
    # After the last event, the rest of the phase does not show the ingest rate of the store.
    ended = [stream.measured for stream in phase.streams if stream.source and stream.measured is not None]
    seconds = whole_seconds(phase.warmup, min([phase.duration, *ended]))
    first, last = seconds.start, seconds.stop
    length = max(last - first, 0)
    series = run.series
    of_phase = pc.and_(pc.equal(series["phase"], phase.name), pc.less(series["second"], last))
    of_phase = pc.and_(of_phase, pc.greater_equal(series["second"], first))
    rows = series.filter(pc.and_(of_phase, pc.is_in(series["operation"], pa.array(list(phase.single), pa.string()))))
    second = rows["second"].to_numpy() - first
    succeeded = rows["successes"].to_numpy()
    if ingesting := _ingesting(phase):
        # Batches vary in size, so requests do not measure the ingest rate; documents returned by queries are not
        # ingested.
        rate = EVENTS if rate is THROUGHPUT else rate
        done = np.where(
            pc.is_in(rows["operation"], pa.array(ingesting, pa.string())).to_numpy(), rows["documents"].to_numpy(), 0
        )
    else:
        done = rows[rate.column].to_numpy()
    failed = rows["requests"].to_numpy() - rows["successes"].to_numpy() + rows["dropped"].to_numpy()
    main = main_operation(phase)
    units = [(entry["time"] - zero, str(entry["unit"])) for entry in run.events if entry["kind"] == BALANCING]
    of_main = pc.equal(rows["operation"], main).to_numpy()
    unanswered, oldest = _unanswered(rows.filter(of_main), first, length)
    by_second = _second_responses(run, phase.name, main, phase.start, first)
    response = responses(by_second, unanswered, oldest, _lost(run, phase, main))
    due = rows["requests"].to_numpy() + rows["dropped"].to_numpy()
    of_all, _ = _unanswered(rows, first, length)
    return Course(
        start=first - phase.warmup,
        throughput=np.bincount(second, weights=done, minlength=length).astype(float),
        failures=np.bincount(second, weights=failed, minlength=length).astype(float),
        response_p50=response[0],
        response_p99=response[1],
        events=tuple(_event(entry, zero) for entry in run.events),
        missing=_samples(run, "data.missing", zero),
        left=_remaining_data(run, zero, units),
        unit=units[-1][1] if units else "",
        quiet=(np.bincount(second, weights=due, minlength=length) == 0) & (of_all == 0),
        unasked=(np.bincount(second, weights=np.where(of_main, due, 0), minlength=length) == 0) & (unanswered == 0),
        rate=rate,
        succeeded=np.bincount(second, weights=succeeded, minlength=length).astype(float),
        worst_errors=_worst_errors(rows["operation"].to_numpy(zero_copy_only=False), second, failed, succeeded, length),
    )


def _worst_errors(names: Any, seconds: Any, failed: Any, succeeded: Any, length: int) -> Series:
    """Return by second the largest share of failures of an operation, 0 to 1; 0 in a second without requests.

    `names`, `seconds` (from 0), `failed` and `succeeded` have an element for each row of an operation and second;
    `length` is the number of seconds.
    """
    worst = np.zeros(length)
    for name in np.unique(names):
        of_it = names == name
        bad, good = (np.bincount(seconds[of_it], weights=w[of_it], minlength=length) for w in (failed, succeeded))
        worst = np.maximum(worst, _share(bad.astype(float), good.astype(float)))
    return worst


def main_operation(phase: PhaseSummary) -> str:
    """Return the name of the operation with the most successes, without aggregates of several.

    ValueError for a phase without operations.
    """
    return max(phase.single, key=lambda name: phase.operations[name].successes)


def _ingesting(phase: PhaseSummary) -> list[str]:
    """Return the operations of a phase that ingest the events of a source."""
    return [name for name, operation in phase.single.items() if phase.sources and "event" in operation.parts]


def _second_responses(run: Run, phase: str, operation: str, start: float, first: int) -> list[SecondResponses]:
    """Return the histograms of an operation's response times by second, including those after the phase's end.

    Entries have successes in `answered`, and in `others` failures and requests without an answer at the end. A second
    may have several entries. Responses of the warm-up are in `others` in a second with measured ones, else in
    `answered`. Seconds count from the `first` whole second of the measured window (negative before it); `start` is the
    start of the phase, s since the run began.
    """
    known = set(run.histograms.tags())

    def seconds(kind: str, suffix: str) -> dict[int, "Histogram"]:
        """Return the histograms with this kind and suffix in their tag, by second since `first`."""
        tag = f"{phase}/{operation}/{kind}{suffix}"
        return {
            round(t - start) - first: histogram
            for t, histogram in (run.histograms.seconds(tag) if tag in known else ())
        }

    answered, early = seconds("response", ""), seconds("response", "/warmup")
    counted = {**early, **answered}
    # A second at the end of the warm-up has both; the measurement takes precedence.
    done = [SecondResponses(second, histogram, None) for second, histogram in sorted(counted.items())]
    done += [SecondResponses(second, None, histogram) for second, histogram in early.items() if second in answered]
    for kind in ("failure", _ABANDONED):
        for suffix in ("", "/warmup"):
            done += [SecondResponses(second, None, histogram) for second, histogram in seconds(kind, suffix).items()]
    return done


def _lost(run: Run, phase: PhaseSummary, operation: str) -> int:
    """Return the number of an operation's requests without an answer whose waiting time is not in the histograms."""
    tags = {f"{phase.name}/{operation}/{_ABANDONED}{suffix}" for suffix in ("", "/warmup")} & {*run.histograms.tags()}
    known = sum(run.histograms.total(tag).count for tag in tags)
    return max(phase.operations[operation].in_flight_at_end - known, 0)


def _unanswered(rows: pa.Table, first: int, length: int) -> tuple[Series, Series]:
    """Return by second the requests in flight at its end and the age of the oldest, s (nan if unknown).

    The result covers `length` seconds from the second `first` on; no row may lie outside. Runs of versions that did not
    record these have nan in every second.
    """
    count, oldest = np.zeros(length), np.full(length, np.nan)
    if "unanswered" not in rows.column_names or rows["unanswered"].null_count:
        return np.full(length, np.nan), oldest
    second = rows["second"].to_numpy() - first
    np.add.at(count, second, rows["unanswered"].to_numpy())
    np.fmax.at(oldest, second, rows["oldest_unanswered"].to_numpy(zero_copy_only=False).astype(float))
    return count, oldest


def _event(entry: Mapping[str, Any], zero: float) -> Event:
    """Return an event from its recorded entry; its time becomes relative to `zero`, s since the run began.

    Its words are the recorded change, observation or cause.
    """
    words = str(entry.get("change") or entry.get("seen") or entry.get("cause") or "")
    nodes = entry.get("nodes")
    named = tuple(nodes) if isinstance(nodes, list) else ()
    return Event(entry["time"] - zero, entry["kind"], named, entry.get("step"), words)


def _remaining_data(run: Run, zero: float, units: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    """Return samples (time, amount) of data left to move; times are s since `zero`.

    `units` are the reported units with their times, s since `zero`. Only samples in the last unit are returned: a
    change may first report joining nodes, and then data.
    """

    def unit(time: float) -> str:
        """Return the unit that was in force at a time; empty before the first."""
        return next((unit for since, unit in reversed(units) if since <= time), "")

    return tuple(
        (time, value) for time, value in _samples(run, "balancing.left", zero) if units and unit(time) == units[-1][1]
    )


def _samples(run: Run, metric: str, zero: float) -> tuple[tuple[float, float], ...]:
    """Return the samples of a metric of the cluster: pairs of time (s since `zero`) and value, by time."""
    table = run.telemetry
    rows = table.filter(pc.and_(pc.equal(table["source"], "cluster"), pc.equal(table["metric"], metric)))
    pairs = zip(rows["time"].to_pylist(), rows["value"].to_pylist(), strict=True)
    return tuple(sorted((time - zero, value) for time, value in pairs))
