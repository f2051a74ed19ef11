"""What is looked at on a node's own machine, where that is not this one: the same samplers, called over there.

A machine's own figures are those of source `machine:NAME` here. Rates are taken by that machine's clock.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import LoadframeError
from loadframe.observe.cgroup import CgroupSampler
from loadframe.observe.machine import HostSampler
from loadframe.observe.process import JvmSampler, ProcessSampler
from loadframe.observe.sampler import Gap, Sample, Sampler

#: Seconds of silence after which a look is given up.
PATIENCE = 3.0


@dataclass(frozen=True)
class Wanted:
    """What to look at on a machine: its nodes' processes, and the control groups of those that are limited."""

    pids: Mapping[str, int]
    groups: Mapping[str, Mapping[str, Path]]
    families: bool = False  #: with all processes that descend from a node's


class _Watch:
    """The samplers of one machine; they keep the counters of the look before."""

    def __init__(self) -> None:
        self._wanted = Wanted({}, {})
        processes = [ProcessSampler(lambda: self._wanted.pids, families=families) for families in (False, True)]
        self._processes = processes
        self._rest: tuple[Sampler, ...] = (
            JvmSampler(lambda: self._wanted.pids),
            CgroupSampler(lambda: self._wanted.groups),
            HostSampler(),
        )

    def look(self, wanted: Wanted) -> list[Sample | Gap]:
        self._wanted, now = wanted, time.monotonic()
        samplers = (self._processes[wanted.families], *self._rest)
        return [seen for sampler in samplers for seen in sampler.sample(now)]


_WATCHES: dict[str, _Watch] = {}


def look(watch: str, wanted: Wanted) -> list[Sample | Gap]:
    """Look at this machine for a watch of that name, whose rates are since its last look."""
    return _WATCHES.setdefault(watch, _Watch()).look(wanted)


class MachineSampler:
    """Looks at one other machine. A machine that does not answer is a gap, and all its nodes with it."""

    waits = True

    def __init__(self, machine: str, wanted: Callable[[], Wanted], ask: Callable[[Wanted], Iterable[Sample | Gap]]):
        """`wanted` is asked every time; `ask` has `look` called there, and raises LoadframeError in its silence."""
        self.name = f"machine {machine}"
        self._source = f"machine:{machine}"
        self._wanted, self._ask = wanted, ask

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield what there is to see."""
        wanted = self._wanted()
        try:
            for seen in self._ask(wanted):
                if seen.source != "host":
                    yield seen
                elif isinstance(seen, Sample):
                    yield Sample(self._source, seen.metric, seen.value)
                else:
                    yield Gap(self._source, seen.cause)
        except LoadframeError as error:
            yield Gap(self._source, error.what)
            for node in wanted.pids:
                yield Gap(f"node:{node}", error.what)
