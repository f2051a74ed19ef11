"""Requests and events over the runs of an experiment: first and later executions, age of responses, stored events.

Stores cache data and often whole responses, so first executions may take far longer.
Ingested events: how many the store has after a run, how many are missing, and the duration of the loss.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.estimate import Estimate, geometric_mean
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, by_treatment
from loadframe.analyze.sessions import sessions_of
from loadframe.base.event_kinds import KILLED
from loadframe.record import Run
from loadframe.record.schema.figures import Latency, OperationFigures, StoredEvents

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
    """Return a row for each measured operation with distinguished executions or a known age."""
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
    def mean(values: Iterator[float | None]) -> Estimate | None:
        known = [(recorded, value) for (recorded, _), value in zip(several, values, strict=True) if value]
        return geometric_mean([value for _, value in known], sessions_of([run for run, _ in known])) if known else None

    def count(part: str) -> int:
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
    figures = operation.parts.get(part)
    return figures.response if figures and figures.response.count else None


def _mean(operation: OperationFigures, part: str) -> float | None:
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
        """Return the events for JSON."""
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
    """Return the events of each completed run of an experiment that ingested some."""
    return [
        EventsOfRun(run.id, run.treatment, run.usable, stored, seconds_at_risk(run.run, stored))
        for run in folder.runs
        if run.run is not None
        for stored in run.run.summary.stored
    ]


def seconds_at_risk(run: Run, stored: StoredEvents) -> float | None:
    """Return the time in which missing events arrived, s, or None without a killed node or acknowledged events."""
    killed = [event["time"] for event in run.events if event["kind"] == KILLED]
    begun = [phase.start for phase in run.summary.phases if phase.sources]
    if not (killed and begun and stored.acknowledged_at_kill):
        return None
    end = min([killed[0], *(p.start + p.warmup + p.duration for p in run.summary.phases[-1:] if p.sources)])
    return stored.missing * (end - begun[0]) / stored.acknowledged_at_kill if end > begun[0] else None
