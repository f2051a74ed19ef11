"""Sampling on other machines of nodes, with the same samplers.

The figures of a machine have the source `machine:NAME`. Rates use that machine's clock.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import LoadframeError
from loadframe.observe.machine import CgroupSampler, HostSampler
from loadframe.observe.process import JvmSampler, ProcessSampler
from loadframe.observe.sampler import Gap, Sample, Sampler

#: Timeout of a sample, s.
PATIENCE = 3.0


@dataclass(frozen=True)
class Wanted:
    """Processes and control groups to sample on a machine."""

    pids: Mapping[str, int]
    groups: Mapping[str, Mapping[str, Path]]
    families: bool = False  #: whether to include descendants of the processes


class _Watch:
    """Samplers on one machine, with the counters of their last sample."""

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
    """Sample this machine; rates are relative to the last call with the same `watch`."""
    return _WATCHES.setdefault(watch, _Watch()).look(wanted)


class MachineSampler:
    """Sampler of another machine and its nodes. If the machine does not answer, all of them have gaps."""

    waits = True

    def __init__(self, machine: str, wanted: Callable[[], Wanted], ask: Callable[[Wanted], Iterable[Sample | Gap]]):
        """`wanted` is called for each sample; `ask` calls `look` on the machine, or raises LoadframeError."""
        self.name = f"machine {machine}"
        self._source = f"machine:{machine}"
        self._wanted, self._ask = wanted, ask

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the samples of the machine and its nodes, or gaps."""
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
