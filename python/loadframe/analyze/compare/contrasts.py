"""Groups of runs compared with the first group: ratios, intervals and tests.

The run is the unit: a minute of requests is one observation, since its seconds are alike. Where runs were made in
blocks or in several sessions, the analysis follows that. Runs that say nothing of the store are left out by name. Runs
in which the store failed are worse than any figure: no conclusion contradicts that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, Literal

from loadframe.analyze.compare import doubts
from loadframe.analyze.compare.differences import Difference, differences
from loadframe.analyze.compare.estimate_ratio import Observation, RatioEstimate, estimate_ratio
from loadframe.analyze.compare.groups import Group, is_robust, treatments_text
from loadframe.analyze.compare.measures import USUAL, Measure, measures_of
from loadframe.analyze.estimate import Estimate, cliffs_delta, holm
from loadframe.analyze.exclusion import selected_in_groups
from loadframe.analyze.experiment import EXPERIMENT_FILE, RecordedExperiment, RecordedRun, excluded, read_experiment
from loadframe.analyze.finding import Finding
from loadframe.analyze.pace import pace
from loadframe.analyze.sessions import block_of, sessions_of, started
from loadframe.base.errors import BadInput


@dataclass(frozen=True)
class ContrastValues:
    """The values of both groups that enter their ratio, and the ratio; None where a side has no such value.

    `without_logarithm` counts the runs, by the group's label, that have the value 0 and cannot enter a ratio.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    estimate: RatioEstimate | None
    without_logarithm: tuple[tuple[str, int], ...]


def contrast_values(measure: Measure, first: Group, second: Group, session_spread: float) -> ContrastValues:
    """Return both groups' values in a measure, with their ratio.

    `session_spread` is by how much sessions are taken to differ where each group has one only.
    """
    runs = [(0, run) for run in first.usable] + [(1, run) for run in second.usable]
    sessions = sessions_of([run for _, run in runs], [side for side, _ in runs])
    values: tuple[list[float], list[float]] = ([], [])
    observations = []
    nothing = [0, 0]
    for (side, run), session in zip(runs, sessions, strict=True):
        value = measure.of(run)
        if value is None:
            continue
        positive = _share_above_0(measure, run) if measure.kind == "errors" else value
        if positive <= 0:
            nothing[side] += 1
            continue
        values[side].append(value)
        observations.append(Observation(positive, side, block_of(run), session))
    estimate = None
    if all(values):
        least = _counting_variance(measure, (first.usable, second.usable)) if measure.kind == "errors" else 0.0
        estimate = estimate_ratio(
            observations, 0, 1, session_spread=session_spread, least_variance=least, robust=first.robust
        )
        estimate = estimate.widened(measure.stretch(second.usable).ratio(measure.stretch(first.usable)))
    labels = (first.label, second.label)
    return ContrastValues(
        tuple(values[0]),
        tuple(values[1]),
        estimate,
        tuple((label, count) for label, count in zip(labels, nothing, strict=True) if count),
    )


def _share_above_0(measure: Measure, run: RecordedRun) -> float:
    """Return the share of failed requests with half a failure added, so that no failure at all has a logarithm."""
    failed, requests = measure.failures(run)
    return (failed + 0.5) / (requests + 1)


def _counting_variance(measure: Measure, sides: Iterable[Iterable[RecordedRun]]) -> float:
    """Return the variance that the ratio of two shares has for being counted: failures that came by chance."""
    return sum(1 / (sum(measure.failures(run)[0] for run in runs) + 0.5) for runs in sides)


#: Of p after Holm's adjustment.
LEVEL = 0.05
#: Relative differences below this are of no interest.
LEAST = 0.05
#: By how much two sessions are taken to differ when nothing was changed (a standard deviation, relative), where each
#: side has one session only, so that the runs cannot say it.
SESSION_SPREAD = 0.05

Outcome = Literal["better", "worse", "alike", "open"]


