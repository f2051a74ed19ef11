"""Requests and events over the runs of an experiment: first and later executions, age of responses, stored events.

Stores cache data and often whole responses, so first executions may take far longer.
Ingested events: whether the store kept up with their arrival, how many it has after a run, how many are missing, and
the duration of the loss.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Literal

import pyarrow.compute as pc

from loadframe.analyze.estimate import Estimate, geometric_mean, mean_interval
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, by_treatment
from loadframe.analyze.sessions import sessions_of
from loadframe.analyze.verdict.rules import CPU_LIMIT
from loadframe.base.event_kinds import KILLED
from loadframe.record import Run
from loadframe.record.schema.figures import Latency, OperationFigures, SourceFigures, StoredEvents
from loadframe.record.schema.summary import PhaseSummary

#: Parts of an operation: the first execution of each request, later ones, and the age of the data in responses.
FIRST, AGAIN, AGE = "first", "again", "age"


@dataclass(frozen=True)
class ExecutionsAt:
    """Executions of an operation at one treatment: geometric means over runs of each run's mean response time, s.

    Means are None without executions. `ratio` is first divided by later executions, over the runs that have both.
    `age` is the mean over runs of the median age of the newest event that a response was certain to include.
    """

    phase: str
    treatment: Mapping[str, Any]
    operation: str
    runs: int
    first: int  #: executions, of all these runs
    again: int
    first_mean: Estimate | None
    again_mean: Estimate | None
    ratio: Estimate | None
    age: Estimate | None

    def as_dict(self) -> dict[str, Any]:
        """Return the means for JSON, times in s."""
        estimates = {name: getattr(self, name) for name in ("first_mean", "again_mean", "ratio", "age")}
        return {
            "phase": self.phase,
            "treatment": dict(self.treatment),
            "operation": self.operation,
            "runs": self.runs,
            "first": self.first,
            "again": self.again,
            **{name: estimate and estimate.as_dict() for name, estimate in estimates.items()},
        }


def executions_at(folder: RecordedExperiment) -> list[ExecutionsAt]:
    """Return first and later executions and data age of each measured operation by treatment.

    Operations with neither first executions nor ages are left out. Rows are ordered by phase, operation name, then
    treatment.
    """
    rows = []
    for treatment, runs in by_treatment(folder):
        seen: dict[tuple[str, str], list[tuple[RecordedRun, OperationFigures]]] = defaultdict(list)
        for recorded, run in runs:
            for phase in run.summary.phases:
                if phase.name in folder.description["measure"]:
                    for name, operation in phase.operations.items():
                        if operation.parts.keys() & {FIRST, AGE}:
                            seen[phase.name, name].append((recorded, operation))
        rows += [_row(phase, treatment, name, several) for (phase, name), several in seen.items()]
    order = folder.description["measure"]
    return sorted(rows, key=lambda row: (order.index(row.phase), row.operation))


def _row(
    phase: str, treatment: Mapping[str, Any], name: str, several: Sequence[tuple[RecordedRun, OperationFigures]]
) -> ExecutionsAt:
    """Return the figures of one operation at one treatment from its runs, `several`."""

    def mean(values: Iterator[float | None]) -> Estimate | None:
        """Return the geometric mean of the values above 0 (one value per run, None if unknown), or None without any."""
        known = [(recorded, value) for (recorded, _), value in zip(several, values, strict=True) if value]
        return geometric_mean([value for _, value in known], sessions_of([run for run, _ in known])) if known else None

    def count(part: str) -> int:
        """Return the number of successes of the `part` of the operation, such as `first`, in all runs."""
        return sum(operation.parts[part].successes for _, operation in several if part in operation.parts)

    first, again = ([_mean(operation, part) for _, operation in several] for part in (FIRST, AGAIN))
    both = (one / other if one and other else None for one, other in zip(first, again, strict=True))
    ages = (_response(operation, AGE) for _, operation in several)
    return ExecutionsAt(
        phase,
        treatment,
        name,
        len(several),
        count(FIRST),
        count(AGAIN),
        mean(iter(first)),
        mean(iter(again)),
        mean(both),
        mean(age.p50 if age else None for age in ages),
    )


def _response(operation: OperationFigures, part: str) -> Latency | None:
    """Return the response times of an operation's `part`, such as `first`, or None without responses."""
    figures = operation.parts.get(part)
    return figures.response if figures and figures.response.count else None


def _mean(operation: OperationFigures, part: str) -> float | None:
    """Return the mean response time of an operation's `part`, s, or None without responses."""
    response = _response(operation, part)
    return response.mean if response else None


