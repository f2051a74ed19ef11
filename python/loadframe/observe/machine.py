"""Watches this machine: processors, load, memory, pressure, networks, disks."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from loadframe.observe import pressure
from loadframe.observe.sampler import Gap, Rates, Sample

_LOOPBACK = "lo"
_SOURCE = "host"


class HostSampler:
    """Looks at the machine that this process runs on. `proc` and `sys` are where proc(5) and sysfs(5) are mounted."""

    name = "host"
    waits = False

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")):
        self._proc = proc
        self._interfaces = sys / "class" / "net"
        self._rates = Rates()
        self._carried = Rates()
        self._cpu: tuple[float, float, float] | None = None

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the machine's figures; what this kernel does not count is left out."""
        yield from self._processors()
        yield Sample(_SOURCE, "load.1m", os.getloadavg()[0])
        yield Sample(_SOURCE, "memory.available", psutil.virtual_memory().available)
        # What looks like a counter that started anew gives no rate; the library need not look for that, too.
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        carrying = {name: counter for name, counter in counters.items() if counter.bytes_recv or counter.bytes_sent}
        interfaces = {name: counter for name, counter in carrying.items() if not self._of_nodes(name)}
        yield from self._rates.of(_SOURCE, now, pressure.of_machine(self._proc) | _networks(interfaces) | _disks())
        yield from self._network_share(now, interfaces)

    def _processors(self) -> Iterator[Sample]:
        times = psutil.cpu_times()
        # Linux counts guests' time as user time too.
        total = sum(times) - times.guest - times.guest_nice
        idle = times.idle + times.iowait
        before, self._cpu = self._cpu, (total, idle, times.steal)
        if before is not None and total > before[0]:
            elapsed, unused, stolen = (new - old for new, old in zip(self._cpu, before, strict=True))
            yield Sample(_SOURCE, "cpu.busy", min(max(1 - (unused + stolen) / elapsed, 0.0), 1.0))
            yield Sample(_SOURCE, "cpu.stolen", min(max(stolen / elapsed, 0.0), 1.0))

    def _network_share(self, now: float, interfaces: Mapping[str, Any]) -> Iterator[Sample]:
        """Yield the busiest interface's share of its speed, of those that say it."""
        shares = []
        for name, counters in interfaces.items():
            speed = self._speed(name)
            if speed is not None:
                totals = {"received": counters.bytes_recv, "sent": counters.bytes_sent}
                shares += [rate.value / speed for rate in self._carried.of(name, now, totals)]
        if shares:
            yield Sample(_SOURCE, "network.share", max(shares))

    def _of_nodes(self, interface: str) -> bool:
        """Whether it is a node's own link, or the bridge of such links, whose bytes never leave the machine."""
        for alias in ("ifalias", "master/ifalias"):
            with contextlib.suppress(OSError):
                if (self._interfaces / interface / alias).read_text().startswith("loadframe "):
                    return True
        return False

    def _speed(self, interface: str) -> float | None:
        """Return bytes per second and direction; virtual interfaces have no speed, or say -1."""
        try:
            megabits = int((self._interfaces / interface / "speed").read_text())
        except (OSError, ValueError):
            return None
        return megabits * 1e6 / 8 if megabits > 0 else None


def _networks(interfaces: Mapping[str, Any]) -> dict[str, float]:
    totals: dict[str, float] = {"network.received": 0, "network.sent": 0}
    for name, counters in interfaces.items():
        if name == _LOOPBACK:
            # What is sent there is received there.
            totals["loopback.bytes"] = counters.bytes_sent
        else:
            totals["network.received"] += counters.bytes_recv
            totals["network.sent"] += counters.bytes_sent
    return totals


def _disks() -> dict[str, float]:
    counters = psutil.disk_io_counters(nowrap=False)
    return {"disk.read": counters.read_bytes, "disk.written": counters.write_bytes} if counters else {}
