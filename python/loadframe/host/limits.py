"""CPU, memory and disk limits of a node, and the ways to enforce them on a machine, in order of preference."""

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size
from loadframe.host import cgroups

_DEVICES = Path("/sys/dev/block")


@dataclass(frozen=True)
class DiskLimits:
    """Disk I/O limits of one node, or None for no limit."""

    read: int | None = None  #: bytes/s
    write: int | None = None  #: bytes/s
    read_operations: float | None = None  #: 1/s
    write_operations: float | None = None  #: 1/s

    def __post_init__(self) -> None:
        """Raise BadInput for a limit below 4,096 bytes/s or 1 operation/s."""
        for name in ("read", "write"):
            size = getattr(self, name)
            if size is not None and size < 4096:
                raise BadInput(
                    f"the disk limit {name} must be at least 4k/s; got {size} bytes/s",
                    remedy="give a rate such as 20m/s",
                )
        for name in ("read_operations", "write_operations"):
            rate = getattr(self, name)
            if rate is not None and rate < 1:
                raise BadInput(
                    f"the disk limit {name} must be at least 1/s; got {rate:g}/s", remedy="give a higher rate"
                )

    def __bool__(self) -> bool:
        return any(value is not None for value in (self.read, self.write, self.read_operations, self.write_operations))

    @property
    def by_kernel(self) -> dict[str, int]:
        """The limits that are set, rounded, by their names in the kernel's io.max: rbps, wbps, riops and wiops."""
        values = {
            "rbps": self.read,
            "wbps": self.write,
            "riops": self.read_operations,
            "wiops": self.write_operations,
        }
        return {name: round(value) for name, value in values.items() if value is not None}


