"""Checks of a gate: one measure against earlier runs, and failures of the store.

Runs that are missing because of the generator or an unknown cause do not count. Runs in which the store failed, and
runs without any success, are results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite, log
from typing import Any, Literal

from loadframe.analyze.compare import LEVEL, Contrast, Group, Measure
from loadframe.analyze.compare.estimate_ratio import RESOLUTION, RatioEstimate
from loadframe.analyze.compare.measures import FewRequests, measures_of
from loadframe.analyze.compare.warnings import runs_by_reason
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.failures import chance_of_more
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.analyze.gate.power import detectable, runs_needed
from loadframe.analyze.rates import RATES
from loadframe.base import special
from loadframe.base.units import (
    counted,
    format_change,
    format_count,
    format_duration,
    format_limit,
    format_share,
    share_beside,
    written_apart,
)

#: Measures that are checked by default.
KINDS = ("throughput", "p50", "p99", "errors")
#: Least effect: the smallest worsening that matters, as a share of the baseline. Tails vary more between runs. For
#: errors it is a share of the requests: 0.001 more of them failed than before.
LEAST: Mapping[str, float] = {"p90": 0.1, "p99": 0.1, "p99.9": 0.2, "max": 0.5, "errors": 0.001}
#: Effect to catch: a check passes only if it excludes this worsening.
CATCH: Mapping[str, float] = {"p90": 0.5, "p99": 0.5, "p99.9": 1.0, "max": 2.0, "errors": 0.01}
_LEAST, _CATCH = 0.05, 0.2
#: Maximum number of runs of each side that a check recommends.
_MOST_RUNS = 50


@dataclass(frozen=True)
class Bound:
    """Limit of a measure (1/s, s or a share of requests): a lower limit if more is better, else an upper limit."""

    kind: str
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a value (1/s, s or a share) is within the bound; the limit itself is."""
        return value >= self.limit if self.kind in RATES else value <= self.limit


@dataclass(frozen=True)
class Thresholds:
    """Thresholds by kind of measure (least effect and effect to catch, as shares), and absolute bounds.

    `level` is the chance of a false alarm over all comparisons with the baseline together.
    """

    least: Mapping[str, float] = field(default_factory=dict)
    catch: Mapping[str, float] = field(default_factory=dict)
    bounds: Sequence[Bound] = ()
    level: float = LEVEL

    def least_of(self, kind: str) -> float:
        """Return the smallest worsening of a kind of measure that matters, as a share: the given one or the default."""
        return self.least.get(kind, LEAST.get(_plain(kind), _LEAST))

    def catch_of(self, kind: str) -> float:
        """Return the worsening of a kind of measure that a passed check excludes, as a share; at least `least_of`.

        It is the given one or the default. A default that does not exceed `least_of` is raised to twice that, for rates
        at most halfway to 100 %, for errors only to `least_of`.
        """
        plain, least = _plain(kind), self.least_of(kind)
        share = self.catch.get(kind, CATCH.get(plain, _CATCH))
        if kind in self.catch or share > least or plain == "errors":
            return max(share, least)
        return min(2 * least, (1 + least) / 2) if plain in RATES else 2 * least


def _plain(kind: str) -> str:
    """Return the kind without `all-`, since thresholds are equal for all requests and for successes."""
    return kind.removeprefix("all-")


#: Regression is worse than undecided, which is worse than passed.
Standing = Literal["passed", "regression", "undecided"]


@dataclass(frozen=True)
class Check:
    """Result for one measure; `why` states the decisive figures in words.

    `finds` is the smallest worsening that a check with this number of runs and the observed noise finds in four of five
    cases; None if that is undefined or there is none.
    """

    measure: Measure
    treatment: Mapping[str, Any]
    standing: Standing
    why: str
    contrast: Contrast | None = None
    bound: Bound | None = None
    #: Name of the check, if it differs from the measure's.
    title: str | None = None
    p: float | None = None
    finds: float | None = None

    @property
    def words(self) -> str:
        """The subject of the check, for people: its title, or else its measure's name."""
        return self.title or self.measure.name

    @property
    def name(self) -> str:
        """The check's name in files for pipelines: its subject and `bound` or `against baseline`."""
        return f"{self.words} {'bound' if self.bound else 'against baseline'}"

    def as_dict(self) -> dict[str, Any]:
        """Return measure, treatment, standing, reason, p, contrast and bound for JSON; missing parts are null."""
        return {
            **self.measure.as_dict(),
            "title": self.title,
            "treatment": dict(self.treatment),
            "standing": self.standing,
            "why": self.why,
            "p": self.p,
            "finds": self.finds,
            "contrast": self.contrast and self.contrast.as_dict(),
            "bound": self.bound and self.bound.limit,
        }