@dataclass(frozen=True)
class EventsOfRun:
    """The events of one run in one collection.

    `at_risk` is the time, s, in which the missing events arrived: their number divided by the mean rate of
    acknowledgements until the first node was killed. None if no node was killed.
    """

    run: str
    treatment: Mapping[str, Any]
    usable: bool
    stored: StoredEvents
    at_risk: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return run, treatment, validity, collection and numbers of events for JSON; `seconds_at_risk` may be null."""
        stored = self.stored
        return {
            "run": self.run,
            "treatment": dict(self.treatment),
            "valid": self.usable,
            "collection": stored.collection,
            "documents": stored.documents,
            "events": dict(stored.events),
            "indexed": stored.indexed,
            "missing": stored.missing,
            "acknowledged_at_kill": stored.acknowledged_at_kill,
            "seconds_at_risk": self.at_risk,
        }


def stored_at(folder: RecordedExperiment) -> Sequence[EventsOfRun]:
    """Return the stored events of each recorded run by collection; runs that ingested none are left out."""
    return [
        EventsOfRun(run.id, run.treatment, run.usable, stored, seconds_at_risk(run.run, stored))
        for run in folder.runs
        if run.run is not None
        for stored in run.run.summary.stored
    ]


def seconds_at_risk(run: Run, stored: StoredEvents) -> float | None:
    """Return the time in which the missing events arrived, s, or None without a killed node or acknowledged events.

    It is their number divided by the mean rate of acknowledgements before the first kill. That rate counts from the
    start of the first ingesting phase until the kill, or until the end of the last phase if that ingests and ended
    before. None also if the end was before the start.
    """
    killed = [event["time"] for event in run.events if event["kind"] == KILLED]
    begun = [phase.start for phase in run.summary.phases if phase.sources]
    if not (killed and begun and stored.acknowledged_at_kill):
        return None
    end = min([killed[0], *(p.start + p.warmup + p.duration for p in run.summary.phases[-1:] if p.sources)])
    return stored.missing * (end - begun[0]) / stored.acknowledged_at_kill if end > begun[0] else None


#: Largest growth of the backlog, as a share of the arriving events, with which a store keeps up.
KEPT_UP = 0.01
#: Seconds of arriving events that suffice: the fewest that are judged, the partial ones at the ends, and late samples.
SUFFICIENT_SECONDS = 20
#: Fewest seconds of arriving events that are judged, the share of them that is left out as the start, and the number of
#: parts whose growth is compared.
_LEAST_SECONDS, _START, _PARTS = 15, 0.2, 8
#: Ratio to the later rate above which the first seconds of a source are a burst.
_BURST = 1.5

Pace = Literal["kept up", "fell behind", "too short", "held back", "not recorded", "reader busy", "undecided"]


@dataclass(frozen=True)
class IngestPace:
    """Rates of a source while its events arrived, 1/s, and the growth of the backlog with its 95 % interval, 1/s.

    The backlog has the accepted events without an answer of the store. `growth` is None if too few seconds are known.
    A source that was `held back`, or whose `reader` was `busy`, may have offered more events. `unread_share` is the
    share of the seconds in which its connection or pipe held much that was not read; None if unknown. A `buffer_full`
    pauses reading, so it may be the cause. `burst` events arrived at the start of the phase beyond the later rate: the
    phase's figures include them, `offered` and `stored` do not.
    """

    source: str
    seconds: float
    offered: float
    stored: float
    backlog: float
    growth: Estimate | None
    pace: Pace
    unread_share: float | None
    buffer_full: bool | None
    burst: float

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, without `source`; an unknown growth is null."""
        growth = self.growth and self.growth.as_dict()
        return {**{key: value for key, value in vars(self).items() if key != "source"}, "growth": growth}


