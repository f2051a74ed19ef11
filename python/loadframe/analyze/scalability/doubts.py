"""Which warnings a fit deserves; what each says is in `warnings`."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability import warnings
from loadframe.analyze.scalability.models import LADDERS, USL, ModelName
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.peak import PEAK_REACH, CeilingChange, Peak, PeakStanding
from loadframe.analyze.scalability.result import ModelFit, Robust

_ENOUGH_SIZES = 6
_FAR_OFF = 0.1
_MORE_THAN_LINEAR = 1.05
_SIGNIFICANT = 0.05


def doubts(
    data: Observations,
    *,
    over: str,
    models: Mapping[ModelName, ModelFit],
    best: ModelName,
    possible: Collection[ModelName],
    candidate: Peak,
    ceiling: CeilingChange | None,
    standing: PeakStanding,
    robust: Robust | None,
    names: Sequence[str],
    measured_at_one: float | None,
) -> tuple[Finding, ...]:
    """Return all warnings.

    `possible` are the models that are not rejected, `candidate` is the USL's peak, `ceiling` the change along that of
    the hard knee, `standing` what all runs say of a peak, `robust` what they say without those that lie far off, and
    `names` are those of the runs.
    """
    return (
        *_about_data(data, over),
        *_about_runs(models[best], standing, candidate, robust, names, over),
        *_about_choice(best, possible),
        *_about_growth(data, over, models[best]),
        *_about_peak(data, over, models, best, possible, candidate, ceiling, standing),
        *_about_curve(data, over, models[best], measured_at_one),
    )


def _about_data(data: Observations, over: str) -> Iterator[Finding]:
    if len(data.sizes) < _ENOUGH_SIZES:
        yield warnings.FewSizes(len(data.sizes), over)
    if not data.is_replicated:
        yield warnings.NotRepeated(over)


def _about_runs(
    best: ModelFit, standing: PeakStanding, candidate: Peak, robust: Robust | None, names: Sequence[str], over: str
) -> Iterator[Finding]:
    if robust is None:
        return
    moved = [
        (name, estimate.value, robust.parameters[name].value)
        for name, estimate in best.parameters.items()
        if robust.best == best.name and not estimate.low <= robust.parameters[name].value <= estimate.high
    ]
    if robust.best == best.name and robust.standing == standing and not moved:
        return
    yield warnings.RunsDecide(
        runs=tuple((names[outlier.place], outlier.deviation) for outlier in robust.outliers),
        models=(best.name, robust.best),
        peaks=tuple(
            peak.n.value if stands in ("shown", "beyond") else None
            for peak, stands in ((candidate, standing), (robust.candidate, robust.standing))
        ),
        moved=tuple(moved),
        over=over,
    )


def _about_choice(best: ModelName, possible: Collection[ModelName]) -> Iterator[Finding]:
    # A richer model can always be bent to the data of a simpler one; that says nothing against the simpler.
    parameters = {model.name: model.size for model in LADDERS["weak"]}
    alike = [name for name in possible if name != best and parameters[name] <= parameters[best]]
    if alike:
        yield warnings.ModelsAlike(best, tuple(alike))


def _about_growth(data: Observations, over: str, best: ModelFit) -> Iterator[Finding]:
    sigma = best.parameters.get("sigma") or best.parameters.get("serial")
    if sigma and sigma.value < 0:
        yield warnings.Superlinear(best.name, sigma.value, sigma.low, sigma.high)
        return
    per_unit = data.means / data.sizes
    ratio = float(per_unit[-1] / per_unit[0])
    if ratio > _MORE_THAN_LINEAR:
        yield warnings.PerhapsSuperlinear(ratio, float(data.sizes[0]), float(data.sizes[-1]), over)


def _about_peak(
    data: Observations,
    over: str,
    models: Mapping[ModelName, ModelFit],
    best: ModelName,
    possible: Collection[ModelName],
    candidate: Peak,
    ceiling: CeilingChange | None,
    standing: PeakStanding,
) -> Iterator[Finding]:
    kappa, largest, n = models["usl"].parameters["kappa"], float(data.sizes[-1]), candidate.n
    if standing == "open" and USL.name not in possible:
        yield warnings.CeilingMayFall(ceiling, over)
    elif standing == "open" and set(possible) == {USL.name} and kappa.low > 0 and n.is_finite:
        yield warnings.PerhapsSaturated(n.value, largest, over)
    elif standing == "open":
        flat = tuple(name for name in possible if name != USL.name)
        yield warnings.PeakOpen(flat, kappa.value, kappa.high, (n.value, n.low, n.high), largest, over)
    elif standing == "beyond":
        yield warnings.PeakTooFar(n.value, n.low, n.high, largest, over, PEAK_REACH)
    elif standing == "none" and USL.name in possible:
        yield warnings.NoPeakSeen(kappa.value, kappa.low, kappa.high, n.low, largest, over)
    elif standing == "none" and kappa.value > 0:
        yield warnings.PeakNotBest(best, n.value, largest, over)


def _about_curve(data: Observations, over: str, best: ModelFit, measured_at_one: float | None) -> Iterator[Finding]:
    if best.lack_of_fit and best.lack_of_fit.p < _SIGNIFICANT:
        yield warnings.Misfit(best.name, best.lack_of_fit.p)
    error = best.extrapolation_error
    if error is not None and abs(error) > _FAR_OFF:
        yield warnings.PoorPrediction(best.name, error, float(data.sizes[-1]), over)
    lam = best.parameters["lambda"].value
    if measured_at_one is not None and abs(lam / measured_at_one - 1) > _FAR_OFF:
        yield warnings.LambdaOff(best.name, lam, measured_at_one)
