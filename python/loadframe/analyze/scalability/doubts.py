"""Which warnings a fit deserves; what each says is in `warnings`."""

from collections.abc import Iterator, Mapping

from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability import warnings
from loadframe.analyze.scalability.models import ModelName
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.result import ModelFit, Peak
from loadframe.analyze.scalability.selection import RUNS_FOR_AICC

#: A peak is claimed only where the measured sizes reach this share of it.
PEAK_REACH = 0.7
_ENOUGH_SIZES = 6
#: Burnham and Anderson's rule of thumb: models within 2 have substantial support.
_ALIKE = 2.0
_FAR_OFF = 0.1
_MORE_THAN_LINEAR = 1.05
_SIGNIFICANT = 0.05


def doubts(
    data: Observations,
    *,
    over: str,
    models: Mapping[ModelName, ModelFit],
    best: ModelName,
    candidate: Peak,
    measured_at_one: float | None,
) -> tuple[Finding, ...]:
    """Return all warnings; `candidate` is the USL's peak, whether or not it may be claimed."""
    return (
        *_about_data(data, over),
        *_about_choice(data, models, best),
        *_about_growth(data, over, models),
        *_about_peak(data, over, models, best, candidate),
        *_about_curve(data, over, models[best], measured_at_one),
    )


def _about_data(data: Observations, over: str) -> Iterator[Finding]:
    if len(data.sizes) < _ENOUGH_SIZES:
        yield warnings.FewSizes(len(data.sizes), over)
    if not data.is_replicated:
        yield warnings.NotRepeated(over)
    if data.total < RUNS_FOR_AICC:
        yield warnings.FewRuns(data.total, RUNS_FOR_AICC)


def _about_choice(data: Observations, models: Mapping[ModelName, ModelFit], best: ModelName) -> Iterator[Finding]:
    least = models[best].aicc
    if data.total < RUNS_FOR_AICC or least is None:
        return
    distances = {m.name: m.aicc - least for m in models.values() if m.aicc is not None and m.name != best}
    # A knee that is no candidate may score better than the best; it is not alike.
    alike = {name: distance for name, distance in distances.items() if 0 <= distance < _ALIKE}
    if alike:
        yield warnings.ModelsAlike(best, tuple(alike), max(alike.values()))


def _about_growth(data: Observations, over: str, models: Mapping[ModelName, ModelFit]) -> Iterator[Finding]:
    names: tuple[ModelName, ...] = ("amdahl", "usl")
    for name in names:
        sigma = models[name].parameters["sigma"]
        if sigma.value < 0:
            yield warnings.Superlinear(name, sigma.value, sigma.low, sigma.high)
            return
    each = data.means / data.sizes
    ratio = float(each[-1] / each[0])
    if ratio > _MORE_THAN_LINEAR:
        yield warnings.PerhapsSuperlinear(ratio, float(data.sizes[0]), float(data.sizes[-1]), over)


def _about_peak(
    data: Observations, over: str, models: Mapping[ModelName, ModelFit], best: ModelName, candidate: Peak
) -> Iterator[Finding]:
    kappa, largest, n = models["usl"].parameters["kappa"], float(data.sizes[-1]), candidate.n
    if kappa.low <= 0:
        yield warnings.NoPeakSeen(kappa.value, kappa.high, n.low, largest, over)
    elif best != "usl":
        yield warnings.PeakNotBest(best, n.value, over)
    elif not n.is_finite or largest < PEAK_REACH * n.value:
        yield warnings.PeakTooFar(n.value, n.low, n.high, largest, over)


def _about_curve(data: Observations, over: str, best: ModelFit, measured_at_one: float | None) -> Iterator[Finding]:
    if best.lack_of_fit and best.lack_of_fit.p < _SIGNIFICANT:
        yield warnings.Misfit(best.name, best.lack_of_fit.p)
    error = best.extrapolation_error
    if error is not None and abs(error) > _FAR_OFF:
        yield warnings.PoorPrediction(best.name, error, float(data.sizes[-1]), over)
    lam = best.parameters["lambda"].value
    if measured_at_one is not None and abs(lam / measured_at_one - 1) > _FAR_OFF:
        yield warnings.LambdaOff(best.name, lam, measured_at_one)
