"""Ingested events in the store after a run: stored and missing events, and the duration of the loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.experiment import RecordedExperiment
from loadframe.base.event_kinds import KILLED
from loadframe.record import Run
from loadframe.record.schema.figures import StoredEvents


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
