"""Search for the highest rate that a store sustains, as a pure function of the trials so far.

The ramp multiplies the rate until it fails. Bisection (on a log scale) then narrows the bracket of a passed and a
failed rate. One pass is enough to continue, which keeps the search quick. The answer needs more evidence: a rate fails
by two failed trials, and the answer has three passes and at most one failure. An answer that fails this verification
counts as a failed rate, and the search continues below it. An interrupted search resumes from its trials.

A store may miss a rate while it is cold, and sustain it later. If the failed rate above the answer never passed and was
not tried after the answer's first pass, it is tried once more. If it passes, its earlier failures do not count, nor do
failures before the first pass of a higher rate.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Outcome(StrEnum):
    """Outcome of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"  #: no conclusion: the generator was the limit, or the cluster differed from its specification


@dataclass(frozen=True)
class Trial:
    """One run at a rate (1/s) or with a number of users (this module calls both a rate)."""

    rate: float
    outcome: Outcome
    #: The rate that random arrivals offered, 1/s, or None for the nominal `rate`. The search uses nominal rates only.
    offered: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Bounds:
    """Range of the search (1/s), factor of the ramp, and largest relative width of the final bracket."""

    start: float
    least: float
    most: float
    factor: float = 2.0
    precision: float = 0.05
    #: Searched quantity: a `rate`, or a whole number of `users`.
    over: str = "rate"

    def rounded(self, level: float, to: Callable[[float], int] = round) -> float:
        """Return a rate rounded to four significant digits, as used in folder names; `to` does not apply to it.

        A number of users is rounded to a whole number by `to`, and is at least 1.
        """
        return float(max(to(level), 1)) if self.over == "users" else float(f"{level:.4g}")


@dataclass(frozen=True)
class Next:
    """The next trial: its rate, its number at that rate (from 1), and its purpose.

    `answer` is the answer without this trial, if only the failed rate above it is to be confirmed.
    """

    rate: float
    number: int
    purpose: str
    answer: "Answer | None" = None


class Kind(StrEnum):
    """Kind of an answer: how its rate bounds the capacity."""

    BRACKETED = "bracketed"  #: the answer passed, and a rate above it failed
    LOWER_BOUND = "lower bound"  #: the answer passed, and above it the generator was the limit
    AT_MOST = "at the upper bound"  #: the highest allowed rate passed
    NONE = "none"  #: no allowed rate passed
    UPPER_BOUND = "at most"  #: of several searches, one found no rate that passed
    UNKNOWN = "unknown"  #: the decisive trials were invalid


@dataclass(frozen=True)
class Answer:
    """End of a search: the highest rate that passed, and the lowest above it that failed or was invalid."""

    kind: Kind
    rate: float | None
    above: float | None


#: Failed trials that fail a rate, and invalid trials that put it beyond the generator.
_FAILURES, _INVALID = 2, 2
#: Passes that the answer needs.
_PASSES = 3
#: Trials at which `fewest` ends; more than a search needs from rate to rate.
_MOST_TRIALS = 100


def search(bounds: Bounds, trials: Sequence[Trial]) -> Next | Answer:
    """Return the trial to make next, or the answer, from all trials so far in their order."""
    step = _step(bounds, warm(trials))
    if isinstance(step, Answer):
        return step
    return replace(step, number=1 + sum(trial.rate == step.rate for trial in trials))


def fewest(bounds: Bounds, trials: Sequence[Trial]) -> int:
    """Return how many more trials a search needs at least, if each passes up to some rate and fails above it."""
    failed = min((trial.rate for trial in trials if trial.outcome is Outcome.FAILED), default=math.inf)
    passed = max((trial.rate for trial in trials if trial.outcome is Outcome.PASSED), default=0.0)
    low = passed or min(failed, bounds.start) / bounds.factor
    high = failed if failed < math.inf else max(low, bounds.start) * bounds.factor
    least = _MOST_TRIALS
    for limit in (0.0, math.nextafter(high, 0.0), *(low * (high / low) ** (step / 8) for step in range(9)), math.inf):
        supposed = list(trials)
        while len(supposed) - len(trials) < least and isinstance(step := search(bounds, supposed), Next):
            supposed.append(Trial(step.rate, Outcome.PASSED if step.rate <= limit else Outcome.FAILED))
        least = min(least, len(supposed) - len(trials))
    return least