def device_of(folder: Path) -> str:
    """Return `major:minor` of the disk that holds a folder, or its nearest existing parent.

    For a partition, this is the whole disk, because the kernel limits only whole disks. OSError for file systems in
    memory or on the network.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    number = existing.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    place = _DEVICES / name
    if not place.exists():
        raise OSError(f"{existing} is not on a local disk")
    if (place / "partition").exists():
        return (place.resolve().parent / "dev").read_text().strip()
    return name


#: Period of the CPU quota in seconds, the same for all limiters. It affects latency: a node that has used its quota
#: waits for the next period. The manifest records it.
PERIOD = 0.1


@dataclass(frozen=True)
class Limits:
    """Resource limits of one node, or None for no limit."""

    cpus: float | None = None  #: cores, such as 0.5
    memory: int | None = None  #: bytes
    #: Numbers of the cores for all nodes, shared or assigned to single nodes, or None for all cores of the machine.
    cores: tuple[int, ...] | None = None
    cores_each: int | None = None  #: cores per node, or None if nodes share the cores
    disk: DiskLimits = field(default_factory=DiskLimits)  #: of the disk that holds its folder

    def __post_init__(self) -> None:
        """Raise BadInput for a CPU limit outside 0.01 to 4,096 cores, or a memory limit below 64 MiB."""
        if self.cpus is not None and not 0.01 <= self.cpus <= 4096:
            raise BadInput(
                f"the CPU limit of a node must be 0.01 to 4096 cores; got {self.cpus}", remedy="give cores such as 0.5"
            )
        if self.memory is not None and self.memory < 64 * 2**20:
            raise BadInput(
                f"the memory limit of a node must be at least 64m; got {self.memory} bytes",
                remedy="give a limit such as 1g",
            )

    def __bool__(self) -> bool:
        return self.cpus is not None or self.memory is not None or bool(self.disk)

    @property
    def lifted(self) -> "Limits":
        """These limits without CPU quota and disk limits, as while a node starts or prepares; memory and cores stay."""
        return replace(self, cpus=None, disk=DiskLimits())

    def differences(self, actual: cgroups.InForce) -> "Iterator[Difference]":
        """Yield the differences of CPU, memory and disk limits from those in force (`actual`), in this order.

        Cores are not compared. Rounding is tolerated: of memory to pages, of the CPU quota by 0.01 % plus 1 µs.
        """
        period = round(PERIOD * 1e6)
        quota = None if self.cpus is None else cgroups.microseconds(self.cpus, PERIOD)
        if quota is None or actual.quota is None:
            same = quota == actual.quota
        else:
            # systemd rounds the quota.
            same = abs(actual.quota - quota) <= 1 + quota * 1e-4 and actual.period == period
        if not same:
            yield Difference("CPU limit", _cpus_text(actual.quota, actual.period), _cpus_text(quota, period))
        # The kernel rounds down to pages.
        page = os.sysconf("SC_PAGE_SIZE")
        if (actual.memory and actual.memory // page) != (self.memory and self.memory // page):
            yield Difference("memory limit", _size_text(actual.memory), _size_text(self.memory))
        if actual.disk != self.disk.by_kernel:
            yield Difference("disk limit", _disk_text(actual.disk), _disk_text(self.disk.by_kernel))


@dataclass(frozen=True)
class Difference:
    """A difference of a process from its limits: the name of the limit, and both values in words."""

    what: str
    actual: str
    expected: str


def _cpus_text(quota: int | None, period: int) -> str:
    """Return a CPU quota per period, both in µs, as text in cores, such as `0.5 cores`; `none` for the quota None.

    The period is added if it is not `PERIOD`.
    """
    if quota is None:
        return "none"
    cores = f"{quota / period:.4g} {'core' if quota == period else 'cores'}"
    return cores if period == round(PERIOD * 1e6) else f"{cores} per {period / 1e3:g} ms"


def _size_text(size: int | None) -> str:
    """Return a memory limit in bytes as text with a unit; `none` for None."""
    return "none" if size is None else format_size(size)


def _disk_text(limits: Mapping[str, int]) -> str:
    """Return disk limits (name in io.max -> value) as text such as `rbps=4096, riops=10`; `none` without limits."""
    return ", ".join(f"{name}={value}" for name, value in limits.items()) or "none"


class Group(Protocol):
    """Limits of one process, or shared by several processes."""

    @property
    def folders(self) -> Mapping[str, Path]:
        """Controller -> folder that holds the limits."""

    @property
    def entered(self) -> Mapping[str, Path]:
        """Controller -> folder that a new process enters, by writing its id to `cgroup.procs`.

        If several processes share the limits, these are groups below `folders`.
        """

    @property
    def prefix(self) -> tuple[str, ...]:
        """Command prefix that applies the limits; empty if the control groups do."""

    @property
    def limiter(self) -> str:
        """Name of the limiter that created it."""

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return controller (`cpu`, `memory`) -> control group of the running process `pid`; empty if unknown."""

    def throttle(self, limits: Limits) -> None:
        """Set the CPU quota and the disk limits; None lifts a limit. Other limits are ignored.

        OSError or subprocess.SubprocessError if that fails.
        """

    def strays(self, pids: Collection[int]) -> dict[int, str]:
        """Return process id -> its actual group, for each of `pids` that is not in this group or a group below it."""

    def in_force(self, pid: int) -> cgroups.InForce | None:
        """Return the process's limits as the kernel has them, None if hidden; OSError if they cannot be read."""


class Limiter(Protocol):
    """One way to enforce limits on this machine."""

    @property
    def name(self) -> str:
        """Name in manifests and messages."""

    def obstacle(self) -> str | None:
        """Try to set limits; return why that fails, or None if it works."""

    def disk_obstacle(self, folder: Path) -> str | None:
        """Try to limit the disk that holds a folder; return why that fails, or None if it works."""

    @property
    def shares(self) -> bool:
        """Whether several processes can share one set of limits."""

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> Group:
        """Prepare the limits of a process that is about to start. CPU and disk are unlimited until `throttle`.

        The memory limit applies from the start. `folder` selects the disk. Processes with the same `shared` share
        their limits; only for a limiter with `shares`.
        """

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> Group:
        """Return the limits of a process that was started earlier, without creating anything.

        `name` is the name of its command, `folders` its recorded control groups by controller, and `folder` selects the
        disk.
        """


def limiters() -> tuple[Limiter, ...]:
    """Return all limiters in order of preference, without a test: cgroup v1, cgroup v2, systemd-run."""
    return (CgroupLimiter(cgroups.V1()), CgroupLimiter(cgroups.V2()), SystemdLimiter())


