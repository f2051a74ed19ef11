"""Coverage, false claims and power of comparisons with known truth.

Run-to-run variance is log-normal with 3 %. In the first table each block has one run of both groups, and blocks differ
by a standard deviation of 0 to 20 %. In the second, sessions (nights) differ by 0 to 10 %, and each has runs of one
group only. In the third, the noise violates the assumptions of the method. Power is the share of trials in which a true
worsening of throughput has p < 0.05. Seeds are fixed.

    python -m benchmarks.simulate_comparison
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from benchmarks.promises import Promises, start
from scipy import special

from loadframe.analyze.compare.estimate_ratio import Observation, RatioEstimate, estimate_ratio

NOISE = 0.03
RUNS = (2, 3, 5, 8, 10)
BLOCKS = (0.0, 0.05, 0.1, 0.2)
SESSIONS = (0.0, 0.05, 0.1)
#: Sessions of the baseline and of the new version, and the runs in each.
NIGHTS = ((3, 3, 3, 3), (5, 3, 1, 3), (20, 3, 1, 3), (20, 3, 1, 1), (10, 3, 3, 3))
LOSSES = (0.05, 0.1, 0.2)

Draw = Callable[[np.random.Generator], Sequence[Observation]]


def main(trials: int = 2000) -> None:
    """Print the tables."""
    promise = Promises()
    print(f"Runs scatter by {NOISE:.0%}; {trials} trials a row.\n")
    heads = ("coverage", "false claims", *(f"power {loss:.0%}" for loss in LOSSES))
    print(f"{'runs a side':>20} {'blocks differ':>14} " + " ".join(f"{head:>12}" for head in heads) + "   unpaired 10%")
    for runs in RUNS:
        for spread in BLOCKS:
            result = _trials(lambda random, n=runs, s=spread: _blocks(random, n, s), trials)
            promise.at_most(
                f"false claims, {runs} runs, blocks {spread:.0%}",
                _claims(result, 0.0),
                trials,
                0.07 if runs == 2 else 0.06,
            )
            print(f"{runs:>20} {spread:>14.0%} {_figures(result)} {_unpaired(runs, spread, trials):>14.2f}")
    print(f"\n{'nights x runs':>20} {'nights differ':>14} " + " ".join(f"{head:>12}" for head in heads))
    for nights in NIGHTS:
        for spread in SESSIONS:
            result = _trials(lambda random, n=nights, s=spread: _nights(random, n, s), trials)
            promise.at_most(f"false claims, nights {nights}, {spread:.0%}", _claims(result, 0.0), trials, 0.06)
            print(f"{nights[0]} x {nights[1]} against {nights[2]} x {nights[3]}".rjust(20), end=" ")
            print(f"{spread:>14.0%} {_figures(result)}")
    print("\nOne night against one, 5 runs each, with 5 % assumed between nights:")
    for spread in SESSIONS:
        result = _trials(lambda random, s=spread: _nights(random, (1, 5, 1, 5), s), trials, session_spread=0.05)
        print(f"{'1 x 5 against 1 x 5':>20} {spread:>14.0%} {_figures(result)}")
    print("\nWhere an assumption fails, without blocks:")
    for name, counts, draw in _VIOLATIONS:
        result = _trials(lambda random, c=counts, d=draw: _groups(random, c, d), trials)
        print(f"{name:>35} {_figures(result)}")
    print("\nEstimates by means and by trimmed means (estimate: robust); runs scatter by 5 %:")
    print(f"{'':>35} {'false claims':>25} {'power 10%':>25}")
    for name, draw in _TAILS:
        for blocks in (6, 10):
            means, trimmed = (_trials(tailed(blocks, draw), trials, robust=robust) for robust in (False, True))
            promise.at_most(f"false claims, trimmed, {name}, {blocks} blocks", _claims(trimmed, 0), trials, 0.065)
            pairs = [(_claims(means, loss), _claims(trimmed, loss)) for loss in (0.0, 0.1)]
            shown = " ".join(f"{f'{first:.3f} and {second:.3f}':>25}" for first, second in pairs)
            print(f"{f'{name}, {blocks} blocks':>35} {shown}")
    promise.settle()


def tailed(blocks: int, draw: Callable[[np.random.Generator, str], float], spread: float = 0.1) -> Draw:
    """Return a design of blocks that differ by `spread`, with one run of both groups in each, of noise 5 %."""

    def observations(random: np.random.Generator) -> Sequence[Observation]:
        shared = spread * random.standard_normal(blocks)
        return [
            Observation(math.exp(shared[block] + 0.05 * draw(random, group)), group, block)
            for block in range(blocks)
            for group in ("old", "new")
        ]

    return observations


def _groups(
    random: np.random.Generator, counts: tuple[int, int], draw: Callable[[np.random.Generator, str], float]
) -> list[Observation]:
    return [
        Observation(math.exp(NOISE * draw(random, group)), group)
        for group, count in zip(("old", "new"), counts, strict=True)
        for _ in range(count)
    ]


def _heavy(random: np.random.Generator, group: str) -> float:
    """Student's t with 3 degrees of freedom, scaled to variance 1: occasional outliers."""
    return float(random.standard_t(3)) / math.sqrt(3)


