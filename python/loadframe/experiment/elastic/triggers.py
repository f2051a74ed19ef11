"""When a step of a timeline is taken: at a time, when overloaded, when an objective is broken, when balanced."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from loadframe.experiment.elastic.falling import fall
from loadframe.experiment.elastic.file import Objective, Overload, Step
from loadframe.experiment.elastic.sight import Second, Sight
from loadframe.units import format_count, format_duration, format_share


@dataclass(frozen=True)
class Moment:
    """What a trigger is judged by. Times in s since the measured window began."""

    now: float
    sight: Sight
    #: When the change before this step was over; None while it goes on, or before there was one.
    balanced: float | None


class Trigger(ABC):
    """Says when it fires, and why; asked several times a second."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it waits for."""

    @abstractmethod
    def fires(self, moment: Moment) -> str | None:
        """Return what was seen if it fires now."""


@dataclass(frozen=True)
class AtTime(Trigger):
    """Fires at an instant, s."""

    at: float

    @property
    def words(self) -> str:
        """The instant."""
        return f"at {format_duration(self.at)}"

    def fires(self, moment: Moment) -> str | None:
        """Compare the clock."""
        return self.words if moment.now >= self.at else None


@dataclass(frozen=True)
class Overloaded(Trigger):
    """Fires when a node's CPU is above a share over the last seconds *and* throughput has fallen; see `falling`."""

    overload: Overload

    @property
    def words(self) -> str:
        """The thresholds."""
        drop = f"down by {format_share(self.overload.drop)}" if self.overload.drop else "no longer growing"
        return f"overloaded (a node above {format_share(self.overload.cpu)} CPU, throughput {drop})"

    def fires(self, moment: Moment) -> str | None:
        """Look at both."""
        busiest = moment.sight.busiest(self.overload.seconds)
        if busiest <= self.overload.cpu:
            return None
        rates = np.array([second.throughput for second in moment.sight.seconds()], dtype=float)
        fallen = fall(rates, self.overload.seconds, self.overload.drop)
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
    def words(self) -> str:
        """How long."""
        return f"objective broken for {format_duration(self.lasting)}"

    def fires(self, moment: Moment) -> str | None:
        """Look at the last seconds."""
        last = moment.sight.seconds()[-math.ceil(self.lasting) :]
        if len(last) < math.ceil(self.lasting) or not all(_breaks(second, self.slo) for second in last):
            return None
        p99 = last[-1].response_p99
        times = "no answers" if p99 is None else f"p99 {format_duration(p99)}"
        return f"{times}, {format_count(round(last[-1].errors))} errors/s"


def _breaks(second: Second, slo: Objective) -> bool:
    requests = second.successes + second.errors
    late = slo.p99 is not None and (second.response_p99 is None or second.response_p99 > slo.p99)
    return late or (slo.errors is not None and second.errors > slo.errors * requests)


@dataclass(frozen=True)
class Balanced(Trigger):
    """Fires so long after the change before it was over."""

    after: float

    @property
    def words(self) -> str:
        """How long after."""
        return f"{format_duration(self.after)} after the cluster is balanced" if self.after else "when balanced"

    def fires(self, moment: Moment) -> str | None:
        """Compare the clock with the end of the change before."""
        over = moment.balanced is not None and moment.now >= moment.balanced + self.after
        return f"balanced at {moment.balanced:.1f} s" if over else None


@dataclass(frozen=True)
class From(Trigger):
    """Fires as another one does, but not before an instant, s: until then the level before the change is not known."""

    since: float
    trigger: Trigger

    @property
    def words(self) -> str:
        """What the other one waits for."""
        return self.trigger.words

    def fires(self, moment: Moment) -> str | None:
        """Ask the other one when it is time."""
        return self.trigger.fires(moment) if moment.now >= self.since else None


def trigger_of(step: Step, slo: Objective | None, window: float) -> Trigger:
    """Return the trigger of a step. What the load brings about is watched for once the run is `window` s old."""
    if step.at is not None:
        return AtTime(step.at)
    if step.overloaded is not None:
        return From(window, Overloaded(step.overloaded))
    if step.slo_broken is not None:
        assert slo
        return From(window, SloBroken(slo, step.slo_broken))
    return Balanced(step.balanced or 0.0)
