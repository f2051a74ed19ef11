"""Which runs belong to one session, and which to one block, by what their manifests say.

A sitting is runs on one machine with no longer pause than an hour, or of one command. Runs of a sitting are alike, so
where one group is looked at, a sitting is a session. Where groups are compared, a sitting can hide drift: all runs of
one group, then all of the other. So a command that made runs of several groups is a session, since an experiment
interleaves them. Other runs of the sitting are one session only if the groups alternate in time. If they do not, each
stretch of one group's runs is a session.

The command is the manifest's `session`. Without it (folders of earlier versions), runs of one experiment's folder count
as one command, and every other run as a command of its own.
"""

from collections.abc import Hashable, Sequence
from datetime import datetime
from itertools import pairwise

from loadframe.analyze.experiment import RecordedRun

#: A longer time without a run ends a sitting, s.
GAP = 3600.0


def started(run: RecordedRun) -> str:
    """Return when a run was started, in a form that sorts by time; runs of no known time come first."""
    return run.manifest.started or ""


def sessions_of(runs: Sequence[RecordedRun], groups: Sequence[Hashable] | None = None) -> list[int | None]:
    """Return a number for each run's session, counted by time from 0; None where its start is not known.

    `groups` has the group of each run where groups are compared.
    """
    sittings = _sittings(runs)
    if groups is None:
        return sittings
    order = sorted((start, index) for index, run in enumerate(runs) if (start := _start(run)) is not None)
    by_sitting: dict[int, list[int]] = {}
    for _, index in order:
        sitting = sittings[index]
        assert sitting is not None
        by_sitting.setdefault(sitting, []).append(index)
    names: dict[int, Hashable] = {}
    for sitting, members in by_sitting.items():
        names |= _split(sitting, members, runs, groups)
    numbers: dict[Hashable, int] = {}
    result: list[int | None] = [None] * len(runs)
    for _, index in order:
        result[index] = numbers.setdefault(names[index], len(numbers))
    return result


def _split(
    sitting: int, members: Sequence[int], runs: Sequence[RecordedRun], groups: Sequence[Hashable]
) -> dict[int, Hashable]:
    """Return a name for the session of each run of a sitting; `members` are the runs' places in their order of time."""
    of_command: dict[Hashable, set[Hashable]] = {}
    for index in members:
        of_command.setdefault(_command(runs[index]), set()).add(groups[index])
    names: dict[int, Hashable] = {}
    single = []
    for index in members:
        command = _command(runs[index])
        if len(of_command[command]) > 1:
            names[index] = sitting, command
        else:
            single.append(index)
    together = _alternate([groups[index] for index in single])
    stretch = 0
    for place, index in enumerate(single):
        if place and groups[single[place - 1]] != groups[index] and not together:
            stretch += 1
        names[index] = sitting, "stretch", stretch
    return names


def _alternate(groups: Sequence[Hashable]) -> bool:
    """Whether groups alternate in time, as in ABAB and ABBA: at least half of the neighbours differ, and two pairs."""
    changes = sum(first != second for first, second in pairwise(groups))
    return changes >= 2 and 2 * changes >= len(groups) - 1


def _command(run: RecordedRun) -> Hashable:
    """Return a name for the command that made a run, as far as it is known."""
    if run.manifest.session is not None:
        return run.manifest.session
    if run.block is not None and run.run is not None:
        return run.run.path.parent
    return id(run)


def _sittings(runs: Sequence[RecordedRun]) -> list[int | None]:
    """Return a number for each run's sitting, counted by time from 0; None where its start is not known."""
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


def blocks_of(runs: Sequence[RecordedRun]) -> list[Hashable]:
    """Return a name for each run's block in an experiment; None without one.

    The parts of a block that were made in several sessions are blocks of their own: what a session does falls on its
    runs only.
    """
    sessions = sessions_of(runs)
    return [None if run.block is None else (run.block, number) for run, number in zip(runs, sessions, strict=True)]


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
