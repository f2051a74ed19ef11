"""Warnings about a scalability fit."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability.intervals import PEAK_REACH, CeilingChange, Peak, PeakStanding
from loadframe.analyze.scalability.models import LADDERS, USL, ModelName
from loadframe.analyze.scalability.observations import Observations
from loadframe.analyze.scalability.result import ModelFit, Robust
from loadframe.base.units import format_change, format_count, format_share

_NAMES = {
    "linear": "linear scaling",
    "gustafson": "Gustafson's law",
    "amdahl": "Amdahl's law",
    "knee": "the hard knee",
    "usl": "the USL",
}


@dataclass(frozen=True)
class FewSizes(Finding):
    """Under six distinct sizes."""

    sizes: int
    over: str

    def _cause(self) -> str:
        return f"only {self.sizes} different numbers of {self.over} were measured"

    def _remedy(self) -> str:
        return "measure at 6 or more, reaching past where you expect the curve to bend"


@dataclass(frozen=True)
class NotRepeated(Finding):
    """Some size was run once."""

    over: str

    def _cause(self) -> str:
        return f"some numbers of {self.over} were run only once, so noise cannot be separated from misfit"

    def _remedy(self) -> str:
        return "run each at least 3 times; intervals then rest on the noise between runs"


@dataclass(frozen=True)
class RunsDecide(Finding):
    """Runs far off the curve of all others change the answer."""

    #: Name of each run, and its deviation relative to the curve of the others.
    runs: tuple[tuple[str, float], ...]
    #: The model that is chosen with these runs, and without them; the peak, where one is shown.
    models: tuple[ModelName, ModelName]
    peaks: tuple[float | None, ...]
    #: Parameters that leave their interval without these runs: name, value with them, value without.
    moved: tuple[tuple[str, float, float], ...]
    over: str

    def _cause(self) -> str:
        runs = ", ".join(
            f"{name} ({format_share(abs(deviation))} {'above' if deviation > 0 else 'below'} the curve of the others)"
            for name, deviation in self.runs
        )
        several = len(self.runs) > 1
        these, pronoun = ("single runs decide", "them") if several else ("a single run decides", "it")
        return f"{these}: {runs}; {self._change(pronoun)}"

    def _change(self, pronoun: str) -> str:
        if self.models[0] != self.models[1] or self.peaks[0] != self.peaks[1]:
            first, second = (self._answer(model, peak) for model, peak in zip(self.models, self.peaks, strict=True))
            return f"with {pronoun} the data choose {first}, without {pronoun} {second}"
        changes = ", ".join(f"{name} {value:.3g} becomes {without:.3g}" for name, value, without in self.moved)
        return f"without {pronoun} {changes}"

    def _answer(self, model: ModelName, peak: float | None) -> str:
        at = f" with a peak at {format_count(peak)} {self.over}" if peak is not None else ""
        return f"{_NAMES[model]}{at}"

    def _remedy(self) -> str:
        return "look at what happened in those runs, and repeat them; say which of the two answers you quote"


@dataclass(frozen=True)
class ModelsAlike(Finding):
    """Another model, with no more parameters, is as good."""

    best: ModelName
    others: tuple[ModelName, ...]

    def _cause(self) -> str:
        others = " and ".join(_NAMES[name] for name in self.others)
        return (
            f"the data can hardly distinguish {_NAMES[self.best]} from {others}: their difference is within the noise"
        )

    def _remedy(self) -> str:
        return "do not extrapolate; measure at larger sizes, where the models differ"


@dataclass(frozen=True)
class NoPeakSeen(Finding):
    """Kappa's interval allows no peak among the measured sizes."""

    kappa: float
    low: float
    high: float
    least_peak: float
    largest: float
    over: str

    def _cause(self) -> str:
        lead = "" if self.low > 0 else f"kappa {_kappa(self.kappa, self.high)} cannot be distinguished from 0: "
        beyond = f"; if there is one, it lies above {format_count(self.least_peak)} {self.over}"
        return (
            f"{lead}there is no peak up to {format_count(self.largest)} {self.over}"
            f"{beyond if self.largest < self.least_peak < float('inf') else ''}"
        )

    def _remedy(self) -> str:
        return f"to find a peak, measure beyond {format_count(self.largest)} {self.over}, or repeat more often"


