"""Triggers of steps: a time, an overload, a broken objective, a fall in throughput, a balanced cluster.

The last m seconds are held against the best m seconds before them, for m of 1, 2, 4 ... times the length that is asked
for, as far as the run goes back. The best of many stretches lies above its level by chance, and each second is another
chance to see a fall, so a difference counts only when it is `_ERRORS` standard errors large: then it happens in at most
5 % of runs of 15 minutes that throughput which did not fall is said to have fallen, by simulation under autoregressive
seconds (benchmarks/simulate_trigger.py; docs/elasticity.md has the table). In longer runs the bound rises with the
logarithm of their length, which spends the same again on each doubling at most. The scan is that of Page ("Continuous
inspection schemes", Biometrika, 1954) over windows, as a generalised likelihood ratio with a known noise; the noise
is estimated from differences of neighbouring seconds, since levels rise in steps while clients arrive.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from loadframe.analyze.autocorrelation import Series, effective_size, stepwise_noise, variance_of_mean
from loadframe.base.units import format_count, format_duration, format_share
from loadframe.experiment.elastic.live_metrics import LiveMetrics, SecondMetrics
from loadframe.experiment.file.elastic import Objective, Overload, Step

#: The bound in standard errors, and the seconds of the run for which it holds.
_ERRORS = 4.6
_RUN = 900
#: Standard errors of a correlation's estimate that are added to it, and what it is at most.
_UPPER = 3.0
_GREATEST = 0.9


@dataclass(frozen=True)
class ThroughputDrop:
    """From which level to which throughput has fallen, 1/s, and over how many seconds that was seen."""

    best: float
    last: float
    seconds: int


def throughput_drop(rates: Series, length: int, drop: float) -> ThroughputDrop | None:
    """Return how throughput has fallen by now; None if by no more than the share `drop`, or than noise explains.

    `rates` are those of each second so far, 1/s. A drop of 0 asks whether throughput no longer grows: whether the last
    `length` seconds had less than as many before, which noise alone brings about.
    """
    for best, last, span in _spans(rates, length):
        if drop == 0:
            return ThroughputDrop(best, last, span) if last < best else None
        if best - last > drop * best and errors(rates, best, last, span) >= bound(len(rates)):
            return ThroughputDrop(best, last, span)
    return None


def bound(seconds: int) -> float:
    """Return how many standard errors a fall must have in a run of that age."""
    return math.sqrt(_ERRORS**2 + 2 * math.log(max(seconds / _RUN, 1.0)))


def errors(rates: Series, best: float, last: float, span: int) -> float:
    """Return how many standard errors of a normal distribution a fall between two stretches of `span` seconds has.

    The noise is an estimate itself, from as many independent seconds as these dependent ones stand for: so it is
    Student's t, and the result has the same probability under the normal distribution.
    """
    deviation, rho = stepwise_noise(rates)
    # The correlation is an estimate, too, and an unlucky one must not make noise small: its upper bound counts.
    upper = max(min(rho + _UPPER * math.sqrt((1 - rho**2) / len(rates)), _GREATEST), rho)
    error = deviation * best * math.sqrt((1 - rho) / (1 - upper) * 2 * variance_of_mean(span, upper))
    if error == 0:
        return math.inf
    freedom = max(effective_size(len(rates), rho) - 2, 1.0)
    return -float(special.ndtri(special.stdtr(freedom, (last - best) / error)))


def _spans(rates: Series, length: int) -> Iterator[tuple[float, float, int]]:
    """Yield the best and the last mean of each span of seconds, the shortest first."""
    total = np.concatenate([[0.0], np.cumsum(rates)])
    span = length
    while 2 * span <= len(rates):
        means = (total[span:] - total[:-span]) / span
        yield float(means[:-span].max()), float(means[-1]), span
        span *= 2


@dataclass(frozen=True)
class RunState:
    """What a trigger is judged by. Times in s since the measured window began."""

    now: float
    metrics: LiveMetrics
    #: When the change before this step was over; None while it goes on, or before there was one.
    balanced: float | None


class Trigger(ABC):
    """Says when it fires, and why; asked several times a second."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What it waits for."""

    @abstractmethod
    def fires(self, moment: RunState) -> str | None:
        """Return what was seen if it fires now."""


