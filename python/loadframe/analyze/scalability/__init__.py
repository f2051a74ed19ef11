"""Scalability analysis of observations: fit all models, select one, look for a peak, collect warnings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from loadframe.analyze.scalability import warnings as rules
from loadframe.analyze.scalability.fitting import (
    PointFit,
    aicc,
    choose,
    extrapolation_error,
    fit_model,
    lack_of_fit,
    possible,
    r_squared,
    saturates,
)
from loadframe.analyze.scalability.intervals import (
    CeilingChange,
    Peak,
    PeakStanding,
    Spread,
    ceiling_change,
    parameters,
    peak_of,
    spread,
    standing_of,
)
from loadframe.analyze.scalability.models import (
    AMDAHL,
    GUSTAFSON,
    KNEE,
    LADDERS,
    USL,
    ModelName,
    ScalabilityModel,
    Scaling,
)
from loadframe.analyze.scalability.observations import RESOLUTION, Observations, Residuals, gather
from loadframe.analyze.scalability.result import ModelFit, Outlier, Robust, ScalabilityFit, outliers

__all__ = ["ModelFit", "ModelName", "Peak", "PeakStanding", "Residuals", "Robust", "ScalabilityFit", "Scaling", "fit"]


def fit(
    observations: Sequence[tuple[float, float]],
    *,
    residuals: Residuals = "relative",
    seed: int = 0,
    over: str = "n",
    resolution: float = RESOLUTION,
    scaling: Scaling = "strong",
    blocks: Sequence[object] | None = None,
    names: Sequence[str] | None = None,
    failed: Collection[float] = (),
) -> ScalabilityFit:
    """Fit linear scaling, Amdahl's law, a hard knee and the USL to (n, throughput) observations.

    For weak `scaling`, where the work grows with n, Gustafson's law is fitted as well. Repeated n are repeated runs.

    - `residuals`: whether noise grows with throughput ("relative") or not ("absolute").
    - `seed`: seed of the resampling.
    - `over`: what n counts, for messages.
    - `resolution`: relative standard deviation of an error that all runs of one n share; repetitions do not show it.
    - `blocks`, `names`: block and name of each observation.
    - `failed`: n at which the store failed in other runs. Intervals and the conclusion about a peak are then unknown.

    BadInput for fewer than 3 or more than 500 distinct n, if no n is above 1, and for numbers that are not positive and
    finite.
    """
    data = gather(observations, residuals, resolution, blocks, over=over, failed=failed)
    conclusion = _conclude(data, seed, scaling)
    outlying = () if data.failed else outliers([point for point, _ in conclusion.fitted.values()], data)
    robust = None
    if outlying:
        places = [outlier.place for outlier in outlying]
        rest = gather(observations, residuals, resolution, blocks, without=places, over=over)
        robust = _without(outlying, rest, _conclude(rest, seed, scaling))
    # A conclusion about a peak is open if it depends on the outliers.
    disagree = (
        robust is not None
        and "none" in (conclusion.standing, robust.standing)
        and conclusion.standing != robust.standing
    )
    standing: PeakStanding = "open" if disagree else conclusion.standing
    models = {name: _describe(point, around, data, observations) for name, (point, around) in conclusion.fitted.items()}
    at_one = [throughput for n, throughput in observations if n == 1]
    measured_at_one = sum(at_one) / len(at_one) if at_one else None
    return ScalabilityFit(
        over=over,
        kind=residuals,
        scaling=scaling,
        observations=tuple((float(n), float(throughput)) for n, throughput in observations),
        models=models,
        best=conclusion.best,
        possible=conclusion.possible,
        candidate=conclusion.candidate,
        ceiling=conclusion.ceiling,
        standing=standing,
        robust=robust,
        measured_at_one=measured_at_one,
        warnings=rules.warnings(
            data,
            over=over,
            models=models,
            best=conclusion.best,
            possible=conclusion.possible,
            candidate=conclusion.candidate,
            ceiling=conclusion.ceiling,
            standing=conclusion.standing,
            robust=robust,
            names=[_name(n, throughput, over, at, names) for at, (n, throughput) in enumerate(observations)],
            measured_at_one=measured_at_one,
        ),
    )


@dataclass(frozen=True, eq=False)
class _Conclusion:
    """Fits of all models to some data, the selected model, and the conclusion about a peak."""

    fitted: Mapping[ModelName, tuple[PointFit, Spread]]
    best: ModelName
    possible: tuple[ModelName, ...]
    candidate: Peak
    ceiling: CeilingChange | None
    standing: PeakStanding


def _conclude(data: Observations, seed: int, scaling: Scaling) -> _Conclusion:
    """Return the fits of all models, the selected and the possible ones, and the conclusion about a peak.

    `seed` is that of the resampling. `scaling` selects the models: Gustafson's law is only fitted for `weak`.
    """
    fitted = {model.name: _fit_with_sign(model, data, seed) for model in LADDERS[scaling]}
    points = [point for point, _ in fitted.values()]
    best, left = choose(points, data).model.name, possible(points, data)
    usl = fitted[USL.name]
    candidate, kappa = peak_of(*usl, float(data.sizes[0])), parameters(*usl, data)["kappa"]
    ceiling = None if data.failed else ceiling_change(fitted[KNEE.name][0], data)
    largest = float(data.sizes[-1])
    standing = standing_of(candidate, kappa, ceiling, best=best, possible=left, largest=largest)
    if data.failed or (standing in ("shown", "beyond") and saturates(usl[0], data)):
        standing = "open"
    return _Conclusion(fitted, best, left, candidate, ceiling, standing)


def _without(outlying: Sequence[Outlier], rest: Observations, conclusion: _Conclusion) -> Robust:
    """Return the conclusion without the outliers `outlying`, from the fits to the `rest` of the observations."""
    point, around = conclusion.fitted[conclusion.best]
    return Robust(
        tuple(outlying), conclusion.best, parameters(point, around, rest), conclusion.candidate, conclusion.standing
    )


def _fit_with_sign(model: ScalabilityModel, data: Observations, seed: int) -> tuple[PointFit, Spread]:
    """Return a model's fit and its spread.

    The contention or serial share is at least 0, unless a fit with a negative one is significantly below 0.
    """
    point = fit_model(model, data)
    around = spread(point, data, seed)
    if model in (AMDAHL, GUSTAFSON, USL) and point.theta[1] <= 0:
        unbound = fit_model(model, data, superlinear=True)
        around_unbound = spread(unbound, data, seed)
        if around_unbound.high[1] < 0:
            return unbound, around_unbound
    return point, around


def _describe(
    point: PointFit, around: Spread, data: Observations, observations: Sequence[tuple[float, float]]
) -> ModelFit:
    """Return a model's fit for the result: parameters with intervals, residuals and measures of its quality.

    `around` is the spread of the fit `point`. `data` are the `observations` (n, throughput) without the effects of
    blocks; residuals are those of `observations`.
    """
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


def _name(n: float, throughput: float, over: str, place: int, names: Sequence[str] | None) -> str:
    """Return the name of the observation number `place`, or, without `names`, its figures as a name."""
    return names[place] if names else f"the run with {throughput:,.6g} at {n:g} {over}"
