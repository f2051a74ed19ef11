"""Minimum time that users spend waiting in their journeys: think times, and pauses of a scaled clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadframe.workload.journeys import JourneyStep, Repeat
from loadframe.workload.pacing import ThinkDraw, ThinkTime
from loadframe.workload.phases import Phase, Stream


@dataclass(frozen=True)
class _Walk:
    """Waiting time of a user over some steps, in seconds.

    It is split at the last request, because waits after the last request of all do not prolong the phase.
    """

    before: float = 0.0  #: up to the last request
    after: float = 0.0  #: after the last request; all of it if some branch sends no request
    requests: bool = False  #: whether every branch sends a request
    leaves: bool = False  #: whether the journey may end within the steps

    @property
    def whole(self) -> float:
        return self.before + self.after

    def then(self, later: "_Walk") -> "_Walk":
        if self.leaves:
            return self
        if later.requests:
            return _Walk(self.whole + later.before, later.after, True, later.leaves)
        return _Walk(self.before, self.after + later.whole, self.requests, later.leaves)


def walks_journeys(phase: Phase) -> bool:
    """Return whether a phase, or a stream of it, ends after a number of journeys."""
    return phase.journeys is not None or any(stream.journeys is not None for stream in phase.streams or ())


def least_seconds(phase: Phase) -> float:
    """Return the mean time in seconds that users of a phase wait during their journeys, without response times."""
    return max((_least(stream, stream.journeys or phase.journeys or 0) for stream in phase.named_streams), default=0.0)


def _least(stream: Stream, journeys: int) -> float:
    if not journeys or stream.users is None:
        return 0.0
    arrives = (stream.arrive_over or 0.0) * (stream.users - 1) / stream.users
    walk = _walked(stream.journey or (), _mean_think_time)
    least = arrives + (journeys - 1) * _mean(stream.think_time) + _times(journeys, walk)
    if stream.pacing is not None:
        least = max(least, arrives + (journeys - 1) * stream.pacing + walk.before)
    if stream.clock is None or stream.clock.shared or stream.clock.scale is None:
        return least
    # A user who is behind the clock does not wait, so think times may overlap pauses.
    paused = _times(journeys, _walked(stream.journey or (), lambda step: step.pause or 0.0))
    return max(least, paused / stream.clock.scale)


def _times(journeys: int, walk: _Walk) -> float:
    return journeys * walk.whole - walk.after


def _mean_think_time(step: JourneyStep) -> float:
    return _mean(step.think) + _mean(step.think_time)


def _mean(time: ThinkTime | None) -> float:
    if not isinstance(time, ThinkDraw):
        return time or 0.0
    if time.uniform is not None:
        return sum(time.uniform) / 2
    return time.normal[0] if time.normal is not None else time.exponential or 0.0


def _walked(steps: Sequence[JourneyStep], waits: Callable[[JourneyStep], float]) -> _Walk:
    walk = _Walk()
    for step in steps:
        if not step.left_out:
            walk = walk.then(_step(step, waits))
    return walk


def _step(step: JourneyStep, waits: Callable[[JourneyStep], float]) -> _Walk:
    if step.repeat is not None:
        return _loop(step.repeat, waits)
    if step.operation is not None:
        # A skipped step also skips its think time.
        return _Walk() if step.missing == "skip" else _Walk(0.0, waits(step), True, step.missing == "leave")
    if step.choose is not None:
        total = sum(way.weight for way in step.choose)
        ways = [_walked(way.steps, waits) for way in step.choose]
        weighed = [(way.weight / total, walk) for way, walk in zip(step.choose, ways, strict=True)]
        before = sum(share * walk.before for share, walk in weighed)
        return _either(ways, before, sum(share * walk.after for share, walk in weighed))
    if step.when is not None:
        ways = [_walked(steps or (), waits) for steps in (step.steps, step.otherwise)]
        before = min(walk.before for walk in ways)
        return _either(ways, before, min(walk.whole for walk in ways) - before)
    if step.timed is not None:
        return _walked(step.timed.steps, waits)
    return _Walk(after=waits(step), leaves=step.leave is not None)


def _loop(loop: Repeat, waits: Callable[[JourneyStep], float]) -> _Walk:
    inner = _walked(loop.steps, waits)
    if loop.until is not None:
        # It may end before the first pass.
        return _Walk(leaves=inner.leaves)
    times = 1 if inner.leaves else loop.times
    return _Walk(times * inner.whole - inner.after, inner.after, inner.requests, inner.leaves)


def _either(ways: Sequence[_Walk], before: float, after: float) -> _Walk:
    leaves = any(walk.leaves for walk in ways)
    requests = all(walk.requests for walk in ways)
    return _Walk(before, after, True, leaves) if requests else _Walk(0.0, before + after, False, leaves)