@dataclass(frozen=True)
class PeakOpen(Finding):
    """The data neither show a peak nor exclude one: models that fit equally well within the noise disagree."""

    flat: tuple[ModelName, ...]
    kappa: float
    kappa_high: float
    #: Value and interval of the USL's peak.
    peak: tuple[float, float, float]
    largest: float
    over: str

    def _cause(self) -> str:
        value, low, high = self.peak
        if value > self.largest or not self.flat:
            least = f" from {format_count(low)} {self.over} on" if low > 1 else ""
            return (
                f"kappa {_kappa(self.kappa, self.kappa_high)} cannot be distinguished from 0, and its interval allows a"
                f" peak{least}: these data neither show a peak nor exclude one"
            )
        ends = f" [{format_count(low)}, {format_count(high) if high < float('inf') else 'infinity'}]"
        flat = " and ".join(_NAMES[name] for name in self.flat)
        have = "has" if len(self.flat) == 1 else "have"
        return (
            f"models that fit equally well within the noise disagree about a peak: the USL puts one at"
            f" {format_count(value)}{ends} {self.over}, {flat} {have} none"
        )

    def _remedy(self) -> str:
        return "measure at more sizes around and beyond that point, and repeat the runs"


@dataclass(frozen=True)
class PerhapsSaturated(Finding):
    """The USL has a peak, and a curve that approaches a limit without falling fits as well within the noise."""

    peak: float
    largest: float
    over: str

    def _cause(self) -> str:
        return (
            f"the USL puts a peak at {format_count(self.peak)} {self.over}, but a curve that approaches a limit without"
            " falling fits as well within the noise"
        )

    def _remedy(self) -> str:
        return (
            f"measure beyond {format_count(self.largest)} {self.over} to see whether throughput falls, and repeat runs"
        )


@dataclass(frozen=True)
class CeilingMayFall(Finding):
    """The knee explains the data better than the USL does, and yet throughput falls, or may fall, on its ceiling."""

    ceiling: CeilingChange | None
    over: str

    def _cause(self) -> str:
        if self.ceiling is None:
            return "too few sizes lie beyond the knee to say whether throughput stays or falls there"
        change = self.ceiling.change
        seen = "falls" if change.high < 0 else "may fall"
        return (
            f"the hard knee explains these data better than the USL, but throughput {seen} beyond it: it changes by"
            f" {format_change(change.value)} [{format_change(change.low)}, {format_change(change.high)}] from"
            f" {format_count(self.ceiling.first)} to {format_count(self.ceiling.last)} {self.over}"
        )

    def _remedy(self) -> str:
        return "measure at more sizes beyond the knee, and repeat the runs"


@dataclass(frozen=True)
class PeakTooFar(Finding):
    """The fitted peak is beyond what the data can vouch for."""

    peak: float
    low: float
    high: float
    largest: float
    over: str
    #: The share of the peak that the measured sizes must reach.
    reach: float

    def _cause(self) -> str:
        high = format_count(self.high) if self.high < float("inf") else "infinity"
        return (
            f"the fitted peak, {format_count(self.peak)} {self.over} [{format_count(self.low)}, {high}], is too far"
            f" beyond the largest measured ({format_count(self.largest)}) to be claimed"
        )

    def _remedy(self) -> str:
        return f"measure up to at least {format_count(self.reach * self.peak)} {self.over}"


@dataclass(frozen=True)
class PeakNotBest(Finding):
    """The USL has a peak, but the data reject the USL, or put its peak beyond what was measured."""

    best: ModelName
    peak: float
    largest: float
    over: str

    def _cause(self) -> str:
        return (
            f"the USL would put a peak at {format_count(self.peak)} {self.over}, but {_NAMES[self.best]} explains these"
            f" data better: no peak is claimed up to {format_count(self.largest)} {self.over}"
        )

    def _remedy(self) -> str:
        return "measure at more sizes around and beyond that point, and repeat the runs"


@dataclass(frozen=True)
class Superlinear(Finding):
    """Sigma is significantly negative."""

    model: ModelName
    sigma: float
    low: float
    high: float

    def _cause(self) -> str:
        name = "the serial share" if self.model == "gustafson" else "sigma"
        return (
            f"{name} of {_NAMES[self.model]} is negative: {self.sigma:.3g} [{self.low:.3g}, {self.high:.3g}];"
            " throughput grows faster than size (superlinear)"
        )

    def _remedy(self) -> str:
        return (
            "look for what the smallest sizes lack: memory for the data, warm caches, a full generator;"
            " do not extrapolate this curve"
        )


