"""Change points in a history of runs, and the runs since the last change.

The unit is the session: its value is the median of its runs. Runs of one session are correlated, so single runs would
show differences between sessions as changes. The candidate is the split with the largest t statistic between the mean
logarithms of its two sides. Its p comes from permutations: each random order of the series gives its largest statistic,
which accounts for the search over splits (as in E-divisive: Matteson and James, "A nonparametric approach for multiple
change point analysis of multivariate data", Journal of the American Statistical Association 109, 2014; with the CUSUM
of the mean instead of the energy distance).

Successive sessions are correlated, and plain permutation mistakes slow drift for changes. So the permutation applies to
the innovations of a first-order autoregression, from which each series is rebuilt (a sieve; Buehlmann, "Sieve bootstrap
for time series", Bernoulli 3, 1997). Its correlation is estimated together with the candidate, corrected for the bias
from the two means and the search, and increased by 1.8 standard errors. For zero correlation it is the ordinary
permutation test.

A change splits the history, and both parts are searched again, as in Hunter (Fleming et al., "Hunter: using change
point detection to hunt for performance regressions", ICPE 2023), with its filter by the size of the change. All
measures at all treatments share one chance of a false change.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median

import numpy as np
import numpy.typing as npt

from loadframe.analyze.compare import Group, Measure
from loadframe.analyze.compare.measures import measures_of
from loadframe.analyze.compare.warnings import failed_and_excluded
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.sessions import sessions_of, started
from loadframe.base.errors import BadInput
from loadframe.record.gate_log import Acceptance, read_gate_log

Array = npt.NDArray[np.float64]

#: Chance of a false change in a history; callers divide it by their number of histories.
LEVEL = 0.05
#: Smallest relative change of interest.
LEAST = 0.05
#: Smallest number of sessions on each side of a change.
_SHORTEST = 3
#: Number of permutations, and their number relative to 1 / level for small levels.
_DRAWS, _DRAWS_PER_LEVEL = 2000, 50
#: Largest number of values in memory.
_CHUNK = 2_000_000
#: A t statistic that correlation hardly explains.
_BEYOND_DOUBT = 7.0
#: Constants of the correlation: bias times the number of values, standard errors added, largest assumed value.
_BIAS, _ROUNDED, _GREATEST = 3.0, 1.8, 0.9


@dataclass(frozen=True)
class ChangePoint:
    """The first session of a new level: its index, the geometric means before and after (up to the next change), and p.

    `p` is the chance that the best split of unchanged sessions looks as much like a change.
    """

    index: int
    before: float
    after: float
    p: float

    @property
    def change(self) -> float:
        """The relative change, for example -0.2 for a decrease by a fifth."""
        return self.after / self.before - 1


def change_points(
    values: Sequence[float] | Array, *, level: float = LEVEL, least: float = LEAST, seed: int = 0
) -> tuple[ChangePoint, ...]:
    """Return the changes of a series' level by at least `least`, relative, in ascending order.

    `values` are above 0, one per session, in order of time. `level` is the chance of a false change, and `seed` seeds
    the permutations. Smaller significant changes are left out, the smallest first, and the levels beside them joined.
    """
    logs = np.log(np.asarray(values, dtype=float))
    p_values = dict(_search(logs, 0, len(logs), level, seed))
    while p_values:
        points = _describe(logs, p_values)
        small = [point for point in points if abs(point.change) < least]
        if not small:
            return tuple(points)
        # Describe the neighbours of a small change again without it.
        del p_values[min(small, key=lambda point: abs(point.change)).index]
    return ()


def fewest_sessions(level: float = LEVEL) -> int:
    """Return the smallest number of sessions in which a change can be significant."""
    sessions = 2 * _SHORTEST
    while 2 / math.comb(sessions, sessions // 2) >= level:
        sessions += 1
    return sessions


def _search(logs: Array, start: int, end: int, level: float, seed: int) -> list[tuple[int, float]]:
    """Return the significant splits of logs[start:end] and, recursively, of both sides: ascending, each with its p.

    A split is significant if its p is below `level`. `seed` is that of the permutations.
    """
    if end - start < 2 * _SHORTEST:
        return []
    segment = logs[start:end]
    if float(np.ptp(segment)) <= 1e-9:
        return []
    statistics = _statistics(segment[None, :])[0]
    best = int(np.argmax(statistics))
    at = start + _SHORTEST + best
    p = _p(segment, at - start, float(statistics[best]), level, seed)
    if p >= level:
        return []
    return [*_search(logs, start, at, level, seed), (at, p), *_search(logs, at, end, level, seed)]


def _statistics(series: Array) -> Array:
    """Return the share of a series' variation that lies between the two sides of a split, from 0 to 1.

    `series` has one series per row, none of them constant. The result has one column per split, from three values on
    the left to three on the right.
    """
    n = series.shape[1]
    centred = series - series.mean(axis=1, keepdims=True)
    left = np.arange(_SHORTEST, n - _SHORTEST + 1)
    sums = np.cumsum(centred, axis=1)[:, left - 1]
    statistic: Array = sums**2 * n / (left * (n - left)) / (centred**2).sum(axis=1, keepdims=True)
    return statistic


def _p(logs: Array, at: int, statistic: float, level: float, seed: int) -> float:
    """Return the p of the best split of `logs` by permutations; it is at index `at` and has this `statistic`.

    It is the p of plain permutations. If that is below `level` and the series is autocorrelated, it is the larger of
    this one and that of autoregressive series. `level` determines the number of permutations, `seed` their order.
    """
    rho = _correlation(logs, at)
    plain = _share_reaching(logs, 0.0, statistic, level, seed)
    # An autoregression seldom jumps, so it must not lower the p of the plain permutation test.
    return max(plain, _share_reaching(logs, rho, statistic, level, seed)) if rho and plain < level else plain


def _share_reaching(logs: Array, rho: float, statistic: float, level: float, seed: int) -> float:
    """Return the p-value of a statistic: the share of permuted AR(1) series without a change that reach it.

    `logs` are logarithms in order, `rho` is their autocorrelation. A smaller `level` needs more draws; `seed` seeds
    them.
    """
    innovations = logs - logs.mean()
    innovations[1:] -= rho * (logs[:-1] - logs.mean())
    # The first value has the variance of the series, not of an innovation.
    innovations[0] *= math.sqrt(1 - rho**2)
    random = np.random.default_rng(seed)
    draws = max(_DRAWS, math.ceil(_DRAWS_PER_LEVEL / level))
    reached, made = 0, 0
    while made < draws:
        rows = min(draws - made, max(1, _CHUNK // len(logs)))
        series = random.permuted(np.tile(innovations, (rows, 1)), axis=1)
        series[:, 0] /= math.sqrt(1 - rho**2)
        for index in range(1, len(logs)):
            series[:, index] += rho * series[:, index - 1]
        reached += int((_statistics(series).max(axis=1) >= statistic * (1 - 1e-9)).sum())
        made += rows
    return (1 + reached) / (1 + draws)


def _correlation(logs: Array, at: int) -> float:
    """Estimate the lag-one autocorrelation of `logs` about their mean before and after index `at`, from 0 to 0.9.

    It is corrected for its bias, and increased so that it is seldom too low.
    """
    n = len(logs)
    # Other evident changes would look like correlation, so they are removed, too.
    residuals = np.concatenate([_without_changes(logs[:at]), _without_changes(logs[at:])])
    power = float((residuals**2).sum())
    if power <= 1e-18 * n:
        return 0.0
    plain = float((residuals[1:] * residuals[:-1]).sum()) / power
    corrected = (plain + _BIAS / n) / max(1 - 1.5 * _BIAS / n, 0.25) + _ROUNDED / math.sqrt(n)
    return min(max(corrected, 0.0), _GREATEST)


def _without_changes(logs: Array) -> Array:
    """Return the deviations of logarithms from their levels, in order; a level lasts between two evident changes.

    Changes are splits with a t statistic above 7, searched again on both sides. Each level has at least three values.
    """
    n = len(logs)
    if n >= 2 * _SHORTEST and float(np.ptp(logs)) > 1e-9:
        statistics = _statistics(logs[None, :])[0]
        best = int(np.argmax(statistics))
        share = float(statistics[best])
        if (n - 2) * share > _BEYOND_DOUBT**2 * (1 - share):
            at = _SHORTEST + best
            return np.concatenate([_without_changes(logs[:at]), _without_changes(logs[at:])])
    alone: Array = logs - logs.mean()
    return alone


def _describe(logs: Array, p_values: dict[int, float]) -> list[ChangePoint]:
    """Return a change point for each index in `p_values`, with the geometric means before and after it."""
    edges = [0, *sorted(p_values), len(logs)]
    return [
        ChangePoint(at, math.exp(logs[start:at].mean()), math.exp(logs[at:end].mean()), p_values[at])
        for start, at, end in zip(edges, edges[1:], edges[2:], strict=False)
    ]


LEVEL_CHANGE = Rule(
    "level_change",
    "{measure} changed by {change:change} in the session of run {run} of the history (p = {p:.1g}); the comparison uses"
    " runs from that session on",
    "if you did not accept that change, it is a regression that passed earlier",
)
SHORT_HISTORY = Rule(
    "short_history",
    "the history has {sessions:counted session}{at}: with fewer than {needed}, a change of its level cannot be"
    " separated from variance between sessions, so all of these runs are compared",
    "if the store changed in between, name only the runs after that change; runs without a pause above an hour are one"
    " session, also of several commits, which `loadframe history` counts as points",
)
OTHER_SUBJECTS = Rule(
    "other_subjects",
    "the gate leaves out {runs:counted run} of the history, of another workload or store than the new runs"
    " ({subjects})",
    "nothing, if the folder has the histories of several stores or workloads; otherwise name another folder",
)
OWN_COPIES = Rule(
    "own_copies",
    "{runs:counted run} of the history left out: copies of new runs or of each other",
    "nothing, if a gate recorded these runs earlier (--record); otherwise delete the copies",
)
#: Why a series lacks a run. Longer runs have larger maxima.
NO_FIGURE = "no valid figure"
NOTHING = "nothing succeeded"
NO_BOUND = "the load generator may have limited them"
OTHER_LENGTH = "another length than the newest run"


@dataclass(frozen=True, eq=False)
class Series:
    """One measure at one treatment: the numbers of the sessions in order, and the median of each.

    `left_out` gives the reason for each session without a value.
    """

    measure: Measure
    sessions: tuple[int, ...]
    values: tuple[float, ...]
    left_out: Mapping[int, str]


def since_last_change(history: Group, new: Group, kinds: Sequence[str]) -> tuple[Group, list[Finding]]:
    """Return the history's runs since the last change of their series, and warnings; `new` are the runs to compare.

    A series has one workload, store and treatment. Runs of other workloads and stores than `new` are left out; BadInput
    if none is left, or if `new` mixes stores. `kinds` are the kinds of measures to search. There is no warning about a
    change that a user accepted in the history's folder. Sessions with an unknown start count as one that precedes all
    others.
    """
    history, findings = _continued(history, new)
    runs = history.usable
    numbers = {id(run): -1 if number is None else number for run, number in zip(runs, sessions_of(runs), strict=True)}
    members: dict[Hashable, list[RecordedRun]] = {}
    for run in history.runs:
        members.setdefault(series_of_run(run), []).append(run)
    searched: list[tuple[list[RecordedRun], list[RecordedRun], list[Series]]] = []
    for key, everything in members.items():
        usable = [run for run in runs if series_of_run(run) == key]
        like = new.at(everything[0].treatment).usable or new.usable
        searched.append((everything, usable, series_of(usable, numbers, kinds, like)))
    level = LEVEL / max(sum(bool(row.values) for *_, series in searched for row in series), 1)
    kept: list[RecordedRun] = []
    for everything, usable, series in searched:
        # A change that a user accepted begins a new level, however few sessions show it.
        accepted = {id(run): acceptance for run in usable if (acceptance := _acceptance(run))}
        begins: dict[Acceptance, str] = {}
        for run in usable:
            if acceptance := accepted.get(id(run)):
                begins[acceptance] = min(begins.get(acceptance, started(run)), started(run))
        begin = max(begins.values(), default="")
        first = -1
        for row in series:
            for point in change_points(row.values, level=level):
                session = row.sessions[point.index]
                first = max(first, session)
                changed = [run for run in usable if numbers[id(run)] == session]
                if not any(id(run) in accepted for run in changed):
                    run_text = f"{changed[0].id} ({started(changed[0])})"
                    findings.append(
                        LEVEL_CHANGE(measure=row.measure.name, change=point.change, p=point.p, run=run_text)
                    )
        since = [run for run in usable if numbers[id(run)] >= first and started(run) >= begin]
        # A run without figures is kept by its start time.
        if first >= 0 or begin:
            begin = min((started(run) for run in since), default="")
        others = [run for run in everything if not run.sound]
        kept += [*since, *(run for run in others if not started(run) or started(run) >= begin)]
    continued = [usable for _, usable, _ in searched if usable and usable[0].treatment in new.treatments]
    counts = [len({numbers[id(run)] for run in usable}) for usable in continued or ([list(runs)] if runs else [])]
    needed = fewest_sessions(level)
    if counts and min(counts) < needed:
        at = " at the treatment with the fewest" if len(counts) > 1 else ""
        findings.append(SHORT_HISTORY(sessions=min(counts), at=at, needed=needed))
    kept_ids = {id(run) for run in kept}
    before = replace(
        history,
        label=f"{history.label} before its last change",
        runs=tuple(run for run in history.runs if id(run) not in kept_ids),
    )
    return replace(history, runs=tuple(kept)), [*findings, *failed_and_excluded([before])]


def without_copies(history: Group, new: Group) -> tuple[Group, list[Finding]]:
    """Return a history without copies of new runs, and each of its runs once; with a warning if it had copies.

    Of copies in the history, the first counts. An earlier gate may have recorded the new runs there. BadInput if
    nothing is left.
    """
    known = {identity for run in new.runs if (identity := identity_of_run(run)) is not None}
    kept = []
    for run in history.runs:
        identity = identity_of_run(run)
        if identity not in known:
            kept.append(run)
        if identity is not None:
            known.add(identity)
    copies = len(history.runs) - len(kept)
    if not copies:
        return history, []
    if not kept:
        raise BadInput(
            f"{history.label} has only copies of the new runs",
            remedy="name a history with earlier runs, or measure again",
        )
    return replace(history, runs=tuple(kept)), [OWN_COPIES(runs=copies)]


def identity_of_run(run: RecordedRun) -> Hashable:
    """Return a key that only copies of a run share: its start, series and all results; None without a known start."""
    if run.run is None or not started(run):
        return None
    return started(run), series_of_run(run), repr(run.run.summary)


def series_of_run(run: RecordedRun) -> Hashable:
    """Return the identity of the series that a run belongs to: workload, store and treatment."""
    return *_subject(run), run.treatment_key


def _continued(history: Group, new: Group) -> tuple[Group, list[Finding]]:
    """Return the runs of a history with the workloads and stores of the new runs, and a warning if it has others.

    BadInput if it has only others, or if `new` has several stores at one treatment.
    """
    at: dict[str, set[_Subject]] = {}
    for run in new.known:
        at.setdefault(run.treatment_key, set()).add(_subject(run))
    for subjects in at.values():
        stores = sorted({store for _, store in subjects if store})
        if len(stores) > 1:
            raise BadInput(
                f"{new.label} has runs of several stores ({', '.join(stores)}) at one treatment",
                remedy="gate the runs of each store alone",
            )
    known = {subject for subjects in at.values() for subject in subjects}
    kept = [run for run in history.runs if not known or _is_of(run, at.get(run.treatment_key, known))]
    others = len(history.runs) - len(kept)
    if not others:
        return history, []
    ids = {id(run) for run in kept}
    names = _names(_subject(run) for run in history.runs if id(run) not in ids)
    if not any(run.run for run in kept):
        raise BadInput(
            f"{history.label} has no run of {_names(known)}, only of {names}",
            remedy="name the history of this workload and store, or use --baseline to compare different ones",
        )
    return replace(history, runs=tuple(kept)), [OTHER_SUBJECTS(runs=others, subjects=names)]


_Subject = tuple[str | None, str | None]


def _subject(run: RecordedRun) -> _Subject:
    """Return the workload and the kind of store of a run; None if unknown."""
    return run.manifest.workload.name, run.manifest.store.kind


def _is_of(run: RecordedRun, subjects: Iterable[_Subject]) -> bool:
    """Return whether a run has one of these workloads and stores; an unknown part fits."""
    return any(
        all(None in pair or pair[0] == pair[1] for pair in zip(subject, _subject(run), strict=True))
        for subject in subjects
    )


def _names(subjects: Iterable[_Subject]) -> str:
    """Return the distinct subjects as text: `ycsb/b on redis, ycsb/b on mongodb`."""
    return ", ".join(sorted({" on ".join(filter(None, subject)) for subject in subjects}))


def _acceptance(run: RecordedRun) -> Acceptance | None:
    """Return the newest acceptance of the changes at a run, or None.

    It is in the gate log of the folder that contains the run's folder, or of that folder's parent or grandparent, for
    the run's name or the name of the folder inside it.
    """
    if run.run is None:
        return None
    path = run.run.path.absolute()
    # A history has runs, folders of runs, and experiments.
    folders = [path, *path.parents[:2]]
    accepted = (read_gate_log(folder.parent).acceptance(folder.name, [run.id]) for folder in folders)
    return next(filter(None, accepted), None)


def series_of(
    runs: Sequence[RecordedRun], numbers: Mapping[int, int], kinds: Sequence[str], like: Sequence[RecordedRun] = ()
) -> list[Series]:
    """Return the series of each measure; `numbers` gives the number of each run's session by the run's `id()`.

    A session's value is the median of its runs; sessions without a value are only listed with the reason. Series of
    maxima have only runs with a length similar to that of the run of median duration in `like`, or without any in
    `like`, to that of the newest run.
    """
    series = []
    for measure in measures_of(runs, kinds):
        newest = max((run for run in runs if not _unfit(measure, run)), key=lambda run: numbers[id(run)], default=None)
        length = measure.typical(like) or newest
        by_session: dict[int, list[float]] = {}
        left_out: dict[int, str] = {}
        for run in runs:
            reason, value, session = _unfit(measure, run, length), measure.of(run), numbers[id(run)]
            if reason or value is None:
                left_out[session] = reason
            else:
                by_session.setdefault(session, []).append(value)
        ordered = sorted(by_session)
        values = tuple(median(by_session[number]) for number in ordered)
        left_out = {session: left_out[session] for session in sorted(left_out.keys() - by_session.keys())}
        series.append(Series(measure, tuple(ordered), values, left_out))
    return series


def _unfit(measure: Measure, run: RecordedRun, length: RecordedRun | None = None) -> str:
    """Return why a series of logarithms lacks a run; empty if it has it.

    Reasons are an unknown value, a value of 0 and one without an upper bound. Maxima require a length similar to that
    of the run `length`, if given.
    """
    value = measure.of(run)
    if value is None:
        return NO_FIGURE
    if not value:
        return NOTHING
    # A value without an upper bound would show a shift of the generator.
    if not isfinite(measure.figure(run).high):
        return NO_BOUND
    return OTHER_LENGTH if length and not measure.lasts_alike(run, length) else ""


__all__ = [
    "LEVEL_CHANGE",
    "SHORT_HISTORY",
    "ChangePoint",
    "Series",
    "change_points",
    "series_of",
    "series_of_run",
    "since_last_change",
    "without_copies",
]
