"""Of a history of runs, those since its last change: what changed and was accepted is not to be compared with.

The session is the unit: its value is the median of its runs. All measures at all treatments are searched together, and
share one chance of a false change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median

from loadframe.analyze.comparison import Group, Measure
from loadframe.analyze.comparison.doubts import failed_and_left_out
from loadframe.analyze.comparison.measures import measures_of
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding
from loadframe.analyze.history.change_points import LEVEL, ChangePoint, change_points, fewest_sessions
from loadframe.analyze.sessions import sessions_of, started
from loadframe.units import format_change


@dataclass(frozen=True)
class Shift(Finding):
    """The history changed its level."""

    measure: str
    point: ChangePoint
    run: str

    def _cause(self) -> str:
        return (
            f"{self.measure} changed by {format_change(self.point.change)} with the session of run {self.run} of the"
            f" history (p = {self.point.p:.1g}); only the runs since then are compared with"
        )

    def _remedy(self) -> str:
        return "if that was not an accepted change, it is a regression that passed earlier"


@dataclass(frozen=True)
class ShortHistory(Finding):
    """Too few sessions to find any change."""

    sessions: int
    needed: int

    def _cause(self) -> str:
        some = "one session" if self.sessions == 1 else f"{self.sessions} sessions"
        return (
            f"the history has {some}: with fewer than {self.needed}, a change of its level cannot be separated from"
            " differences between sessions, so all of its runs are compared"
        )

    def _remedy(self) -> str:
        return "if the store was changed in between, name only the runs since then"


@dataclass(frozen=True, eq=False)
class _Series:
    """One measure at one treatment: the numbers of the sessions in their order, and the median of each."""

    measure: Measure
    sessions: tuple[int, ...]
    values: tuple[float, ...]


def since_last_change(history: Group, kinds: Sequence[str]) -> tuple[Group, list[Finding]]:
    """Return the history from its last change on, treatment by treatment, with what was found in it.

    Sessions whose start is not known count as one that came before all others.
    """
    runs = history.usable
    numbers = {id(run): -1 if number is None else number for run, number in zip(runs, sessions_of(runs), strict=True)}
    by_treatment = [
        (usable := history.at(treatment).usable, _series(usable, numbers, kinds)) for treatment in history.treatments
    ]
    searched = sum(len(series) for _, series in by_treatment)
    level = LEVEL / max(searched, 1)
    kept: list[RecordedRun] = []
    findings: list[Finding] = []
    for treatment, (usable, series) in zip(history.treatments, by_treatment, strict=True):
        first = -1
        for row in series:
            for point in change_points(row.values, level=level):
                session = row.sessions[point.index]
                run = next(run for run in usable if numbers[id(run)] == session)
                findings.append(Shift(row.measure.name, point, f"{run.id} ({started(run)})"))
                first = max(first, session)
        since = [run for run in usable if numbers[id(run)] >= first]
        # A run without figures belongs to the stretch in which it was made.
        begin = min((started(run) for run in since), default="") if first >= 0 else ""
        others = [run for run in history.at(treatment).runs if not run.sound]
        kept += [*since, *(run for run in others if not started(run) or started(run) >= begin)]
    count, needed = len(set(numbers.values())), fewest_sessions(level)
    if runs and count < needed:
        findings.append(ShortHistory(count, needed))
    members = {id(run) for run in kept}
    before = replace(
        history,
        label=f"{history.label} before its last change",
        runs=tuple(run for run in history.runs if id(run) not in members),
    )
    return replace(history, runs=tuple(kept)), [*findings, *failed_and_left_out([before])]


def _series(runs: Sequence[RecordedRun], numbers: dict[int, int], kinds: Sequence[str]) -> list[_Series]:
    series = []
    for measure in measures_of(runs, kinds):
        by_session: dict[int, list[float]] = {}
        for run in runs:
            # A value without an upper bound would be a shift of the generator's.
            if (value := measure.of(run)) and isfinite(measure.figure(run).high):
                by_session.setdefault(numbers[id(run)], []).append(value)
        ordered = sorted(by_session)
        series.append(_Series(measure, tuple(ordered), tuple(median(by_session[number]) for number in ordered)))
    return series
