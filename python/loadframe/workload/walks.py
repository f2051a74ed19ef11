"""How long users wait at least while they walk their journeys: to think, and in pauses of a clock with a scale."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadframe.workload.journeys import JourneyStep, Repeat
from loadframe.workload.pacing import ThinkDraw, ThinkTime
from loadframe.workload.phases import Phase, Stream


@dataclass(frozen=True)
class _Walk:
    """What a user waits along some steps, s: nobody waits for what comes after the last request of all."""

    before: float = 0.0  #: until its last request
    after: float = 0.0  #: after that; everything where it may ask for nothing
    asks: bool = False  #: whether it asks for something, whichever way it goes
    leaves: bool = False  #: whether its journey may end there

    @property
    def whole(self) -> float:
        return self.before + self.after

    def then(self, later: "_Walk") -> "_Walk":
        if self.leaves:
            return self
        if later.asks:
            return _Walk(self.whole + later.before, later.after, True, later.leaves)
        return _Walk(self.before, self.after + later.whole, self.asks, later.leaves)


def walks_journeys(phase: Phase) -> bool:
    """Whether a phase, or a stream of it, ends when users have walked a number of journeys."""
    return phase.journeys is not None or any(stream.journeys is not None for stream in phase.streams or ())


def least_seconds(phase: Phase) -> float:
    """Return how long the users of a phase wait at least until they have walked their journeys, s, on average.

    How long answers take comes on top, and nobody knows that before.
    """
    return max((_least(stream, stream.journeys or phase.journeys or 0) for stream in phase.named_streams), default=0.0)


def _least(stream: Stream, journeys: int) -> float:
    if not journeys or stream.users is None:
        return 0.0
    arrives = (stream.arrive_over or 0.0) * (stream.users - 1) / stream.users
    between = (journeys - 1) * _mean(stream.think_time)
    least = arrives + between + _times(journeys, _walked(stream.journey or (), _thought))
    if stream.clock is None or stream.clock.shared or stream.clock.scale is None:
        return least
    # A user who is late by its clock does not wait, so that time to think may be part of the pauses.
    paused = _times(journeys, _walked(stream.journey or (), lambda step: step.pause or 0.0))
    return max(least, paused / stream.clock.scale)


def _times(journeys: int, walk: _Walk) -> float:
    return journeys * walk.whole - walk.after


def _thought(step: JourneyStep) -> float:
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
        # Who skips it does not think after it either.
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
        # It may be over before its first pass.
        return _Walk(leaves=inner.leaves)
    times = 1 if inner.leaves else loop.times
    return _Walk(times * inner.whole - inner.after, inner.after, inner.asks, inner.leaves)


def _either(ways: Sequence[_Walk], before: float, after: float) -> _Walk:
    leaves = any(walk.leaves for walk in ways)
    asks = all(walk.asks for walk in ways)
    return _Walk(before, after, True, leaves) if asks else _Walk(0.0, before + after, False, leaves)
