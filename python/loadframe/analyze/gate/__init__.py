"""Gate for new runs: comparison with a baseline or a history, and absolute bounds.

The joint check of a kind is the ratio of geometric means over all operations and treatments. A common change adds up in
this mean while independent noise averages out, so it detects changes that no single check does. It is estimated like
any other ratio, without weights from the data.

The ratio to a share of 0 is undefined, so the rise of errors is judged in percentage points.

A rise is significant only against two sources of chance. Runs differ in their shares: the difference of the mean shares
is tested like other differences between runs, with blocks and sessions. And failures are counts: given their total, the
failures of the new runs are binomial if nothing changed (the conditional test of Przyborowski and Wilenski,
"Homogeneity of results in testing samples from Poisson series", Biometrika 31, 1940). The larger of the two p values
counts. Both tests allow a share of 0.

The upper limit of the rise follows from the one-sided 95 % limits of both mean shares (Zou and Donner, "Construction of
confidence limits about effect measures", Statistics in Medicine 27, 2008).

Bounds on response times and throughput are judged by the interval of their geometric mean, shares of requests by the
one-sided 95 % limits of the mean share. A bound holds if the whole interval is within it, and is broken if the whole
interval is beyond it. A bound of 0, and a bound on the slowest response, concern the actual requests of the runs; these
are counted, without an interval.

The baseline of a history is the runs since its last change, since an accepted change must not count again.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from loadframe.analyze.compare import SESSION_SPREAD, Comparison, Contrast, Group, Measure, compare
from loadframe.analyze.compare.estimate_ratio import Observation, RatioEstimate, estimate_ratio
from loadframe.analyze.compare.groups import treatments_text
from loadframe.analyze.compare.measures import measures_of
from loadframe.analyze.compare.warnings import OTHER_SPEED, failed_and_excluded, faulty_runs
from loadframe.analyze.estimate import ONE_SIDED, geometric_mean, mean_share, proportion, requests_needed
from loadframe.analyze.exclusion import warned_document, warned_runs
from loadframe.analyze.experiment import RecordedRun, excluded
from loadframe.analyze.figures import Stretch
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.gate.checks import (
    BLIND,
    BLIND_BASELINE,
    CATCH,
    KINDS,
    LEAST,
    MOST_FAILED,
    SURVIVORS,
    WIDENED,
    Bound,
    Check,
    Question,
    Standing,
    Thresholds,
    against_baseline,
    failed_runs,
    one_sided_p,
    quantity,
    quantity_beside,
    runs_text,
    together,
    too_short,
    without_figure,
)
from loadframe.analyze.gate.power import Graph
from loadframe.analyze.history import since_last_change, without_copies
from loadframe.analyze.rates import RATES
from loadframe.analyze.sessions import block_of, sessions_of
from loadframe.base import special
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_limit, format_rare, share_beside

MISSING_TREATMENTS = Rule(
    "missing_treatments",
    "{label} lacks {count} of the baseline's treatments, so these are not checked",
    "measure all of them, or use a baseline with fewer",
)

_Unit = tuple[int, Hashable, Hashable]


def joint_estimate(
    contrasts: Sequence[Contrast], baseline: Group, new: Group, session_spread: float
) -> RatioEstimate | None:
    """Return the ratio, new by baseline, of the geometric mean over all these measures; None if a side lacks values.

    Each value counts relative to the mean of its contrast over both sides. The values of one unit are averaged: runs of
    one side and session, of different measures and treatments, that are of the same block, or else have the same number
    within their treatment and session. Values of 0 are left out. `session_spread` is the assumed relative standard
    deviation of sessions if each side has one.
    """
    everything = [(side, run) for side, group in enumerate((baseline, new)) for run in group.usable]
    numbers = sessions_of([run for _, run in everything], [side for side, _ in everything])
    sessions: Mapping[int, int | None] = {id(run): number for (_, run), number in zip(everything, numbers, strict=True)}
    logs: dict[_Unit, list[float]] = defaultdict(list)
    blocks: dict[_Unit, Hashable] = {}
    for contrast in contrasts:
        rows: list[tuple[_Unit, float]] = []
        for side, group in enumerate(contrast.sides):
            here = group.usable
            counts: dict[Hashable, int] = defaultdict(int)
            for run in here:
                session, block = sessions[id(run)], block_of(run)
                value = contrast.measure.of(run)
                place: Hashable = ("block", block) if block is not None else counts[session]
                counts[session] += 1
                if value is not None and value > 0:
                    unit: _Unit = (side, session, place)
                    blocks[unit] = block
                    rows.append((unit, math.log(value)))
        # Measures have different levels, so each contributes its deviation from its mean.
        level = fmean(value for _, value in rows)
        for unit, value in rows:
            logs[unit].append(value - level)
    observations = [
        Observation(math.exp(fmean(values)), unit[0], blocks[unit], unit[1]) for unit, values in logs.items()
    ]
    if {observation.group for observation in observations} != {0, 1}:
        return None
    # The bounds of the mean are at most the widest bounds of a measure.
    bounds = [contrast.bounds[1].ratio(contrast.bounds[0]) for contrast in contrasts]
    stretch = Stretch(min(it.low for it in bounds), max(it.high for it in bounds))
    joint = estimate_ratio(observations, 0, 1, session_spread=session_spread, robust=baseline.robust)
    return joint.widened(stretch)


def families(contrasts: Sequence[Contrast]) -> dict[str, list[int]]:
    """Return the indices of the contrasts of each kind of measure; kinds are in order of first appearance."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, contrast in enumerate(contrasts):
        members[contrast.measure.kind].append(place)
    return dict(members)


