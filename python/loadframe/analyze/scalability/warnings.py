"""Rules for scalability fits. `over` names the unit of sizes, such as nodes or clients."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf

from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.scalability.intervals import PEAK_REACH, CeilingChange, Peak, PeakStanding
from loadframe.analyze.scalability.models import LADDERS, USL, ModelName
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.result import ModelFit, Robust
from loadframe.base.units import format_change, format_changes, format_count, format_share

_NAMES = {
    "linear": "linear scaling",
    "gustafson": "Gustafson's law",
    "amdahl": "Amdahl's law",
    "knee": "the hard knee",
    "usl": "the USL",
}
_ENOUGH_SIZES = 6
_FAR_OFF = 0.1
_MORE_THAN_LINEAR = 1.05
_SIGNIFICANT = 0.05
_MORE_SIZES = "measure at more sizes around and beyond that point, and repeat the runs"


def _runs_decide(
    runs: Sequence[tuple[str, float]],
    models: tuple[ModelName, ModelName],
    peaks: Sequence[float | None],
    moved: Sequence[tuple[str, float, float]],
    over: str,
) -> str:
    """Return the cause: the result depends on these runs.

    `runs` pair names with relative deviations from the curve of the other runs (0.1: 10 % above it). `models` and
    `peaks` are the answers with and without these runs; a peak is None if none is shown. `moved` are the parameters
    that leave their interval: name, value with these runs, value without. `over` names the unit of sizes, such as
    nodes.
    """
    listed = ", ".join(
        f"{name} ({format_share(abs(deviation))} {'above' if deviation > 0 else 'below'} the curve of the others)"
        for name, deviation in runs
    )
    decide, pronoun = ("single runs decide", "them") if len(runs) > 1 else ("a single run decides", "it")
    if models[0] != models[1] or peaks[0] != peaks[1]:
        first, second = (_answer(model, peak, over) for model, peak in zip(models, peaks, strict=True))
        change = f"with {pronoun} the data choose {first}, without {pronoun} {second}"
    else:
        changes = ", ".join(f"{name} {value:.3g} becomes {without:.3g}" for name, value, without in moved)
        change = f"without {pronoun} {changes}"
    return f"{decide} the result: {listed}; {change}"


def _answer(model: ModelName, peak: float | None, over: str) -> str:
    """Return the name of a model, and its peak in the unit `over` if it has one."""
    return _NAMES[model] + (f" with a peak at {format_count(peak)} {over}" if peak is not None else "")


def _models_alike(best: ModelName, others: Sequence[ModelName]) -> str:
    """Return the cause: the data do not distinguish the best model from the others."""
    names = " and ".join(_NAMES[name] for name in others)
    return f"the data can hardly distinguish {_NAMES[best]} from {names}: the difference is within the noise"


def _no_peak(kappa: float, low: float, high: float, least_peak: float, largest: float, over: str) -> str:
    """Return the cause: throughput does not peak up to the `largest` size.

    `low` and `high` are the ends of kappa's interval; a peak lies above `least_peak`, if it exists. `over` names the
    unit of sizes, such as nodes.
    """
    lead = "" if low > 0 else f"kappa {_kappa(kappa, high)} cannot be distinguished from 0: "
    beyond = f"; any peak lies above {format_count(least_peak)} {over}" if largest < least_peak < inf else ""
    return f"{lead}throughput has no peak up to {format_count(largest)} {over}{beyond}"


def _peak_open(
    flat: Sequence[ModelName],
    kappa: float,
    kappa_high: float,
    peak: tuple[float, float, float],
    largest: float,
    over: str,
) -> str:
    """Return the cause: the data neither show nor exclude a peak.

    `flat` are the models without a peak, `peak` is the USL's with the ends of its interval, `largest` the largest
    measured size. `kappa_high` is the upper end of kappa's interval. `over` names the unit of sizes, such as nodes.
    """
    value, low, high = peak
    if value > largest or not flat:
        least = f" from {format_count(low)} {over} on" if low > 1 else ""
        return (
            f"kappa {_kappa(kappa, kappa_high)} cannot be distinguished from 0, and its interval allows a peak{least}:"
            " these data neither show a peak nor exclude one"
        )
    names = " and ".join(_NAMES[name] for name in flat)
    return (
        "models that fit equally well within the noise disagree about a peak: the USL puts one at"
        f" {format_count(value)} [{format_count(low)}, {_bound(high)}] {over},"
        f" {names} {'has' if len(flat) == 1 else 'have'} none"
    )


def _ceiling_may_fall(ceiling: CeilingChange | None, over: str) -> str:
    """Return the cause: throughput may fall beyond the knee, by the change along its `ceiling`.

    `ceiling` is None with too few sizes beyond the knee. `over` names the unit of sizes, such as nodes.
    """
    if ceiling is None:
        return "too few sizes lie beyond the knee to decide whether throughput stays or falls there"
    change = ceiling.change
    return (
        "the hard knee explains these data better than the USL, but throughput"
        f" {'falls' if change.high < 0 else 'may fall'} beyond it: it changes by {format_change(change.value)}"
        f" {format_changes(change.low, change.high)} from {format_count(ceiling.first)} to {format_count(ceiling.last)}"
        f" {over}"
    )


def _peak_too_far(peak: float, low: float, high: float, largest: float, over: str) -> str:
    """Return the cause: the `peak` with its interval lies too far beyond the `largest` measured size.

    `over` names the unit of sizes, such as nodes.
    """
    return (
        f"the fitted peak, {format_count(peak)} {over} [{format_count(low)}, {_bound(high)}], is too far beyond the"
        f" largest measured size ({format_count(largest)}) to be claimed"
    )


def _superlinear(model: ModelName, sigma: float, low: float, high: float) -> str:
    """Return the cause: sigma, or Gustafson's serial share, is negative; `low` and `high` are its interval."""
    name = "the serial share" if model == "gustafson" else "sigma"
    return (
        f"{name} of {_NAMES[model]} is negative: {sigma:.3g} [{low:.3g}, {high:.3g}]; throughput grows faster than size"
        " (superlinear)"
    )


