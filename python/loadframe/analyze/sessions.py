"""Sessions and blocks of runs, and the speed of the machine during them.

A sitting is a sequence of runs on one machine without a pause above an hour, or the runs of one command. Runs of a
sitting are correlated, so for a single group a sitting is a session. Between groups a sitting can hide drift: all runs
of one group, then all of the other. So a command with runs of several groups is a session, since experiments interleave
them. Other runs of the sitting form one session only if the groups alternate in time. If they do not, each stretch of
one group's runs is a session.

The command is the manifest's `session`. Without it (folders of earlier versions), the runs in one experiment's folder
count as one command, and every other run as a separate command.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median

import numpy as np

from loadframe.analyze.experiment import RecordedRun

#: Longest pause within a sitting, s.
GAP = 3600.0


def started(run: RecordedRun) -> str:
    """Return the recorded start of a run as text that sorts by time; empty if unknown."""
    return run.manifest.started or ""


def sessions_of(runs: Sequence[RecordedRun], groups: Sequence[Hashable] | None = None) -> list[int | None]:
    """Return the number of each run's session, counted by time from 0; None if its start is unknown.

    A session has runs of one machine: of one command, or without a pause of more than an hour. `groups` gives the group
    of each run, for comparisons: then a command that made runs of several groups is a session of its own, and so is
    each stretch of one group, unless groups alternate.
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
        names |= _session_ids(sitting, members, runs, groups)
    numbers: dict[Hashable, int] = {}
    result: list[int | None] = [None] * len(runs)
    for _, index in order:
        result[index] = numbers.setdefault(names[index], len(numbers))
    return result


def _session_ids(
    sitting: int, members: Sequence[int], runs: Sequence[RecordedRun], groups: Sequence[Hashable]
) -> dict[int, Hashable]:
    """Return index of run -> identifier of its session, for the runs of one sitting.

    `members` are the indices of these runs in order of time; `runs` and `groups` have an element for each run. Commands
    with runs of several groups are sessions. The other runs are one session if their groups alternate, else one per
    stretch of a group.
    """
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
    """Return whether groups alternate in time (ABAB, ABBA): two or more changes, and half of the neighbours or more."""
    changes = sum(first != second for first, second in pairwise(groups))
    return changes >= 2 and 2 * changes >= len(groups) - 1


def _command(run: RecordedRun) -> Hashable:
    """Return an identifier of the command that made a run.

    If it is not recorded, an identifier of the folder of its experiment's runs, or of the run alone.
    """
    if run.manifest.session is not None:
        return run.manifest.session
    if run.block is not None and run.run is not None:
        return run.run.path.parent
    return id(run)


def _sittings(runs: Sequence[RecordedRun]) -> list[int | None]:
    """Return the number of each run's sitting, counted by time from 0; None if its start is unknown.

    A sitting has the runs of one machine without a pause above an hour, and all runs of a command on that machine.
    """
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
    """Return an identifier of the run's block that no other experiment's folder has; None without a block."""
    if run.block is None or run.run is None:
        return None
    return run.run.path.parent, run.block


def blocks_of(runs: Sequence[RecordedRun]) -> list[Hashable]:
    """Return an identifier of each run's block within an experiment, or None without a block.

    Parts of a block from several sessions are separate blocks, since a session affects only its runs.
    """
    sessions = sessions_of(runs)
    return [None if run.block is None else (run.block, number) for run, number in zip(runs, sessions, strict=True)]


def _start(run: RecordedRun) -> float | None:
    """Return the start of a run, s since 1970; None if unknown."""
    try:
        return datetime.fromisoformat(started(run)).timestamp()
    except (ValueError, OverflowError):
        return None


def _length(run: RecordedRun) -> float:
    """Return the time from a run's start to the end of its last phase, s; 0 if unknown."""
    phases = run.run.summary.phases if run.run else ()
    return max((phase.begin + phase.duration for phase in phases), default=0.0)


def _machine(run: RecordedRun) -> Hashable:
    """Return the hostname and CPU of a run's machine, as an identifier."""
    hardware = run.manifest.hardware
    return hardware.hostname, hardware.cpu


#: Smallest change between groups of runs; smaller ones are within the reference's variance.
_LEAST = 0.05
#: Smallest number of degrees of freedom for a share of the variance.
_FREEDOM = 10


def reference_times(runs: Sequence[RecordedRun]) -> list[float]:
    """Return all times of the CPU reference benchmark in these runs, s; empty for old runs without it."""
    return [time for run in runs for time in run.manifest.hardware.yardstick]


def speed_ratio(first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> float:
    """Return the machine's speed in the second group over that in the first; 1 if unknown or within 5 %."""
    one, other = reference_times(first), reference_times(second)
    if not one or not other:
        return 1.0
    factor = median(one) / median(other)
    return factor if abs(factor - 1) >= _LEAST else 1.0


def speed_range(runs: Sequence[RecordedRun]) -> float:
    """Return the largest ratio between two runs' mean times of the CPU reference; 1 if none has a time."""
    times = [fmean(times_of_run) for run in runs if (times_of_run := reference_times([run]))]
    return max(times) / min(times) if times else 1.0


def speed_share(points: Sequence[tuple[Hashable, RecordedRun, float]]) -> float | None:
    """Return the share of the variance between repetitions that the machine's pace explains, or None with too few runs.

    Each point is a treatment, a run and its value, for which larger is better. The share is the squared correlation of
    the logarithms, each minus the mean of its treatment; 0 if faster results coincide with a slower machine. Values of
    0 or less and runs without a reference time are left out; None below 10 degrees of freedom.
    """
    rows = defaultdict(list)
    for treatment, run, value in points:
        if value > 0 and (times_of_run := reference_times([run])):
            rows[treatment].append((np.log(value), -np.log(fmean(times_of_run))))
    centred = [np.array(row) - np.mean(row, axis=0) for row in rows.values()]
    if sum(len(group) - 1 for group in centred) < _FREEDOM:
        return None
    values, paces = np.concatenate(centred).T
    scale = float((values**2).sum() * (paces**2).sum())
    together = float((values * paces).sum())
    return together**2 / scale if scale and together > 0 else 0.0
