"""Result of a scalability analysis, and its outliers.

Outliers are found by leaving out each run in turn, selecting a model for the rest, and testing the run against it. The
test is the externally studentised residual (Cook and Weisberg, "Residuals and Influence in Regression", 1982, section
2.2.2), from the sums of squares with and without the run, which accounts for the leverage of the largest sizes. The
level is adjusted by Bonferroni for the maximum of n residuals. The worst run is removed and the search repeats, for at
most a fifth of the runs. This hard-rejecting robust fit finds one or two wild runs; many can mask each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability.fitting import LackOfFit, PointFit, choose, fit_rows
from loadframe.analyze.scalability.intervals import CeilingChange, Peak, PeakStanding, Spread
from loadframe.analyze.scalability.models import Array, ModelName, Scaling
from loadframe.analyze.scalability.observations import Observations, Residuals
from loadframe.base import special

#: Probability that a valid run is rejected.
_LEVEL = 0.01
_MOST_SHARE = 0.2
#: Above this number of runs a single one has little influence, and the search would be slow.
_MOST_RUNS = 500


@dataclass(frozen=True)
class Outlier:
    """A run far off the curve of the others: its index among the input pairs, and its relative deviation."""

    place: int
    deviation: float


@dataclass(frozen=True, eq=False)
class _Suspect:
    outlier: Outlier
    p: float
    fits: Sequence[PointFit]
    rest: Observations


def outliers(fits: Sequence[PointFit], observations: Observations) -> tuple[Outlier, ...]:
    """Return the runs to reject, the worst first; `fits` are all models fitted to all runs.

    A run is rejected if its p under the curve of the other runs, times the number of runs, is below 0.01. The next one
    is sought among the rest, with new fits. At most a fifth of the runs is rejected, and none of more than 500.
    """
    outliers: list[Outlier] = []
    most = int(_MOST_SHARE * observations.total) if observations.total <= _MOST_RUNS else 0
    while len(outliers) < most:
        worst = min(_suspects(fits, observations), key=lambda suspect: suspect.p, default=None)
        if worst is None or worst.p * observations.total >= _LEVEL:
            break
        outliers.append(worst.outlier)
        fits, observations = worst.fits, worst.rest
    return tuple(outliers)


def _suspects(fits: Sequence[PointFit], observations: Observations) -> Iterator[_Suspect]:
    """Yield each run with its deviation from, and its p under, the curve selected for the other runs.

    `fits` are all models fitted to all runs. Runs are left out if too few sizes or degrees of freedom remain without
    them.
    """
    places = [(size, run) for size, runs in enumerate(observations.runs) for run in range(runs.size)]
    rests = [observations.without_run(*place) for place in places]
    means, weights = _leave_one_out(observations, places)
    solutions = [fit_rows(fitted, observations.sizes, means, weights) for fitted in fits]
    for row, ((size, run), rest) in enumerate(zip(places, rests, strict=True)):
        if len(rest.sizes) < 3:
            continue
        again = [
            PointFit(fitted.model, theta[row], fitted.bounds, float(cost[row]) + rest.pure_error)
            for fitted, (theta, cost) in zip(fits, solutions, strict=True)
        ]
        chosen = choose(again, rest)
        freedom = rest.freedom - chosen.model.size
        if freedom < 1:
            continue
        with_it = next(fitted for fitted in fits if fitted.model is chosen.model)
        left = max(chosen.sum_of_squares, rest.least_sum)
        statistic = max(with_it.sum_of_squares - chosen.sum_of_squares, 0.0) / (left / freedom)
        predicted = float(chosen.model.curve(chosen.theta, observations.sizes[[size]])[0])
        yield _Suspect(
            Outlier(observations.places[size][run], float(observations.runs[size][run]) / predicted - 1),
            float(special.fdtrc(1, freedom, statistic)),
            again,
            rest,
        )


def _leave_one_out(observations: Observations, places: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Return the means of all sizes without each run in turn, and their weights: (runs, sizes) each."""
    means = np.tile(observations.means, (len(places), 1))
    counts = np.tile(observations.counts, (len(places), 1))
    for row, (size, run) in enumerate(places):
        counts[row, size] -= 1
        if counts[row, size]:
            means[row, size] = np.delete(observations.runs[size], run).mean()
    scale = means if observations.residuals == "relative" else np.ones_like(means)
    return means, np.sqrt(counts) / scale


