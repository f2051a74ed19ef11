"""Which runs belong to one session, and which to one block, by what their manifests say.

A session is runs made one after the other on the same machine. Runs of one command are one session, by the manifest's
`session`. Runs of two commands are one session, too, where they were made on the same machine and no more than an hour
passed between the end of one and the start of the next: runs that are made back to back share what the machine does,
whoever started them. Folders of versions that recorded no `session` go by the hour alone.
"""

from collections.abc import Hashable, Sequence
from datetime import datetime

from loadframe.analyze.experiment import RecordedRun

#: A longer time without a run parts two sessions, s.
GAP = 3600.0


def started(run: RecordedRun) -> str:
    """Return when a run was started, in a form that sorts by time; runs of no known time come first."""
    return run.manifest.started or ""


def sessions_of(runs: Sequence[RecordedRun]) -> list[int | None]:
    """Return a number for each run's session, counted by time from 0; None where its start is not known."""
    spans = [(_start(run), index) for index, run in enumerate(runs)]
    known = sorted((start, index) for start, index in spans if start is not None)
    numbers: list[int | None] = [None] * len(runs)
    ends: dict[Hashable, float] = {}
    current: dict[Hashable, int] = {}
    by_command: dict[Hashable, int] = {}
    count = 0
    for start, index in known:
        run = runs[index]
        machine, command = _machine(run), run.manifest.session
        if command is not None and (machine, command) in by_command:
            number = by_command[machine, command]
        elif machine in current and start - ends[machine] <= GAP:
            number = current[machine]
        else:
            number, count = count, count + 1
        numbers[index] = number
        current[machine] = number
        ends[machine] = max(ends.get(machine, start), start + _length(run))
        if command is not None:
            by_command[machine, command] = number
    return numbers


def block_of(run: RecordedRun) -> Hashable:
    """Return a name for the run's block, which only runs of the same experiment's folder share; None without one."""
    if run.block is None or run.run is None:
        return None
    return run.run.path.parent, run.block


def _start(run: RecordedRun) -> float | None:
    try:
        return datetime.fromisoformat(started(run)).timestamp()
    except ValueError:
        return None


def _length(run: RecordedRun) -> float:
    """Return how long the run's phases took, s; 0 where the summary does not say it."""
    phases = run.run.summary.phases if run.run else ()
    return max((phase.begin + phase.duration for phase in phases), default=0.0)


def _machine(run: RecordedRun) -> Hashable:
    hardware = run.manifest.hardware
    return hardware.hostname, hardware.cpu
