"""What the store has of the events that a run's sources brought: what is there, what is missing, and for how long it
came."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.experiment import RecordedExperiment
from loadframe.record import Run
from loadframe.record.schema.event_kinds import KILLED
from loadframe.record.schema.source import StoredEvents


@dataclass(frozen=True)
class EventsOfRun:
    """The events of one run in one collection.

    `at_risk` is for how long, s, the missing events had come: their number by the mean rate at which the store
    acknowledged events until the first node was killed. None where none was.
    """

    run: str
    treatment: Mapping[str, Any]
    usable: bool
    stored: StoredEvents
    at_risk: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        told = self.stored
        return {
            "run": self.run,
            "treatment": dict(self.treatment),
            "valid": self.usable,
            "collection": told.collection,
            "documents": told.documents,
            "events": dict(told.events),
            "indexed": told.indexed,
            "missing": told.missing,
            "acknowledged_at_kill": told.acknowledged_at_kill,
            "seconds_at_risk": self.at_risk,
        }


def stored_at(folder: RecordedExperiment) -> Sequence[EventsOfRun]:
    """Return those of each run of an experiment that took events in and came to its end."""
    return [
        EventsOfRun(run.id, run.treatment, run.usable, stored, seconds_at_risk(run.run, stored))
        for run in folder.runs
        if run.run is not None
        for stored in run.run.summary.stored
    ]


def seconds_at_risk(run: Run, stored: StoredEvents) -> float | None:
    """Return for how long the missing events of a run had come, s; None where no node was killed, or nothing had."""
    killed = [event["time"] for event in run.events if event["kind"] == KILLED]
    begun = [phase.start for phase in run.summary.phases if phase.sources]
    if not (killed and begun and stored.acknowledged_at_kill):
        return None
    end = min([killed[0], *(p.start + p.warmup + p.duration for p in run.summary.phases[-1:] if p.sources)])
    return stored.missing * (end - begun[0]) / stored.acknowledged_at_kill if end > begun[0] else None