def errors_against_baseline(contrast: Contrast, question: Question, baseline: Group, new: Group) -> Check:
    """Return the check of the rise of a share of failed requests.

    It is a regression if it is significant and at least the least effect. It passes if it is below the least effect and
    its upper limit is below the effect to catch. Otherwise it is undecided.
    """
    rise = fmean(contrast.second) - fmean(contrast.first)
    shares = " and now ".join(format_rare(fmean(values)) for values in (contrast.first, contrast.second))
    why = f"{shares} of the requests failed, p = {question.p:.2g}"
    high = _greatest_rise(question.measure, baseline, new)
    if rise >= question.least:
        standing: Standing = "regression" if question.is_significant else "undecided"
        beyond = f"beyond {format_limit(question.least)}" if question.is_significant else "which may be chance"
        why += f": {share_beside(rise, question.least, 2)} more, {beyond}"
    elif math.isinf(high):
        standing, why = "undecided", f"{why}: a single run does not show the run-to-run variance; make more runs"
    elif high >= question.catch:
        known = [run for run in new.usable if question.measure.of(run) is not None]
        need = _errors_needed([question.measure.failures(run) for run in known], question.catch)
        caught = format_limit(question.catch)
        standing, why = (
            "undecided",
            f"{why}: up to {share_beside(high, question.catch, 2)} more are possible, beyond {caught}{need}",
        )
    else:
        standing = "passed"
    return Check(contrast.measure, contrast.treatment, standing, why, contrast=contrast, p=question.p)


def _greatest_rise(measure: Measure, baseline: Group, new: Group) -> float:
    """Return the one-sided upper 95 % limit of the rise of the share of failures; infinite for a single new run."""
    sides = ([run for run in group.usable if measure.of(run) is not None] for group in (baseline, new))
    before, now = (mean_share([measure.failures(run) for run in runs], sessions_of(runs), ONE_SIDED) for runs in sides)
    # The limit of a single earlier run is unbounded, but a share is at least 0.
    fall = before.value - max(before.low, 0.0)
    return now.value - before.value + math.hypot(now.high - now.value, fall)


def more_errors(measure: Measure, baseline: Group, new: Group) -> float:
    """Return the one-sided p of "the share of failed requests did not rise"; 1 if a side lacks requests."""
    groups = enumerate((baseline, new))
    runs = [(side, run) for side, group in groups for run in group.usable if measure.of(run) is not None]
    sessions = sessions_of([run for _, run in runs], [side for side, _ in runs])
    observations = []
    failed, due = [0, 0], [0, 0]
    for (side, run), session in zip(runs, sessions, strict=True):
        failures, requests = measure.failures(run)
        if requests:
            failed[side] += failures
            due[side] += requests
            # The model compares logarithms, so exp() makes it compare the shares themselves.
            observations.append(Observation(math.exp(failures / requests), side, block_of(run), session))
    if not all(due):
        return 1.0
    between_runs = one_sided_p(estimate_ratio(observations, 0, 1), measure)
    by_counting = float(special.betainc(failed[1], failed[0] + 1, due[1] / sum(due))) if failed[1] else 1.0
    return max(between_runs, by_counting)


