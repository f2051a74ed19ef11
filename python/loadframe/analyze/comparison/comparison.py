"""Groups of runs against the first of them: ratios of medians with intervals, tests, and what each comes to.

The run is the unit: a minute of requests is one observation, since its seconds are alike. Invalid runs are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

from loadframe.analyze.comparison import doubts
from loadframe.analyze.comparison.differences import Difference, differences
from loadframe.analyze.comparison.groups import Group, started
from loadframe.analyze.comparison.measures import USUAL, Measure, measures_of
from loadframe.analyze.comparison.ranks import cliffs_delta, holm, least_p, rank_test
from loadframe.analyze.comparison.ratio import ratio_of_medians
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.finding import Finding
from loadframe.analyze.pace import pace
from loadframe.errors import BadInput

#: Of p after Holm's adjustment.
LEVEL = 0.05
#: Relative differences below this are of no interest.
LEAST = 0.05

Outcome = Literal["better", "worse", "alike", "open"]


@dataclass(frozen=True)
class Contrast:
    """One measure of one group against the baseline's, at one treatment.

    `ratio` is the group's median over the baseline's; `p` is adjusted for all contrasts of the comparison. `better` and
    `worse` are significant differences of at least the least effect, `alike` has its whole interval below that, and
    `open` is what the data do not decide.
    """

    measure: Measure
    treatment: Mapping[str, Any]
    baseline: str
    label: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    medians: tuple[float, float]
    ratio: Estimate
    raw_p: float
    p: float
    delta: float
    outcome: Outcome

    def as_dict(self) -> dict[str, Any]:
        """Return the contrast for JSON."""
        return {
            **self.measure.as_dict(),
            "treatment": dict(self.treatment),
            "baseline": self.baseline,
            "group": self.label,
            "runs": [len(self.first), len(self.second)],
            "medians": list(self.medians),
            "ratio": self.ratio.as_dict(),
            "p": self.p,
            "p_unadjusted": self.raw_p,
            "cliffs_delta": self.delta,
            "outcome": self.outcome,
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two or more groups of runs; the first is the baseline."""

    groups: tuple[Group, ...]
    contrasts: tuple[Contrast, ...]
    #: In what each group's runs were made otherwise than the baseline's.
    differing: Mapping[str, tuple[Difference, ...]]
    warnings: tuple[Finding, ...]
    least: float
    level: float

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "least_effect": self.least,
            "level": self.level,
            "groups": [
                {"group": group.label, "runs": [run.id for run in group.usable],
                 "left_out": [run.id for run in group.left_out]}
                for group in self.groups
            ],
            "contrasts": [contrast.as_dict() for contrast in self.contrasts],
            "differences": {
                label: [{"key": each.key, "baseline": list(each.first), "group": list(each.second)} for each in found]
                for label, found in self.differing.items()
            },
            "warnings": [warning.as_dict() for warning in self.warnings],
        }  # fmt: skip


def compare(
    groups: Sequence[Group],
    kinds: Sequence[str] = USUAL,
    *,
    least: float = LEAST,
    level: float = LEVEL,
    seed: int = 0,
    intended: bool = False,
) -> Comparison:
    """Compare each group with the first; BadInput if there is no other, or none that has a counterpart.

    Where the groups have one treatment each, these are compared whatever they are; else treatments that both have. With
    `intended`, nobody is told that the load differs, since that is what is compared.
    """
    baseline, *others = groups
    if not others:
        raise BadInput("one group of runs has nothing to be compared with", remedy="name two or more")
    warnings: list[Finding] = []
    raw: list[Contrast] = []
    differing = {}
    for group in others:
        pairs = _pairs(baseline, group, warnings)
        if not pairs:
            raise BadInput(
                f"{baseline.label} and {group.label} have no treatment in common",
                remedy="compare runs of the same treatments, or two single treatments",
            )
        for first, second, treatment in pairs:
            measures = measures_of([*first.usable, *second.usable], kinds)
            found = (_contrast(measure, first, second, treatment, seed) for measure in measures)
            raw += [contrast for contrast in found if contrast]
        differing[group.label] = differences(baseline.usable, group.usable)
        warnings += _conditions(baseline, group, differing[group.label], intended)
    adjusted = holm([contrast.raw_p for contrast in raw])
    contrasts = tuple(
        replace(contrast, p=p, outcome=_outcome(contrast, p, least, level))
        for contrast, p in zip(raw, adjusted, strict=True)
    )
    return Comparison(
        tuple(groups), contrasts, differing, (*_few(contrasts, level), *dict.fromkeys(warnings)), least, level
    )


def _pairs(baseline: Group, group: Group, warnings: list[Finding]) -> list[tuple[Group, Group, Mapping[str, Any]]]:
    """Return what is held against what, with the treatment that both share (empty where it is the only one)."""
    if len(baseline.treatments) == len(group.treatments) == 1:
        return [(baseline, group, {})]
    common = [treatment for treatment in baseline.treatments if treatment in group.treatments]
    for each in (baseline, group):
        if common and len(each.treatments) > len(common):
            warnings.append(doubts.Unmatched(each.label, len(each.treatments) - len(common)))
    return [(baseline.at(treatment), group.at(treatment), treatment) for treatment in common]


def _contrast(
    measure: Measure, first: Group, second: Group, treatment: Mapping[str, Any], seed: int
) -> Contrast | None:
    """Return the two groups' values against each other, not yet adjusted; None where a side has no positive one."""
    one, other = ([value for run in group.usable if (value := measure.of(run))] for group in (first, second))
    if not one or not other:
        return None
    p = rank_test(one, other)
    return Contrast(
        measure=measure,
        treatment=treatment,
        baseline=first.label,
        label=second.label,
        first=tuple(one),
        second=tuple(other),
        medians=(median(one), median(other)),
        ratio=ratio_of_medians(one, other, seed=seed),
        raw_p=p,
        p=p,
        delta=cliffs_delta(one, other),
        outcome="open",
    )


def _outcome(contrast: Contrast, p: float, least: float, level: float) -> Outcome:
    ratio = contrast.ratio
    if ratio.low > 1 - least and ratio.high < 1 + least:
        return "alike"
    if p >= level or abs(ratio.value - 1) < least:
        return "open"
    return "better" if (ratio.value > 1) == (contrast.measure.better == "higher") else "worse"


def _few(contrasts: Sequence[Contrast], level: float) -> list[Finding]:
    """Return a warning for each pair of sizes that cannot reach the level."""
    sizes = dict.fromkeys((len(contrast.first), len(contrast.second)) for contrast in contrasts)
    tests = len(contrasts)
    return [doubts.TooFewRuns(n, m, tests, level) for n, m in sizes if least_p(n, m) * tests >= level]


def _conditions(baseline: Group, group: Group, found: Sequence[Difference], intended: bool) -> list[Finding]:
    warnings: list[Finding] = []
    machine = tuple(each for each in found if each.of_machine)
    if machine:
        warnings.append(doubts.OtherMachine(baseline.label, group.label, machine))
    load = tuple(each for each in found if each.of_load)
    if load and not intended and baseline.treatments == group.treatments:
        warnings.append(doubts.OtherLoad(baseline.label, group.label, load))
    instants = [[started(run) for run in each.usable] for each in (baseline, group)]
    if not doubts.interleaved(*instants):
        if all(len(each) > 1 for each in instants):
            warnings.append(doubts.NotInterleaved(baseline.label, group.label))
        factor = pace(baseline.usable, group.usable)
        if factor != 1:
            warnings.append(doubts.OtherPace(baseline.label, group.label, factor))
    return warnings
