"""Metrics of a command for monitoring systems, from the records that it publishes.

Counters and histograms cover all runs of the command and never decrease: the measures of finished phases are added to
those of the current one.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from loadframe import __version__, _engine
from loadframe.live.feed import Record

Kind = Literal["counter", "gauge", "histogram", "info"]

#: Upper bounds of the engine's buckets of times, s; the last bucket has none.
BOUNDS: tuple[float, ...] = tuple(_engine.MEASURE_BOUNDS)


@dataclass(frozen=True)
class Times:
    """Durations counted in buckets with the upper bounds `BOUNDS`; the last bucket has none."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)  #: not cumulative
    sum: float = 0.0  #: s

    @staticmethod
    def of(measure: Mapping[str, Any]) -> "Times":
        """Return the times of a measure of the engine, from its `counts` of buckets and its `sum`, s."""
        return Times(tuple(measure["counts"]), measure["sum"])

    def __add__(self, other: "Times") -> "Times":
        """Return the sums of both, bucket by bucket."""
        pairs = zip(self.counts, other.counts, strict=True)
        return Times(tuple(one + another for one, another in pairs), self.sum + other.sum)

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)


@dataclass(frozen=True)
class Exemplar:
    """A traced request of a bucket."""

    trace: str  #: hexadecimal, as the following
    span: str
    value: float  #: s
    done: int  #: ns since 1970