@dataclass(frozen=True)
class Question:
    """Input of a check against the baseline: the estimate of a measure, the thresholds, and p.

    `p` is adjusted for all checks. `share` is the check's share of the level before any check has rejected. `pace` is
    the speed of the machine for the new runs relative to the baseline's. `runs` counts the earlier and the new runs.
    `hides` says why the figures of the baseline, and of the new runs, are too good; empty if they are not. `few` says
    that a run has too few requests for the percentile; None if all have enough.
    """

    measure: Measure
    estimate: RatioEstimate
    thresholds: Thresholds
    p: float
    share: float
    runs: tuple[int, int]
    pace: float = 1.0
    hides: tuple[str, str] = ("", "")
    few: FewRequests | None = None

    @property
    def least(self) -> float:
        """The smallest effect that matters, as a share of the baseline, and for errors as a share of the requests."""
        return self.thresholds.least_of(self.measure.kind)

    @property
    def catch(self) -> float:
        """The worsening that a passed check must exclude, as a share of the baseline; for errors, of the requests."""
        return self.thresholds.catch_of(self.measure.kind)

    def worse_by(self, pace: float = 1.0) -> tuple[float, float, float]:
        """Return the worsening as a share of the baseline, with the ends of its interval; negative is better.

        `pace` removes the effect of a machine that became `pace` times as fast.
        """
        ratio = self.estimate.ratio
        if self.measure.better == "higher":
            return 1 - ratio.value / pace, 1 - ratio.high / pace, 1 - ratio.low / pace
        return ratio.value * pace - 1, ratio.low * pace - 1, ratio.high * pace - 1

    def least_worse(self, pace: float = 1.0) -> float:
        """Return the smallest worsening that the bounds of the figures allow, as a share of the baseline.

        Negative is better. `pace` removes the effect of a machine that became `pace` times as fast.
        """
        ratio, bounds = self.estimate.ratio.value, self.estimate.bounds
        if self.measure.better == "higher":
            return 1 - ratio * bounds.high / pace
        return ratio * bounds.low * pace - 1

    @property
    def without_bounds(self) -> float:
        """The largest worsening in the interval, as a share (positive is worse), without the widening by the generator.

        Minus infinity if the generator left the figures open in that direction.
        """
        bounds, (_, _, high) = self.estimate.bounds, self.worse_by()
        if self.measure.better == "higher":
            return 1 - (1 - high) / bounds.low if bounds.low > 0 else -inf
        return (1 + high) / bounds.high - 1

    @property
    def is_significant(self) -> bool:
        """Whether the worsening is significant: its adjusted p is below the level of all checks together."""
        return self.p < self.thresholds.level

    @property
    def open_ends(self) -> tuple[bool, bool]:
        """Whether the bounds of the figures allow an improvement of any size, then whether a worsening of any size."""
        bounds = self.estimate.bounds
        low, high = bounds.low <= 0, not isfinite(bounds.high)
        return (high, low) if self.measure.better == "higher" else (low, high)

    @property
    def is_open(self) -> bool:
        """Whether the bounds of the figures allow a worsening of any size."""
        return self.open_ends[1]

    @property
    def level(self) -> float:
        """The level of the check before any check has rejected, divided by the caution of its estimate."""
        return self.thresholds.level * self.share / self.estimate.caution

    @cached_property
    def finds(self) -> float | None:
        """The smallest worsening that is found in four of five cases, with these runs, this noise and these bounds.

        It is a share of the baseline. None if there is none, or if a bound of the figures is open.
        """
        estimate, higher = self.estimate, self.measure.better == "higher"
        smallest = detectable(
            estimate.standard_error, estimate.freedom, self.level, self.least, higher_is_better=higher
        )
        if not isfinite(smallest) or estimate.bounds.low <= 0 or not isfinite(estimate.bounds.high):
            return None
        return 1 - (1 - smallest) / estimate.bounds.high if higher else (1 + smallest) / estimate.bounds.low - 1

    def needs(self, least: float, bounds: Stretch = EXACT) -> int | None:
        """Return the runs of each side that find the effect to catch in four of five cases, or None above `_MOST_RUNS`.

        `least` is the smallest effect that stops the gate. `bounds` of the figures hide a part of the effect. Counts
        sessions if each has runs of one side only.
        """
        estimate, higher = self.estimate, self.measure.better == "higher"
        shown = 1 - (1 - self.catch) * bounds.high if higher else (1 + self.catch) * bounds.low - 1
        return runs_needed(
            max(shown, 0.0),
            estimate.standard_error,
            estimate.freedom,
            self.level,
            least,
            estimate.sessions if estimate.design == "sessions" else self.runs,
            most=_MOST_RUNS,
            higher_is_better=higher,
        )