@dataclass(frozen=True)
class Contrast:
    """One measure of one group against the baseline's, at one treatment.

    `ratio` is the group's geometric mean over the baseline's, with the blocks and sessions of the runs accounted for,
    as `estimate` says; `p` is adjusted for all contrasts of the comparison. `better` and `worse` are significant
    differences of at least the least effect, `alike` has its whole interval below that, and `open` is what the data do
    not decide. `medians` and `delta` describe the runs as they are. `failed` are each side's runs in which the store
    failed, `blind` says which side's figures leave too many failed requests out.
    """

    measure: Measure
    treatment: Mapping[str, Any]
    baseline: str
    label: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    medians: tuple[float, float]
    estimate: RatioEstimate
    p: float
    delta: float
    outcome: Outcome
    failed: tuple[int, int] = (0, 0)
    blind: tuple[bool, bool] = (False, False)

    @property
    def of_survivors(self) -> tuple[bool, bool]:
        """Whether each side's figures are only those of runs or requests that did not fail."""
        return bool(self.failed[0]) or self.blind[0], bool(self.failed[1]) or self.blind[1]

    @property
    def ratio(self) -> Estimate:
        """The ratio with its 95 % interval."""
        return self.estimate.ratio

    @property
    def raw_p(self) -> float:
        """The p of this contrast alone."""
        return self.estimate.p

    def as_dict(self) -> dict[str, Any]:
        """Return the contrast for JSON."""
        return {
            **self.measure.as_dict(),
            "treatment": dict(self.treatment),
            "baseline": self.baseline,
            "group": self.label,
            "runs": [len(self.first), len(self.second)],
            "failed_runs": list(self.failed),
            "of_survivors": list(self.of_survivors),
            "medians": list(self.medians),
            "ratio": self.ratio.as_dict(),
            "design": self.estimate.design,
            "sessions": list(self.estimate.sessions),
            "degrees_of_freedom": self.estimate.freedom if isfinite(self.estimate.freedom) else None,
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
            "estimate": "robust" if self.groups[0].robust else "mean",
            "groups": [
                {"group": group.label, "runs": [run.id for run in group.usable],
                 "left_out": [run.id for run in group.left_out]}
                for group in self.groups
            ],
            "excluded": {group.label: excluded(group.left_out) for group in self.groups},
            "failed": {group.label: excluded(group.failed) for group in self.groups},
            "contrasts": [contrast.as_dict() for contrast in self.contrasts],
            "differences": {
                label: [
                    {"key": difference.key, "baseline": list(difference.first), "group": list(difference.second)}
                    for difference in differences
                ]
                for label, differences in self.differing.items()
            },
            "warnings": [warning.as_dict() for warning in self.warnings],
        }  # fmt: skip


def compare(
    groups: Sequence[Group],
    kinds: Sequence[str] = USUAL,
    *,
    least: float = LEAST,
    level: float = LEVEL,
    session_spread: float = SESSION_SPREAD,
    intended: bool = False,
) -> Comparison:
    """Compare each group with the first; BadInput if there is no other, or none that has a counterpart.

    Where the groups have one treatment each, these are compared whatever they are; else treatments that both have.
    `session_spread` is by how much two sessions are taken to differ where each group has one only. With `intended`,
    there is no warning that the load differs, since that is what is compared.
    """
    baseline, *others = groups
    if not others:
        raise BadInput("one group of runs has nothing to be compared with", remedy="name two or more")
    for group in others:
        if group.robust != baseline.robust:
            first, second = (baseline, group) if baseline.robust else (group, baseline)
            raise BadInput(
                f"the experiment of {first.label} has `estimate: robust`, that of {second.label} has not",
                remedy="compare experiments with the same estimate",
            )
    warnings = [
        *doubts.failed_and_left_out(groups),
        *selected_in_groups({group.label: (group.runs, group.usable) for group in groups}),
        *doubts.faulty_runs(groups),
    ]
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
            for measure in measures_of([*first.usable, *second.usable], kinds):
                values = contrast_values(measure, first, second, session_spread)
                warnings += [doubts.NothingDone(*case, measure) for case in values.without_logarithm]
                if values.estimate:
                    raw.append(_contrast(measure, first, second, treatment, values, values.estimate))
        if not intended and len(pairs) == 1 and baseline.treatments != group.treatments and not pairs[0][2]:
            treatments = treatments_text(baseline.treatments[0], group.treatments[0])
            warnings.append(doubts.OtherTreatment(baseline.label, group.label, treatments))
        differing[group.label] = differences(baseline.known, group.known)
        estimates = [contrast.estimate for contrast in raw if contrast.label == group.label]
        warnings += _conditions(baseline, group, differing[group.label], estimates, session_spread, intended)
    adjusted = holm([contrast.raw_p for contrast in raw])
    contrasts = tuple(
        replace(contrast, p=p, outcome=_outcome(contrast, p, least, level))
        for contrast, p in zip(raw, adjusted, strict=True)
    )
    return Comparison(tuple(groups), contrasts, differing, (*_few(contrasts), *dict.fromkeys(warnings)), least, level)