def choose() -> tuple[Limiter | None, str | None]:
    """Return the first limiter that works here and None; or None and the reasons why none does, joined by `; `."""
    reasons = []
    for limiter in limiters():
        reason = limiter.obstacle()
        if reason is None:
            return limiter, None
        reasons.append(f"{limiter.name}: {reason}")
    return None, "; ".join(reasons)


@dataclass(frozen=True)
class NoGroup:
    """No limits."""

    folders: Mapping[str, Path] = field(default_factory=dict)
    entered: Mapping[str, Path] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    limiter: str = "none"

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return an empty mapping."""
        return {}

    def throttle(self, limits: Limits) -> None:
        """Do nothing."""

    def strays(self, pids: Collection[int]) -> dict[int, str]:
        """Return an empty mapping."""
        return {}

    def in_force(self, pid: int) -> cgroups.InForce | None:
        """Return None: the limits are not read."""
        return None


@dataclass(frozen=True)
class CgroupGroup:
    """Control group that we create. If its limits are shared, each process enters its own group below it."""

    version: cgroups.V1 | cgroups.V2
    folders: Mapping[str, Path]
    entered: Mapping[str, Path]
    device: str | None = None  #: `major:minor` of the limited disk, if any
    prefix: tuple[str, ...] = ()

    @property
    def limiter(self) -> str:
        """`cgroup v1` or `cgroup v2`."""
        return self.version.name

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return controller -> folder of this group, without looking at the process."""
        return self.folders

    def throttle(self, limits: Limits) -> None:
        """Set the CPU quota and, of a group with a disk, the disk limits; None lifts a limit.

        OSError if the kernel refuses.
        """
        self.version.set_quota(self.folders, limits.cpus, PERIOD)
        if self.device:
            self.version.set_disk(self.folders, self.device, limits.disk.by_kernel)

    def strays(self, pids: Collection[int]) -> dict[int, str]:
        """Return process id -> its actual group, for each of `pids` that is not in this group or a group below it."""
        return cgroups.strays(self.folders, pids)

    def in_force(self, pid: int) -> cgroups.InForce | None:
        """Return the limits of the group as the kernel has them; `pid` is ignored. OSError if they cannot be read."""
        return self.version.read(self.folders, self.device)


@dataclass(frozen=True)
class CgroupLimiter:
    """Limits by control groups that we create. Needs root or a delegated hierarchy."""

    version: cgroups.V1 | cgroups.V2
    shares: bool = True

    @property
    def name(self) -> str:
        """`cgroup v1` or `cgroup v2`."""
        return self.version.name

    def obstacle(self) -> str | None:
        """Create a group, set memory and CPU limits, and remove it; return the error, or None."""
        try:
            folders = self.version.make(f"loadframe-probe-{os.getpid()}")
        except OSError as error:
            return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
        try:
            self.version.set_memory(folders, 64 * 2**20)
            self.version.set_quota(folders, 0.5, PERIOD)
            self.version.set_quota(folders, None, PERIOD)
        except OSError as error:
            return f"{error.strerror} ({error.filename})"
        finally:
            cgroups.remove(folders)
        return None

    def disk_obstacle(self, folder: Path) -> str | None:
        """Create a group, limit the disk that holds `folder`, and remove the group; return the error, or None."""
        folders: dict[str, Path] = {}
        try:
            device = device_of(folder)
            folders = self.version.make(f"loadframe-probe-{os.getpid()}", self.version.disk)
            self.version.set_disk(folders, device, {"wbps": 2**20})
        except OSError as error:
            return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"
        finally:
            cgroups.remove(folders)
        return None

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> Group:
        """Create the group `shared`, or else `name`, and set its memory limit; CPU and disk wait for `throttle`.

        With `shared`, an existing group is used as it is, and the process enters a new group `name` below it. Without,
        FileExistsError. OSError if the kernel refuses; a group that was created stays then. `folder` selects the disk
        for the disk limits.
        """
        more = (self.version.disk,) if limits.disk else ()
        try:
            folders = self.version.make(shared or name, *more)
        except FileExistsError:
            if not shared:
                raise
            folders = self.version.places(shared, *more)
        else:
            if limits.memory is not None:
                self.version.set_memory(folders, limits.memory)
        entered = self.version.make_below(folders, name) if shared else folders
        return CgroupGroup(self.version, folders, entered, device_of(folder) if limits.disk else None)

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> Group:
        """Return the group in `folders` (controller -> folder), without creating or checking it.

        `folder` selects the disk if `limits` has disk limits; `name` is ignored.
        """
        return CgroupGroup(self.version, folders, folders, device_of(folder) if limits.disk else None)


