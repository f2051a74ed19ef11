"""Whether a fitted model deserves belief: misfit against noise, and prediction of a size it has not seen."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from loadframe.analyze.scalability.fitting import PointFit, fit_model
from loadframe.analyze.scalability.observations import Observations


@dataclass(frozen=True)
class LackOfFit:
    """The F test of misfit against pure error between repeated runs; a small `p` means the curve misses the data."""

    f: float
    p: float


def lack_of_fit(fitted: PointFit, observations: Observations) -> LackOfFit | None:
    """Test for lack of fit (Draper and Smith, "Applied Regression Analysis", 3rd ed., section 2.1).

    None without repeated runs, or where the model has as many parameters as there are sizes.
    """
    sizes = len(observations.sizes)
    between, within = sizes - fitted.model.size, observations.freedom - sizes
    if between < 1 or within < 1:
        return None
    noise = max(observations.pure_error, observations.least_sum)
    f = max(fitted.sum_of_squares - observations.pure_error, 0.0) / between / (noise / within)
    return LackOfFit(f, float(special.fdtrc(between, within, f)))


def extrapolation_error(fitted: PointFit, observations: Observations) -> float | None:
    """Fit the model without the largest size and return its error there, relative to the measured mean.

    0.1 means that the prediction was 10 % too high. None where the other sizes are too few for the model.
    """
    rest = observations.without_largest()
    if len(rest.sizes) < max(fitted.model.size, 2):
        return None
    superlinear = bool(fitted.bounds and fitted.bounds.lower[0] < 0)
    again = fit_model(fitted.model, rest, superlinear=superlinear)
    predicted = float(again.model.curve(again.theta, observations.sizes[-1:])[0])
    return predicted / float(observations.means[-1]) - 1


def r_squared(fitted: PointFit, observations: Observations) -> float | None:
    """Return the share of throughput's variation that the curve explains (unweighted); None for constant data."""
    values = np.concatenate(observations.runs)
    predicted = np.repeat(fitted.model.curve(fitted.theta, observations.sizes), observations.counts.astype(int))
    total = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - predicted) ** 2).sum()) / total if total > 0 else None
