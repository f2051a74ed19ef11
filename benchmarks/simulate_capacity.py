"""Coverage of the interval of a capacity, and bias of the estimate, with known capacities.

A trial passes if its rate is below the capacity times a log-normal error (`noise`); searches of one experiment
differ by a log-normal factor (`searches differ`). In trials of limited length, Poisson arrivals offer another rate than
the nominal one. Capacities lie anywhere between two steps of the ramp. During the
`cold` trials at the start of an experiment, the store sustains an eighth of its capacity.

    python -m benchmarks.simulate_capacity
"""

import math
from collections.abc import Iterator
from statistics import fmean

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.capacity.answers import Attempt, Capacity, Search, capacities_of
from loadframe.analyze.capacity.criteria import Judgement
from loadframe.analyze.capacity.search import Answer, Bounds, Next, Outcome, search

_BOUNDS = Bounds(start=100, least=1, most=1e6)
#: Noise, difference between searches, number of cold trials, and seconds of a trial (None: it offers its nominal rate).
_CASES: list[tuple[float, float, int, float | None]] = [
    *((noise, 0.0, 0, None) for noise in (0.0, 0.02, 0.05, 0.1)),
    *((noise, between, 0, None) for noise, between in ((0.02, 0.05), (0.05, 0.1), (0.05, 0.2))),
    *((noise, 0.0, cold, None) for noise in (0.0, 0.05) for cold in (2, 4)),
    *((noise, 0.0, 0, seconds) for noise in (0.0, 0.05) for seconds in (0.2, 1.0)),
]
#: The share of its capacity that a cold store sustains.
_COLD = 1 / 8
_SEARCHES = (1, 2, 3, 5, 10)


def main(trials: int = 400) -> None:
    """Print a table of coverage and bias; `trials` experiments of each kind."""
    print(
        "| noise of a trial | searches differ by | cold trials | Poisson arrivals of | searches"
        " | interval holds the truth | half-width, median | bias |"
    )
    print("|---|---|---|---|---|---|---|---|")
    promise = Promises()
    for noise, between, cold, seconds in _CASES:
        for searches in _SEARCHES:
            result = list(_experiments(trials, noise, between, cold, seconds, searches))
            length = f"{seconds:g} s" if seconds else "–"
            head = f"| {100 * noise:g} % | {100 * between:g} % | {cold} | {length} | {searches} |"
            print(_row(head, searches, result, promise), flush=True)
    promise.settle()


def _experiments(
    trials: int, noise: float, between: float, cold: int, seconds: float | None, searches: int
) -> Iterator[tuple[float, Capacity]]:
    random = np.random.default_rng([round(1000 * noise), round(1000 * between), searches])
    for _ in range(trials):
        truth = float(np.exp(random.uniform(np.log(300), np.log(3000))))
        values = [
            _search(truth * np.exp(between * random.standard_normal()), noise, 0 if number else cold, seconds, random)
            for number in range(searches)
        ]
        yield truth, capacities_of([values], 1)[0]


def _row(head: str, searches: int, result: list[tuple[float, Capacity]], promise: Promises) -> str:
    if searches == 1:
        brackets = [(truth, search.rate, search.above) for truth, capacity in result for search in capacity.conclusive]
        held = fmean((rate or math.nan) <= truth <= (above or math.nan) for truth, rate, above in brackets)
        bias = fmean((rate or math.nan) / truth - 1 for truth, rate, _ in brackets)
        return f"{head} a bracket, which held it in {100 * held:.1f} % | | {100 * bias:+.1f} % |"
    rates = [(truth, capacity.rate) for truth, capacity in result if capacity.rate]
    covered = fmean(rate.low <= truth <= rate.high for truth, rate in rates)
    promise.at_least(f"coverage, {head}", covered, len(rates), 0.93)
    width = float(np.median([math.log(rate.high / rate.low) / 2 for _, rate in rates]))
    bias = fmean(math.log(rate.value / truth) for truth, rate in rates)
    return f"{head} {100 * covered:.1f} % | {100 * math.expm1(width):.1f} % | {100 * bias:+.1f} % |"


def _search(truth: float, noise: float, cold: int, seconds: float | None, random: np.random.Generator) -> Search:
    attempts: list[Attempt] = []
    end: Next | Answer
    while isinstance(end := search(_BOUNDS, [attempt.trial for attempt in attempts]), Next):
        sustained = truth * _COLD if len(attempts) < cold else truth
        offered = random.poisson(end.rate * seconds) / seconds if seconds else None
        held = (offered or end.rate) <= sustained * math.exp(noise * random.standard_normal())
        outcome = Outcome.PASSED if held else Outcome.FAILED
        attempts.append(Attempt("", end.rate, Judgement(outcome, (), None, None, None, None), 0.0, offered))
    return Search(1, {}, tuple(attempts), end)


if __name__ == "__main__":
    start(main)
