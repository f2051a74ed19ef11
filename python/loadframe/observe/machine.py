"""Sampler of this machine: CPUs, load, memory, pressure, networks, disks."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from loadframe.observe import cgroup
from loadframe.observe.sampler import Gap, Rates, Sample

_LOOPBACK = "lo"
_SOURCE = "host"
_PROC, _BLOCKS = Path("/proc"), Path("/sys/block")
#: Size of a sector in /proc/diskstats, bytes, independent of the disk (the kernel's admin-guide/iostats).
_SECTOR = 512
#: Received and sent bytes of an interface.
Carried = tuple[int, int]


class HostSampler:
    """Sampler of this process's machine. `proc` and `sys` are the mount points of proc(5) and sysfs(5)."""

    name = "host"
    waits = False

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")):
        self._proc = proc
        self._interfaces = sys / "class" / "net"
        self._rates = Rates()
        self._carried = Rates()
        self._cpu: tuple[float, float, float] | None = None

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures that this kernel counts."""
        yield from self._processors()
        yield Sample(_SOURCE, "load.1m", os.getloadavg()[0])
        yield Sample(_SOURCE, "memory.available", self._available())
        carrying = {name: counts for name, counts in self._carried_by().items() if any(counts)}
        interfaces = {name: counts for name, counts in carrying.items() if not self._of_nodes(name)}
        totals = cgroup.of_machine(self._proc) | _networks(interfaces) | self._disks()
        yield from self._rates.of(_SOURCE, now, totals)
        yield from self._network_share(now, interfaces)

    def _processors(self) -> Iterator[Sample]:
        with (_PROC / "stat").open() as lines:
            # Ticks of user, nice, system, idle, iowait, irq, softirq and steal; user includes guests.
            times = [float(ticks) for ticks in lines.readline().split()[1:9]]
        idle, stolen = times[3] + times[4], times[7]
        before, self._cpu = self._cpu, (sum(times), idle, stolen)
        total = sum(times)
        if before is not None and total > before[0]:
            elapsed, unused, stolen = (new - old for new, old in zip(self._cpu, before, strict=True))
            yield Sample(_SOURCE, "cpu.busy", min(max(1 - (unused + stolen) / elapsed, 0.0), 1.0))
            yield Sample(_SOURCE, "cpu.stolen", min(max(stolen / elapsed, 0.0), 1.0))

    def _available(self) -> float:
        """Return the memory available without swapping, bytes."""
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return 0.0

    def _carried_by(self) -> dict[str, Carried]:
        """Return the received and sent bytes of each interface (proc(5), /proc/net/dev)."""
        rows = (line.partition(":") for line in (_PROC / "net" / "dev").read_text().splitlines()[2:])
        return {name.strip(): (int(row.split()[0]), int(row.split()[8])) for name, _, row in rows}

    def _disks(self) -> dict[str, float]:
        """Return the bytes read and written by all disks, without partitions."""
        totals = {"disk.read": 0.0, "disk.written": 0.0}
        for line in (_PROC / "diskstats").read_text().splitlines():
            _, _, name, _, _, read, _, _, _, written, *_ = line.split()
            if (_BLOCKS / name.replace("/", "!")).exists():
                totals["disk.read"] += _SECTOR * int(read)
                totals["disk.written"] += _SECTOR * int(written)
        return totals

    def _network_share(self, now: float, interfaces: Mapping[str, Carried]) -> Iterator[Sample]:
        """Yield the utilisation of the busiest interface with a known speed."""
        shares = []
        for name, counters in interfaces.items():
            speed = self._speed(name)
            if speed is not None:
                totals = dict(zip(("received", "sent"), counters, strict=True))
                shares += [rate.value / speed for rate in self._carried.of(name, now, totals)]
        if shares:
            yield Sample(_SOURCE, "network.share", max(shares))

    def _of_nodes(self, interface: str) -> bool:
        """Return whether an interface is a node's link or their bridge, whose traffic stays on the machine."""
        for alias in ("ifalias", "master/ifalias"):
            with contextlib.suppress(OSError):
                if (self._interfaces / interface / alias).read_text().startswith("loadframe "):
                    return True
        return False

    def _speed(self, interface: str) -> float | None:
        """Return the speed in bytes per second and direction; None for virtual interfaces (no speed, or -1)."""
        try:
            megabits = int((self._interfaces / interface / "speed").read_text())
        except (OSError, ValueError):
            return None
        return megabits * 1e6 / 8 if megabits > 0 else None


def _networks(interfaces: Mapping[str, Carried]) -> dict[str, float]:
    totals: dict[str, float] = {"network.received": 0, "network.sent": 0}
    for name, counters in interfaces.items():
        if name == _LOOPBACK:
            # On loopback, sent and received bytes are equal.
            totals["loopback.bytes"] = counters[1]
        else:
            totals["network.received"] += counters[0]
            totals["network.sent"] += counters[1]
    return totals
