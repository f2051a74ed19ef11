"""Response times by second, of requests that were answered and of those that still waited.

A second in which no request is answered has no percentile, and a line drawn across such seconds hides the outage. But
requests were in flight, and how long they had waited by then is a lower bound of their response times:

- The run records at each second's end how many requests were unanswered and the age of the oldest.
- A request that is answered, or fails, later on with a response time R had been in flight for R: at least R - (j - i)
  at the end of second i where it was done in second j. Recordings that lack the former have this.

A second's population is the requests that were done in it, and those that waited all through it. (In a second in which
no request was answered: all that are known to have waited at its end.) A second without either is unknown.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from loadframe.record import Histogram

Series = npt.NDArray[np.float64]

#: Values by which a second's histogram is stood in for, and the least share of waiting requests that p99 shows.
_VALUES = 100
_SHARE = 0.01
#: Half the width of the middle 68 % of ages that are spread evenly from 0 to that of the oldest.
_EVEN = 0.34


@dataclass(frozen=True, eq=False)
class Done:
    """Requests that ended in one second, by their response times.

    `answered` are those that the second's figures are of. `others` (failures, and late answers of the warm-up) only
    tell who waited before. A second may have several entries, of which one at most is `answered`.
    """

    second: int
    answered: "Histogram | None"
    others: "Histogram | None"


def responses(done: list[Done], unanswered: Series, oldest: Series) -> Series:
    """Return median, 99th percentile, mean and deviation (half the width of the middle 68 %) by second, in s.

    `unanswered` and `oldest` are by second as they were recorded, not a number where they were not; `done` may go on
    beyond these seconds. What is not known is not a number.
    """
    length = len(unanswered)
    answers = {
        entry.second: entry.answered
        for entry in done
        if entry.answered is not None and entry.answered.count and 0 <= entry.second < length
    }
    series, counts = np.full((4, length), np.nan), np.zeros(length)
    for second, histogram in answers.items():
        series[:, second], counts[second] = _figures(histogram), histogram.count
    for second, waited in _waited(done, counts).items():
        if second in answers:
            waited.append(_values(answers[second]))
        ages = np.concatenate([values for values, _ in waited])
        weights = np.concatenate([np.full(len(values), weight) for values, weight in waited])
        # A bound lowers nothing that was measured.
        series[:, second] = np.fmax(series[:, second], _weighted(ages, weights))
    for second in np.flatnonzero(np.isfinite(oldest) & (unanswered > 0)).tolist():
        age = oldest[second]
        if not counts[second]:
            bound = np.array([age / 2, age, age / 2, _EVEN * age])
            series[:, second] = np.fmax(series[:, second], bound)
        elif age >= 1 and unanswered[second] > _SHARE * (counts[second] + unanswered[second]):
            series[1, second] = max(series[1, second], age)
    return series


def _waited(done: list[Done], counts: Series) -> dict[int, list[tuple[Series, float]]]:
    """Return by second the ages at its end of requests that ended later, with how many each of them stands for."""
    samples: dict[int, list[tuple[Series, float]]] = defaultdict(list)
    for entry in done:
        for histogram in (entry.answered, entry.others):
            # Who waited for less than a second has not waited all through one.
            if histogram is None or not histogram.count or (histogram.max or 0.0) <= 1.0:
                continue
            values, weight = _values(histogram)
            for second in range(max(entry.second - int(values[-1]), 0), min(entry.second, len(counts))):
                ages = values - (entry.second - second)
                ages = ages[ages >= 1.0 if counts[second] else ages > 0.0]
                if len(ages):
                    samples[second].append((ages, weight))
    return samples


def _values(histogram: "Histogram") -> tuple[Series, float]:
    """Return values that stand in for a histogram, the greatest among them, and for how many each stands."""
    size = min(histogram.count, _VALUES)
    values = [histogram.quantile((rank + 0.5) / size) or 0.0 for rank in range(size)]
    values[-1] = histogram.max or values[-1]
    return np.array(values), histogram.count / size


def _figures(histogram: "Histogram") -> tuple[float, float, float, float]:
    low, middle, high, late = (histogram.quantile(q) or 0.0 for q in (0.16, 0.5, 0.84, 0.99))
    return middle, late, histogram.mean or 0.0, (high - low) / 2


def _weighted(values: Series, weights: Series) -> Series:
    """Return the same figures of weighted values."""
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    shares = np.cumsum(weights) / weights.sum()
    low, middle, high, late = values[np.searchsorted(shares, np.array([0.16, 0.5, 0.84, 0.99]) - 1e-9)]
    return np.array([middle, late, float((values * weights).sum() / weights.sum()), (high - low) / 2])
