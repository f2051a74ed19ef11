"""Whether throughput had settled when it was measured: warm-up by MSER-5, then drift. It judges no other series.

MSER-5: White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation" (Winter
Simulation Conference, 2000). The series is cut into batches of five; the cut d* minimises the marginal standard error
of what is left, sum over i > d of (z_i - mean)^2 / (n - d)^2, over d up to n / 2. What it would cut is still warm-up;
that matters where it moves the window's mean by more than 5 %.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Fewer batches say nothing; single seconds are taken as batches where the run is too short for batches of five.
_LEAST_BATCHES = 20
_BATCH = 5
_CHANGE = 0.05
_SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Steadiness:
    """How throughput moved: `warmup` seconds that MSER would cut, and the relative change over the window.

    `settled` is False where what MSER would cut moves the mean, `drifts` where the change is a significant trend.
    """

    seconds: int
    warmup: int
    change: float
    settled: bool
    drifts: bool

    @property
    def steady(self) -> bool:
        """Whether the window may be averaged."""
        return self.settled and not self.drifts


def steadiness(throughput: npt.NDArray[np.float64]) -> Steadiness | None:
    """Judge one-second throughputs of a measured window; None where it is shorter than 20 s."""
    seconds = len(throughput)
    if seconds < _LEAST_BATCHES:
        return None
    size = _BATCH if seconds >= _LEAST_BATCHES * _BATCH else 1
    batches = throughput[: seconds // size * size].reshape(-1, size).mean(axis=1)
    mean = float(batches.mean())
    if mean <= 0:
        return Steadiness(seconds, 0, 0.0, settled=True, drifts=False)
    # It takes seconds to import, which runs that are too short to be judged need not wait for.

    cut = _mser(batches)
    kept = float(batches[cut:].mean())
    settled = abs(mean - kept) <= _CHANGE * kept
    slope, p = _trend(batches)
    change = slope * (len(batches) - 1) / mean
    return Steadiness(seconds, cut * size, change, settled, p < _SIGNIFICANT and abs(change) > _CHANGE)


def _mser(batches: npt.NDArray[np.float64]) -> int:
    """Return the cut d*, in batches."""
    n = len(batches)
    statistic = [float(((batches[d:] - batches[d:].mean()) ** 2).sum()) / (n - d) ** 2 for d in range(n // 2 + 1)]
    return int(np.argmin(statistic))


def _trend(batches: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope per batch (Theil and Sen's) and the p of no trend (Mann and Kendall's test, normal from 10 on).

    Both count pairs, so a single bad second moves neither.
    """
    n = len(batches)
    before, after = np.triu_indices(n, k=1)
    rises = batches[after] - batches[before]
    score = float(np.sign(rises).sum())
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    z = max(abs(score) - 1, 0) / deviation
    return float(np.median(rises / (after - before))), math.erfc(z / math.sqrt(2))