def one_sided_p(estimate: RatioEstimate, measure: Measure) -> float:
    """Return the p of "not worse": small only if the group is worse, in the measure's direction.

    It is the p of the best ratio within the bounds of the values. 1 without degrees of freedom; with a standard error
    of 0, it is 0 if the ratio is worse, else 1.
    """
    if measure.better == "higher":
        worsening = -estimate.log_ratio - log(estimate.bounds.high)
    else:
        worsening = estimate.log_ratio + (log(estimate.bounds.low) if estimate.bounds.low > 0 else -inf)
    if not estimate.freedom:
        return 1.0
    if not estimate.standard_error:
        return float(worsening <= RESOLUTION)
    tail = float(special.stdtr(estimate.freedom, -worsening / estimate.standard_error))
    return min(1.0, tail * estimate.caution)


def against_baseline(contrast: Contrast, question: Question) -> Check:
    """Return the check of a contrast.

    It is a regression if it is significantly worse by at least the least effect. It passes if its interval excludes a
    worsening of the effect to catch, unless a run has too few requests. It is undecided if the machine's pace or the
    figures' bounds can explain or hide the change, or if `hides` of the question says that a side's figures are too
    good.
    """
    value, _, high = question.worse_by()
    # Throughput and response times follow the machine's pace fully at most.
    _, _, paced_high = question.worse_by(question.pace)
    span = _span(question)
    standing: Standing = "passed"
    why = f"{span}{_finds(question)}"
    if question.is_significant and value >= question.least:
        standing, why = "regression", f"{span}: beyond {format_limit(question.least)}"
        if question.least_worse() < question.least:
            standing, why = "undecided", f"{span}: {_WITHIN_BOUNDS}"
        elif question.least_worse(question.pace) < question.least:
            standing, why = "undecided", f"{span}: the machine became slower by as much"
        elif question.hides[0]:
            standing, why = "undecided", f"{span}: {question.hides[0]}"
    elif not contrast.estimate.freedom:
        first, second = len(contrast.first), len(contrast.second)
        some = f"{counted(first, 'run')} against {second}"
        standing, why = (
            "undecided",
            f"{_worse(value, question.least)}: {some} do not show the run-to-run variance; make five runs of each",
        )
    elif question.is_open:
        standing, why = "undecided", f"{_worse(value, question.least)}: {_OPEN}"
    elif high >= question.catch:
        excluded = format_limit(question.catch)
        standing, why = "undecided", f"{span}: the interval does not exclude {excluded}{_bounds_or_finds(question)}"
    elif paced_high >= question.catch:
        hidden = format_limit(question.catch)
        standing, why = "undecided", f"{span}: the machine became faster, which may hide {hidden}"
    elif question.hides[1]:
        standing, why = "undecided", f"{span}: {question.hides[1]}"
    elif question.few:
        standing, why = "undecided", span
    if standing == "undecided" and question.few:
        why += f"; {question.few}"
    return Check(
        contrast.measure, contrast.treatment, standing, why, contrast=contrast, p=question.p, finds=question.finds
    )