@dataclass(frozen=True)
class AtTime(Trigger):
    """Fires at an instant, s."""

    at: float

    @property
    def description(self) -> str:
        """The instant."""
        return f"at {format_duration(self.at)}"

    def fires(self, moment: RunState) -> str | None:
        """Compare the clock."""
        return self.description if moment.now >= self.at else None


@dataclass(frozen=True)
class Overloaded(Trigger):
    """Fires when a node's CPU is above a share over the last seconds *and* throughput has fallen; see `falling`."""

    overload: Overload

    @property
    def description(self) -> str:
        """The thresholds."""
        drop = f"down by {format_share(self.overload.drop)}" if self.overload.drop else "no longer growing"
        return f"overloaded (a node above {format_share(self.overload.cpu)} CPU, throughput {drop})"

    def fires(self, moment: RunState) -> str | None:
        """Look at both."""
        busiest = moment.metrics.busiest(self.overload.seconds)
        if busiest <= self.overload.cpu:
            return None
        rates = np.array([second.throughput for second in moment.metrics.seconds()], dtype=float)
        fallen = throughput_drop(rates, self.overload.seconds, self.overload.drop)
        if fallen is None:
            return None
        words = f"fell from {format_count(round(fallen.best))}/s to {format_count(round(fallen.last))}/s"
        return f"a node at {format_share(busiest)} CPU; throughput {words} over {format_duration(fallen.seconds)}"


@dataclass(frozen=True)
class SloBroken(Trigger):
    """Fires when an objective has been broken for a number of consecutive seconds."""

    slo: Objective
    lasting: float

    @property
    def description(self) -> str:
        """How long."""
        return f"objective broken for {format_duration(self.lasting)}"

    def fires(self, moment: RunState) -> str | None:
        """Look at the last seconds."""
        last = moment.metrics.seconds()[-math.ceil(self.lasting) :]
        if len(last) < math.ceil(self.lasting) or not all(_breaks(second, self.slo) for second in last):
            return None
        p99 = last[-1].response_p99
        times = "no answers" if p99 is None else f"p99 {format_duration(p99)}"
        return f"{times}, {format_count(round(last[-1].errors))} errors/s"


def _breaks(second: SecondMetrics, slo: Objective) -> bool:
    requests = second.successes + second.errors
    late = slo.p99 is not None and (second.response_p99 is None or second.response_p99 > slo.p99)
    return late or (slo.errors is not None and second.errors > slo.errors * requests)


@dataclass(frozen=True)
class Balanced(Trigger):
    """Fires so long after the change before it was over."""

    after: float

    @property
    def description(self) -> str:
        """How long after."""
        return f"{format_duration(self.after)} after the cluster is balanced" if self.after else "when balanced"

    def fires(self, moment: RunState) -> str | None:
        """Compare the clock with the end of the change before."""
        over = moment.balanced is not None and moment.now >= moment.balanced + self.after
        return f"balanced at {moment.balanced:.1f} s" if over else None


@dataclass(frozen=True)
class NotBefore(Trigger):
    """Fires as another one does, but not before an instant, s: until then the level before the change is not known."""

    since: float
    trigger: Trigger

    @property
    def description(self) -> str:
        """What the other one waits for."""
        return self.trigger.description

    def fires(self, moment: RunState) -> str | None:
        """Ask the other one when it is time."""
        return self.trigger.fires(moment) if moment.now >= self.since else None


def trigger_of(step: Step, slo: Objective | None, window: float) -> Trigger:
    """Return the trigger of a step. What the load brings about is watched for once the run is `window` s old."""
    if step.at is not None:
        return AtTime(step.at)
    if step.overloaded is not None:
        return NotBefore(window, Overloaded(step.overloaded))
    if step.slo_broken is not None:
        assert slo
        return NotBefore(window, SloBroken(slo, step.slo_broken))
    return Balanced(step.balanced or 0.0)