@dataclass(frozen=True, eq=False)
class Gate:
    """Result of a gate: its checks and warnings, and the comparison behind it (None without a baseline)."""

    label: str
    checks: tuple[Check, ...]
    warnings: tuple[Finding, ...]
    comparison: Comparison | None
    #: Whether a required check is missing.
    incomplete: bool
    #: The new and earlier runs that figures exclude.
    left_out: tuple[RecordedRun, ...] = ()
    #: The warning about runs with shifted figures.
    warned: Finding | None = None
    #: What was checked, as texts: measures with their thresholds, bounds and watched operations.
    criteria: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All warnings, that about runs with shifted figures first."""
        return (*filter(None, [self.warned]), *self.warnings)

    @property
    def standing(self) -> Standing:
        """The worst of all checks; without a regression, undecided if there is no check or `incomplete` is set."""
        standings = {check.standing for check in self.checks}
        if "regression" in standings:
            return "regression"
        return "undecided" if self.incomplete or not self.checks or "undecided" in standings else "passed"

    def as_dict(self) -> dict[str, Any]:
        """Return standing, checks, warnings, excluded runs and comparison (null without a baseline) for JSON."""
        return {
            "standing": self.standing,
            "runs": self.label,
            "checks": [check.as_dict() for check in self.checks],
            "warnings": [warning.as_dict() for warning in self.warnings],
            **warned_document(self.warned),
            "excluded": excluded(self.left_out),
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
    across: bool = False,
    watch: Sequence[str] = (),
) -> Gate:
    """Return the result of a gate on new runs. With `history`, the baseline is a sequence that may contain changes.

    Without a baseline, only bounds and failures of the store are checked. `kinds` are the kinds of measures to compare.
    `session_spread` is the assumed spread of sessions if each side has one. `watch` names operations whose checks get
    most of the level. BadInput if a watched operation was not measured, if the baseline has no comparable run or
    treatment, or if two different treatments would be compared without `across`.
    """
    _require_measured(new, watch)
    criteria = _criteria(thresholds, kinds if baseline else (), watch)
    warnings: list[Finding] = [] if baseline else failed_and_excluded([new])
    checks = _bounds(new, thresholds.bounds)
    if baseline is None:
        warnings += faulty_runs([new])
        checks += [check for treatment in new.treatments for check in failed_runs(new.at(treatment), None, treatment)]
        return Gate(
            new.label, tuple(checks), tuple(warnings), None, False, new.left_out, warned_runs(new.runs), criteria
        )
    if history:
        baseline, copies = without_copies(baseline, new)
        # Shares of errors are almost always 0, so they lack a level that could shift.
        baseline, shifts = since_last_change(baseline, new, [kind for kind in kinds if kind != "errors"])
        warnings += [*copies, *shifts]
    if not across:
        _require_same_treatment(baseline, new)
    comparison = compare([baseline, new], kinds, level=thresholds.level, session_spread=session_spread, intended=across)
    pace = next((warning.figures["factor"] for warning in comparison.warnings if warning.rule == OTHER_SPEED), 1.0)
    checks += _against(comparison, thresholds, pace, session_spread, watch)
    for first, second, treatment in _pairs(baseline, new):
        failed = [*failed_runs(second, first, treatment), *without_figure(second, first, treatment, kinds)]
        checks += failed
        if second.usable:
            checks += _unknown(first, second, treatment, kinds, comparison, failed)
    for treatment in _added(baseline, new):
        checks += failed_runs(new.at(treatment), None, treatment)
    missing = _missing(baseline, new)
    if missing:
        warnings.append(MISSING_TREATMENTS(label=new.label, count=missing))
    warnings += comparison.warnings
    incomplete = bool(missing) or not comparison.contrasts
    left_out = (*new.left_out, *baseline.left_out)
    return Gate(
        new.label, tuple(checks), tuple(warnings), comparison, incomplete, left_out, comparison.warned, criteria
    )


def _criteria(thresholds: Thresholds, kinds: Sequence[str], watch: Sequence[str]) -> tuple[str, ...]:
    """Return the criteria of a gate as sorted texts; `kinds` are the measures that it compares with a baseline."""
    compared = {f"{kind}: {thresholds.least_of(kind):g} {thresholds.catch_of(kind):g}" for kind in kinds}
    bounds = {f"{bound.kind} within {bound.limit:g}" for bound in thresholds.bounds}
    return tuple(sorted({*compared, *bounds, *(f"watch {name}" for name in watch)}))


def _require_measured(new: Group, watch: Sequence[str]) -> None:
    """Raise BadInput for a watched operation that no usable new run has."""
    known = {name for run in new.usable if run.run for phase in run.run.summary.phases for name in phase.operations}
    for name in watch:
        if name not in known:
            raise BadInput(
                f"--watch {name}: no run of {new.label} measured this operation",
                remedy=f"name one of {', '.join(sorted(known)[:8])}" if known else "find out why runs were excluded",
            )


def _against(
    comparison: Comparison, thresholds: Thresholds, pace: float, session_spread: float, watch: Sequence[str]
) -> list[Check]:
    """Return the checks against the baseline: for each kind the joint check, then its members.

    Errors, and kinds with one member, have no joint check. It excludes measures with too few requests, unless all have
    too few. `pace` is the speed of the machine for the new runs relative to the baseline's. `session_spread` is the
    assumed relative standard deviation of sessions. Checks of the operations in `watch` get most of the level.
    """
    baseline, new = comparison.groups
    contrasts = comparison.contrasts

    def ask(measure: Measure, estimate: RatioEstimate, chosen: Sequence[Contrast]) -> Question:
        """Return the question of a check of one contrast or several jointly; `p` and `share` follow later."""
        counts = max(len(it.first) for it in chosen), max(len(it.second) for it in chosen)
        before, now = (next(filter(None, whys), "") for whys in zip(*map(_hides, chosen), strict=True))
        return Question(measure, estimate, thresholds, 1.0, 0.0, counts, pace, (before, now), chosen[0].few)

    # In the order of the graph's hypotheses: question, contrast (None: several jointly) and title, and p values.
    about: list[tuple[Question | None, Contrast | None, str]] = []
    ps: list[float] = []
    members, watched = [], []
    for kind, places in families(contrasts).items():
        members.append(len(places))
        chosen = [contrasts[place] for place in places]
        watched.append([index for index, contrast in enumerate(chosen) if contrast.measure.operation in watch])
        if len(chosen) > 1:
            enough = [contrast for contrast in chosen if not contrast.few]
            averaged = enough or chosen
            joint = joint_estimate(averaged, baseline, new, session_spread) if kind != "errors" else None
            what = (
                f"the {counted(len(enough), 'measure')} with enough requests"
                if 0 < len(enough) < len(chosen)
                else f"all {len(chosen)} measures together"
            )
            about.append((ask(Measure("all phases", kind), joint, averaged) if joint else None, None, what))
            ps.append(one_sided_p(joint, chosen[0].measure) if joint else 1.0)
        for candidate in chosen:
            about.append((ask(candidate.measure, candidate.estimate, [candidate]), candidate, ""))
            ps.append(
                more_errors(candidate.measure, *candidate.sides)
                if kind == "errors"
                else one_sided_p(candidate.estimate, candidate.measure)
            )
    graph = Graph(members, watched)
    checks = []
    for (asked, contrast, what), p, share in zip(about, graph.adjust(ps), graph.weights.tolist(), strict=True):
        if asked is None:
            continue
        question = replace(asked, p=p, share=share)
        if contrast is None:
            checks.append(together(question, what))
        elif question.measure.kind == "errors":
            checks.append(errors_against_baseline(contrast, question, *contrast.sides))
        else:
            checks.append(against_baseline(contrast, question))
    return checks


def _hides(contrast: Contrast) -> tuple[str, str]:
    """Return why the figures of the baseline, and of the new runs, look too good; empty texts if they do not."""
    kind = contrast.measure.kind
    sides = zip(contrast.failed, contrast.sides, strict=True)
    selected = [failed > MOST_FAILED * (failed + len(side.usable)) for failed, side in sides]
    blind = contrast.blind[0], contrast.measure.is_blind(contrast.sides[1].usable)
    before, now = (
        words if is_blind else SURVIVORS.format(side=side) if is_selected else too_short(side, kind, short)
        for is_blind, words, is_selected, side, short in zip(
            blind, (BLIND_BASELINE, BLIND), selected, ("the baseline", "the new runs"), contrast.short, strict=True
        )
    )
    return before, now


def _require_same_treatment(baseline: Group, new: Group) -> None:
    """Raise BadInput if the two groups have one treatment each and these differ."""
    if len(baseline.treatments) == len(new.treatments) == 1 and baseline.treatments != new.treatments:
        differing = treatments_text(baseline.treatments[0], new.treatments[0])
        raise BadInput(
            f"{baseline.label} and {new.label} were measured at different treatments ({differing})",
            remedy="name runs of one treatment, or use --across-treatments to judge this difference",
        )


def _pairs(baseline: Group, new: Group) -> list[tuple[Group, Group, Mapping[str, Any]]]:
    """Return the baseline's and the new runs at each common treatment, with the treatment.

    If each group has one treatment, it is one pair with an empty treatment.
    """
    if len(baseline.treatments) == len(new.treatments) == 1:
        return [(baseline, new, {})]
    return [
        (baseline.at(treatment), new.at(treatment), treatment)
        for treatment in baseline.treatments
        if treatment in new.treatments
    ]


def _added(baseline: Group, new: Group) -> list[Mapping[str, Any]]:
    """Return the treatments of the new runs that the baseline lacks; empty if each side has one treatment."""
    if len(baseline.treatments) == len(new.treatments) == 1:
        return []
    return [treatment for treatment in new.treatments if treatment not in baseline.treatments]


#: Why a measure has no contrast.
_UNRECORDED = "it is not recorded in both the baseline and the new runs"


def _unknown(
    first: Group,
    second: Group,
    treatment: Mapping[str, Any],
    kinds: Sequence[str],
    comparison: Comparison,
    judged: Sequence[Check],
) -> list[Check]:
    """Return an undecided check for each measure of these runs without another check.

    `first` and `second` are the baseline's and the new runs at one treatment; `judged` are checks made so far.
    """
    known = {contrast.measure for contrast in comparison.contrasts if contrast.treatment == treatment}
    known |= {check.measure for check in judged}
    measures = measures_of([*first.usable, *second.usable], kinds)
    return [Check(measure, treatment, "undecided", _UNRECORDED) for measure in measures if measure not in known]


def _missing(baseline: Group, new: Group) -> int:
    """Return the number of the baseline's treatments that the new runs lack; 0 if each side has one treatment."""
    return len(_added(new, baseline))


