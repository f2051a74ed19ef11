"""From observations to a scalability result: fit the ladder, choose a model, look for a peak, collect the doubts."""

from collections.abc import Sequence

import numpy as np

from loadframe.analyze.scalability.checks import extrapolation_error, lack_of_fit, r_squared
from loadframe.analyze.scalability.doubts import PEAK_REACH, doubts
from loadframe.analyze.scalability.fitting import PointFit, fit_model
from loadframe.analyze.scalability.intervals import Spread, parameters, spread
from loadframe.analyze.scalability.models import AMDAHL, LADDER, USL, Array, Model, peak_size
from loadframe.analyze.scalability.observations import RESOLUTION, Observations, Residuals, gather
from loadframe.analyze.scalability.result import ModelFit, Peak, ScalabilityFit
from loadframe.analyze.scalability.selection import aicc, choose


def fit(
    observations: Sequence[tuple[float, float]],
    *,
    residuals: Residuals = "relative",
    seed: int = 0,
    over: str = "n",
    resolution: float = RESOLUTION,
) -> ScalabilityFit:
    """Fit linear scaling, Amdahl's law, a hard knee and the USL to (n, throughput) observations.

    Repeated n are repeated runs. `residuals` says whether noise grows with throughput ("relative") or not
    ("absolute"); `seed` fixes the resampling; `over` names what n counts, for the messages; `resolution`
    is the relative standard deviation of an error that all runs of one n share, which repetitions do not show.
    BadInput for fewer than three distinct n and for numbers that are not positive and finite.
    """
    data = gather(observations, residuals, resolution)
    fitted = {model.name: _fit_with_sign(model, data, seed) for model in LADDER}
    best = choose([point for point, _ in fitted.values()], data).model.name
    models = {name: _describe(point, around, data, observations) for name, (point, around) in fitted.items()}
    candidate = _peak(*fitted["usl"])
    kappa = models["usl"].parameters["kappa"]
    known = candidate.n.is_finite and kappa.low > 0
    claimed = best == "usl" and known and data.sizes[-1] >= PEAK_REACH * candidate.n.value
    at_one = [throughput for n, throughput in observations if n == 1]
    measured_at_one = sum(at_one) / len(at_one) if at_one else None
    return ScalabilityFit(
        over=over,
        kind=residuals,
        observations=tuple((float(n), float(throughput)) for n, throughput in observations),
        models=models,
        best=best,
        peak=candidate if claimed else None,
        measured_at_one=measured_at_one,
        warnings=doubts(
            data, over=over, models=models, best=best, candidate=candidate, measured_at_one=measured_at_one
        ),
    )


def _fit_with_sign(model: Model, data: Observations, seed: int) -> tuple[PointFit, Spread]:
    """Fit with s >= 0; where s ends at that bound and is significantly negative without it, keep the negative s."""
    point = fit_model(model, data)
    around = spread(point, data, seed)
    if model in (AMDAHL, USL) and point.theta[1] <= 0:
        unbound = fit_model(model, data, superlinear=True)
        around_unbound = spread(unbound, data, seed)
        if around_unbound.high[1] < 0:
            return unbound, around_unbound
    return point, around


def _describe(
    point: PointFit, around: Spread, data: Observations, observations: Sequence[tuple[float, float]]
) -> ModelFit:
    predicted = dict(zip(data.sizes, point.model.curve(point.theta, data.sizes), strict=True))
    scale = dict(zip(data.sizes, data.scale, strict=True))
    return ModelFit(
        name=point.model.name,
        parameters=parameters(point, around, data),
        aicc=aicc(point, data),
        r_squared=r_squared(point, data),
        residuals=tuple(float((throughput - predicted[n]) / scale[n]) for n, throughput in observations),
        lack_of_fit=lack_of_fit(point, data),
        extrapolation_error=extrapolation_error(point, data),
        point=point,
        spread=around,
    )


def _peak(point: PointFit, around: Spread) -> Peak:
    """Return the USL's peak with its intervals; infinite where kappa is 0."""
    return Peak(
        around.estimate(float(peak_size(point.theta)), peak_size(around.theta)),
        around.estimate(float(_throughput_at_peak(point.theta[None, :])[0]), _throughput_at_peak(around.theta)),
    )


def _throughput_at_peak(theta: Array) -> Array:
    lam, sigma, kappa = theta.T
    n = peak_size(theta)
    finite = np.isfinite(n)
    m = np.where(finite, n, 1.0)
    with np.errstate(divide="ignore"):
        # Without kappa throughput grows towards Amdahl's ceiling L / s for ever.
        peak: Array = np.where(
            finite, lam * m / (1 + sigma * (m - 1) + kappa * m * (m - 1)), lam / np.maximum(sigma, 0)
        )
    return peak