@dataclass(frozen=True, eq=False)
class ModelFit:
    """One model fitted to the data.

    `residuals` has one number per observation, in their order: (measured - predicted) / mean at that size, without the
    division for an absolute fit. `extrapolation_error` is the relative error of predicting the largest size from the
    others. AICc is None with too few runs. `others` are fits of the same model to bounds of the throughputs: intervals
    cover theirs.
    """

    name: ModelName
    parameters: dict[str, Estimate]
    aicc: float | None
    r_squared: float | None
    residuals: tuple[float, ...]
    lack_of_fit: LackOfFit | None
    extrapolation_error: float | None
    point: PointFit = field(repr=False)
    spread: Spread = field(repr=False)
    others: tuple["ModelFit", ...] = field(default=(), repr=False)

    def predicted(self, n: Array) -> Array:
        """Return the curve's throughput at sizes `n`."""
        return self.point.model.curve(self.point.theta, np.asarray(n, dtype=float))

    def band(self, n: Array) -> tuple[Array, Array]:
        """Return the ends of the curve's 95 % interval at sizes `n`, point by point."""
        sizes = np.asarray(n, dtype=float)
        return self._covering([one.point.model.curve(one.spread.theta, sizes) for one in (self, *self.others)])

    def ratio(self, above: float, below: float) -> tuple[float, float]:
        """Return the ends of the 95 % interval of the throughput at size `above` divided by that at size `below`."""
        sizes = np.array([above, below])
        curves = [one.point.model.curve(one.spread.theta, sizes) for one in (self, *self.others)]
        low, high = self._covering([curve[..., 0] / curve[..., 1] for curve in curves])
        return float(low), float(high)

    def _covering(self, values: Sequence[Array]) -> tuple[Array, Array]:
        """Return the ends of an interval that covers the interval of each fit; `values` has the draws of each fit."""
        ends = [one.spread.interval(drawn) for one, drawn in zip((self, *self.others), values, strict=True)]
        return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)

    @property
    def settled(self) -> bool:
        """Whether the interval of lambda, apart from the blocks' level, is at most as wide as its value."""
        lam = self.parameters["lambda"]
        low, high = lam.low, lam.high
        if self.spread.levels is not None:
            spreads = [one.spread for one in (self, *self.others)]
            drawn = [it.theta[:, 0] / (1.0 if it.levels is None else np.exp(it.levels)) for it in spreads]
            low, high = map(float, self._covering(drawn))
        return high - low <= lam.value

    def as_dict(self) -> dict[str, Any]:
        """Return parameters with intervals, AICc and R squared for JSON; AICc and R squared may be null."""
        return {
            "parameters": {name: estimate.as_dict() for name, estimate in self.parameters.items()},
            "aicc": self.aicc,
            "r_squared": self.r_squared,
        }


@dataclass(frozen=True, eq=False)
class Robust:
    """Result without the outliers; `outliers` lists them, the worst first."""

    outliers: tuple[Outlier, ...]
    best: ModelName
    parameters: dict[str, Estimate]
    candidate: Peak
    standing: PeakStanding

    def as_dict(self) -> dict[str, Any]:
        """Return model, parameters, the conclusion about a peak, and the rejected observations (by index) for JSON."""
        return {
            "without": [{"observation": outlier.place, "deviation": outlier.deviation} for outlier in self.outliers],
            "best": self.best,
            "parameters": {name: estimate.as_dict() for name, estimate in self.parameters.items()},
            "peak_standing": self.standing,
        }


@dataclass(frozen=True, eq=False)
class ScalabilityFit:
    """Fits of all models to (n, throughput) observations, the model that the data support, and warnings.

    `over` says what n counts (nodes, clients, ...). `possible` are the models that the noise does not reject.
    `candidate` is the USL's peak, `ceiling` the change along the hard knee's ceiling, `standing` the conclusion about a
    peak. `robust` is None without outliers. `measured_at_one` is the mean throughput at n = 1, if measured. `unknown`
    is the reason why all intervals are unknown, such as failures of the store; None if they are not.
    """

    over: str
    kind: Residuals
    scaling: Scaling
    observations: tuple[tuple[float, float], ...]
    models: dict[ModelName, ModelFit]
    best: ModelName
    possible: tuple[ModelName, ...]
    candidate: Peak
    ceiling: CeilingChange | None
    standing: PeakStanding
    robust: Robust | None
    measured_at_one: float | None
    warnings: tuple[Finding, ...]
    unknown: str | None = None

    @property
    def best_model(self) -> ModelFit:
        """The model that the data support."""
        return self.models[self.best]

    @property
    def peak(self) -> Peak | None:
        """The peak if the data show one, otherwise None."""
        return self.candidate if self.standing == "shown" else None

    def scaled_speedup(self, n: float) -> Estimate | None:
        """Return Gustafson's scaled speed-up n - s (n - 1) with its interval, or None for strong scaling."""
        law = self.models.get("gustafson")
        if law is None:
            return None
        share = law.parameters["serial"]
        return Estimate(n - share.value * (n - 1), n - share.high * (n - 1), n - share.low * (n - 1))

    @property
    def largest(self) -> float:
        """The largest measured n; curves are drawn up to twice this size."""
        return max(n for n, _ in self.observations)

    def as_dict(self) -> dict[str, Any]:
        """Return the document that `loadframe fit --json` prints: models, the best one, its peak, and warnings."""
        scaled = self.scaled_speedup(self.largest)
        peak = self.peak and {"n": self.peak.n.as_dict(), "throughput": self.peak.throughput.as_dict()}
        return {
            "scaling": self.scaling,
            "best": self.best,
            "models": {name: model.as_dict() for name, model in self.models.items()},
            "possible": list(self.possible),
            "peak": peak,
            "peak_standing": self.standing,
            "scaled_speedup": scaled and {"n": self.largest, "speedup": scaled.as_dict()},
            "robust": self.robust and self.robust.as_dict(),
            "warnings": [warning.as_dict() for warning in self.warnings],
        }
