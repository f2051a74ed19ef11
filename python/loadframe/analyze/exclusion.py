"""Test for selection bias: whether excluded runs differ from included ones in their levels or their throughput."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.finding import Finding

#: Significance level of the adjusted p.
_LEVEL = 0.05


@dataclass(frozen=True)
class SelectedRuns(Finding):
    """Exclusion correlates with a factor's level or with throughput."""

    left_out: int
    total: int
    among: str
    p: float

    def _cause(self) -> str:
        return (
            f"exclusion correlates with the result: the {self.left_out} excluded of {self.total} runs {self.among}"
            f" (p = {self.p:.2g})"
        )

    def _remedy(self) -> str:
        return "remove the reasons and repeat the experiment, or expect a bias"


def selected_runs(folder: RecordedExperiment) -> SelectedRuns | None:
    """Return a warning if exclusion correlates with a factor's level or with throughput; None otherwise.

    Fisher's exact test compares each level with the others. The test of Mann and Whitney compares throughputs within
    partly excluded treatments. The smallest p is multiplied by the number of tests.
    """
    made = [run for run in folder.runs if run.status != "missing"]
    used = {id(run) for run in folder.used}
    left_out = [run for run in made if id(run) not in used]
    if not left_out or len(left_out) == len(made):
        return None
    tests = [*_by_level(folder, made, used), *_by_result(folder, made, used)]
    if not tests:
        return None
    p, among = min(tests)
    adjusted = min(p * len(tests), 1.0)
    return SelectedRuns(len(left_out), len(made), among, adjusted) if adjusted < _LEVEL else None


def _by_level(folder: RecordedExperiment, made: Sequence[RecordedRun], used: set[int]) -> list[tuple[float, str]]:
    # It takes long to import, and most experiments leave nothing out.
    from scipy import stats

    tests = []
    for name, levels in folder.description["factors"].items():
        for level in levels if len(levels) > 1 else ():
            here = [run for run in made if run.treatment.get(name) == level]
            others = [run for run in made if run.treatment.get(name) != level]
            counts = np.array([[sum((id(run) in used) == kept for run in side) for kept in (True, False)]
                               for side in (here, others)])  # fmt: skip
            more = counts[0, 1] * len(others) > counts[1, 1] * len(here)
            words = f"are {'more' if more else 'less'} frequent at {name.rpartition('.')[2]} {level}"
            tests.append((float(stats.fisher_exact(counts).pvalue), words))
    return tests


def _by_result(folder: RecordedExperiment, made: Sequence[RecordedRun], used: set[int]) -> list[tuple[float, str]]:
    """Compare throughputs, each over the median of its treatment."""
    from statistics import median

    from scipy import stats

    tests = []
    for phase in folder.description["measure"]:
        groups: dict[str, list[tuple[bool, float]]] = {}
        for run in made:
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
