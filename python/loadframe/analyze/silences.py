"""When machines of a cluster did not answer: the gaps in their telemetry, by the run's events."""

from collections.abc import Iterable, Mapping
from typing import Any

from loadframe.record.schema.event_kinds import GAP, GAP_OVER

_MACHINE = "machine:"


def silences(events: Iterable[Mapping[str, Any]], begin: float, end: float) -> dict[str, float]:
    """Return for how many s each machine did not answer between two instants, s since the run began.

    Those that always answered are not in it. Events are in the order of time.
    """
    since: dict[str, float] = {}
    silent: dict[str, float] = {}

    def count(machine: str, until: float) -> None:
        seconds = min(until, end) - max(since.pop(machine), begin)
        if seconds > 0:
            silent[machine] = silent.get(machine, 0.0) + seconds

    for event in events:
        source = str(event.get("source", ""))
        machine = source.removeprefix(_MACHINE)
        if not source.startswith(_MACHINE):
            continue
        if event["kind"] == GAP:
            since.setdefault(machine, event["time"])
        elif event["kind"] == GAP_OVER and machine in since:
            count(machine, event["time"])
    for machine in list(since):
        count(machine, end)
    return silent