def normal(random: np.random.Generator, group: str) -> float:
    """Return a draw of normal noise of variance 1."""
    return float(random.standard_normal())


def slow_runs(random: np.random.Generator, group: str) -> float:
    """Return a draw of noise in which one run of ten of either group is slower by 8 standard deviations."""
    return float(random.standard_normal()) - 8.0 * (random.random() < 0.1)


def _skewed(random: np.random.Generator, group: str) -> float:
    """An exponential distribution: some runs are much slower."""
    return 1 - float(random.exponential())


def _noisier(random: np.random.Generator, group: str) -> float:
    """The new version has twice the standard deviation."""
    return float(random.standard_normal()) * (2 if group == "new" else 1)


_VIOLATIONS = (
    ("outliers, 5 against 5", (5, 5), _heavy),
    ("outliers, 10 against 10", (10, 10), _heavy),
    ("skewed, 5 against 5", (5, 5), _skewed),
    ("skewed, 20 against 3", (20, 3), _skewed),
    ("twice the noise, 5 against 5", (5, 5), _noisier),
    ("twice the noise, 20 against 3", (20, 3), _noisier),
)


_TAILS = (("normal noise", normal), ("Student's t, 3 degrees", _heavy), ("one run of ten slow", slow_runs))


def _trials(draw: Draw, trials: int, **options: Any) -> list[RatioEstimate]:
    random = np.random.default_rng(1)
    return [estimate_ratio(draw(random), "old", "new", **options) for _ in range(trials)]


def _figures(ratio_estimates: Sequence[RatioEstimate]) -> str:
    covered = np.mean([estimate.ratio.low <= 1 <= estimate.ratio.high for estimate in ratio_estimates])
    # A loss only shifts the logarithm, so one trial serves all losses.
    claims = [_claims(ratio_estimates, loss) for loss in (0.0, *LOSSES)]
    return " ".join(f"{value:>12.3f}" for value in (covered, *claims))


def _claims(ratio_estimates: Sequence[RatioEstimate], loss: float) -> float:
    return float(np.mean([_p(estimate, loss) < 0.05 for estimate in ratio_estimates]))


def _p(ratio_estimate: RatioEstimate, loss: float) -> float:
    """Return the p-value of the trial with a loss."""
    t = abs(ratio_estimate.log_ratio + math.log(1 - loss)) / ratio_estimate.standard_error
    return 2 * float(special.stdtr(ratio_estimate.freedom, -t)) * ratio_estimate.caution


def _blocks(random: np.random.Generator, blocks: int, spread: float) -> list[Observation]:
    shared = spread * random.standard_normal(blocks)
    return [
        Observation(math.exp(shared[block] + NOISE * random.standard_normal()), group, block)
        for block in range(blocks)
        for group in ("old", "new")
    ]


def _nights(random: np.random.Generator, nights: tuple[int, int, int, int], spread: float) -> list[Observation]:
    observations = []
    for group, count, runs in (("old", *nights[:2]), ("new", *nights[2:])):
        for night in range(count):
            level = spread * random.standard_normal()
            observations += [
                Observation(math.exp(level + NOISE * random.standard_normal()), group, None, (group, night))
                for _ in range(runs)
            ]
    return observations


def _unpaired(runs: int, spread: float, trials: int) -> float:
    """Return the power of Student's test without blocks, for a loss of 10 %."""
    random = np.random.default_rng(1)
    shared = spread * random.standard_normal((trials, runs))
    old, new = (shared + NOISE * random.standard_normal((trials, runs)) for _ in range(2))
    difference = new.mean(axis=1) - old.mean(axis=1) + math.log(0.9)
    error = np.sqrt((old.var(axis=1, ddof=1) + new.var(axis=1, ddof=1)) / runs)
    return float(np.mean(2 * special.stdtr(2 * runs - 2, -np.abs(difference) / error) < 0.05))


if __name__ == "__main__":
    start(main)
