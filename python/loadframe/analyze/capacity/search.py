"""The search for the highest rate that a store sustains, as a pure function of the trials that were made.

The rate is multiplied until it fails (the ramp), then the bracket of a rate that passed and one that failed is halved
in proportion, until it is narrow enough. One pass is enough to go on from, so that the search is quick; what the answer
rests on is not: a rate fails by two trials that fail, and the answer itself passes two of three and is then run again,
so it has three passes and at most one failure. An answer that does not hold that long is a rate that failed, and the
search goes on below it. Whoever stops in the middle goes on where the trials end.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What a trial says of its rate."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"  #: nothing: the generator was the limit, or the cluster was not as asked


@dataclass(frozen=True)
class Trial:
    """One run at a rate (1/s), or with a number of users; so for all rates here."""

    rate: float
    outcome: Outcome


@dataclass(frozen=True)
class Bounds:
    """Where to search, 1/s, by which factor to ramp, and how near the rate that failed is to be to the answer."""

    start: float
    least: float
    most: float
    factor: float = 2.0
    precision: float = 0.05
    #: What is searched for: a `rate`, or a number of `users`, which is whole.
    over: str = "rate"

    def rounded(self, level: float, to: Callable[[float], int] = round) -> float:
        """Return a level as it names folders and is read by people: with four significant digits, users whole."""
        return float(max(to(level), 1)) if self.over == "users" else float(f"{level:.4g}")


@dataclass(frozen=True)
class Next:
    """The trial to make next: its rate, which one of that rate it is (from 1), and what it is for."""

    rate: float
    number: int
    purpose: str


class Kind(StrEnum):
    """What an answer is worth."""

    BRACKETED = "bracketed"  #: the answer passed, and a rate just above it failed
    LOWER_BOUND = "lower bound"  #: the answer passed, and above it the generator was the limit
    AT_MOST = "at the upper bound"  #: the greatest rate that may be tried passed
    NONE = "none"  #: no rate that may be tried passed
    UNKNOWN = "unknown"  #: no trial was valid where it mattered


@dataclass(frozen=True)
class Answer:
    """The end of a search: the highest rate that held, and the lowest above it that did not (or could not be tried)."""

    kind: Kind
    rate: float | None
    above: float | None


#: Trials of one rate that fail, or that are invalid, before it counts as failed or as beyond the generator.
_FAILURES, _INVALID = 2, 2
#: Passes that the answer needs: two of three, and one again.
_PASSES = 3


def search(bounds: Bounds, trials: Sequence[Trial]) -> Next | Answer:
    """Return the trial to make next, or the answer."""
    tried = {rate: _Rate(rate, trials) for rate in {trial.rate for trial in trials}}
    high = min((rate for rate, tally in tried.items() if tally.failed or tally.beyond), default=None)
    below = [tally for rate, tally in tried.items() if high is None or rate < high]
    low = max((tally.rate for tally in below if tally.passes), default=None)
    for tally in below:
        # What failed once, or could not be told, is to be decided before anything is built upon it.
        if tally.undecided and (low is None or tally.rate > low):
            return Next(tally.rate, tally.number, "again")
    if low is None:
        return _down(bounds, high, tried)
    if high is None:
        return _next_up(bounds, low, tried)
    middle = bounds.rounded(math.sqrt(low * high))
    if high / low - 1 > bounds.precision and low < middle < high:
        return Next(middle, 1, "bisect")
    kind = Kind.BRACKETED if tried[high].failed else Kind.LOWER_BOUND
    return _verified(tried[low], kind, high)


def _down(bounds: Bounds, high: float | None, tried: "dict[float, _Rate]") -> Next | Answer:
    """Nothing has passed yet."""
    if high is None:
        return Next(bounds.rounded(bounds.start), 1, "ramp")
    if high <= bounds.rounded(bounds.least):
        return Answer(Kind.NONE if tried[high].failed else Kind.UNKNOWN, None, high)
    return Next(bounds.rounded(max(high / bounds.factor, bounds.least), math.floor), 1, "ramp")


def _next_up(bounds: Bounds, low: float, tried: "dict[float, _Rate]") -> Next | Answer:
    """Nothing has failed yet."""
    if low >= bounds.rounded(bounds.most):
        return _verified(tried[low], Kind.AT_MOST, None)
    return Next(bounds.rounded(min(low * bounds.factor, bounds.most), math.ceil), 1, "ramp")


def _verified(answer: "_Rate", kind: Kind, above: float | None) -> Next | Answer:
    if answer.passes < _PASSES:
        return Next(answer.rate, answer.number, "verify")
    return Answer(kind, answer.rate, above)


class _Rate:
    """What the trials say of one rate."""

    def __init__(self, rate: float, trials: Iterable[Trial]) -> None:
        outcomes = [trial.outcome for trial in trials if trial.rate == rate]
        self.rate = rate
        self.number = len(outcomes) + 1
        self.passes = outcomes.count(Outcome.PASSED)
        failures, invalid = outcomes.count(Outcome.FAILED), outcomes.count(Outcome.INVALID)
        self.failed = failures >= _FAILURES
        #: The generator cannot make this rate, or something else is wrong at it that is not the store's.
        self.beyond = invalid >= _INVALID and not self.passes and not self.failed
        self.undecided = not self.passes and not self.failed and not self.beyond
        if invalid >= _INVALID and self.passes and not self.failed and self.passes < _PASSES:
            # It passed at first, and then nothing could be told any more: no ground for an answer.
            self.passes, self.beyond = 0, True
