"""Coverage of the intervals of percentiles when response times of seconds differ and are correlated.

The logarithm of a response time is the level of its second (first-order autoregressive) plus a normal error of 0.5.

    python -m benchmarks.simulate_percentiles
"""

import itertools
import math

import numpy as np
import numpy.typing as npt
from benchmarks.promises import Promises, start
from scipy import special

from loadframe.analyze.percentiles import is_too_short, ranks
from loadframe.analyze.summary import QUANTILES

Array = npt.NDArray[np.float64]

_NOISE = 0.5
_LOADS = ((10, 50), (100, 60), (1000, 60), (100, 300))
_SECONDS = {"independent": (0.0, 0.0), "differ": (0.0, 0.3), "differ, correlated 0.5": (0.5, 0.3),
            "differ, correlated 0.8": (0.8, 0.3), "differ, correlated 0.95": (0.95, 0.3)}  # fmt: skip


def main(trials: int = 400) -> None:
    """Print a table of coverage; `trials` runs of each kind."""
    heads = ("requests/s", "length, s", "seconds", "percentile", "too short", "unknown or right", "open above")
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|")
    promise = Promises()
    for (rate, length), (name, (rho, spread)) in itertools.product(_LOADS, _SECONDS.items()):
        random = np.random.default_rng([rate, length, round(10 * rho), round(10 * spread)])
        runs = [_run(rate, length, rho, spread, random) for _ in range(trials)]
        too_short = [_is_too_short(times) for times in runs]
        short = f"{100 * np.mean(too_short):.0f} %"
        for quantile in (0.5, 0.99, 0.999):
            truth = float(special.ndtri(quantile)) * math.hypot(spread, _NOISE)
            ends = [_interval(times, quantile, short) for times, short in zip(runs, too_short, strict=True)]
            held = float(np.mean([low <= truth <= high for low, high in ends]))
            unbounded = float(np.mean([math.isinf(high) for _, high in ends]))
            if rho == 0:
                promise.at_least(f"p{100 * quantile:g}, {rate}/s, {length} s, {name}", held, trials, 0.93)
            shown = f"p{100 * quantile:g}"
            print(
                f"| {rate} | {length} | {name} | {shown} | {short} | {100 * held:.1f} % | {100 * unbounded:.0f} % |",
                flush=True,
            )
    promise.settle()


def _run(rate: int, length: int, rho: float, spread: float, random: np.random.Generator) -> Array:
    """Return logarithms of response times (seconds, requests)."""
    values = random.standard_normal(length)
    for second in range(1, length):
        values[second] = rho * values[second - 1] + math.sqrt(1 - rho**2) * values[second]
    times: Array = (spread * values)[:, None] + _NOISE * random.standard_normal((length, rate))
    return times.astype(np.float32)


def _slow(times: Array, quantile: float) -> Array:
    """Return the number of requests of each second above a quantile of all."""
    ordered = np.sort(times.ravel())
    slow: Array = (times > ordered[math.ceil(quantile * ordered.size) - 1]).sum(axis=1).astype(float)
    return slow


def _is_too_short(times: Array) -> bool:
    counts = np.full(len(times), float(times.shape[1]))
    return is_too_short((_slow(times, quantile) for quantile in QUANTILES.values()), counts)


def _interval(times: Array, quantile: float, short: bool) -> tuple[float, float]:
    if short:
        return -math.inf, math.inf
    ordered = np.sort(times.ravel())
    low, high = ranks(_slow(times, quantile), np.full(len(times), float(times.shape[1])), quantile)
    return (
        float(ordered[max(math.ceil(low * ordered.size) - 1, 0)]) if low else -math.inf,
        float(ordered[math.ceil(high * ordered.size) - 1]) if math.isfinite(high) else math.inf,
    )


if __name__ == "__main__":
    start(main)