def _pairs(baseline: Group, group: Group, warnings: list[Finding]) -> list[tuple[Group, Group, Mapping[str, Any]]]:
    """Return pairs of groups to compare, with the treatment that both share (empty where it is the only one)."""
    if len(baseline.treatments) == len(group.treatments) == 1:
        return [(baseline, group, {})]
    common = [treatment for treatment in baseline.treatments if treatment in group.treatments]
    for side in (baseline, group):
        if common and len(side.treatments) > len(common):
            warnings.append(doubts.Unmatched(side.label, len(side.treatments) - len(common)))
    return [(baseline.at(treatment), group.at(treatment), treatment) for treatment in common]


def _contrast(
    measure: Measure,
    first: Group,
    second: Group,
    treatment: Mapping[str, Any],
    values: ContrastValues,
    estimate: RatioEstimate,
) -> Contrast:
    """Return the two groups' values against each other, not yet adjusted."""
    return Contrast(
        measure=measure,
        treatment=treatment,
        baseline=first.label,
        label=second.label,
        first=values.first,
        second=values.second,
        medians=(median(values.first), median(values.second)),
        estimate=estimate,
        p=estimate.p,
        delta=cliffs_delta(values.first, values.second),
        outcome="open",
        failed=(len(first.failed), len(second.failed)),
        blind=(measure.is_blind(first.usable), measure.is_blind(second.usable)),
    )


def _outcome(contrast: Contrast, p: float, least: float, level: float) -> Outcome:
    """Return the outcome of the figures, if it also holds when what failed is worse than any of them."""
    outcome = _of_figures(contrast, p, least, level)
    baseline, group = contrast.of_survivors
    if (group and outcome in ("better", "alike")) or (baseline and outcome in ("worse", "alike")):
        return "open"
    return outcome


def _of_figures(contrast: Contrast, p: float, least: float, level: float) -> Outcome:
    ratio = contrast.ratio
    if ratio.low > 1 - least and ratio.high < 1 + least:
        return "alike"
    if p >= level or abs(ratio.value - 1) < least:
        return "open"
    return "better" if (ratio.value > 1) == (contrast.measure.better == "higher") else "worse"


def _few(contrasts: Sequence[Contrast]) -> list[Finding]:
    """Return a warning for each pair of sizes that tells nothing of the noise."""
    unknown = [contrast for contrast in contrasts if not contrast.estimate.freedom]
    sizes = dict.fromkeys((len(contrast.first), len(contrast.second)) for contrast in unknown)
    return [doubts.TooFewRuns(n, m) for n, m in sizes]


def _conditions(
    baseline: Group,
    group: Group,
    differences: Sequence[Difference],
    estimates: Sequence[RatioEstimate],
    session_spread: float,
    intended: bool,
) -> list[Finding]:
    warnings: list[Finding] = []
    machine = tuple(difference for difference in differences if difference.of_machine)
    if machine:
        warnings.append(doubts.OtherMachine(baseline.label, group.label, machine))
    load = tuple(difference for difference in differences if difference.of_load)
    if load and not intended and baseline.treatments == group.treatments:
        warnings.append(doubts.OtherLoad(baseline.label, group.label, load))
    instants = [[started(run) for run in side.usable] for side in (baseline, group)]
    apart = any(not estimate.knows_sessions for estimate in estimates)
    if apart:
        warnings.append(doubts.OneSessionEach(baseline.label, group.label, session_spread))
    if not doubts.interleaved(*instants):
        if all(len(instant) > 1 for instant in instants) and not apart:
            warnings.append(doubts.NotInterleaved(baseline.label, group.label))
        factor = pace(baseline.usable, group.usable)
        if factor != 1:
            warnings.append(doubts.OtherPace(baseline.label, group.label, factor))
    return warnings


#: The entry of a treatment that names its variant.
_VARIANT = "variant"


def read_variants(argument: str) -> tuple[Group, ...]:
    """Return the variants of the folder of an experiment that compares some; none of anything else."""
    path = Path(argument)
    folder = read_experiment(path) if (path / EXPERIMENT_FILE).is_file() else None
    return split_by_variant(folder) if folder and "variants" in folder.description else ()


def split_by_variant(folder: RecordedExperiment) -> tuple[Group, ...]:
    """Return a group for each variant; what the variants set themselves is not part of the treatment."""
    description = folder.description
    at = [name for name in description["factors"] if all(name not in sets for sets in description["variants"].values())]
    return tuple(
        Group(
            label,
            tuple(
                replace(run, treatment={name: run.treatment[name] for name in at})
                for run in folder.counted
                if run.treatment.get(_VARIANT) == label
            ),
            robust=is_robust(folder),
        )
        for label in description["variants"]
    )


def compare_variants(folder: RecordedExperiment) -> Comparison:
    """Compare each variant with the first."""
    description = folder.description
    return compare(
        split_by_variant(folder),
        least=float(description.get("least") or LEAST),
        intended=True,
    )