def _poor_prediction(best: ModelName, error: float, largest: float, over: str) -> str:
    """Return the cause: without the `largest` size, the model predicts it with this relative `error`.

    A positive error is a prediction above the measured value. `over` names the unit of sizes, such as nodes.
    """
    return (
        f"fitted without {format_count(largest)} {over}, {_NAMES[best]} predicts it {format_share(abs(error))}"
        f" {'above' if error > 0 else 'below'} the measured value"
    )


def _lambda_off(best: ModelName, fitted: float, measured: float) -> str:
    """Return the cause: the throughput `fitted` for a size of one differs from the `measured` one."""
    return (
        f"{_NAMES[best]} predicts {format_count(fitted)} for a size of one, but {format_count(measured)} was measured"
        f" ({format_change(fitted / measured - 1)})"
    )


def _kappa(value: float, high: float) -> str:
    """Return a value of kappa with its interval from 0 to `high`, if that is finite."""
    return f"{value:.2g} [0, {high:.2g}]" if high < inf else f"{value:.2g}"


def _bound(high: float) -> str:
    """Return the upper end of an interval in words; `infinity` if it is infinite."""
    return format_count(high) if high < inf else "infinity"


FEW_SIZES = Rule(
    "few_sizes",
    "only {sizes} different numbers of {over} were measured",
    f"measure at {_ENOUGH_SIZES} or more, up to sizes beyond the expected bend of the curve",
)
NOT_REPEATED = Rule(
    "not_repeated",
    "some numbers of {over} were run only once, so noise cannot be separated from misfit",
    "run each at least 3 times; intervals then use the noise between runs",
)
RUNS_DECIDE = Rule(
    "runs_decide",
    _runs_decide,
    "look for the cause in those runs, and repeat them; state which of the two results you quote",
)
MODELS_ALIKE = Rule(
    "models_alike", _models_alike, "do not extrapolate; measure at larger sizes, where the models differ"
)
NO_PEAK = Rule("no_peak", _no_peak, "to find a peak, measure beyond {largest:count} {over}, or repeat more often")
PEAK_OPEN = Rule("peak_open", _peak_open, _MORE_SIZES)
PERHAPS_SATURATED = Rule(
    "perhaps_saturated",
    "the USL puts a peak at {peak:count} {over}, but a curve that approaches a limit without falling fits as well"
    " within the noise",
    "measure beyond {largest:count} {over} to see whether throughput falls, and repeat runs",
)
CEILING_MAY_FALL = Rule(
    "ceiling_may_fall", _ceiling_may_fall, "measure at more sizes beyond the knee, and repeat the runs"
)
PEAK_TOO_FAR = Rule(
    "peak_too_far",
    _peak_too_far,
    # Sizes must reach this share of the peak for it to be claimed.
    lambda peak, over: f"measure up to at least {format_count(PEAK_REACH * peak)} {over}",
)
PEAK_NOT_BEST = Rule(
    "peak_not_best",
    lambda best, peak, largest, over: (
        f"the USL would put a peak at {format_count(peak)} {over}, but {_NAMES[best]} explains these data better: no"
        f" peak is claimed up to {format_count(largest)} {over}"
    ),
    _MORE_SIZES,
)
SUPERLINEAR = Rule(
    "superlinear",
    _superlinear,
    "check the smallest sizes: too little memory for the data, cold caches, or a generator that is not saturated; do"
    " not extrapolate this curve",
)
PERHAPS_SUPERLINEAR = Rule(
    "perhaps_superlinear",
    "throughput divided by {over} is {increase:share} higher at {largest:count} than at {smallest:count}; the models"
    " keep sigma at 0 or above, which the noise allows",
    "repeat the runs; if it persists, check the smallest sizes (too little memory, cold caches)",
)
MISFIT = Rule(
    "misfit",
    lambda best, p: (
        f"even {_NAMES[best]} misses the data by more than the noise between runs (lack of fit, p = {p:.2g})"
    ),
    "look at the residuals; an effect that changes with size is missing in all of these models",
)
POOR_PREDICTION = Rule("poor_prediction", _poor_prediction, "do not extrapolate from this fit")
LAMBDA_OFF = Rule(
    "lambda_off",
    _lambda_off,
    "speed-ups relative to the measured and to the fitted value differ; state which you quote",
)