_WITHIN_BOUNDS = "the load generator's error bounds allow a smaller change; measure again on an idle machine"
#: Stands for an end of an interval that the bounds of the figures leave open.
UNKNOWN = "unknown"
_OPEN = "the load generator limited the runs, so the true change is unknown; measure again on an idle machine"
WIDENED = (
    "only because delays of the load generator widen it; give the load generator its own cores or machine, more runs do"
    " not help"
)
#: Why a percentile of the successes is undecided.
BLIND = (
    "too many requests failed, were dropped or stayed unanswered for the successes to show it; check errors, or"
    " response times of all requests (all-p99)"
)
#: Why figures of a baseline that exclude failed requests, or runs without any success, show no worsening.
BLIND_BASELINE = (
    "too many requests of the baseline failed, were dropped or stayed unanswered, so its figures are too good; use a"
    " baseline without them"
)
#: The same if whole runs failed, for the runs of a side.
SURVIVORS = "the store failed in runs of {side}, so the figures of the others are too good; find out why it failed"
#: Share of failed runs from which the others are a selection. If a twentieth fails, even the slowest, the mean of the
#: others shifts by a ninth of the standard deviation between runs, which is less than the usual least effect.
MOST_FAILED = 0.05


def too_short(side: str, kind: str, short: str) -> str:
    """Return why the value of a side is too small; empty if `short` is. See `Measure.shorter`.

    `side` begins the text, such as `the baseline`; `kind` is of the measure; `short` says what the side had less of.
    """
    words = f"{side} had {short}, so its {kind} may be too small; measure both for the same time at the same rate"
    return words if short else ""


def together(question: Question, members: str) -> Check:
    """Return the joint check: whether the mean over several measures of a kind got worse.

    It is a regression if it is significantly worse by at least the least effect. It passes if its interval excludes the
    effect to catch, unless a run has too few requests. It is undecided if the machine's pace or the figures' bounds can
    explain the change, or if `hides` of the question says that a side's figures are too good. `members` names the
    measures in the title, such as `all 3 measures together`.
    """
    span, worse = _span(question), _worse(question.worse_by()[0], question.least)
    stops = question.is_significant and question.worse_by()[0] >= question.least
    standing: Standing = "regression" if stops else "passed"
    if stops and question.least_worse() < question.least:
        standing, why = "undecided", f"{span}: {_WITHIN_BOUNDS}"
    elif stops and question.least_worse(question.pace) < question.least:
        standing, why = "undecided", f"{span}: the machine became slower by as much"
    elif stops and question.hides[0]:
        standing, why = "undecided", f"{span}: {question.hides[0]}"
    elif not question.estimate.freedom:
        standing = "undecided"
        why = f"{worse}: the runs do not show the run-to-run variance; make five of each side"
    elif question.is_open and not stops:
        standing, why = "undecided", f"{worse}: {_OPEN}"
    elif question.worse_by()[2] >= question.catch and not stops:
        excluded = format_limit(question.catch)
        standing, why = "undecided", f"{span}: the interval does not exclude {excluded}{_bounds_or_finds(question)}"
    elif question.hides[1] and not stops:
        standing, why = "undecided", f"{span}: {question.hides[1]}"
    elif question.few and not stops:
        standing, why = "undecided", span
    else:
        why = f"{span}: beyond {format_limit(question.least)}" if stops else f"{span}{_finds(question)}"
    if standing == "undecided" and question.few:
        why += f"; {question.few}"
    title = f"{question.measure.kind} of {members}"
    return Check(question.measure, {}, standing, why, title=title, p=question.p, finds=question.finds)


def quantity(value: float, measure: Measure, more: int = 0) -> str:
    """Return a value of a measure in words, with its unit and `more` digits than usual."""
    if measure.kind == "errors":
        return format_share(value, 2 + more)
    return f"{format_count(value, 3 + more)}/s" if measure.kind in RATES else format_duration(value, 3 + more)


def quantity_beside(value: float, measure: Measure, bound: Bound) -> str:
    """Return a value in words, with enough digits to differ from a bound; `unknown` if it is 0 or infinite.

    Shares of errors are never unknown.
    """
    if measure.kind != "errors" and not 0 < value < inf:
        return UNKNOWN
    return written_apart(value, bound.limit, lambda number, more: quantity(number, measure, more))


def runs_text(values: Sequence[float]) -> str:
    """Return the number of values in words, as a number of runs: `3 runs`."""
    return counted(len(values), "run")


