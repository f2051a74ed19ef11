"""Response times of a run: 95 % intervals of percentiles, enough requests beyond them, and latency buckets.

The interval of a percentile lies between two order statistics (Woodruff, "Confidence intervals for medians and other
position measures", Journal of the American Statistical Association 47, 1952). Their ranks follow from the effective
number of independent requests. Requests of one second share its stalls and queues, and successive seconds are
correlated. The effective number therefore comes from the variation of the share of slow requests: between seconds, by a
ratio estimate with the correlation of neighbours, and between longer stretches; the smaller result counts. It enters
the exact binomial ranks with the degrees of freedom of that estimate (Korn and Graubard, "Confidence intervals for
proportions with small expected number of positive counts estimated from survey data", Survey Methodology 24, 1998).
This underestimates changes that last a tenth of the run or longer. If the correlation of seconds shows such changes,
the interval is unknown: the run is too short.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from loadframe.analyze.autocorrelation import effective_size, independent_values, lag_one
from loadframe.analyze.estimate import Estimate, mean_share
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, by_treatment
from loadframe.analyze.sessions import sessions_of
from loadframe.analyze.summary import QUANTILES
from loadframe.base import special
from loadframe.base.errors import BadInput
from loadframe.base.units import format_duration
from loadframe.record import Run

if TYPE_CHECKING:
    from loadframe.record import HistogramLog


Array = npt.NDArray[np.float64]

#: Smallest number of requests beyond a percentile; with fewer it depends on single requests.
ENOUGH = 10
#: Standard deviations of the number of Poisson arrivals, which a proposed duration allows for.
_SURELY = 4
#: Smallest number of seconds from which a variation is estimated.
_LEAST_SECONDS = 5
#: Probability beyond each end of an interval.
OUTSIDE = 0.025
#: Number of stretches of a run that are compared, if each has at least two seconds.
_BATCHES = 8
#: For smaller probabilities: shortest stretch, s, and largest number of stretches.
_STRETCH, _MOST_BATCHES = 10, 32
#: Smallest effective number of independent seconds for an interval.
_LEAST_INDEPENDENT = 10


def mean_arrivals(needed: int) -> float:
    """Return the mean of a Poisson number of arrivals that is four standard deviations above `needed`.

    It solves mean - 4 sqrt(mean) = needed: with a mean of `needed` itself, half of the runs would have too few.
    """
    return (_SURELY / 2 + math.sqrt(_SURELY**2 / 4 + needed)) ** 2


@dataclass(frozen=True)
class Percentile:
    """A percentile of response times, s, with its 95 % interval.

    `low` is 0 and `high` infinite if too few requests bound them. `beyond` is the expected number of slower requests.
    `too_short`: response times change too slowly for an interval from a run of this length.
    """

    value: float
    low: float
    high: float
    beyond: float
    too_short: bool = False

    @property
    def few(self) -> bool:
        """Whether fewer than 10 requests are expected beyond it, so that it depends on single requests."""
        return self.beyond < ENOUGH

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The ends of the interval, s; None if too few requests bound them."""
        return self.low or None, self.high if math.isfinite(self.high) else None

    def as_dict(self) -> dict[str, float | bool | None]:
        """Return the figures for JSON; null for a bound that is unknown."""
        low, high = self.ends
        return {
            "value": self.value,
            "low": low,
            "high": high,
            "beyond": self.beyond,
            "few": self.few,
            "too_short": self.too_short,
        }


def percentiles_of(run: Run) -> dict[str, dict[str, dict[str, Percentile]]]:
    """Return the percentiles of response times by phase, operation and name (`p50` to `p999`).

    All phases are included; an operation without successes has no percentiles.
    """
    phases: dict[str, dict[str, dict[str, Percentile]]] = {}
    known = set(run.histograms.tags())
    for phase in run.summary.phases:
        tags = {name: f"{phase.name}/{name}/response" for name in phase.operations}
        phases[phase.name] = {
            name: percentiles_of_window(run.histograms, tag, phase.duration, phase.outside) if tag in known else {}
            for name, tag in tags.items()
        }
    return phases


