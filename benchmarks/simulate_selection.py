"""Selection bias of the best of several treatments or combinations with known truth.

`bias` is the mean excess of the reported figure of the best treatment over the true value of that treatment.

    python -m benchmarks.simulate_selection
"""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from benchmarks.promises import Promises, start

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scale.treatments import Point, choose, gather, highest_lower_bound
from loadframe.analyze.settings.ranking import rank

Array = npt.NDArray[np.float64]

_CLIENTS = (1, 2, 4, 8, 16, 32)
_CURVES = {
    "plateau from 4 clients on": (0.3, 0.6, 1.0, 1.0, 1.0, 1.0),
    "peak, 3 % above the next": (0.3, 0.55, 0.9, 1.0, 0.97, 0.9),
    "still rising, 5 % above the next": (0.2, 0.4, 0.65, 0.85, 0.95, 1.0),
}
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=5)))
#: True logarithms of 32 combinations, and the columns of the claimed effects.
_EFFECTS: dict[str, tuple[Array, Array | None]] = {
    "nothing matters": (np.zeros(32), None),
    "one setting, 28 %": (0.125 * _CORNERS[:, 0], _CORNERS[:, :1]),
    "one setting 22 %, a small interaction": (0.1 * _CORNERS[:, 0] + 0.02 * _CORNERS[:, 1] * _CORNERS[:, 2],
                                              _CORNERS[:, :1]),
}  # fmt: skip


def main(trials: int = 1000) -> None:
    """Print a table for the best number of clients, and one for the first of 32 combinations."""
    promise = Promises()
    columns = "noise of a run | repetitions | bias as measured | bias after shrinkage | interval holds the truth"
    print(f"| clients | {columns} |")
    print("|---|---|---|---|---|---|")
    for name, curve in _CURVES.items():
        for noise, repetitions in itertools.product((0.03, 0.1), (2, 3, 5)):
            figures = _clients(trials, curve, noise, repetitions)
            promise.at_least(f"coverage, {name}, {noise:.0%}, {repetitions} runs", figures[2], trials, 0.94)
            print(_row(name, noise, repetitions, figures), flush=True)
    print()
    print(f"| 32 combinations | {columns} | better |")
    print("|---|---|---|---|---|---|---|")
    for name, (truth, effects) in _EFFECTS.items():
        for noise, repetitions in itertools.product((0.03, 0.1), (2, 3, 5)):
            print(_ranking(name, noise, repetitions, trials, truth, effects), flush=True)
    promise.settle()


def _clients(trials: int, curve: Sequence[float], noise: float, repetitions: int) -> Array:
    random = np.random.default_rng([round(100 * noise), repetitions])
    rows = []
    for _ in range(trials):
        points = [
            Point(
                "", 1, clients, truth * float(np.exp(noise * random.standard_normal())), None, None, None, usable=True
            )
            for clients, truth in zip(_CLIENTS, curve, strict=True)
            for _ in range(repetitions)
        ]
        treatments, spread = gather(points)
        measured, best = highest_lower_bound(treatments).throughput, choose(treatments, spread)
        truth = curve[_CLIENTS.index(best.clients or 0)]
        rows.append([_error(measured, truth), _error(best.throughput, truth), _held(best.throughput, truth)])
    return np.array(rows).mean(axis=0)


def _ranking(name: str, noise: float, repetitions: int, trials: int, truth: Array, effects: Array | None) -> str:
    random = np.random.default_rng([round(100 * noise), repetitions])
    numbers = np.tile(np.arange(32), repetitions)
    blocks = np.repeat(np.arange(repetitions), 32)
    rows = []
    for _ in range(trials):
        nights = 0.05 * random.standard_normal(repetitions)
        logs = (truth - truth[0])[numbers] + nights[blocks] + noise * random.standard_normal(len(numbers))
        standings = rank(numbers.tolist(), blocks.tolist(), logs, higher=True, effects=effects)
        first = next(standing for standing in standings if standing.combination)
        expected = float(np.exp(truth[first.combination] - truth[0]))
        lucky = max(
            (standing for standing in standings if standing.combination), key=lambda standing: standing.measured
        )
        measured = lucky.measured / float(np.exp(truth[lucky.combination] - truth[0])) - 1
        sure = (first.better or 0.0) > 0.975
        rows.append([measured, _error(first.ratio, expected), _held(first.ratio, expected), sure])
    return _row(name, noise, repetitions, np.array(rows).mean(axis=0))


def _error(estimate: Estimate, truth: float) -> float:
    return estimate.value / truth - 1


def _held(interval: Estimate, truth: float) -> float:
    return float(interval.low <= truth <= interval.high)


def _row(name: str, noise: float, repetitions: int, figures: Array) -> str:
    bias = " | ".join(f"{100 * figure:+.1f} %" for figure in figures[:2])
    shares = " | ".join(f"{100 * figure:.1f} %" for figure in figures[2:])
    return f"| {name} | {100 * noise:g} % | {repetitions} | {bias} | {shares} |"


if __name__ == "__main__":
    start(main)