def _span(question: Question) -> str:
    """Return the worsening in words with its interval and p; ends that the figures' bounds leave open are `unknown`."""
    value, low, high = question.worse_by()
    unknown_low, unknown_high = question.open_ends
    least = UNKNOWN if unknown_low else written_apart(low, 0, format_change)
    nearer = min(0.0, question.catch, key=lambda limit: abs(high - limit))
    most = UNKNOWN if unknown_high else written_apart(high, nearer, format_change)
    return f"{_worse(value, question.least)} [{least}, {most}], p = {question.p:.2g}"


def _worse(value: float, least: float) -> str:
    """Return a worsening, a share of one, in words: `4.2 % worse`, or `4.2 % better` for -0.042; 0 is better.

    The digits distinguish its size from `least`, the least effect, also a share.
    """
    size = share_beside(abs(value), least, 1)
    return f"{size} {'worse' if value > 0 else 'better'}"


def _bounds_or_finds(question: Question) -> str:
    """Return a clause: the generator's delays, if the interval excludes the effect without them; else a remedy."""
    if question.without_bounds < question.catch:
        return f"; {WIDENED}"
    return _runs_that_help(question)


def _runs_that_help(question: Question) -> str:
    """Return a clause on how many runs would find the effect to catch, or on why more runs do not help.

    More runs do not help with one session of each side, if the generator's delays hide the effect, if the effect to
    catch is too close to the least effect, or if more than 50 runs of each side were needed.
    """
    if question.estimate.design == "one session each":
        return f"{_finds(question)}; measure both sides alternately in one session"
    unit = "sessions" if question.estimate.design == "sessions" else "runs"
    caught, bounds = format_limit(question.catch), question.estimate.bounds
    needs = question.needs(question.least, bounds)
    if needs is None and question.needs(question.least) is not None:
        return f"; delays of the load generator hide {caught}; give the load generator its own cores or machine"
    if needs is None and question.needs(0.0) is not None:
        return f"; --catch {caught} is too close to --least {format_limit(question.least)} to be found; raise --catch"
    if needs is None:
        return (
            f"; the machine is too noisy: finding {caught} in four of five cases takes more than {_MOST_RUNS} {unit} of"
            " each side; use an idle machine, lengthen the runs, or raise --catch"
        )
    if question.finds is not None and question.finds <= question.catch:
        return f"{_finds(question)}, so the change may be real; make twice as many {unit}"
    return f"; about {needs} {unit} of each side would find {caught} in four of five cases"


def _finds(question: Question) -> str:
    """Return a clause on the smallest worsening that would be found in four of five cases; empty if unknown."""
    finds = question.finds
    return f"; {format_share(finds)} worse would be found in four of five cases" if finds is not None else ""


#: Significance level for more failed runs than in the baseline.
_LEVEL = 0.05


def failed_runs(new: Group, baseline: Group | None, treatment: Mapping[str, Any]) -> list[Check]:
    """Return a check of lost documents and one of other store failures, or one of whether any run is usable.

    Lost documents are a regression unless a run of the baseline lost some, too; then shares decide, as for other
    failures. Empty if no new run failed and one is usable. Both groups must have the runs of one treatment.
    """
    checks = []
    if any(_lost_documents(run) for run in new.runs):
        title = "acknowledged documents"
        standing, why = _failed(new, baseline, _lost_documents, "acknowledged documents are missing in")
        # Stores guarantee acknowledged documents, so a single lost one is a regression.
        if baseline is None or not any(_lost_documents(run) for run in baseline.runs):
            standing = "regression"
        checks.append(Check(Measure("all phases", "lost documents"), treatment, standing, why, title=title))
    measure, title = Measure("all phases", "survived runs"), "runs that the store survived"
    fails = _otherwise_failed if baseline else _failed_or_idle
    if any(fails(run) for run in new.runs):
        standing, why = _failed(new, baseline, fails, "the store failed in")
        checks.append(Check(measure, treatment, standing, why, title=title))
    if checks:
        return checks
    if not new.usable:
        runs = counted(len(new.runs), "run")
        why = f"none of {runs} is valid, for reasons other than the store"
        return [Check(measure, treatment, "undecided", why, title=title)]
    return []


def _lost_documents(run: RecordedRun) -> bool:
    """Return whether the store lost acknowledged documents in a run."""
    return any(failure.kind == "documents" for failure in run.failures)