def percentiles_document(run: Run) -> dict[str, Any]:
    """Return the percentiles of a run with their intervals for JSON, in s."""
    return {
        phase: {
            operation: {name: percentile.as_dict() for name, percentile in percentiles.items()}
            for operation, percentiles in operations.items()
        }
        for phase, operations in percentiles_of(run).items()
    }


def ranks(
    slow: Array, counts: Array, quantile: float, outside: float = OUTSIDE, batches: int = _BATCHES
) -> tuple[float, float]:
    """Return the ends of a quantile's interval as shares of all requests in order; 0 or infinity if unbounded.

    `counts` are the requests of each second, `slow` those among them above the `quantile` (0 to 1) of all. `outside` is
    the probability beyond each end, `batches` the number of stretches that are compared.
    """
    total = float(counts.sum())
    worth = _worth(slow, counts, quantile, outside, batches)
    below, above = worth * quantile, worth * (1 - quantile)
    low = float(special.betaincinv(below, above + 1, outside))
    high = float(special.betaincinv(below + 1, above, 1 - outside))
    unbounded = quantile**worth > outside or high * total > total - 0.5
    return (0.0 if (1 - quantile) ** worth > outside else low), (math.inf if unbounded else high)


def is_too_short(slow: Iterable[Array], counts: Array) -> bool:
    """Return whether the run has fewer than 5 seconds, or its slow requests change too slowly from second to second.

    They do if a share of slow requests by second has fewer than 10 independent values (`independent_values`). `counts`
    are the requests of each second; `slow` has, for each percentile, those of each second above it.
    """
    if len(counts) < _LEAST_SECONDS:
        return True
    busy = counts > 0
    shares = [above[busy] / counts[busy] for above in slow]
    return any(independent_values(share) < _LEAST_INDEPENDENT for share in shares)


def _worth(slow: Array, counts: Array, quantile: float, outside: float, batches: int) -> float:
    """Return the effective number of independent requests, at most their total.

    `counts` are the requests of each second, at least two, and `slow` those among them above the `quantile` of all.
    `outside` is the probability beyond each end of the interval, `batches` the number of stretches that are compared.
    """
    total, seconds = float(counts.sum()), len(counts)
    share = float(slow.sum()) / total
    rest = slow - share * counts
    if not rest.any():
        return total
    spread = float((rest**2).sum()) * seconds / (seconds - 1)
    independent = max(effective_size(seconds, lag_one(rest)), 2.0)
    worths = [_worth_by(spread * seconds / independent, independent - 1, total, quantile, outside)]
    if seconds >= 2 * batches:
        # Slow seconds cluster in stretches, which the correlation of neighbours shows only in part.
        sums = np.array([part.sum() for part in np.array_split(rest, batches)])
        spread = float((sums**2).sum()) * batches / (batches - 1)
        worths.append(_worth_by(spread, batches - 1, total, quantile, outside))
    return min(*worths, total)


def _worth_by(spread: float, freedom: float, total: float, quantile: float, outside: float) -> float:
    """Return the effective number of requests from `spread`, the variance of the number of slow ones.

    `freedom` are the degrees of freedom of that variance, `total` is the number of requests, returned if `spread` is 0.
    Requests above `quantile` are slow. `outside` is the probability beyond each end of the interval.
    """
    # Correct for the degrees of freedom of the variance.
    widened = float(special.ndtri(outside) / special.stdtrit(freedom, outside)) ** 2
    return quantile * (1 - quantile) * total**2 / spread * widened if spread else total


