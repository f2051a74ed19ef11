"""Coverage of the final intervals of `duration: auto`, and the start of steady state by `warmup: auto`.

Each second has a level (first-order autoregressive). Throughput varies by 10 %; the logarithm of a response time is
the level times 0.3 plus a normal error of 0.5. Pauses last 2 s, 20 s apart on average: throughput falls to a tenth,
and responses take ten times as long. Trends change the level by 10 % over 600 s; the true value is that of the window.

    python -m benchmarks.simulate_run_length
"""

import math

import numpy as np
import numpy.typing as npt
from benchmarks.promises import Promises, start

from loadframe.analyze.percentiles import OUTSIDE, batches_of, is_too_short, ranks
from loadframe.analyze.run_length import (
    LOOK,
    looks,
    mean_interval_of_series,
    outside_of,
    relative_half_width,
    steady_from,
)
from loadframe.simulate import autoregressive

Array = npt.NDArray[np.float64]

_RATE = 100
_LOOKS = looks(30, 600)
_LENGTH = _LOOKS[-1]
#: Cases: lag-one correlation, trend over the longest window, and whether there are pauses.
_CASES = {
    "independent": (0.0, 0.0, False),
    "correlated 0.5": (0.5, 0.0, False),
    "correlated 0.8": (0.8, 0.0, False),
    "correlated 0.95": (0.95, 0.0, False),
    "trend of 10 %, correlated 0.5": (0.5, 0.1, False),
    "pauses": (0.0, 0.0, True),
    "pauses, correlated 0.8": (0.8, 0.0, True),
}
_PRECISIONS = {"throughput": (0.02, 0.05), "p99": (0.05, 0.1)}


def main(trials: int = 300) -> None:
    """Print tables of coverage and of the start of steady state; `trials` runs of each kind."""
    promise = Promises()
    print(f"Looks after {', '.join(map(str, _LOOKS))} s; {trials} runs of each kind")
    print("| figure | precision | seconds | precise | length, s, median | coverage | without correction |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for name, case in _CASES.items():
        random = np.random.default_rng([17, *(round(100 * float(value)) for value in case)])
        long_run = _long_run(case, random)
        runs = [_run(case, random) for _ in range(trials)]
        for figure, precisions in _PRECISIONS.items():
            for precision in precisions:
                row = [_covers(figure, run, precision, long_run[figure], case[1]) for run in runs]
                plain = [_covers(figure, run, precision, long_run[figure], case[1], correct=False) for run in runs]
                reached, lengths, held = (np.array(column) for column in zip(*row, strict=True))
                naive = np.array([covers for _, _, covers in plain])
                print(
                    f"| {figure} | {precision:.0%} | {name} | {reached.mean():.0%} | {np.median(lengths):.0f}"
                    f" | {held.mean():.1%} | {naive.mean():.1%} |",
                    flush=True,
                )
                if case[0] <= 0.8:
                    promise.at_least(f"{figure}, {precision:.0%}, {name}", float(held.mean()), trials, 0.95)
    _steady_states(promise, trials)
    promise.settle()


def _level(case: tuple[float, float, bool], length: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Return the level of each second, and whether the store pauses in it."""
    rho, _, pauses = case
    level = autoregressive(random, (length,), rho)
    paused = np.zeros(length, bool)
    if pauses:
        begins = random.random(length) < 1 / 20
        paused = begins | np.roll(begins, 1)
    return level, paused


def _run(case: tuple[float, float, bool], random: np.random.Generator, length: int = _LENGTH) -> tuple[Array, Array]:
    """Return the throughput of each second, and logarithms of its response times (seconds, requests)."""
    level, paused = _level(case, length, random)
    trend = 1 + case[1] * np.arange(length) / _LENGTH
    throughput = np.maximum(1000 * (1 + 0.1 * level) * np.where(paused, 0.1, 1.0) * trend, 0)
    base = 0.3 * level + np.log(np.where(paused, 10.0, 1.0) * trend)
    return throughput, base[:, None] + 0.5 * random.standard_normal((length, _RATE))


def _long_run(case: tuple[float, float, bool], random: np.random.Generator) -> dict[str, float]:
    """Return the true values without a trend, from a long run."""
    throughput, times = _run((case[0], 0.0, case[2]), random, 100_000)
    return {"throughput": float(throughput.mean()), "p99": float(np.exp(np.quantile(times, 0.99)))}


def _covers(
    figure: str, run: tuple[Array, Array], precision: float, truth: float, trend: float, *, correct: bool = True
) -> tuple[bool, int, bool]:
    """Return whether the precision was reached, the length of the window, and whether its interval is right."""
    throughput, times = run
    outside = outside_of(len(_LOOKS)) if correct else OUTSIDE
    for length in _LOOKS:
        if figure == "throughput":
            estimate = mean_interval_of_series(throughput[:length], outside)
            interval = (estimate.value, estimate.low, estimate.high)
        else:
            interval = _p99(times[:length], outside)
        reached = relative_half_width(*interval) <= precision
        if reached:
            break
    true = truth * (1 + trend * (length - 1) / 2 / _LENGTH)
    return reached, length, interval[1] <= true <= interval[2]


def _p99(times: Array, outside: float) -> tuple[float, float, float]:
    ordered = np.sort(times.ravel())
    value = ordered[math.ceil(0.99 * ordered.size) - 1]
    slow = (times > value).sum(axis=1).astype(float)
    counts = np.full(len(times), float(times.shape[1]))
    if is_too_short([slow], counts):
        return math.exp(value), -math.inf, math.inf
    low, high = ranks(slow, counts, 0.99, outside, batches_of(len(times), outside))
    ends = [
        ordered[max(math.ceil(end * ordered.size) - 1, 0)] if math.isfinite(end) else math.inf for end in (low, high)
    ]
    return math.exp(value), math.exp(ends[0]), math.exp(ends[1])


def _steady_states(promise: Promises, trials: int) -> None:
    """Print when steady state is found after a start-up phase, and the remaining bias of throughput."""
    print("\n| start-up | correlation | found | began, s, median | found after, s, median | remaining bias, median |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, amount, constant in (("none", 0.0, 1.0), ("20 s from 40 %", 0.6, 20.0), ("60 s from 40 %", 0.6, 60.0)):
        for rho in (0.0, 0.8):
            random = np.random.default_rng([18, round(constant), round(10 * rho)])
            results = [_found(amount, constant, rho, random) for _ in range(trials)]
            steady = [it for it in results if it is not None]
            began, after = (np.median([it[place] for it in steady]) for place in (0, 1))
            bias = np.median([amount * math.exp(-it[1] / constant) for it in steady])
            print(
                f"| {name} | {rho} | {len(steady) / trials:.0%} | {began:.0f} | {after:.0f} | {bias:.1%} |", flush=True
            )
            if constant <= 20:
                promise.at_least(f"steady state, {name}, rho {rho}", len(steady) / trials, trials, 0.95)


def _found(amount: float, constant: float, rho: float, random: np.random.Generator) -> tuple[int, int] | None:
    """Return when steady state began and when it was found; None if it was not found within 300 s."""
    seconds = np.arange(300)
    start_up = 1 - amount * np.exp(-seconds / constant)
    throughput = 1000 * start_up * (1 + 0.05 * autoregressive(random, (300,), rho))
    response = 0.01 / start_up * (1 + 0.05 * autoregressive(random, (300,), rho))
    for length in range(LOOK, 301, LOOK):
        began = steady_from(throughput[:length], response[:length])
        if began is not None:
            return began, length
    return None


if __name__ == "__main__":
    start(main)