def _otherwise_failed(run: RecordedRun) -> bool:
    """Return whether the run as a whole failed, but not by lost documents or for lack of any success."""
    return any(failure.of_run and failure.kind not in ("documents", "success") for failure in run.failures)


def _failed_or_idle(run: RecordedRun) -> bool:
    """Return whether the run as a whole failed, but not by lost documents.

    Without a baseline no check compares the throughput, so runs without any success count as well.
    """
    return any(failure.of_run and failure.kind != "documents" for failure in run.failures)


def _failed(
    new: Group, baseline: Group | None, fails: Callable[[RecordedRun], bool], what: str
) -> tuple[Standing, str]:
    """Return the standing of failed runs, and a text that lists them with their reasons; `fails` selects them.

    Shares are those of failed runs among failed and usable ones. Without a baseline, none of 0 runs failed before.
    `what` begins the text, such as `the store failed in`.
    """
    counts = [_failure_counts(side, fails) for side in (new, baseline) if side]
    (failed, total), (before, total_before) = [*counts, (0, 0)][:2]
    why = f"{what} {failed} of {counted(total, 'run')}" + (
        f", before in {before} of {total_before}" if baseline else ""
    )
    listed = runs_by_reason(run for run in new.runs if fails(run))
    return _standing(failed, total, before, total_before), f"{why}; {listed}"


def _failure_counts(group: Group, fails: Callable[[RecordedRun], bool]) -> tuple[int, int]:
    """Return the number of a group's runs that `fails` selects, and of these and the usable runs together."""
    failed = [run for run in group.runs if fails(run)]
    return len(failed), len(failed) + sum(not fails(run) for run in group.usable)


def without_figure(new: Group, baseline: Group, treatment: Mapping[str, Any], kinds: Sequence[str]) -> list[Check]:
    """Return a check for each measure that the baseline's runs have and some of the usable new runs lack.

    A run lacks a throughput of 0, too. Errors are left out, and so are times of all requests (`all-`) that every new
    run lacks. Runs that do not show whether anything succeeded do not count. The new runs are valid, so the store is to
    blame for the missing figures.
    """
    checks = []
    for measure in measures_of(baseline.usable, kinds):
        if measure.kind == "errors" or not new.usable:
            continue
        # Parts of operations (`OPERATION.PART`) have no requests of their own.
        requests = measure
        if measure.operation and not any(measure.operation in run.operations(measure.phase) for run in baseline.usable):
            requests = replace(measure, operation=measure.operation.rpartition(".")[0])
        sides = ([_succeeded(measure, requests, run) for run in side.usable] for side in (baseline, new))
        before, now = ([it for it in side if it is not None] for side in sides)
        if all(now) or not any(before) or (measure.kind.startswith("all-") and not any(now)):
            continue
        missing = len(now) - sum(now)
        earlier = f"before in {len(before) - sum(before)} of {len(before)}"
        why = f"nothing succeeded in {missing} of {counted(len(now), 'run')}, {earlier}"
        standing = _standing(missing, len(now), len(before) - sum(before), len(before))
        checks.append(Check(measure, treatment, standing, why, title=f"{measure.name}: whether there is any"))
    return checks


def _succeeded(measure: Measure, requests: Measure, run: RecordedRun) -> bool | None:
    """Return whether anything succeeded, by a measure of times or a rate; None if the run does not tell.

    It does not if it lacks the phase, if the generator or a machine spoilt the figure, or if other operations of the
    phase were due but not this one. `requests` is a measure of the operation's requests.
    """
    known = measure.figure(run)
    if known.counts:
        return (known.value or 0.0) > 0
    if run.phase(measure.phase) is None or measure.is_spoilt(run):
        return None
    is_idle = not replace(measure, operation=None).failures(run)[1]
    return False if is_idle or requests.failures(run)[1] else None


def _standing(failed: int, total: int, before: int, total_before: int) -> Standing:
    """Return the standing of failed runs, `regression` or `undecided`.

    `failed` of `total` new runs failed, and `before` of `total_before` earlier ones. It is a regression by Fisher's
    exact test, or if more than half of the runs failed and at most half before.
    """
    if 2 * failed > total and (not total_before or 2 * before <= total_before):
        return "regression"
    if total_before and chance_of_more(failed, total, before, total_before) < _LEVEL:
        return "regression"
    return "undecided"