@dataclass(frozen=True)
class SystemdGroup:
    """Transient scope in the user's systemd instance."""

    unit: str
    memory: int | None
    folders: Mapping[str, Path] = field(default_factory=dict)
    entered: Mapping[str, Path] = field(default_factory=dict)
    limiter: str = "systemd-run"

    @property
    def prefix(self) -> tuple[str, ...]:
        """`systemd-run --scope` with its options. It executes the command in place, so the process id is unchanged."""
        return (*_SCOPE, f"--unit={self.unit}", *_memory_property(self.memory), "--")

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return `cpu` and `memory` -> version 2 group into which systemd put the process; empty if it has none."""
        folder = cgroups.folder_of(pid)
        return {"cpu": folder, "memory": folder} if folder else {}

    def throttle(self, limits: Limits) -> None:
        """Set the CPU quota of the scope; None lifts it. Other limits are ignored.

        subprocess.SubprocessError if systemctl fails or takes more than 20 s.
        """
        quota = "" if limits.cpus is None else f"{limits.cpus * 100:g}%"
        subprocess.run(
            ["systemctl", "--user", "set-property", "--runtime", f"{self.unit}.scope", f"CPUQuota={quota}"],
            check=True,
            capture_output=True,
            timeout=20,
        )

    def strays(self, pids: Collection[int]) -> dict[int, str]:
        """Return process id -> folder of its actual group, for each of `pids` that is outside of the scope.

        Processes that have ended are left out.
        """
        folders = {pid: cgroups.folder_of(pid) for pid in pids}
        return {pid: str(folder) for pid, folder in folders.items() if folder and folder.name != f"{self.unit}.scope"}

    def in_force(self, pid: int) -> cgroups.InForce | None:
        """Return the scope's CPU and memory limits as the kernel has them; None without a version 2 group."""
        folders = self.located(pid)
        return cgroups.V2().read(folders, None) if folders else None


_SCOPE = (
    "systemd-run", "--user", "--scope", "--quiet", "--collect", f"--property=CPUQuotaPeriodSec={PERIOD * 1000:.0f}ms",
)  # fmt: skip


@dataclass(frozen=True)
class SystemdLimiter:
    """Limits for unprivileged users, through the controllers that systemd delegates to them."""

    name: str = "systemd-run"
    shares: bool = False

    def obstacle(self) -> str | None:
        """Run a command in a scope with a quota, for 20 s at most, and check its group; return the error, or None."""
        show = "cat /sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/cpu.max"
        command = [*_SCOPE, "--property=CPUQuota=50%", *_memory_property(2**30), "--", "sh", "-c", show]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except FileNotFoundError:
            return "systemd-run is not installed"
        except subprocess.TimeoutExpired:
            return "systemd-run does not answer"
        if result.returncode:
            return result.stderr.strip().splitlines()[-1] if result.stderr.strip() else f"status {result.returncode}"
        return None if result.stdout.startswith("50000 ") else "the cpu controller is not delegated to the user"

    def disk_obstacle(self, folder: Path) -> str | None:
        """Return why disks cannot be limited: systemd delegates no disk controller to users by default."""
        return "a user's systemd instance cannot limit disks"

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> Group:
        """Return a systemd scope that does not exist yet: its `prefix` creates it with the process and memory limit.

        `folder` and `shared` are ignored.
        """
        return SystemdGroup(name, limits.memory)

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> Group:
        """Return the scope of that name, without checking it; `folders` and `folder` are ignored."""
        return SystemdGroup(name, limits.memory)


def _memory_property(memory: int | None) -> Iterator[str]:
    """Yield the options of systemd-run for a memory limit in bytes, without swap; no option for None."""
    if memory is not None:
        yield f"--property=MemoryMax={memory}"
        yield "--property=MemorySwapMax=0"
