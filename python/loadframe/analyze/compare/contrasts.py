"""Groups of runs compared with the first group: ratios, intervals and tests.

The unit is the run: the seconds of a run are correlated, so it is one observation. The model accounts for blocks and
sessions. Runs without valid figures are excluded by name. A run in which the store failed ranks below any figure, so no
conclusion favours its group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, Literal

from loadframe.analyze.compare import warnings as rules
from loadframe.analyze.compare.block_model import trimmed_mean
from loadframe.analyze.compare.estimate_ratio import Observation, RatioEstimate, estimate_ratio
from loadframe.analyze.compare.groups import Difference, Group, differences, is_robust, treatments_text
from loadframe.analyze.compare.measures import USUAL, FewRequests, Measure, measures_of
from loadframe.analyze.estimate import Estimate, cliffs_delta, geometric_mean, holm, mean_share
from loadframe.analyze.exclusion import selected_in_groups, warned_document, warned_runs
from loadframe.analyze.experiment import EXPERIMENT_FILE, RecordedExperiment, RecordedRun, excluded, read_experiment
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.analyze.finding import Finding
from loadframe.analyze.sessions import block_of, sessions_of, speed_ratio, started
from loadframe.analyze.telemetry import fresh_nodes
from loadframe.base.errors import BadInput


@dataclass(frozen=True)
class ContrastValues:
    """Both groups' values in a measure, and their ratio; None if a group lacks a positive value.

    `means` has the mean of each group that has values: the arithmetic mean for shares of failures, else the mean by the
    method of the ratio. `bounds` are both groups' bounds by the load generator. `without_logarithm` counts, by group
    label, the runs excluded from the ratio because their value is 0.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    means: tuple[Estimate, ...]
    bounds: tuple[Stretch, Stretch]
    estimate: RatioEstimate | None
    without_logarithm: tuple[tuple[str, int], ...]


def contrast_values(measure: Measure, first: Group, second: Group, session_spread: float) -> ContrastValues:
    """Return the values of both groups' usable runs in a measure, with their means and their ratio.

    Unknown values are left out, and so are values of 0, except shares of errors. A side without any value has no mean,
    and the estimate of the ratio is then None. Means and ratio are trimmed if `first` is `robust`. `session_spread` is
    the assumed standard deviation of sessions (relative), used if each group has one session.
    """
    runs = [(0, run) for run in first.usable] + [(1, run) for run in second.usable]
    sessions = sessions_of([run for _, run in runs], [side for side, _ in runs])
    values: tuple[list[float], list[float]] = ([], [])
    of_sessions: tuple[list[int | None], list[int | None]] = ([], [])
    failures: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    observations = []
    zeros = [0, 0]
    for (side, run), session in zip(runs, sessions, strict=True):
        value = measure.of(run)
        if value is None:
            continue
        positive = _share_above_0(measure, run) if measure.kind == "errors" else value
        if positive <= 0:
            zeros[side] += 1
            continue
        values[side].append(value)
        of_sessions[side].append(session)
        failures[side].append(measure.failures(run))
        observations.append(Observation(positive, side, block_of(run), session))
    bounds = (measure.stretch(first.usable), measure.stretch(second.usable))
    estimate = None
    if all(values):
        least = _counting_variance(measure, (first.usable, second.usable)) if measure.kind == "errors" else 0.0
        estimate = estimate_ratio(
            observations, 0, 1, session_spread=session_spread, least_variance=least, robust=first.robust
        )
        estimate = estimate.widened(bounds[1].ratio(bounds[0]))
    labels = (first.label, second.label)
    return ContrastValues(
        tuple(values[0]),
        tuple(values[1]),
        tuple(
            bound.widened(
                # Shares can be 0, so geometric means fail.
                mean_share(failed, in_sessions)
                if measure.kind == "errors"
                else trimmed_mean(of_group)
                if first.robust
                else geometric_mean(of_group, in_sessions)
            )
            for bound, of_group, in_sessions, failed in zip(bounds, values, of_sessions, failures, strict=True)
            if of_group
        ),
        bounds,
        estimate,
        tuple((label, count) for label, count in zip(labels, zeros, strict=True) if count),
    )