def batches_of(seconds: int, outside: float) -> int:
    """Return the number of stretches of a run of `seconds` s to compare: 8, or up to 32 if `outside` is below 0.025."""
    return _BATCHES if outside >= OUTSIDE else max(min(seconds // _STRETCH, _MOST_BATCHES), _BATCHES)


def percentiles_of_window(
    histograms: "HistogramLog", tag: str, duration: float, outside: float = OUTSIDE
) -> dict[str, Percentile]:
    """Return the percentiles of a measured window of `duration` s by name; empty without requests.

    `tag` names the histograms of one operation, such as `PHASE/OPERATION/response`. `outside` is the probability beyond
    each end of an interval.
    """
    total = histograms.total(tag)
    if not total.count:
        return {}
    seconds = [(time, second) for time, second in histograms.seconds(tag) if second.count]
    first = min(time for time, _ in seconds)
    places = [round(time - first) for time, _ in seconds]
    length = max(*places, math.floor(duration) - 1, 0) + 1
    counts = np.zeros(length)
    np.add.at(counts, places, [second.count for _, second in seconds])
    values = {name: total.quantile(quantile) or 0.0 for name, quantile in QUANTILES.items()}
    slow = {name: np.zeros(length) for name in QUANTILES}
    for name, value in values.items():
        np.add.at(slow[name], places, [second.count - at_most(second, value) for _, second in seconds])
    too_short = is_too_short(slow.values(), counts)
    percentiles, batches = {}, batches_of(length, outside)
    for name, quantile in QUANTILES.items():
        value = values[name]
        low, high = (0.0, math.inf) if too_short else ranks(slow[name], counts, quantile, outside, batches)
        percentiles[name] = Percentile(
            value,
            min((total.quantile(low) or 0.0) if low else 0.0, value),
            max((total.quantile(high) or 0.0) if math.isfinite(high) else math.inf, value),
            total.count * (1 - quantile),
            too_short,
        )
    return monotone(percentiles)


def monotone(percentiles: dict[str, Percentile]) -> dict[str, Percentile]:
    """Return percentiles, given in ascending order, with ascending bounds.

    Each percentile has its effective number of requests, so bounds may cross. A low end falls to the lowest one of
    higher percentiles, a high end rises to the highest one of lower percentiles.
    """
    names = list(percentiles)
    lows = np.minimum.accumulate([percentiles[name].low for name in reversed(names)])[::-1]
    highs = np.maximum.accumulate([percentiles[name].high for name in names])
    return {
        name: replace(percentiles[name], low=float(low), high=float(high))
        for name, low, high in zip(names, lows, highs, strict=True)
    }


def at_most(histogram: Any, value: float) -> int:
    """Return the number of a histogram's requests that took at most `value` (s), from its order statistics."""
    low, high = 0, int(histogram.count)
    while low < high:
        middle = (low + high + 1) // 2
        if histogram.quantile((middle - 0.5) / histogram.count) <= value:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True)
class Bands:
    """Successful requests per bucket (the last bucket is open-ended), and failed requests.

    Times have the precision of the histograms: three digits.
    """

    bounds: tuple[float, ...]  #: s, ascending
    counts: tuple[int, ...]  #: one more than bounds
    failed: int  #: includes dropped requests and those unanswered at the end

    @property
    def requests(self) -> int:
        """The number of due requests."""
        return sum(self.counts) + self.failed

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of all requests in each bucket, then the share of failed requests; 0 without requests."""
        return tuple(count / self.requests if self.requests else 0.0 for count in (*self.counts, self.failed))

    def as_dict(self) -> dict[str, Any]:
        """Return bounds (s), counts and shares for JSON."""
        return {
            "bounds": self.bounds,
            "counts": self.counts,
            "failed": self.failed,
            "shares": self.shares[:-1],
            "failed_share": self.shares[-1],
        }


@dataclass(frozen=True)
class BandsAt:
    """Bucket shares of an operation as means over the runs of one treatment, with intervals for several runs.

    Runs have equal weights, regardless of their number of requests.
    """

    phase: str
    treatment: Mapping[str, Any]
    operation: str
    bounds: tuple[float, ...]  #: s, ascending
    runs: int
    requests: int  #: sum over these runs
    shares: tuple[Estimate, ...]  #: 0 to 1, per bucket, then the failed requests

    def as_dict(self) -> dict[str, Any]:
        """Return the shares for JSON, bounds in s."""
        return {
            "phase": self.phase,
            "treatment": dict(self.treatment),
            "operation": self.operation,
            "bounds": self.bounds,
            "runs": self.runs,
            "requests": self.requests,
            "shares": [share.as_dict() for share in self.shares[:-1]],
            "failed_share": self.shares[-1].as_dict(),
        }


def check_bounds(bounds: Sequence[float]) -> tuple[float, ...]:
    """Return the bounds of latency buckets, s; BadInput unless they are above 0 and ascending."""
    if any(bound <= 0 for bound in bounds) or any(low >= high for low, high in pairwise(bounds)):
        shown = ", ".join(format_duration(bound) for bound in bounds)
        raise BadInput(
            f"latency bounds must be above 0 and ascending; got {shown}", remedy="write them as 100ms,1s,10s"
        )
    return tuple(bounds)


def band_names(bounds: Sequence[float]) -> list[str]:
    """Return the buckets of at least one bound (s) in words: `up to 100 ms`, `100 ms to 1 s`, `above 1 s`."""
    words = [format_duration(bound) for bound in bounds]
    return [f"up to {words[0]}", *(f"{low} to {high}" for low, high in pairwise(words)), f"above {words[-1]}"]


def bands_of(run: Run, bounds: Sequence[float]) -> dict[str, dict[str, Bands]]:
    """Return the latency buckets of the measured windows of all phases, by phase and operation.

    `bounds` (s) must be ascending, which is not checked here; see `check_bounds`.
    """
    known = set(run.histograms.tags())
    return {
        phase.name: {
            name: _bands(
                run,
                f"{phase.name}/{name}/response" if f"{phase.name}/{name}/response" in known else None,
                operation.due - operation.successes,
                tuple(bounds),
            )
            for name, operation in phase.operations.items()
        }
        for phase in run.summary.phases
    }


def bands_at(folder: RecordedExperiment, bounds: Sequence[float]) -> list[BandsAt]:
    """Return the latency buckets of the measured phases, over the included runs of each treatment.

    `bounds` are in s and ascending. Runs without requests of an operation are omitted from its row. Rows are ordered by
    phase, then treatment.
    """
    measured = folder.description["measure"]
    rows: dict[str, list[BandsAt]] = {phase: [] for phase in measured}
    for treatment, runs in by_treatment(folder):
        seen: dict[tuple[str, str], list[tuple[RecordedRun, Bands]]] = defaultdict(list)
        for recorded, run in runs:
            for phase, operations in bands_of(run, bounds).items():
                for name, bands in operations.items():
                    if phase in rows and bands.requests:
                        seen[phase, name].append((recorded, bands))
        for (phase, name), several in seen.items():
            sessions = sessions_of([recorded for recorded, _ in several])
            counts = zip(*((*bands.counts, bands.failed) for _, bands in several), strict=True)
            requests = [bands.requests for _, bands in several]
            rows[phase].append(
                BandsAt(
                    phase,
                    treatment,
                    name,
                    tuple(bounds),
                    len(several),
                    sum(requests),
                    tuple(mean_share(list(zip(count, requests, strict=True)), sessions) for count in counts),
                )
            )
    return [row for phase in measured for row in rows[phase]]


def _bands(run: Run, tag: str | None, failed: int, bounds: tuple[float, ...]) -> Bands:
    """Return the successes in each bucket and `failed` requests; `tag` names the histogram (None: no success)."""
    histogram = run.histograms.total(tag) if tag else None
    if histogram is None or not histogram.count:
        return Bands(bounds, (0,) * (len(bounds) + 1), failed)
    below = [0, *(at_most(histogram, bound) for bound in bounds), histogram.count]
    return Bands(bounds, tuple(high - low for low, high in pairwise(below)), failed)