def ingest_pace(run: Run, phase: PhaseSummary, source: str) -> IngestPace | None:
    """Return a source's rates in a phase, events/s, and whether the store kept up.

    The first and the last sample with events, and the first fifth of the samples between them, are left out of the
    rates. None if no sample remains. The growth is None, and the pace `too short`, if the samples are too few or too
    short together.
    """
    samples = _samples(run, phase, source)
    arriving = [index for index, sample in enumerate(samples) if sample.accepted > 0]
    whole = samples[arriving[0] :] if arriving else []
    # The first and the last second may have seen only part of the input.
    samples = samples[arriving[0] + 1 : arriving[-1]] if arriving else []
    time = sum(sample.length for sample in samples)
    judged = samples[int(_START * len(samples)) :]
    if not judged:
        return None
    length = sum(sample.length for sample in judged)
    offered = sum(sample.length * sample.accepted for sample in judged) / length
    stored = sum(sample.length * sample.indexed for sample in judged) / length
    growth: Estimate | None = None
    pace: Pace = "too short"
    if time >= _LEAST_SECONDS and len(judged) > _PARTS:
        ends = [round(part * (len(judged) - 1) / _PARTS) for part in range(_PARTS + 1)]
        growth = mean_interval(
            [
                (judged[end].backlog - judged[start].backlog)
                / sum(sample.length for sample in judged[start + 1 : end + 1])
                for start, end in pairwise(ends)
            ]
        )
        reader_cpu = sum(sample.length * sample.reader_cpu for sample in judged) / length
        levels = [sample.backlog for sample in judged]
        spread = (max(levels) - min(levels)) / length
        pace = _pace(growth, spread, offered, reader_cpu, phase.sources[source])
    left, figures = judged[-1].backlog, phase.sources[source]
    unread, full = figures.unread_share, figures.buffer_full
    # Only ports and pipes have events that waited before the phase. A full buffer slows the later rate.
    burst = 0.0 if unread is None or full else _burst(whole, offered, figures.accepted)
    return IngestPace(source, length, offered, stored, left, growth, pace, unread, full, burst)


def _burst(samples: Sequence["_Sample"], offered: float, accepted: int) -> float:
    """Return the events at the start of `samples` beyond the rate `offered`, 1/s; 0 if they are at most 2 s of it.

    `accepted` is the number of all events: samples may lack those before the first one, and under a second at the end.
    The start is the first sample and those after it with more than 1.5 times the rate.
    """
    # The first sample may have seen only part of the burst.
    start = 1 + sum(1 for _ in takewhile(lambda sample: sample.accepted > _BURST * offered, samples[1:]))
    later = sum(sample.length * sample.accepted for sample in samples[start:])
    beyond = accepted - later - offered * sum(sample.length for sample in samples[:start])
    return beyond if beyond > 2 * offered else 0.0


def _pace(growth: Estimate, spread: float, offered: float, reader_cpu: float, figures: SourceFigures) -> Pace:
    """Return whether the store kept up with a source, from the growth of its backlog, events/s.

    The first that applies: `fell behind` (the interval is above 1 % of `offered`), `held back` (reading waited), `not
    recorded` (whether it waited), `reader busy` (`reader_cpu` above 0.8), `kept up` (growth below 1 % of `offered`),
    `undecided`. `spread` is the range of the backlog divided by the time, events/s: no growth within the time can
    exceed it. The interval is wide if samples catch batches in flight. `offered` is the rate of arriving events, 1/s,
    `reader_cpu` the use of a core (0 to 1) by the thread that reads them.
    """
    if growth.low > KEPT_UP * offered:
        return "fell behind"
    if figures.held_back:
        return "held back"
    if figures.held_back is None or (figures.address and figures.unread_share is None):
        return "not recorded"
    if reader_cpu > CPU_LIMIT:
        return "reader busy"
    return "kept up" if min(growth.high, spread) < KEPT_UP * offered else "undecided"


@dataclass(frozen=True)
class _Sample:
    """A sample of a source: its length, s, the events accepted and indexed in it, 1/s, and the backlog at its end.

    `reader_cpu` is the CPU use of the busiest thread that read it, cores; 0 if no thread is known.
    """

    length: float
    accepted: float
    indexed: float
    backlog: float
    reader_cpu: float


def _samples(run: Run, phase: PhaseSummary, source: str) -> list[_Sample]:
    """Return the recorded samples of a source in a phase and the second after it, by time, without incomplete ones.

    A sample lasts from the one before, or from the start of the phase. Its backlog is that of unacknowledged events.
    """
    rows = run.telemetry.filter(pc.equal(run.telemetry["source"], f"source:{source}")).sort_by("time")
    end = phase.start + phase.warmup + phase.duration
    by_time: dict[float, dict[str, float]] = {}
    for time, metric, value in zip(*(rows[name].to_pylist() for name in ("time", "metric", "value")), strict=True):
        if phase.start < time <= end + 1 and value is not None:
            by_time.setdefault(time, {})[metric] = value
    known = {time: row for time, row in by_time.items() if row.keys() >= {"accepted", "indexed", "waiting"}}
    # Runs of earlier versions do not record events in requests.
    return [
        _Sample(
            time - before,
            row["accepted"],
            row["indexed"],
            row.get("unacknowledged", row["waiting"]),
            row.get("reader_cpu", 0.0),
        )
        for before, (time, row) in zip([phase.start, *known], known.items(), strict=False)
    ]