def _bounds(new: Group, bounds: Sequence[Bound]) -> list[Check]:
    """Return a check for each bound, treatment and measure of the new runs.

    A bound without any measure at a treatment has one undecided check.
    """
    checks = []
    for bound in bounds:
        for treatment in new.treatments:
            runs = new.at(treatment).usable
            measures = measures_of(runs, [bound.kind]) or (Measure("all phases", bound.kind),)
            checks += [_against_bound(measure, treatment, runs, bound) for measure in measures]
    return checks


#: Why the slowest request is undecided.
_DELAYED = "a part of it may be the load generator's"


def _against_bound(measure: Measure, treatment: Mapping[str, Any], runs: Sequence[RecordedRun], bound: Bound) -> Check:
    """Return the check of a bound, by the runs that measured it; undecided without such a run.

    Maxima, and shares of errors with a limit of 0, are judged by the worst run, other measures by the interval of the
    mean. A bound that holds is undecided if too many requests lack a response time, or if a run has too few for the
    percentile.
    """
    pairs = [(run, value) for run in runs if (value := measure.of(run)) is not None]
    if pairs:
        is_counted = measure.is_maximum or (bound.kind == "errors" and bound.limit == 0)
        judge = _judge_bound if is_counted else _estimated
        standing, figures, why = judge(measure, [run for run, _ in pairs], [value for _, value in pairs], bound)
        if standing == "passed" and measure.is_blind(runs):
            standing, why = "undecided", BLIND
        elif standing == "passed" and (few := measure.few_requests(runs)):
            standing, why = "undecided", str(few)
    else:
        standing, figures, why = "undecided", "no run has measured it", ""
    exact = format_limit(bound.limit) if bound.kind == "errors" else quantity(bound.limit, measure, more=6)
    limit = f"{'at least' if bound.kind in RATES else 'at most'} {exact}"
    return Check(measure, treatment, standing, f"{figures}, {limit}{why and f': {why}'}", bound=bound)


