"""Failures of the store in a run: the one definition that every analysis counts by.

Pure functions of a run folder. Failures are results. One of the whole run (lost documents, lost copies, a dead node, no
success) means that its figures are those of a store that failed. Failures within a run (requests, changes of the
cluster) are counted there.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from loadframe.analyze.verdict.rules import (
    ChangeFailed,
    ClusterState,
    CopiesLost,
    DocumentsLost,
    Dropped,
    Errors,
    LeftOver,
    MachineSilent,
    MissingEvents,
    NodeLost,
)
from loadframe.record import Run
from loadframe.record.attempts import earlier_attempts
from loadframe.record.schema import EVENTS_FILE
from loadframe.record.schema.event_kinds import FAILED
from loadframe.record.schema.summary import PhaseSummary, RecordedReason

#: What failed: documents that are missing, copies out of service, a node, every request, most users, the whole run; or
#: some requests, requests without an answer, a change of the cluster.
Kind = Literal["documents", "copies", "node", "success", "users", "run", "requests", "unanswered", "change"]
_OF_RUN: tuple[Kind, ...] = ("documents", "copies", "node", "success", "users", "run")
#: Reasons of a verdict that are failures of the store.
_KINDS: Mapping[str, Kind] = {
    DocumentsLost.code: "documents",
    MissingEvents.code: "documents",
    CopiesLost.code: "copies",
    NodeLost.code: "node",
    Errors.code: "requests",
    Dropped.code: "requests",
    LeftOver.code: "requests",
    ChangeFailed.code: "change",
}


@dataclass(frozen=True)
class Failure:
    """A failure of the store: its kind, the words for it, and how many requests it is where they are counted."""

    kind: Kind
    words: str
    requests: int | None = None

    @property
    def of_run(self) -> bool:
        """Whether the run as a whole failed."""
        return self.kind in _OF_RUN

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return dict(vars(self))


def failures(run: Run) -> tuple[Failure, ...]:
    """Return the failures of the store in a run, those of the whole run first."""
    summary = run.summary
    told: list[Failure] = []
    if summary.status == "failed" and summary.fault == "store":
        told.append(Failure("run", (summary.failure or "the store failed").strip().splitlines()[0]))
    reasons = recorded_reasons(run)
    # A machine that nobody reaches takes its copies along, whatever the store does.
    silent = any(reason.code == MachineSilent.code for reason in reasons)
    for reason in reasons:
        kind = _KINDS.get(reason.code)
        if kind and not (silent and kind == "copies"):
            told.append(Failure(kind, reason.cause))
    if summary.status == "done":
        for phase in summary.measured or summary.phases:
            told += _of_phase(phase)
    return tuple(sorted(dict.fromkeys(told), key=lambda failure: not failure.of_run))


def earlier_failures(run: Run) -> tuple[str, ...]:
    """Return how the store failed as a whole in earlier attempts of a run: making it again does not undo that."""
    return tuple(
        f"in attempt {attempt.number}: {failure.words}"
        for attempt in earlier_attempts(run.path)
        for failure in failures(attempt.run)
        if failure.of_run
    )


def recorded_reasons(run: Run) -> tuple[RecordedReason, ...]:
    """Return the reasons of a run's verdict.

    Runs of earlier versions recorded lost documents and failed changes as deviations of the cluster; these get the
    reasons that they have today.
    """
    recorded = run.summary.verdict.reasons if run.summary.verdict else ()
    if not any(reason.code == ClusterState.code for reason in recorded):
        return recorded
    there = (run.path / EVENTS_FILE).is_file()
    changes = {reason.cause: reason for reason in failed_changes(run.events if there else ())}
    return tuple(
        RecordedReason(**failure.as_dict())
        if reason.code == ClusterState.code
        and (failure := DocumentsLost.read(reason.cause) or changes.get(reason.cause))
        else reason
        for reason in recorded
    )


def failed_changes(events: Iterable[Mapping[str, Any]]) -> list[ChangeFailed]:
    """Return the changes of the cluster that the store failed to make; `events` are those of a run."""
    return [
        ChangeFailed(ChangeFailed.sentence(event["step"], event["change"], event["cause"]))
        for event in events
        if event["kind"] == FAILED and event.get("fault", "store") == "store"
    ]


def unanswered(phases: Iterable[PhaseSummary]) -> int:
    """Return how many requests had no answer when these phases were over."""
    return sum(operation.in_flight_at_end for phase in phases for operation in phase.single.values())


def most_users(phases: Iterable[PhaseSummary]) -> int | None:
    """Return the most users or clients that a phase has at a time; None if its load is open or has stages."""
    counts = [
        sum(stream.users or int(stream.clients) for stream in phase.streams if isinstance(stream.clients, int | float))
        for phase in phases
        if not phase.has_open_load
    ]
    return max(counts, default=0) or None


def chance_of_more(failed: int, total: int, before: int, total_before: int) -> float:
    """Return the p of "runs fail no more often than before": Fisher's exact test, one-sided."""
    runs, failing = total + total_before, failed + before
    ways = [math.comb(failing, k) * math.comb(runs - failing, total - k) for k in range(failed, total + 1)]
    return sum(ways) / math.comb(runs, total)


def _of_phase(phase: PhaseSummary) -> Iterator[Failure]:
    waiting = unanswered([phase])
    asked = waiting + sum(operation.requests for operation in phase.single.values())
    if asked and not any(operation.successes for operation in phase.single.values()):
        yield Failure("success", f"in phase {phase.name} no request succeeded", asked)
    if waiting:
        some = "1 request was" if waiting == 1 else f"{waiting:,} requests were"
        yield Failure("unanswered", f"in phase {phase.name} {some} without an answer at the end", waiting)
    users = most_users([phase])
    if users and 2 * waiting > users:
        # Each user waits for one request: the store no longer served most of them.
        yield Failure(
            "users", f"in phase {phase.name} {waiting:,} of {users:,} users were without an answer at the end"
        )
