"""Samplers of machines and of control groups: CPUs, memory, pressure, throttling, networks, disks.

`now` is the time of a sample, s, of which only differences count.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import LoadframeError
from loadframe.base.procfs import own_groups, throttling
from loadframe.observe.observer import Gap, Rates, Sample, Sampler
from loadframe.observe.process import JvmSampler, ProcessSampler, ProgramSampler

#: Timeout of a sample on another machine, s.
PATIENCE = 3.0
#: Kinds of pressure of each resource. `full` is undefined for the CPU of a machine, and not useful for a group.
_KINDS = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}


def of_machine(proc: Path) -> dict[str, float]:
    """Return the machine's stalled time since boot, s, by metric such as `pressure.cpu.some`.

    `proc` is the mount point of proc(5). Pressure that the kernel does not count is omitted.
    """
    return _stalls({resource: proc / "pressure" / resource for resource in _KINDS})


def of_group(folder: Path) -> dict[str, float]:
    """Return a control group's total stalled time, s, by metric such as `pressure.io.full`.

    `folder` is a group of cgroup version 2. Pressure that the kernel does not count is omitted.
    """
    return _stalls({resource: folder / f"{resource}.pressure" for resource in _KINDS})


def _stalls(files: Mapping[str, Path]) -> dict[str, float]:
    """Return `pressure.RESOURCE.KIND` -> total stalled time, s, from pressure files by resource.

    Unreadable files and kinds (`some`, `full`) that are not in _KINDS are skipped.
    """
    stalls = {}
    for resource, file in files.items():
        try:
            lines = file.read_text().splitlines()
        except OSError:
            # Some kernels do not count pressure.
            continue
        for line in lines:
            kind, *figures = line.split()
            if kind in _KINDS[resource]:
                microseconds = dict(figure.split("=") for figure in figures)["total"]
                stalls[f"pressure.{resource}.{kind}"] = int(microseconds) / 1e6
    return stalls


class CgroupSampler:
    """Sampler of nodes' control groups.

    `folders` is called for each sample: node -> controller (`cpu`, `memory`) -> folder (the same folder in version 2).
    Nodes without limits are left out. See the kernel's documentation (cgroup-v2; cgroup-v1/memory, sched-bwc).
    """

    name = "cgroup"
    waits = False

    def __init__(self, folders: Callable[[], Mapping[str, Mapping[str, Path]]]):
        """`folders` returns node name -> controller (`cpu`, `memory`) -> its group's folder, for each sample."""
        self._folders = folders
        #: Group with the CPU counters of each source.
        self._known: dict[str, Path] = {}
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield each node's memory (bytes), throttling and pressure, or a gap for unreadable groups.

        Throttled periods, throttled time and stalled time are per second since the previous sample of the group, so the
        first has none. Pressure needs one group of version 2 for CPU and memory. `now` is in s.
        """
        for node, controllers in self._folders().items():
            source = f"node:{node}"
            try:
                if "memory" in controllers:
                    yield Sample(source, "cgroup.memory", _memory(controllers["memory"]))
                if (group := controllers.get("cpu")) is not None:
                    # A restarted node has another group, whose counters begin at zero.
                    if self._known.get(source) != group:
                        self._rates.forget(source)
                        self._known[source] = group
                    # Only version 2, with one group for both controllers, counts pressure.
                    stalls = of_group(group) if group == controllers.get("memory") else {}
                    yield from self._rates.of(source, now, throttling(group) | stalls)
            except OSError as error:
                yield Gap(source, f"cannot read the control group: {error.strerror} ({error.filename})")


def _memory(folder: Path) -> float:
    """Return the memory charged to a control group, of version 2 or else 1, in bytes. OSError if it cannot be read."""
    try:
        return int((folder / "memory.current").read_text())
    except FileNotFoundError:
        return int((folder / "memory.usage_in_bytes").read_text())


_SOURCE = "generator"


class OwnGroupSampler:
    """Sampler of this process's control groups, up to the topmost visible group: each of them may have a quota.

    The groups are determined once. Without a visible group with a CPU controller, there are no samples.
    """

    name = "own group"
    waits = False

    def __init__(self, folders: Sequence[Path] | None = None):
        """`folders` are the groups to sum, by default the groups of this process and all visible ones above."""
        self._folders = own_groups() if folders is None else folders
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield throttled periods and throttled time (s), both per second, summed over all groups.

        One gap instead if a group cannot be read. The first sample yields nothing. `now` is in s.
        """
        sums: dict[str, float] = {}
        for folder in self._folders:
            try:
                totals = throttling(folder)
            except OSError as error:
                yield Gap(_SOURCE, f"cannot read the control group: {error.strerror} ({error.filename})")
                return
            for metric, total in totals.items():
                sums[metric] = sums.get(metric, 0) + total
        yield from self._rates.of(_SOURCE, now, sums)


