"""Watches this machine: processors, load, memory, pressure, networks, disks."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from loadframe.observe import cgroup
from loadframe.observe.sampler import Gap, Rates, Sample

_LOOPBACK = "lo"
_SOURCE = "host"
_PROC, _BLOCKS = Path("/proc"), Path("/sys/block")
#: Bytes of a sector as /proc/diskstats counts them, whatever a disk's own have (the kernel's admin-guide/iostats).
_SECTOR = 512
#: Bytes that an interface has received and sent.
Carried = tuple[int, int]


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
        yield Sample(_SOURCE, "memory.available", self._available())
        carrying = {name: counts for name, counts in self._carried_by().items() if any(counts)}
        interfaces = {name: counts for name, counts in carrying.items() if not self._of_nodes(name)}
        totals = cgroup.of_machine(self._proc) | _networks(interfaces) | self._disks()
        yield from self._rates.of(_SOURCE, now, totals)
        yield from self._network_share(now, interfaces)

    def _processors(self) -> Iterator[Sample]:
        with (_PROC / "stat").open() as lines:
            # Ticks of user, nice, system, idle, iowait, irq, softirq and steal; guests' are counted as user's too.
            times = [float(ticks) for ticks in lines.readline().split()[1:9]]
        idle, stolen = times[3] + times[4], times[7]
        before, self._cpu = self._cpu, (sum(times), idle, stolen)
        total = sum(times)
        if before is not None and total > before[0]:
            elapsed, unused, stolen = (new - old for new, old in zip(self._cpu, before, strict=True))
            yield Sample(_SOURCE, "cpu.busy", min(max(1 - (unused + stolen) / elapsed, 0.0), 1.0))
            yield Sample(_SOURCE, "cpu.stolen", min(max(stolen / elapsed, 0.0), 1.0))

    def _available(self) -> float:
        """Return the bytes that can be given out without swapping."""
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return 0.0

    def _carried_by(self) -> dict[str, Carried]:
        """Return what each interface has carried (proc(5), /proc/net/dev)."""
        rows = (line.partition(":") for line in (_PROC / "net" / "dev").read_text().splitlines()[2:])
        return {name.strip(): (int(row.split()[0]), int(row.split()[8])) for name, _, row in rows}

    def _disks(self) -> dict[str, float]:
        """Return the bytes that all disks have read and written; partitions are parts of theirs."""
        totals = {"disk.read": 0.0, "disk.written": 0.0}
        for line in (_PROC / "diskstats").read_text().splitlines():
            _, _, name, _, _, read, _, _, _, written, *_ = line.split()
            if (_BLOCKS / name.replace("/", "!")).exists():
                totals["disk.read"] += _SECTOR * int(read)
                totals["disk.written"] += _SECTOR * int(written)
        return totals

    def _network_share(self, now: float, interfaces: Mapping[str, Carried]) -> Iterator[Sample]:
        """Yield the busiest interface's share of its speed, of those that say it."""
        shares = []
        for name, counters in interfaces.items():
            speed = self._speed(name)
            if speed is not None:
                totals = dict(zip(("received", "sent"), counters, strict=True))
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


def _networks(interfaces: Mapping[str, Carried]) -> dict[str, float]:
    totals: dict[str, float] = {"network.received": 0, "network.sent": 0}
    for name, counters in interfaces.items():
        if name == _LOOPBACK:
            # What is sent there is received there.
            totals["loopback.bytes"] = counters[1]
        else:
            totals["network.received"] += counters[0]
            totals["network.sent"] += counters[1]
    return totals