def _step(bounds: Bounds, trials: Sequence[Trial]) -> Next | Answer:
    """Return the next trial, numbered 1, or the answer; `trials` lack the failures of a cold store.

    Repeats undecided rates first. Then searches down, up or between a passed and a failed rate until the precision is
    reached, and verifies the answer.
    """
    tried = {rate: _Rate(rate, trials) for rate in {trial.rate for trial in trials}}
    high = min((rate for rate, tally in tried.items() if tally.failed or tally.beyond), default=None)
    below = [tally for rate, tally in tried.items() if high is None or rate < high]
    low = max((tally.rate for tally in below if tally.passes), default=None)
    for tally in below:
        # Repeat a rate that failed once or was invalid before the search continues from it.
        if tally.undecided and (low is None or tally.rate > low):
            return Next(tally.rate, 1, "again")
    if low is None:
        return _down(bounds, high, tried)
    if high is None:
        return _next_up(bounds, low, tried)
    middle = bounds.rounded(math.sqrt(low * high))
    if high / low - 1 > bounds.precision and low < middle < high:
        return Next(middle, 1, "bisect")
    # Between a passed and a failed rate, rates may be invalid: the bracket is then wider than the precision.
    failed = min((rate for rate, tally in tried.items() if tally.failed and rate > low), default=None)
    first_pass = trials.index(Trial(low, Outcome.PASSED))
    end = _verified(tried[low], Kind.BRACKETED if failed else Kind.LOWER_BOUND, failed or high)
    if isinstance(end, Answer) and failed and not tried[failed].passes and first_pass > _last(trials, failed):
        return Next(failed, 1, "confirm", end)
    return end


def _last(trials: Sequence[Trial], rate: float) -> int:
    """Return the index of the last trial at a rate, which must have been tried."""
    return max(index for index, trial in enumerate(trials) if trial.rate == rate)


def warm(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials, in their order, without failures of a cold store.

    These precede the first pass of a higher rate, or the first pass of the same rate if that had failed twice before.
    """
    first: dict[float, int] = {}
    for index, trial in enumerate(trials):
        if trial.outcome is Outcome.PASSED:
            first.setdefault(trial.rate, index)
    since = {}
    for rate in {trial.rate for trial in trials}:
        since[rate] = min((at for higher, at in first.items() if higher > rate), default=-1)
        earlier = trials[: first.get(rate, 0)]
        if earlier.count(Trial(rate, Outcome.FAILED)) >= _FAILURES:
            since[rate] = max(since[rate], first[rate])
    return [trial for at, trial in enumerate(trials) if trial.outcome is not Outcome.FAILED or at > since[trial.rate]]


def _down(bounds: Bounds, high: float | None, tried: "dict[float, _Rate]") -> Next | Answer:
    """Return the next step of a search without a passed rate: a lower rate, or the answer.

    `high` is the lowest rate that failed or cannot be offered (None before the first trial), `tried` the tally by rate.
    The answer is returned if no lower rate is allowed.
    """
    if high is None:
        return Next(bounds.rounded(bounds.start), 1, "ramp")
    if high <= bounds.rounded(bounds.least):
        return Answer(Kind.NONE if tried[high].failed else Kind.UNKNOWN, None, high)
    return Next(bounds.rounded(max(high / bounds.factor, bounds.least), math.floor), 1, "ramp")


def _next_up(bounds: Bounds, low: float, tried: "dict[float, _Rate]") -> Next | Answer:
    """Return the next step of a search without a failed or invalid rate: a higher rate, or the answer.

    At `most`, it is a trial that verifies the answer, or the answer `AT_MOST`. `low` is the highest rate that passed,
    `tried` the tally by rate.
    """
    if low >= bounds.rounded(bounds.most):
        return _verified(tried[low], Kind.AT_MOST, None)
    return Next(bounds.rounded(min(low * bounds.factor, bounds.most), math.ceil), 1, "ramp")


def _verified(answer: "_Rate", kind: Kind, above: float | None) -> Next | Answer:
    """Return the answer of this kind if its rate passed three times, otherwise the next trial, at that rate.

    `above` is the lowest rate above it that failed or was invalid, for the answer.
    """
    if answer.passes < _PASSES:
        return Next(answer.rate, 1, "verify")
    return Answer(kind, answer.rate, above)


class _Rate:
    """Tally of the trials at one rate."""

    def __init__(self, rate: float, trials: Iterable[Trial]) -> None:
        """Count the outcomes of the trials at this rate.

        The rate is `beyond` (the generator cannot offer it) with two or more invalid trials, if it neither passed nor
        failed. With one or two passes it is `beyond` as well, and its passes are set to 0. It is `undecided` if it
        neither passed, failed nor is `beyond`.
        """
        outcomes = [trial.outcome for trial in trials if trial.rate == rate]
        self.rate = rate
        self.passes = outcomes.count(Outcome.PASSED)
        failures, invalid = outcomes.count(Outcome.FAILED), outcomes.count(Outcome.INVALID)
        self.failed = failures >= _FAILURES
        #: Whether the generator cannot offer this rate, or another cause outside the store made the trials invalid.
        self.beyond = invalid >= _INVALID and not self.passes and not self.failed
        self.undecided = not self.passes and not self.failed and not self.beyond
        if invalid >= _INVALID and self.passes and not self.failed and self.passes < _PASSES:
            # Too few passes, and no valid trial any more: treat the rate as beyond the generator.
            self.passes, self.beyond = 0, True
