"""Failures of the store in a run, from the run folder; every analysis uses this definition.

Failures are results. A failure of the whole run (lost documents, lost replicas, a dead node, no success) taints all of
its figures. Failures within a run (requests, cluster changes) are counted.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.figures import codes_about
from loadframe.analyze.finding import Finding
from loadframe.analyze.verdict.rules import (
    CHANGE_FAILED,
    CLUSTER_STATE,
    MACHINE_SILENT,
    RULES,
    FailureKind,
    change_failed_text,
    documents_lost,
    effect_of,
    recorded,
)
from loadframe.base.event_kinds import FAILED
from loadframe.record import Run
from loadframe.record.reader import earlier_attempts
from loadframe.record.schema import EVENTS_FILE
from loadframe.record.schema.summary import PhaseSummary, RecordedReason

_OF_RUN: tuple[FailureKind, ...] = ("documents", "copies", "node", "success", "users", "run")


@dataclass(frozen=True)
class Failure:
    """A failure of the store: its kind, its description, and the number of requests if it is of requests."""

    kind: FailureKind
    words: str
    requests: int | None = None

    @property
    def of_run(self) -> bool:
        """Whether the run as a whole failed."""
        return self.kind in _OF_RUN

    def as_dict(self) -> dict[str, Any]:
        """Return `kind`, `words` and `requests` for JSON."""
        return dict(vars(self))


def failures(run: Run) -> tuple[Failure, ...]:
    """Return the store's failures in a run, each once, beginning with failures of the whole run.

    Phases count only if the run is done: the measured ones, or all if none was measured. In a phase with figures that
    the generator or a machine made unknown, no failure of the whole run is derived from missing successes or waiting
    users. Lost copies of a machine that did not answer are not the store's failure.
    """
    summary = run.summary
    of_store: list[Failure] = []
    if summary.status == "failed" and summary.fault == "store":
        of_store.append(Failure("run", (summary.failure or "the store failed").strip().splitlines()[0]))
    reasons = recorded_reasons(run)
    # An unreachable machine takes its replicas with it, which is not the store's failure.
    silent = any(reason.code == MACHINE_SILENT.code for reason in reasons)
    for reason in reasons:
        kind = RULES[reason.code].failure if reason.code in RULES else None
        if kind and not (silent and kind == "copies"):
            of_store.append(Failure(kind, reason.cause))
    if summary.status == "done":
        names = [phase.name for phase in summary.phases]
        for phase in summary.measured or summary.phases:
            codes = codes_about(reasons, phase.name, names)
            # The generator or a machine spoilt the whole phase, so that its silence is not the store's.
            spoilt = any(effect_of(code) == "unknown" for code in codes)
            of_store += (it for it in _of_phase(phase) if not (spoilt and it.of_run))
    return tuple(sorted(dict.fromkeys(of_store), key=lambda failure: not failure.of_run))


def earlier_failures(run: Run) -> tuple[str, ...]:
    """Return `in attempt 2: CAUSE` for each whole-run failure in earlier attempts: repeating does not undo these."""
    return tuple(
        f"in attempt {attempt.number}: {failure.words}"
        for attempt in earlier_attempts(run.path)
        for failure in failures(attempt.run)
        if failure.of_run
    )


def recorded_reasons(run: Run) -> tuple[RecordedReason, ...]:
    """Return the reasons of a run's verdict; empty without a verdict.

    In runs of earlier versions lost documents and failed changes are recorded as deviations of the cluster; the
    function replaces these by the reasons of this version.
    """
    known = run.summary.verdict.reasons if run.summary.verdict else ()
    if not any(reason.code == CLUSTER_STATE.code for reason in known):
        return known
    there = (run.path / EVENTS_FILE).is_file()
    changes = {reason.cause: reason for reason in failed_changes(run.events if there else ())}
    return tuple(
        recorded(failure)
        if reason.code == CLUSTER_STATE.code and (failure := documents_lost(reason.cause) or changes.get(reason.cause))
        else reason
        for reason in known
    )


def failed_changes(events: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return a finding for each cluster change in a run's events that failed by the store's fault.

    A failed change without a recorded fault counts as the store's.
    """
    return [
        CHANGE_FAILED(what=change_failed_text(event["step"], event["change"], event["cause"]))
        for event in events
        if event["kind"] == FAILED and event.get("fault", "store") == "store"
    ]


def unanswered(phases: Iterable[PhaseSummary]) -> int:
    """Return the number of requests of these phases that were unanswered when their phase ended."""
    return sum(operation.in_flight_at_end for phase in phases for operation in phase.single.values())


def most_users(phases: Iterable[PhaseSummary]) -> int | None:
    """Return the largest number of users or clients in a phase, summed over its streams; None if 0.

    Phases with an open load are left out; streams with stages count as 0.
    """
    counts = [
        sum(stream.users or int(stream.clients) for stream in phase.streams if isinstance(stream.clients, int | float))
        for phase in phases
        if not phase.has_open_load
    ]
    return max(counts, default=0) or None


def chance_of_more(failed: int, total: int, before: int, total_before: int) -> float:
    """Return the p value of "runs fail no more often than before" by Fisher's exact test, one-sided.

    `failed` of `total` runs failed now, and `before` of `total_before` runs before.
    """
    runs, failing = total + total_before, failed + before
    ways = [math.comb(failing, k) * math.comb(runs - failing, total - k) for k in range(failed, total + 1)]
    return sum(ways) / math.comb(runs, total)


def _of_phase(phase: PhaseSummary) -> Iterator[Failure]:
    """Yield a failure if no request succeeded, if requests were unanswered, and if over half of the users waited."""
    waiting = unanswered([phase])
    sent = waiting + sum(operation.requests for operation in phase.single.values())
    if sent and not any(operation.successes for operation in phase.single.values()):
        yield Failure("success", f"in phase {phase.name} no request succeeded", sent)
    if waiting:
        some = "1 request was" if waiting == 1 else f"{waiting:,} requests were"
        yield Failure("unanswered", f"in phase {phase.name} {some} without an answer at the end", waiting)
    users = most_users([phase])
    if users and 2 * waiting > users:
        # Each user waits for one request: the store stopped serving most of them.
        yield Failure(
            "users", f"in phase {phase.name} {waiting:,} of {users:,} users were without an answer at the end"
        )
