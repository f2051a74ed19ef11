"""What a fit says: frozen records of models, peak and warnings, and the curves with their bands."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability.checks import LackOfFit
from loadframe.analyze.scalability.fitting import PointFit
from loadframe.analyze.scalability.intervals import Spread
from loadframe.analyze.scalability.models import Array, ModelName
from loadframe.analyze.scalability.observations import Residuals


@dataclass(frozen=True, eq=False)
class ModelFit:
    """One model fitted to the data.

    `residuals` has one number per observation, in the observations' order: (measured - predicted) / mean at that size,
    or without the division where the fit is absolute. `extrapolation_error` is the relative error of predicting the
    largest size from the others. AICc is None with too few runs for it.
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

    def predicted(self, n: Array) -> Array:
        """Return the curve's throughput at sizes `n`."""
        return self.point.model.curve(self.point.theta, np.asarray(n, dtype=float))

    def band(self, n: Array) -> tuple[Array, Array]:
        """Return the ends of the curve's 95 % interval at sizes `n`, point by point."""
        sizes = np.asarray(n, dtype=float)
        return self.spread.interval(self.point.model.curve(self.spread.theta, sizes))

    def as_dict(self) -> dict[str, Any]:
        """Return parameters, AICc and R squared for JSON."""
        return {
            "parameters": {name: estimate.as_dict() for name, estimate in self.parameters.items()},
            "aicc": self.aicc,
            "r_squared": self.r_squared,
        }


@dataclass(frozen=True)
class Peak:
    """Where throughput is greatest, and how great it is there."""

    n: Estimate
    throughput: Estimate


@dataclass(frozen=True, eq=False)
class ScalabilityFit:
    """The ladder of models fitted to (n, throughput) observations, the one they support, and what to doubt.

    `over` names what n counts (nodes, clients, ...). `measured_at_one` is the mean throughput at n = 1, where measured.
    """

    over: str
    kind: Residuals
    observations: tuple[tuple[float, float], ...]
    models: dict[ModelName, ModelFit]
    best: ModelName
    peak: Peak | None
    measured_at_one: float | None
    warnings: tuple[Finding, ...]

    @property
    def best_model(self) -> ModelFit:
        """The model that the data support."""
        return self.models[self.best]

    @property
    def largest(self) -> float:
        """The largest measured n; no curve is drawn beyond twice of it."""
        return max(n for n, _ in self.observations)

    def as_dict(self) -> dict[str, Any]:
        """Return what `loadframe fit --json` prints."""
        peak = self.peak and {"n": self.peak.n.as_dict(), "throughput": self.peak.throughput.as_dict()}
        return {
            "best": self.best,
            "models": {name: model.as_dict() for name, model in self.models.items()},
            "peak": peak,
            "warnings": [warning.as_dict() for warning in self.warnings],
        }
