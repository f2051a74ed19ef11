"""Warnings about the runs of an answer: selection bias by excluded runs, and faults that shift runs alike.

The test for selection bias asks whether excluded runs differ from included ones in their levels or their throughput.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, excluded
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.verdict.rules import RULES
from loadframe.base.units import counted, short_names

#: Significance level of the adjusted p.
_LEVEL = 0.05


SELECTED_RUNS = Rule(
    "selected_runs",
    "exclusion correlates with the result: the {left_out} excluded of {total:counted run} {among} (p = {p:.2g})",
    "remove the reasons and repeat the experiment, or expect a bias",
)


def _warned_runs(total: int, warned: Mapping[str, int]) -> str:
    """Return the cause: what shifted the figures, and in how many runs.

    `total` is the number of valid runs. `warned` maps the code of a validity rule to its number of runs; not empty.
    """
    first, *others = (f"{RULES[code].shifts} in {count} {{}} ({code})" for code, count in warned.items())
    listed = [first.format(f"of {counted(total, 'run')}"), *(words.format("of them") for words in others)]
    affected = "all runs alike, which their intervals do not show"
    if max(warned.values()) < total:
        affected = "the figures of these runs"
    return f"{', '.join(listed)}: this can shift {affected}"


WARNED_RUNS = Rule(
    "warned_runs",
    _warned_runs,
    "look at {run}, for example: {advice}; then repeat these runs",
)


def warned_runs(runs: Iterable[RecordedRun]) -> Finding | None:
    """Return a warning that counts the valid runs by each rule that shifts figures, or None without such runs.

    Its remedy is that of the most frequent rule in the first such run.
    """
    valid = [run for run in runs if run.sound]
    known = (dict.fromkeys(reason.code for reason in run.reasons) for run in valid)
    counts = Counter(code for codes in known for code in codes if code in RULES and RULES[code].shifts)
    if not counts:
        return None
    most = counts.most_common(1)[0][0]
    run, advice = next((run.id, reason.remedy) for run in valid for reason in run.reasons if reason.code == most)
    return WARNED_RUNS(total=len(valid), warned=dict(counts.most_common()), run=run, advice=advice)


def warned_document(warned: Finding | None) -> dict[str, Any]:
    """Return the warning of `warned_runs` with its figures for JSON, under the key `warned_runs`; null for None."""
    counts = {name: warned.figures[name] for name in ("total", "warned")} if warned else {}
    return {"warned_runs": warned.as_dict() | counts if warned else None}


def selected_runs(folder: RecordedExperiment, used: Sequence[RecordedRun] | None = None) -> Finding | None:
    """Return a warning if exclusion correlates with a factor's level or with throughput (p below 0.05); otherwise None.

    `used` are the included runs, by default those of the folder.
    """
    factors = folder.description.get("factors", {})
    short = short_names(factors)
    levels = [_levels(folder.runs, name, short[name], factor) for name, factor in factors.items()]
    return _selection(folder.runs, folder.used if used is None else used, levels)


def selected_in_groups(groups: Mapping[str, tuple[Sequence[RecordedRun], Sequence[RecordedRun]]]) -> list[Finding]:
    """Return a list with a warning if exclusion correlates with a group, a level or throughput; else empty.

    `groups` maps each label to a pair: all runs, and the included ones. The limit of p is 0.05.
    """
    runs, used = ([run for pair in groups.values() for run in pair[index]] for index in (0, 1))
    levels: list[Mapping[str, Sequence[RecordedRun]]] = []
    if len(groups) > 1:
        levels.append({f"in {label}": members for label, (members, _) in groups.items()})
    for name, short in short_names(dict.fromkeys(name for run in runs for name in run.treatment)).items():
        known = {str(run.treatment.get(name)): run.treatment.get(name) for run in runs}
        levels.append(_levels(runs, name, short, list(known.values())))
    warning = _selection(runs, used, levels)
    return [warning] if warning else []


def excluded_document(folder: RecordedExperiment) -> dict[str, Any]:
    """Return for JSON the excluded runs with reasons, and the warnings of `selected_runs` and `warned_runs`."""
    selection = selected_runs(folder)
    return {
        "left_out": [run.id for run in folder.left_out],
        "excluded": excluded(folder.left_out),
        "selection": selection.as_dict() if selection else None,
        **warned_document(warned_runs(folder.runs)),
    }


def _levels(
    runs: Sequence[RecordedRun], name: str, short: str, levels: Sequence[Any]
) -> Mapping[str, Sequence[RecordedRun]]:
    """Return the runs at each level of a factor, by a text such as `at nodes 4`; empty if it has only one level.

    `short` is the factor's name in the text.
    """
    return {
        f"at {short} {level}": [run for run in runs if run.treatment.get(name) == level]
        for level in (levels if len(levels) > 1 else ())
    }


def _selection(
    runs: Sequence[RecordedRun],
    used_runs: Sequence[RecordedRun],
    factors: Sequence[Mapping[str, Sequence[RecordedRun]]],
) -> Finding | None:
    """Return a warning if exclusion correlates with a level or with throughput (p below 0.05), otherwise None.

    `used_runs` are the included runs; missing runs do not count. `factors` map each level's text to its runs. Fisher's
    exact test compares each level with the others. The Mann-Whitney test compares throughputs within partly excluded
    treatments. The smallest p is multiplied by the number of tests. None if no run or every run is excluded. The
    warning names the test with the smallest p.
    """
    existing = [run for run in runs if run.status != "missing"]
    used = {id(run) for run in used_runs}
    left_out = [run for run in existing if id(run) not in used]
    if not left_out or len(left_out) == len(existing):
        return None
    tests = [*_by_level(factors, existing, used), *_by_result(existing, used)]
    if not tests:
        return None
    p, among = min(tests)
    adjusted = min(p * len(tests), 1.0)
    return (
        SELECTED_RUNS(left_out=len(left_out), total=len(existing), among=among, p=adjusted)
        if adjusted < _LEVEL
        else None
    )


def _by_level(
    factors: Sequence[Mapping[str, Sequence[RecordedRun]]], existing: Sequence[RecordedRun], used: set[int]
) -> list[tuple[float, str]]:
    """Return p and text of the tests whether exclusion is more or less frequent at a level than at the others.

    `factors` map each level's text to its runs. `existing` are all runs except missing ones, `used` the `id()` of the
    included runs. A factor with two levels has one test, of the level with more frequent exclusion.
    """
    # Slow to import, and most experiments exclude no run.
    from scipy import stats

    tests = []
    for words, members, levels in ((*level, len(factor)) for factor in factors for level in factor.items()):
        inside = {id(run) for run in members}
        here = [run for run in existing if id(run) in inside]
        others = [run for run in existing if id(run) not in inside]
        counts = np.array([[sum((id(run) in used) == kept for run in side) for kept in (True, False)]
                           for side in (here, others)])  # fmt: skip
        more = counts[0, 1] * len(others) > counts[1, 1] * len(here)
        if levels == 2 and not more:
            continue  # the test of the other level is the same one
        tests.append((float(stats.fisher_exact(counts).pvalue), f"are {'more' if more else 'less'} frequent {words}"))
    return tests


def _by_result(existing: Sequence[RecordedRun], used: set[int]) -> list[tuple[float, str]]:
    """Return p and text of a test for each phase: whether excluded runs were slower or faster than included ones.

    `existing` are all runs except missing ones, `used` the `id()` of the included runs. Throughputs are relative to the
    median of their treatment. Only treatments with included and excluded runs count; a phase without any has no test.
    """
    from statistics import median

    from scipy import stats

    tests = []
    phases = dict.fromkeys(phase.name for run in existing if run.run for phase in run.run.summary.measured)
    for phase in phases:
        groups: dict[str, list[tuple[bool, float]]] = {}
        for run in existing:
            entry = run.phase(phase)
            if entry and entry.throughput > 0:
                groups.setdefault(str(sorted(run.treatment.items())), []).append((id(run) in used, entry.throughput))
        mixed = [group for group in groups.values() if len({counts for counts, _ in group}) == 2]
        relative: dict[bool, list[float]] = {True: [], False: []}
        for group in mixed:
            middle = median(value for _, value in group)
            for counts, value in group:
                relative[counts].append(value / middle)
        if mixed:
            p = float(stats.mannwhitneyu(relative[True], relative[False]).pvalue)
            slower = median(relative[False]) < median(relative[True])
            tests.append((p, f"were {'slower' if slower else 'faster'} in {phase} than others of their treatment"))
    return tests