@dataclass
class Family:
    """A metric with its values by label values. `unit` is part of the name in OpenMetrics."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    values: Mapping[tuple[str, ...], float | Times] = field(default_factory=dict)
    #: The last exemplar of each bucket of a histogram, by label values.
    exemplars: Mapping[tuple[str, ...], Mapping[int, Exemplar]] = field(default_factory=dict)


_PHASE = ("experiment", "phase")
_STREAM = (*_PHASE, "stream")
_OPERATION = (*_STREAM, "operation", "segment")

#: Counters and histograms of phases.
_TOTALS = (
    Family("requests", "counter", "Finished requests by outcome, and requests that were dropped instead of sent.",
           (*_OPERATION, "outcome")),
    Family("documents", "counter", "Documents stored or returned.", _OPERATION),
    Family("retries", "counter", "Retries of failed attempts.", _OPERATION),
    Family("sent", "counter", "Bytes written, all attempts of all requests.", _OPERATION, "bytes"),
    Family("received", "counter", "Bytes read, all attempts of all requests.", _OPERATION, "bytes"),
    Family("response_time", "histogram", "Time from due to done of successful requests.", _OPERATION, "seconds"),
    Family("service_time", "histogram", "Time from sent to done of successful requests.", _OPERATION, "seconds"),
    Family("lateness", "histogram", "Time from due to start of requests: the delay in the generator.", _PHASE,
           "seconds"),
)  # fmt: skip
#: Counters of a command.
_COUNTS = (
    Family("events", "counter", "Events of runs, such as a node that joins.", ("experiment", "event")),
    Family("runs", "counter", "Finished runs by status and validity.", ("experiment", "status", "valid")),
    Family("verdict_reasons", "counter", "Runs for which a validity rule gave this reason.", ("experiment", "code")),
    Family("trials", "counter", "Judged trials of a capacity search.", ("experiment", "outcome")),
)
#: Values of the current run; absent between runs.
_GAUGES = (
    Family("run", "info", "The current run and phase.", (*_PHASE, "run")),
    Family("in_flight_requests", "gauge", "Requests in flight at the end of the last second.", _OPERATION, "requests"),
    Family("clients", "gauge", "Clients of closed loops, users and sources, as planned.", _STREAM),
    Family("offered_rate", "gauge", "Requests, journeys or groups due per second in open loops, as planned.", _STREAM),
    Family("node_cpu_cores", "gauge", "CPU use of a node, in cores.", ("experiment", "node"), "cores"),
    Family("machine_busy_ratio", "gauge", "Busy share of this machine's cores.", ("experiment",), "ratio"),
    Family("cluster_nodes", "gauge", "Nodes of the cluster.", ("experiment",), "nodes"),
)
#: Values that remain until they change.
_LASTING = (
    Family("command", "info", "The command and its version.", ("experiment", "command", "version")),
    Family("planned_runs", "gauge", "Runs of the experiment.", ("experiment",)),
    Family("last_run_valid", "gauge", "Whether the last finished run is valid: 1 or 0.", ("experiment", "run")),
)

#: Name of a family -> its values.
_Values = dict[str, dict[tuple[str, ...], Any]]


class Metrics:
    """Current metrics of a command. One thread calls `take`; any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._experiment = ""
        self._run = self._phase = ""
        self._number = 0
        #: Measures of ended phases, and of the current one.
        self._ended: _Values = {}
        self._current: _Values = {}
        self._counts: dict[str, Counter[tuple[str, ...]]] = {family.name: Counter() for family in _COUNTS}
        self._gauges: _Values = {}
        self._lasting: _Values = {}
        self._exemplars: dict[str, dict[tuple[str, ...], dict[int, Exemplar]]] = {}

    def take(self, records: Sequence[Record]) -> None:
        """Update the metrics by records of a feed or of the publisher, in their order, under the lock."""
        with self._lock:
            for record in records:
                self._take(record)

    def families(self) -> list[Family]:
        """Return copies of all metrics with values, taken under the lock, in order: lasting, gauges, totals, counts."""
        with self._lock:
            values = {**_added(self._ended, self._current), **self._counts, **self._gauges, **self._lasting}
            return [
                replace(family, values=dict(known), exemplars=self._exemplars_of(family.name))
                for family in (*_LASTING, *_GAUGES, *_TOTALS, *_COUNTS)
                if (known := values.get(family.name))
            ]

    def _take(self, record: Record) -> None:
        """Update the metrics by one record; other kinds of records are ignored. The lock must be held.

        The start of a run or phase, a finished run and the end of the command clear the gauges.
        """
        experiment = self._experiment
        match record["kind"]:
            case "command":
                self._experiment = record["name"]
                self._lasting["command"] = {(record["name"], record["command"], __version__): 1}
            case "part":
                self._lasting["planned_runs"] = {(experiment,): record["of"]}
            case "run":
                self._run = record["run"] or ""
                self._gauges = {}
            case "phase":
                self._phase = record["phase"]
                self._gauges = {"run": {(experiment, self._phase, self._run): 1}}
            case "measures":
                self._measures(record)
            case "watched":
                self._watched(record)
            case "event":
                self._counts["events"][experiment, record["event"]["kind"]] += 1
            case "judged":
                self._counts["trials"][experiment, record["outcome"]] += 1
            case "finished":
                valid = {True: "true", False: "false"}.get(record["valid"], "unknown")
                self._counts["runs"][experiment, record["status"], valid] += 1
                for code in set(record["codes"]):
                    self._counts["verdict_reasons"][experiment, code] += 1
                self._lasting["last_run_valid"] = {(experiment, record["run"]): int(record["valid"] is True)}
                self._gauges = {}
            case "over":
                self._gauges = {}

    def _measures(self, record: Record) -> None:
        """Set the counters, histograms and gauges of the current phase by its measures, and keep exemplars.

        The measures are totals since the phase began. The first measures of a new phase (another `number`) add the
        totals of the phase before to the totals of ended phases.
        """
        if record["number"] != self._number:
            self._number = record["number"]
            self._ended, self._current = _added(self._ended, self._current), {}
        phase = (self._experiment, record["phase"])
        totals: _Values = {family.name: {} for family in _TOTALS}
        in_flight: dict[tuple[str, ...], float] = {}
        for operation in record["operations"]:
            labels = (*phase, operation["stream"], operation["operation"], segment_of(operation))
            outcomes = {"ok": operation["successes"], **operation["errors"], "dropped": operation["dropped"]}
            totals["requests"] |= {(*labels, outcome): count for outcome, count in outcomes.items()}
            for name, key in _KEYS.items():
                totals[name][labels] = operation[key]
            totals["response_time"][labels] = Times.of(operation["response"])
            totals["service_time"][labels] = Times.of(operation["service"])
            in_flight[labels] = operation["in_flight"]
        totals["lateness"][phase] = Times.of(record["lateness"])
        self._current = totals
        for span in record["spans"]["kept"]:
            self._keep(phase, span)
        streams = record["streams"]
        self._gauges["in_flight_requests"] = in_flight
        for name, key in (("clients", "clients"), ("offered_rate", "rate")):
            planned = [(str(stream["stream"]), stream[key]) for stream in streams if stream[key] is not None]
            self._gauges[name] = {(*phase, stream): value for stream, value in planned}

    def _keep(self, phase: tuple[str, ...], span: Mapping[str, Any]) -> None:
        """Keep a traced request as the exemplar of its response-time and service-time buckets.

        Requests that failed or were not recorded are ignored: the histograms do not count them. `phase` is
        (experiment, phase).
        """
        if not span["recorded"] or span["error"] is not None:
            return
        labels = (*phase, span["stream"], span["operation"], segment_of(span))
        for name, start in (("response_time", "scheduled"), ("service_time", "sent")):
            value = (span["done"] - span[start]) / 1e9
            known = self._exemplars.setdefault(name, {}).setdefault(labels, {})
            known[bisect_left(BOUNDS, value)] = Exemplar(span["trace"], span["span"], value, span["done"])

    def _exemplars_of(self, name: str) -> dict[tuple[str, ...], dict[int, Exemplar]]:
        """Return a copy of the exemplars of the histogram `name`: label values -> index of the bucket -> exemplar."""
        return {labels: dict(known) for labels, known in self._exemplars.get(name, {}).items()}

    def _watched(self, record: Record) -> None:
        """Set the gauges of node CPU (cores), machine CPU (share) and cluster size from a record of the kind `watched`.

        Nodes that the record lacks lose their values; the other two gauges keep theirs.
        """
        experiment = self._experiment
        self._gauges["node_cpu_cores"] = {(experiment, node): cpu for node, cpu in record["cpu"].items()}
        for name, key in (("machine_busy_ratio", "machine"), ("cluster_nodes", "nodes")):
            if key in record:
                self._gauges[name] = {(experiment,): record[key]}


def segment_of(part: Mapping[str, Any]) -> str:
    """Return the segment of an operation's measures or of a span, by its key `measured`: `measured` or `warmup`."""
    return "measured" if part["measured"] else "warmup"


#: Name of a counter -> its key in the measures of an operation.
_KEYS = {"documents": "documents", "retries": "retries", "sent": "bytes_sent", "received": "bytes_received"}


def _added(one: _Values, other: _Values) -> _Values:
    """Return family -> label values -> sum of both sets of values; an entry of only one set is taken over."""
    return {name: dict(_sums(one.get(name, {}), other.get(name, {}))) for name in {**one, **other}}


def _sums(one: Mapping[tuple[str, ...], Any], other: Mapping[tuple[str, ...], Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (label values, sum) for all label values of one family; the value itself if only one side has it."""
    for labels in {**one, **other}:
        yield (
            labels,
            (one[labels] + other[labels] if labels in one and labels in other else one.get(labels, other.get(labels))),
        )
