"""Everything that can be doubted in a fit: each warning carries its figures, its cause and its remedy."""

from dataclasses import dataclass

from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability.models import ModelName
from loadframe.units import format_change, format_count, format_share

_NAMES = {"linear": "linear scaling", "amdahl": "Amdahl's law", "knee": "the hard knee", "usl": "the USL"}


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
        return f"some numbers of {self.over} were run only once, so noise cannot be told from misfit"

    def _remedy(self) -> str:
        return "run each at least 3 times; intervals then rest on the noise between runs"


@dataclass(frozen=True)
class FewRuns(Finding):
    """Too few runs for AICc."""

    runs: int
    needed: int

    def _cause(self) -> str:
        return f"{self.runs} runs are too few to weigh the models by AICc; F tests chose the model instead"

    def _remedy(self) -> str:
        return f"measure at least {self.needed} runs"


@dataclass(frozen=True)
class ModelsAlike(Finding):
    """Another model is as good."""

    best: ModelName
    others: tuple[ModelName, ...]
    distance: float

    def _cause(self) -> str:
        others = " and ".join(_NAMES[name] for name in self.others)
        return f"the data hardly tell {_NAMES[self.best]} from {others} (AICc within {self.distance:.1f})"

    def _remedy(self) -> str:
        return "do not extrapolate; measure at larger sizes, where the models part"


@dataclass(frozen=True)
class NoPeakSeen(Finding):
    """Kappa cannot be told from zero."""

    kappa: float
    high: float
    least_peak: float
    largest: float
    over: str

    def _cause(self) -> str:
        bound = f" [0, {self.high:.2g}]" if self.high < float("inf") else ""
        beyond = f"; if there is one, it lies above {format_count(self.least_peak)} {self.over}"
        return (
            f"kappa {self.kappa:.2g}{bound} cannot be told from 0: these data show no peak"
            f"{beyond if self.largest < self.least_peak < float('inf') else ''}"
        )

    def _remedy(self) -> str:
        return f"to find a peak, measure beyond {format_count(self.largest)} {self.over}, or repeat more often"


@dataclass(frozen=True)
class PeakTooFar(Finding):
    """The fitted peak is beyond what the data can vouch for."""

    peak: float
    low: float
    high: float
    largest: float
    over: str

    def _cause(self) -> str:
        high = format_count(self.high) if self.high < float("inf") else "infinity"
        return (
            f"the fitted peak, {format_count(self.peak)} {self.over} [{format_count(self.low)}, {high}], is too far"
            f" beyond the largest measured ({format_count(self.largest)}) to be claimed"
        )

    def _remedy(self) -> str:
        return f"measure up to at least {format_count(0.7 * self.peak)} {self.over}"


@dataclass(frozen=True)
class PeakNotBest(Finding):
    """The USL has a peak, but a model without one is preferred."""

    best: ModelName
    peak: float
    over: str

    def _cause(self) -> str:
        return (
            f"the USL would put a peak at {format_count(self.peak)} {self.over}, but {_NAMES[self.best]} explains these"
            " data better for its number of parameters: no peak is claimed"
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
        return (
            f"sigma of {_NAMES[self.model]} is negative: {self.sigma:.3g} [{self.low:.3g}, {self.high:.3g}];"
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
        return "repeat the runs; if it stays, look for what the smallest sizes lack (memory, warm caches)"


@dataclass(frozen=True)
class Misfit(Finding):
    """The best model misses the data by more than the noise."""

    best: ModelName
    p: float

    def _cause(self) -> str:
        best = _NAMES[self.best]
        return f"even {best} misses the data by more than the noise between runs (lack of fit, p = {self.p:.2g})"

    def _remedy(self) -> str:
        return "look at the residuals; something changes along the sizes that no model here describes"


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