@dataclass(frozen=True)
class PerhapsSuperlinear(Finding):
    """Throughput per unit rises, though no fit shows it beyond the noise."""

    ratio: float
    smallest: float
    largest: float
    over: str

    def _cause(self) -> str:
        return (
            f"throughput divided by {self.over} is {format_share(self.ratio - 1)} higher at"
            f" {format_count(self.largest)} than at {format_count(self.smallest)}; the models hold sigma at 0 or"
            " above, as the noise allows"
        )

    def _remedy(self) -> str:
        return "repeat the runs; if it persists, look for what the smallest sizes lack (memory, warm caches)"


@dataclass(frozen=True)
class Misfit(Finding):
    """The best model misses the data by more than the noise."""

    best: ModelName
    p: float

    def _cause(self) -> str:
        best = _NAMES[self.best]
        return f"even {best} misses the data by more than the noise between runs (lack of fit, p = {self.p:.2g})"

    def _remedy(self) -> str:
        return "look at the residuals; something changes with size that none of these models describes"


@dataclass(frozen=True)
class PoorPrediction(Finding):
    """Fitted to the other sizes, the model misses the largest."""

    best: ModelName
    error: float
    largest: float
    over: str

    def _cause(self) -> str:
        side = "above" if self.error > 0 else "below"
        return (
            f"fitted without {format_count(self.largest)} {self.over}, {_NAMES[self.best]} predicts it"
            f" {format_share(abs(self.error))} {side} what was measured"
        )

    def _remedy(self) -> str:
        return "do not extrapolate from this fit"


@dataclass(frozen=True)
class LambdaOff(Finding):
    """The fitted throughput of one differs from the measured."""

    best: ModelName
    fitted: float
    measured: float

    def _cause(self) -> str:
        return (
            f"{_NAMES[self.best]} says {format_count(self.fitted)} for a size of one, but"
            f" {format_count(self.measured)} was measured ({format_change(self.fitted / self.measured - 1)})"
        )

    def _remedy(self) -> str:
        return "speed-ups against the measured and against the fitted one differ; say which you quote"


def _kappa(value: float, high: float) -> str:
    return f"{value:.2g} [0, {high:.2g}]" if high < float("inf") else f"{value:.2g}"


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
        yield FewSizes(len(data.sizes), over)
    if not data.is_replicated:
        yield NotRepeated(over)


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
    yield RunsDecide(
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
        yield ModelsAlike(best, tuple(alike))


def _about_growth(data: Observations, over: str, best: ModelFit) -> Iterator[Finding]:
    sigma = best.parameters.get("sigma") or best.parameters.get("serial")
    if sigma and sigma.value < 0:
        yield Superlinear(best.name, sigma.value, sigma.low, sigma.high)
        return
    per_unit = data.means / data.sizes
    ratio = float(per_unit[-1] / per_unit[0])
    if ratio > _MORE_THAN_LINEAR:
        yield PerhapsSuperlinear(ratio, float(data.sizes[0]), float(data.sizes[-1]), over)


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
        yield CeilingMayFall(ceiling, over)
    elif standing == "open" and set(possible) == {USL.name} and kappa.low > 0 and n.is_finite:
        yield PerhapsSaturated(n.value, largest, over)
    elif standing == "open":
        flat = tuple(name for name in possible if name != USL.name)
        yield PeakOpen(flat, kappa.value, kappa.high, (n.value, n.low, n.high), largest, over)
    elif standing == "beyond":
        yield PeakTooFar(n.value, n.low, n.high, largest, over, PEAK_REACH)
    elif standing == "none" and USL.name in possible:
        yield NoPeakSeen(kappa.value, kappa.low, kappa.high, n.low, largest, over)
    elif standing == "none" and kappa.value > 0:
        yield PeakNotBest(best, n.value, largest, over)


def _about_curve(data: Observations, over: str, best: ModelFit, measured_at_one: float | None) -> Iterator[Finding]:
    if best.lack_of_fit and best.lack_of_fit.p < _SIGNIFICANT:
        yield Misfit(best.name, best.lack_of_fit.p)
    error = best.extrapolation_error
    if error is not None and abs(error) > _FAR_OFF:
        yield PoorPrediction(best.name, error, float(data.sizes[-1]), over)
    lam = best.parameters["lambda"].value
    if measured_at_one is not None and abs(lam / measured_at_one - 1) > _FAR_OFF:
        yield LambdaOff(best.name, lam, measured_at_one)