def _share_above_0(measure: Measure, run: RecordedRun) -> float:
    """Return (failed + 0.5) / (requests + 1), a share whose logarithm exists without failures."""
    failed, requests = measure.failures(run)
    return (failed + 0.5) / (requests + 1)


def _counting_variance(measure: Measure, sides: Iterable[Iterable[RecordedRun]]) -> float:
    """Return the variance of the logarithm of the ratio of two failure shares that counting (Poisson) alone causes.

    `sides` are the runs of both groups, of which those with a known share count. The variance is the sum over both
    sides of 1 / (failures + 0.5).
    """
    known = ([run for run in runs if measure.of(run) is not None] for runs in sides)
    return sum(1 / (sum(measure.failures(run)[0] for run in runs) + 0.5) for runs in known)


#: Significance level for p after Holm's adjustment.
LEVEL = 0.05
#: Smallest relative difference of interest.
LEAST = 0.05
#: Assumed standard deviation between sessions without a change (relative). It is used if each side has one session, so
#: that the runs do not show it.
SESSION_SPREAD = 0.05

Outcome = Literal["better", "worse", "alike", "inconclusive"]


@dataclass(frozen=True)
class Contrast:
    """One measure of one group compared with the baseline, at one treatment.

    `ratio` is the group's geometric mean divided by the baseline's, adjusted for blocks and sessions. `p` is adjusted
    for all contrasts of the comparison. Outcomes: `better` and `worse` are significant differences of at least the
    least effect; `alike` has its whole interval within the least effect; `inconclusive` is all else. `means` (with 95 %
    intervals), `medians` and `delta` describe the unadjusted runs. `failed` counts each side's runs in which the store
    failed, `missing` those of them without a value. `blind` marks the sides whose figures miss too many failed
    requests, or runs with the value 0. `short` says which side's values are too small, and why; see `Measure.shorter`.
    `sides` are the compared runs.
    """

    measure: Measure
    treatment: Mapping[str, Any]
    baseline: str
    label: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    means: tuple[Estimate, Estimate]
    medians: tuple[float, float]
    estimate: RatioEstimate
    p: float
    delta: float
    outcome: Outcome
    failed: tuple[int, int] = (0, 0)
    missing: tuple[int, int] = (0, 0)
    blind: tuple[bool, bool] = (False, False)
    short: tuple[str, str] = ("", "")
    #: Bounds of both sides' values by the load generator.
    bounds: tuple[Stretch, Stretch] = (EXACT, EXACT)
    sides: tuple[Group, Group] = field(kw_only=True, repr=False, compare=False)

    @property
    def of_survivors(self) -> tuple[bool, bool]:
        """Whether, on each side (baseline, group), figures leave out failures.

        They do with failed runs without a value here, with too many requests without a response time, and with runs of
        value 0.
        """
        return bool(self.missing[0]) or self.blind[0], bool(self.missing[1]) or self.blind[1]

    @property
    def with_failures(self) -> tuple[bool, bool]:
        """Whether, on each side (baseline, group), a run failed or figures leave out failures (`of_survivors`)."""
        (baseline, group), (first, second) = self.of_survivors, self.failed
        return baseline or first > 0, group or second > 0

    @property
    def is_hidden(self) -> bool:
        """Whether failures prevent a claim: if sides of `with_failures` may be far worse, the interval includes 1."""
        ratio = self._opened(self.with_failures)
        return any(self.with_failures) and ratio.low < 1 < ratio.high

    @cached_property
    def few(self) -> FewRequests | None:
        """The number of requests in the run with the fewest of both sides, if too few for the percentile; else None."""
        return self.measure.few_requests(run for side in self.sides for run in side.usable)

    @property
    def ratio(self) -> Estimate:
        """The ratio with its 95 % interval, of which the end that failures of the store hide is open."""
        return self._opened(self.of_survivors)

    def _opened(self, sides: tuple[bool, bool]) -> Estimate:
        """Return the ratio with the ends open toward worse values of the marked sides (baseline, group)."""
        ratio, (baseline, group) = self.estimate.ratio, sides
        low, high = (group, baseline) if self.measure.better == "higher" else (baseline, group)
        return Estimate(ratio.value, 0.0 if low else ratio.low, inf if high else ratio.high)

    @property
    def raw_p(self) -> float:
        """The p of this contrast before adjustment."""
        return self.estimate.p

    def as_dict(self) -> dict[str, Any]:
        """Return measure, groups, means, ratio, p and outcome for JSON; in pairs, the baseline is first.

        Infinite degrees of freedom are null.
        """
        return {
            **self.measure.as_dict(),
            "treatment": dict(self.treatment),
            "baseline": self.baseline,
            "group": self.label,
            "runs": [len(self.first), len(self.second)],
            "failed_runs": list(self.failed),
            "failed_without_value": list(self.missing),
            "of_survivors": list(self.of_survivors),
            "short": list(self.short),
            "few_requests": self.few and vars(self.few),
            "means": [self.measure.interval(mean) for mean in self.means],
            "medians": list(self.medians),
            "ratio": self.measure.interval(self.ratio, of_ratio=True),
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
    #: For each group, the entries in which its manifests differ from the baseline's.
    differing: Mapping[str, tuple[Difference, ...]]
    warnings: tuple[Finding, ...]
    least: float
    level: float

    @property
    def warned(self) -> Finding | None:
        """The warning about runs with shifted figures, or None without any."""
        return warned_runs(run for group in self.groups for run in group.runs)

    def as_dict(self) -> dict[str, Any]:
        """Return groups with the names of their runs, contrasts, differences and warnings for JSON."""
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
            **warned_document(self.warned),
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
    """Return the comparison of each group with the first; BadInput without a second group or a common treatment.

    Groups with one treatment each are compared even if the treatments differ; others only at common treatments.
    `kinds` are names of measures. `least` is the smallest relative difference of interest, `level` the significance
    level for p after Holm's adjustment. `session_spread` is the assumed relative standard deviation of sessions if
    each group has one. `intended` suppresses the warnings about different loads and treatments. BadInput also if the
    groups' estimates differ.
    """
    baseline, *others = groups
    if not others:
        raise BadInput("one group of runs cannot be compared", remedy="name two or more")
    for group in others:
        if group.robust != baseline.robust:
            first, second = (baseline, group) if baseline.robust else (group, baseline)
            raise BadInput(
                f"the experiment of {first.label} has `estimate: robust`, but {second.label} has not",
                remedy="compare experiments with the same estimate",
            )
    usable = [run for group in groups for run in group.usable]
    warnings = [
        *rules.failed_and_excluded(groups),
        *selected_in_groups({group.label: (group.runs, group.usable) for group in groups}),
        *rules.faulty_runs(groups),
        *fresh_nodes(usable, list(dict.fromkeys(measure.phase for measure in measures_of(usable, kinds)))),
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
                sides = of_one_length(measure, first, second)
                warnings += [
                    rules.OTHER_LENGTH(label=side.label, count=count, other=second.label, phase=measure.phase)
                    for side, kept in zip((first, second), sides, strict=True)
                    if (count := len(side.usable) - len(kept.usable))
                ]
                values = contrast_values(measure, *sides, session_spread)
                warnings += [
                    rules.NOTHING_DONE(label=label, count=count, measure=measure)
                    for label, count in values.without_logarithm
                ]
                if values.estimate:
                    failed = first.failed, second.failed
                    raw.append(_contrast(measure, sides, treatment, values, values.estimate, failed))
        if not intended and len(pairs) == 1 and baseline.treatments != group.treatments and not pairs[0][2]:
            treatments = treatments_text(baseline.treatments[0], group.treatments[0])
            labels = {"first": baseline.label, "second": group.label}
            warnings.append(rules.OTHER_TREATMENT(**labels, difference=treatments))
        differing[group.label] = differences(baseline.known, group.known)
        estimates = [contrast.estimate for contrast in raw if contrast.label == group.label]
        warnings += _conditions(baseline, group, differing[group.label], estimates, session_spread, intended)
    # A difference that failures could explain is not claimed, so it must not lower the other p-values.
    adjusted = holm([1.0 if contrast.is_hidden else contrast.raw_p for contrast in raw])
    contrasts = tuple(
        replace(contrast, p=p, outcome=_outcome(contrast, p, least, level))
        for contrast, p in zip(raw, adjusted, strict=True)
    )
    return Comparison(tuple(groups), contrasts, differing, (*_few(contrasts), *dict.fromkeys(warnings)), least, level)


def _pairs(baseline: Group, group: Group, warnings: list[Finding]) -> list[tuple[Group, Group, Mapping[str, Any]]]:
    """Return pairs of groups at each common treatment, with the treatment; empty without a common one.

    If each group has only one treatment, it is one pair with the treatment {}, even if these differ. Adds a warning
    about treatments without a counterpart to `warnings`.
    """
    if len(baseline.treatments) == len(group.treatments) == 1:
        return [(baseline, group, {})]
    common = [treatment for treatment in baseline.treatments if treatment in group.treatments]
    for side in (baseline, group):
        if common and len(side.treatments) > len(common):
            warnings.append(rules.UNMATCHED(label=side.label, count=len(side.treatments) - len(common)))
    return [(baseline.at(treatment), group.at(treatment), treatment) for treatment in common]


def of_one_length(measure: Measure, first: Group, second: Group) -> tuple[Group, Group]:
    """Return both groups without valid runs that differ in length from the second group's typical run.

    Other runs stay. Only for maxima; other measures leave both groups as they are. A first group with no other valid
    runs stays whole: `Contrast.short` then says which side is too short.
    """
    typical = measure.typical(second.usable) if measure.is_maximum else None
    if typical is None:
        return first, second
    other = {id(run) for side in (first, second) for run in side.usable if not measure.lasts_alike(run, typical)}
    sides = [replace(side, runs=tuple(run for run in side.runs if id(run) not in other)) for side in (first, second)]
    return sides[0] if sides[0].usable else first, sides[1]


def _contrast(
    measure: Measure,
    sides: tuple[Group, Group],
    treatment: Mapping[str, Any],
    values: ContrastValues,
    estimate: RatioEstimate,
    failed: tuple[Sequence[RecordedRun], Sequence[RecordedRun]],
) -> Contrast:
    """Return the contrast of the two groups in `sides`, baseline first, with an unadjusted p, as inconclusive.

    `values` and `estimate` are from `contrast_values`, with a value on each side. `failed` are the failed runs of each
    side, also those that the measure excludes.
    """
    first, second = sides
    missing = [
        len([run for run in runs if run not in side.usable or measure.of(run) is None])
        for runs, side in zip(failed, sides, strict=True)
    ]
    zeros = [side.label in dict(values.without_logarithm) for side in (first, second)]
    return Contrast(
        measure=measure,
        treatment=treatment,
        baseline=first.label,
        label=second.label,
        first=values.first,
        second=values.second,
        means=(values.means[0], values.means[1]),
        medians=(median(values.first), median(values.second)),
        estimate=estimate,
        p=estimate.p,
        delta=cliffs_delta(values.first, values.second),
        outcome="inconclusive",
        failed=(len(failed[0]), len(failed[1])),
        missing=(missing[0], missing[1]),
        blind=(zeros[0] or measure.is_blind(first.usable), zeros[1] or measure.is_blind(second.usable)),
        short=measure.shorter(first.usable, second.usable),
        bounds=values.bounds,
        sides=sides,
    )


def _outcome(contrast: Contrast, p: float, least: float, level: float) -> Outcome:
    """Return the outcome, downgraded to inconclusive if failures or a shorter side could reverse it.

    A group that failed, is shorter or has too few requests for a percentile is neither better nor alike. Against a
    baseline that failed or is shorter, the outcome is neither worse nor alike. `p` is adjusted, `least` is the smallest
    relative difference of interest, and `level` the significance level.
    """
    outcome = _of_figures(contrast, p, least, level)
    baseline, group = (any(hidden) for hidden in zip(contrast.with_failures, contrast.short, strict=True))
    group = group or contrast.few is not None
    if (group and outcome in ("better", "alike")) or (baseline and outcome in ("worse", "alike")):
        return "inconclusive"
    return outcome


def _of_figures(contrast: Contrast, p: float, least: float, level: float) -> Outcome:
    """Return the outcome by the ratio's interval and p, regardless of failed runs.

    It is alike if the interval lies between 1 - `least` and 1 + `least`. It is better or worse if `p` (adjusted) is
    below `level` and the ratio differs from 1 by `least` or more; else inconclusive. Errors are also inconclusive if
    their means and the ratio point in different directions.
    """
    ratio = contrast.ratio
    if ratio.low > 1 - least and ratio.high < 1 + least:
        return "alike"
    if p >= level or abs(ratio.value - 1) < least:
        return "inconclusive"
    before, after = (mean.value for mean in contrast.means)
    if contrast.measure.kind == "errors" and (after > before) != (ratio.value > 1):
        return "inconclusive"
    return "better" if (ratio.value > 1) == (contrast.measure.better == "higher") else "worse"


def _few(contrasts: Sequence[Contrast]) -> list[Finding]:
    """Return a warning about contrasts without degrees of freedom, one for each pair of both sides' numbers of runs."""
    unknown = [contrast for contrast in contrasts if not contrast.estimate.freedom]
    sizes = dict.fromkeys((len(contrast.first), len(contrast.second)) for contrast in unknown)
    return [rules.TOO_FEW_RUNS(first=n, second=m) for n, m in sizes]


def _conditions(
    baseline: Group,
    group: Group,
    differences: Sequence[Difference],
    estimates: Sequence[RatioEstimate],
    session_spread: float,
    intended: bool,
) -> list[Finding]:
    """Return warnings if two groups differ in machine, load or speed, have one session each, or are not interleaved.

    A different load is reported only for equal treatments, and unless `intended`. A different speed is reported only if
    the runs are not interleaved. `differences` are those between the manifests, `estimates` the ratios of all measures.
    `session_spread`, the assumed standard deviation of sessions, is only named.
    """
    warnings: list[Finding] = []
    labels = {"first": baseline.label, "second": group.label}
    machine = tuple(difference for difference in differences if difference.of_machine)
    if machine:
        warnings.append(rules.OTHER_MACHINE(**labels, differences=machine))
    load = tuple(difference for difference in differences if difference.of_load)
    if load and not intended and baseline.treatments == group.treatments:
        warnings.append(rules.OTHER_LOAD(**labels, differences=load))
    instants = [[started(run) for run in side.usable] for side in (baseline, group)]
    one_session_each = any(not estimate.knows_sessions for estimate in estimates)
    if one_session_each:
        warnings.append(rules.ONE_SESSION_EACH(**labels, spread=session_spread))
    if not rules.interleaved(*instants):
        if all(len(instant) > 1 for instant in instants) and not one_session_each:
            warnings.append(rules.NOT_INTERLEAVED(**labels))
        factor = speed_ratio(baseline.usable, group.usable)
        if factor != 1:
            warnings.append(rules.OTHER_SPEED(**labels, factor=factor))
    return warnings


#: The entry of a treatment that names its variant.
_VARIANT = "variant"


def read_variants(argument: str) -> tuple[Group, ...]:
    """Return the variants of an experiment's folder as groups; empty for other folders and experiments.

    BadInput if the experiment is broken.
    """
    path = Path(argument)
    folder = read_experiment(path) if (path / EXPERIMENT_FILE).is_file() else None
    return split_by_variant(folder) if folder and "variants" in folder.description else ()


def split_by_variant(folder: RecordedExperiment) -> tuple[Group, ...]:
    """Return a group for each variant, in the order of the file; treatments omit the variant and what it sets.

    Earlier attempts that count as failures of the store are included.
    """
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
    """Return the comparison of each variant of an experiment with the first.

    The least effect is the experiment's, by default 5 %. BadInput without a second variant or a common treatment.
    """
    description = folder.description
    return compare(
        split_by_variant(folder),
        least=float(description.get("least") or LEAST),
        intended=True,
    )
