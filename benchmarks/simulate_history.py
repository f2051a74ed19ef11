"""Rates of false and detected changes in a history with known truth.

A history has one to three runs in each of 10 to 60 sessions. The standard deviation is 2 % between runs and 5 % between
sessions, and successive sessions have a correlation of 0 to 0.7. Three partly correlated measures are tested together,
like throughput, p50 and p99 in the gate. A true change is a drop by 10 or 20 % in the last third of the sessions, with
3 % between sessions. Seeds are fixed.

    python -m benchmarks.simulate_history
"""

import math

import numpy as np
from benchmarks.promises import Promises, start

from loadframe.analyze.history import LEVEL, change_points

RUNS, NOISE, SESSIONS = 3, 0.02, 0.05
LENGTHS = (10, 20, 30, 60)
CORRELATIONS = (0.0, 0.3, 0.5, 0.7)
MEASURES = 3


def main(trials: int = 300) -> None:
    """Print how often any of three measures shows a change, with and without a true one."""
    promise = Promises()
    print(f"{trials} histories a row; any of {MEASURES} measures, together at {LEVEL:.0%}.\n")
    print(f"{'sessions':>8} {'correlation':>12} {'false change':>13} {'fall by 10%':>12} {'fall by 20%':>12}")
    for sessions in LENGTHS:
        for correlation in CORRELATIONS:
            random = np.random.default_rng(1)
            false = [changes_of_history(random, sessions, correlation, SESSIONS, 0.0) for _ in range(trials)]
            # Above a correlation of 0.5 the false rate is higher; see lab/simulations/history.md.
            most = 0.05 if correlation <= 0.5 else 0.09
            promise.at_most(f"false changes, {sessions} sessions, {correlation}", float(np.mean(false)), trials, most)
            falls = [
                [changes_of_history(random, sessions, correlation, 0.03, fall) for _ in range(trials // 4)]
                for fall in (0.1, 0.2)
            ]
            shares = " ".join(f"{np.mean(alarms):>12.3f}" for alarms in (false, *falls))
            print(f"{sessions:>8} {correlation:>12.1f}  {shares}", flush=True)
    promise.settle()


def changes_of_history(
    random: np.random.Generator, sessions: int, correlation: float, spread: float, fall: float
) -> bool:
    """Return whether any measure of one history shows a change of its level."""
    common = _wandering(random, sessions, correlation)
    for _ in range(MEASURES):
        luck = spread * (common + _wandering(random, sessions, correlation)) / math.sqrt(2)
        luck[-sessions // 3 :] += math.log(1 - fall)
        runs = luck[:, None] + NOISE * random.standard_normal((sessions, RUNS))
        if change_points(np.exp(np.median(runs, axis=1)), level=LEVEL / MEASURES):
            return True
    return False


def _wandering(random: np.random.Generator, length: int, correlation: float) -> "np.typing.NDArray[np.float64]":
    """Return a first-order autoregression with variance 1."""
    values = math.sqrt(1 - correlation**2) * random.standard_normal(length + 50)
    for index in range(1, len(values)):
        values[index] += correlation * values[index - 1]
    return values[50:]


if __name__ == "__main__":
    start(main)
