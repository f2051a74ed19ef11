"""New runs against earlier ones: regressions, what cannot be told, and since when the baseline has been as it is.

Of a history, only the runs since the last change count: what changed and was accepted is not to be compared with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadframe.analyze.comparison import LEVEL, SESSION_SPREAD, Comparison, Group, Measure, compare
from loadframe.analyze.comparison.doubts import NotInterleaved, OtherPace
from loadframe.analyze.comparison.measures import measures_of
from loadframe.analyze.finding import Finding
from loadframe.analyze.gate.checks import Bound, Check, Standing, against_baseline, against_bound
from loadframe.analyze.history import since_last_change

#: What is checked unless other measures are named.
KINDS = ("throughput", "p50", "p99")
#: The least change for the worse that matters, as a share of the baseline. Tails vary more from run to run.
LEAST: Mapping[str, float] = {"p90": 0.1, "p99": 0.1, "p99.9": 0.2, "max": 0.5}
#: The change for the worse that must not slip through: while it cannot be excluded, nothing passes.
CATCH: Mapping[str, float] = {"p90": 0.5, "p99": 0.5, "p99.9": 1.0, "max": 2.0}
_LEAST, _CATCH = 0.05, 0.2


@dataclass(frozen=True)
class Thresholds:
    """What matters: per kind of measure the least effect and the one to catch, as shares; absolute bounds."""

    least: Mapping[str, float] = field(default_factory=dict)
    catch: Mapping[str, float] = field(default_factory=dict)
    bounds: Sequence[Bound] = ()
    level: float = LEVEL

    def least_of(self, kind: str) -> float:
        """Return the least effect of a kind of measure."""
        return self.least.get(kind, LEAST.get(kind, _LEAST))

    def catch_of(self, kind: str) -> float:
        """Return the effect of a kind of measure that must not slip through; no less than its least effect."""
        return max(self.catch.get(kind, CATCH.get(kind, _CATCH)), self.least_of(kind))


@dataclass(frozen=True)
class InvalidRuns(Finding):
    """Runs that were left out."""

    label: str
    left_out: int
    total: int

    def _cause(self) -> str:
        return f"{self.left_out} of {self.total} runs of {self.label} are left out: invalid, failed or missing"

    def _remedy(self) -> str:
        return "`loadframe report` says why; mend that and measure again"


@dataclass(frozen=True)
class MissingTreatments(Finding):
    """Treatments of the baseline that the new runs lack."""

    label: str
    count: int

    def _cause(self) -> str:
        return f"{self.label} lacks {self.count} of the baseline's treatments, about which nothing can be told"

    def _remedy(self) -> str:
        return "measure all of them, or give a baseline of fewer"


@dataclass(frozen=True, eq=False)
class Gate:
    """What became of new runs: each check, what to doubt, and the comparison behind it (None without a baseline)."""

    label: str
    checks: tuple[Check, ...]
    warnings: tuple[Finding, ...]
    comparison: Comparison | None
    #: Whether something that had to be checked could not be, beside the checks that say so themselves.
    incomplete: bool

    @property
    def standing(self) -> Standing:
        """The worst of all checks; undecided if there is none."""
        standings = {check.standing for check in self.checks}
        if "regression" in standings:
            return "regression"
        return "undecided" if self.incomplete or not self.checks or "undecided" in standings else "passed"

    def as_dict(self) -> dict[str, Any]:
        """Return the gate for JSON."""
        return {
            "standing": self.standing,
            "runs": self.label,
            "checks": [check.as_dict() for check in self.checks],
            "warnings": [warning.as_dict() for warning in self.warnings],
            "comparison": self.comparison and self.comparison.as_dict(),
        }


def judge_gate(
    new: Group,
    baseline: Group | None,
    thresholds: Thresholds,
    *,
    kinds: Sequence[str] = KINDS,
    history: bool = False,
    session_spread: float = SESSION_SPREAD,
) -> Gate:
    """Judge new runs. With `history`, the baseline's runs are one after another, and may have changed in between.

    `session_spread` is by how much two sessions are taken to differ where each side has one only.
    """
    warnings: list[Finding] = [
        InvalidRuns(group.label, len(group.left_out), len(group.runs))
        for group in (new, baseline)
        if group and group.left_out
    ]
    checks = _bounds(new, thresholds.bounds)
    incomplete = False
    comparison = None
    if baseline is not None:
        if history:
            baseline, shifts = since_last_change(baseline, kinds)
            warnings += shifts
        comparison = compare([baseline, new], kinds, level=thresholds.level, session_spread=session_spread)
        missing = _missing(baseline, new)
        if missing:
            warnings.append(MissingTreatments(new.label, missing))
        factor = next((each.factor for each in comparison.warnings if isinstance(each, OtherPace)), 1.0)
        reachable = [contrast.estimate.freedom > 0 for contrast in comparison.contrasts]
        checks += [
            against_baseline(
                contrast,
                least=thresholds.least_of(contrast.measure.kind),
                catch=thresholds.catch_of(contrast.measure.kind),
                reachable=can,
                pace=factor,
                level=thresholds.level,
            )
            for contrast, can in zip(comparison.contrasts, reachable, strict=True)
        ]
        incomplete = bool(missing) or not comparison.contrasts
        # Earlier runs are earlier: that order is what a gate is about.
        warnings += [each for each in comparison.warnings if not isinstance(each, NotInterleaved)]
    return Gate(new.label, tuple(checks), tuple(warnings), comparison, incomplete)


def _missing(baseline: Group, new: Group) -> int:
    if len(baseline.treatments) == len(new.treatments) == 1:
        return 0
    return sum(treatment not in new.treatments for treatment in baseline.treatments)


def _bounds(new: Group, bounds: Sequence[Bound]) -> list[Check]:
    checks = []
    for bound in bounds:
        for treatment in new.treatments:
            runs = new.at(treatment).usable
            measures = measures_of(runs, [bound.kind]) or (Measure("all phases", bound.kind),)
            for measure in measures:
                values = [value for run in runs if (value := measure.of(run)) is not None]
                checks.append(against_bound(measure, treatment, values, bound))
    return checks