_LOOPBACK = "lo"
_MACHINE_SOURCE = "host"
#: Size of a sector in /proc/diskstats, bytes, independent of the disk (the kernel's admin-guide/iostats).
_SECTOR = 512
#: Received and sent bytes of an interface.
Carried = tuple[int, int]


class HostSampler:
    """Sampler of this process's machine. `proc` and `sys` are the mount points of proc(5) and sysfs(5)."""

    name = "host"
    waits = False

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")):
        """`proc` and `sys` are the mount points of proc(5) and sysfs(5)."""
        self._proc = proc
        self._interfaces, self._blocks = sys / "class" / "net", sys / "block"
        self._rates = Rates()
        self._carried = Rates()
        self._cpu: tuple[float, float, float] | None = None

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield CPU shares, load, memory, and rates of pressure, networks and disks; without those the kernel lacks.

        Shares are 0 to 1, memory in bytes, networks and disks in bytes/s, pressure in stalled s per s. Shares of CPU
        time and rates cover the time since the previous sample, and need two. Interfaces of nodes, and those without
        traffic, are left out.
        """
        yield from self._processors()
        yield Sample(_MACHINE_SOURCE, "load.1m", float((self._proc / "loadavg").read_text().split()[0]))
        yield Sample(_MACHINE_SOURCE, "memory.available", self._available())
        carrying = {name: counts for name, counts in self._interface_bytes().items() if any(counts)}
        interfaces = {name: counts for name, counts in carrying.items() if not self._of_nodes(name)}
        totals = of_machine(self._proc) | _networks(interfaces) | self._disks()
        yield from self._rates.of(_MACHINE_SOURCE, now, totals)
        yield from self._network_share(now, interfaces)

    def _processors(self) -> Iterator[Sample]:
        """Yield the shares, 0 to 1, of busy and stolen time of all CPUs since the last call; nothing at the first.

        Waiting for storage is not busy.
        """
        with (self._proc / "stat").open() as lines:
            # Ticks of user, nice, system, idle, iowait, irq, softirq and steal; user includes guests.
            times = [float(ticks) for ticks in lines.readline().split()[1:9]]
        idle, stolen = times[3] + times[4], times[7]
        before, self._cpu = self._cpu, (sum(times), idle, stolen)
        total = sum(times)
        if before is not None and total > before[0]:
            elapsed, unused, stolen = (new - old for new, old in zip(self._cpu, before, strict=True))
            yield Sample(_MACHINE_SOURCE, "cpu.busy", min(max(1 - (unused + stolen) / elapsed, 0.0), 1.0))
            yield Sample(_MACHINE_SOURCE, "cpu.stolen", min(max(stolen / elapsed, 0.0), 1.0))

    def _available(self) -> float:
        """Return the memory available without swapping, bytes; 0 if the kernel does not report it."""
        for line in (self._proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return 0.0

    def _interface_bytes(self) -> dict[str, Carried]:
        """Return interface name -> total (received, sent) bytes, loopback included, from /proc/net/dev (proc(5))."""
        rows = (line.partition(":") for line in (self._proc / "net" / "dev").read_text().splitlines()[2:])
        return {name.strip(): (int(row.split()[0]), int(row.split()[8])) for name, _, row in rows}

    def _disks(self) -> dict[str, float]:
        """Return the total bytes read and written by all disks since boot, by metric.

        Partitions and devices on other disks are left out; see `_is_disk`.
        """
        totals = {"disk.read": 0.0, "disk.written": 0.0}
        for line in (self._proc / "diskstats").read_text().splitlines():
            _, _, name, _, _, read, _, _, _, written, *_ = line.split()
            if self._is_disk(name):
                totals["disk.read"] += _SECTOR * int(read)
                totals["disk.written"] += _SECTOR * int(written)
        return totals

    def _is_disk(self, name: str) -> bool:
        """Return whether a block device is a disk: neither a partition nor a device with bytes that other disks count.

        Other disks count the bytes of logical volumes, encrypted and RAID devices, which have `slaves`, and of loop
        devices.
        """
        device = self._blocks / name.replace("/", "!")
        try:
            return device.exists() and not any((device / "slaves").iterdir()) and not (device / "loop").exists()
        except FileNotFoundError:
            return True

    def _network_share(self, now: float, interfaces: Mapping[str, Carried]) -> Iterator[Sample]:
        """Yield `network.share`: the largest rate of an interface and direction as a share of its speed, 0 to 1.

        `interfaces` are name -> total (received, sent) bytes at the time `now`, s. Nothing without an interface of
        known speed, and at the first call.
        """
        shares = []
        for name, counters in interfaces.items():
            speed = self._speed(name)
            if speed is not None:
                totals = dict(zip(("received", "sent"), counters, strict=True))
                shares += [rate.value / speed for rate in self._carried.of(name, now, totals)]
        if shares:
            yield Sample(_MACHINE_SOURCE, "network.share", max(shares))

    def _of_nodes(self, interface: str) -> bool:
        """Return whether an interface, or the bridge that it belongs to, has an alias that Loadframe gave it.

        Such links of nodes, and the links' bridge, carry traffic that stays on the machine.
        """
        for alias in ("ifalias", "master/ifalias"):
            with contextlib.suppress(OSError):
                if (self._interfaces / interface / alias).read_text().startswith("loadframe "):
                    return True
        return False

    def _speed(self, interface: str) -> float | None:
        """Return the speed in bytes/s and direction, or None for virtual interfaces (no speed, or -1)."""
        try:
            megabits = int((self._interfaces / interface / "speed").read_text())
        except (OSError, ValueError):
            return None
        return megabits * 1e6 / 8 if megabits > 0 else None


def _networks(interfaces: Mapping[str, Carried]) -> dict[str, float]:
    """Return the total bytes over all interfaces by metric, with loopback apart from the others.

    The metrics are `network.received`, `network.sent` and, with loopback, `loopback.bytes`. `interfaces` are name ->
    total (received, sent) bytes.
    """
    totals: dict[str, float] = {"network.received": 0, "network.sent": 0}
    for name, counters in interfaces.items():
        if name == _LOOPBACK:
            # On loopback, sent and received bytes are equal.
            totals["loopback.bytes"] = counters[1]
        else:
            totals["network.received"] += counters[0]
            totals["network.sent"] += counters[1]
    return totals


@dataclass(frozen=True)
class SampleTargets:
    """Processes and control groups to sample on a machine."""

    pids: Mapping[str, int]
    groups: Mapping[str, Mapping[str, Path]]
    families: bool = False  #: whether to include descendants of the processes


class _Watch:
    """Samplers on one machine, with the counters of their last sample."""

    def __init__(self) -> None:
        self._wanted = SampleTargets({}, {})
        processes = [ProcessSampler(lambda: self._wanted.pids, families=families) for families in (False, True)]
        self._processes = processes
        self._rest: tuple[Sampler, ...] = (
            JvmSampler(lambda: self._wanted.pids),
            CgroupSampler(lambda: self._wanted.groups),
            HostSampler(),
            ProgramSampler(lambda: self._wanted.pids),
        )

    def look(self, wanted: SampleTargets) -> list[Sample | Gap]:
        """Return the samples and gaps of the processes and groups in `wanted`, and of this machine.

        Rates cover the time since the last call, by the monotonic clock.
        """
        self._wanted, now = wanted, time.monotonic()
        samplers = (self._processes[wanted.families], *self._rest)
        return [seen for sampler in samplers for seen in sampler.sample(now)]


_WATCHES: dict[str, _Watch] = {}


def look(watch: str, wanted: SampleTargets) -> list[Sample | Gap]:
    """Sample this machine and return samples and gaps; rates are since the last call with the same name `watch`."""
    return _WATCHES.setdefault(watch, _Watch()).look(wanted)


class MachineSampler:
    """Sampler of another machine and its nodes, with the source `machine:NAME`; rates use that machine's clock.

    If the machine does not answer, all of them have gaps.
    """

    waits = True

    def __init__(
        self, machine: str, wanted: Callable[[], SampleTargets], ask: Callable[[SampleTargets], Iterable[Sample | Gap]]
    ):
        """`wanted` is called for each sample; `ask` runs `look` on the machine, or raises LoadframeError.

        `machine` is its name.
        """
        self.name = f"machine {machine}"
        self._source = f"machine:{machine}"
        self._wanted, self._ask = wanted, ask

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Ask the machine, and yield the samples of it and of its nodes; a gap for each if it does not answer."""
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