def warnings(
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
    """Return all warnings, except about a peak if the store failed at a size.

    `over` names the unit of sizes. `possible` are the models that are not rejected, `candidate` is the USL's peak, and
    `ceiling` the change along the ceiling of the hard knee. `standing` is the result about a peak from all runs.
    `robust` is the result without outliers, `names` the names of the runs. `measured_at_one` is the mean throughput
    at size 1, or None.
    """
    return (
        *_about_data(data, over),
        *_about_runs(models[best], standing, candidate, robust, names, over),
        *_about_choice(best, possible),
        *_about_growth(data, over, models[best]),
        *(() if data.failed else _about_peak(data, over, models, best, possible, candidate, ceiling, standing)),
        *_about_curve(data, over, models[best], measured_at_one),
    )


def _about_data(data: Observations, over: str) -> Iterator[Finding]:
    """Yield findings about fewer than six sizes and about sizes without repeated runs.

    `over` names the unit of sizes.
    """
    if len(data.sizes) < _ENOUGH_SIZES:
        yield FEW_SIZES(sizes=len(data.sizes), over=over)
    if not data.is_replicated:
        yield NOT_REPEATED(over=over)


def _about_runs(
    best: ModelFit, standing: PeakStanding, candidate: Peak, robust: Robust | None, names: Sequence[str], over: str
) -> Iterator[Finding]:
    """Yield a finding if the model, the peak or a parameter depends on the rejected runs.

    `names` are those of all runs, `over` names the unit of sizes. Nothing without rejected runs (`robust` is None).
    """
    if robust is None:
        return
    moved = [
        (name, estimate.value, robust.parameters[name].value)
        for name, estimate in best.parameters.items()
        if robust.best == best.name and not estimate.low <= robust.parameters[name].value <= estimate.high
    ]
    if robust.best == best.name and robust.standing == standing and not moved:
        return
    yield RUNS_DECIDE(
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
    """Yield a finding if the data hardly distinguish the best model from others that are not richer."""
    # A model with more parameters always fits the data of a simpler one, so its fit does not reject the simpler one.
    parameters = {model.name: model.size for model in LADDERS["weak"]}
    alike = [name for name in possible if name != best and parameters[name] <= parameters[best]]
    if alike:
        yield MODELS_ALIKE(best=best, others=tuple(alike))


def _about_growth(data: Observations, over: str, best: ModelFit) -> Iterator[Finding]:
    """Yield a finding if throughput grows faster than the size, or may do so.

    It does if the sigma or serial share of the `best` model is negative. It may if throughput per size at the largest
    size is over 5 % above that at the smallest. `over` names the unit of sizes.
    """
    sigma = best.parameters.get("sigma") or best.parameters.get("serial")
    if sigma and sigma.value < 0:
        yield SUPERLINEAR(model=best.name, sigma=sigma.value, low=sigma.low, high=sigma.high)
        return
    per_unit = data.means / data.sizes
    ratio = float(per_unit[-1] / per_unit[0])
    if ratio > _MORE_THAN_LINEAR:
        yield PERHAPS_SUPERLINEAR(increase=ratio - 1, smallest=data.sizes[0], largest=data.sizes[-1], over=over)


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
    """Yield at most one finding about the peak, by the conclusion `standing`; none for a peak that the sizes show.

    `over` names the unit of sizes, `best` is the selected model. `possible` are the models that are not rejected,
    `candidate` is the USL's peak, and `ceiling` the change along the ceiling of the hard knee.
    """
    kappa, largest, n = models["usl"].parameters["kappa"], float(data.sizes[-1]), candidate.n
    if standing == "open" and USL.name not in possible:
        yield CEILING_MAY_FALL(ceiling=ceiling, over=over)
    elif standing == "open" and set(possible) == {USL.name} and kappa.low > 0 and n.is_finite:
        yield PERHAPS_SATURATED(peak=n.value, largest=largest, over=over)
    elif standing == "open":
        flat = tuple(name for name in possible if name != USL.name)
        yield PEAK_OPEN(
            flat=flat,
            kappa=kappa.value,
            kappa_high=kappa.high,
            peak=(n.value, n.low, n.high),
            largest=largest,
            over=over,
        )
    elif standing == "beyond":
        yield PEAK_TOO_FAR(peak=n.value, low=n.low, high=n.high, largest=largest, over=over)
    elif standing == "none" and USL.name in possible:
        yield NO_PEAK(kappa=kappa.value, low=kappa.low, high=kappa.high, least_peak=n.low, largest=largest, over=over)
    elif standing == "none" and kappa.value > 0:
        yield PEAK_NOT_BEST(best=best, peak=n.value, largest=largest, over=over)


def _about_curve(data: Observations, over: str, best: ModelFit, measured_at_one: float | None) -> Iterator[Finding]:
    """Yield findings about lack of fit, poor extrapolation, and a fit that misses the measured throughput at 1.

    The last two concern relative errors above 10 %. `over` names the unit of sizes. `measured_at_one` is None if not
    measured.
    """
    if best.lack_of_fit and best.lack_of_fit.p < _SIGNIFICANT:
        yield MISFIT(best=best.name, p=best.lack_of_fit.p)
    error = best.extrapolation_error
    if error is not None and abs(error) > _FAR_OFF:
        yield POOR_PREDICTION(best=best.name, error=error, largest=data.sizes[-1], over=over)
    lam = best.parameters["lambda"].value
    if measured_at_one is not None and abs(lam / measured_at_one - 1) > _FAR_OFF:
        yield LAMBDA_OFF(best=best.name, fitted=lam, measured=measured_at_one)