def _judge_bound(
    measure: Measure, runs: Sequence[RecordedRun], values: Sequence[float], bound: Bound
) -> tuple[Standing, str, str]:
    """Return the standing of a bound by the worst of these runs, the figures in words, and the reason.

    A missed bound is undecided if the lower bounds of all values are within it. The reason is empty unless the standing
    is undecided.
    """
    worst = "largest share" if measure.kind == "errors" else "slowest"
    figures = f"{worst} of {runs_text(values)} {quantity_beside(max(values), measure, bound)}"
    if not bound.holds(max(values)):
        least = max(figure.low for run in runs if (figure := measure.figure(run)).counts)
        return ("undecided", figures, _DELAYED) if bound.holds(least) else ("regression", figures, "")
    return "passed", figures, ""


def _estimated(
    measure: Measure, runs: Sequence[RecordedRun], values: Sequence[float], bound: Bound
) -> tuple[Standing, str, str]:
    """Return the standing of a bound by the interval of the mean over these runs, the figures and the reason.

    It is a regression if the whole interval misses the bound, or if a rate or time of a run is 0. It is undecided if
    one end does, or for a single run or session. The reason is empty unless the standing is undecided.
    """
    if measure.kind != "errors" and min(values) <= 0:
        # Only throughput can be 0, which breaks any sensible bound.
        return "regression", f"nothing succeeded in {sum(value <= 0 for value in values)} of {runs_text(values)}", ""
    sessions = sessions_of(runs)
    if measure.kind == "errors":
        mean = widest = mean_share([measure.failures(run) for run in runs], sessions, ONE_SIDED)
    else:
        mean = geometric_mean(values, sessions)
        widest = measure.stretch(runs).widened(mean)
    figures = f"mean of {runs_text(values)} {quantity(mean.value, measure)}"
    if not mean.is_finite:
        few = measure.few_requests(runs)
        more = f"make more runs; {few}" if few else "make more runs"
        return "undecided", figures, f"a single run does not show the run-to-run variance; {more}"
    figures += f" [{quantity_beside(widest.low, measure, bound)}, {quantity_beside(widest.high, measure, bound)}]"
    ends = {bound.holds(widest.low), bound.holds(widest.high)}
    if ends == {False}:
        return "regression", figures, ""
    if ends == {True, False}:
        if measure.kind == "errors":
            need = _errors_needed([measure.failures(run) for run in runs], bound.limit)
        elif bound.holds(mean.low) == bound.holds(mean.high):
            need = f"; {WIDENED}"
        else:
            need = f"; {measure.few_requests(runs) or 'make more runs'}"
        return "undecided", figures, f"the interval contains the bound{need}"
    return "passed", figures, ""


def _errors_needed(counts: Sequence[tuple[int, int]], limit: float) -> str:
    """Return a clause on how many requests would show that fewer than the share `limit` fail.

    If there were enough, it advises more or longer runs, by whether a run had few. Empty if that share or more failed,
    or without requests. `counts` has the failed and all requests of each run.
    """
    failed, due = (sum(column) for column in zip(*counts, strict=True))
    needed = requests_needed(failed / due, limit) if due else None
    if needed is None:
        return ""
    if proportion(failed, due, ONE_SIDED).high > limit:
        return f"; {due:,} requests were counted, and about {needed:,} are needed if as few fail"
    fewest = min(of for _, of in counts)
    if fewest * len(counts) < needed:
        return f"; a run had only {counted(fewest, 'request')}, and runs count alike: make longer runs"
    return "; the share differs between runs: make more runs"


__all__ = ["CATCH", "KINDS", "LEAST", "Bound", "Check", "Gate", "Standing", "Thresholds", "judge_gate"]
