"""CPU, memory and disk limits of a node: what can be asked for, and how machines enforce it, the best way first."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from loadframe.base.errors import BadInput
from loadframe.host import cgroups

_DEVICES = Path("/sys/dev/block")


@dataclass(frozen=True)
class DiskLimits:
    """The most that one node may read and write in a second; None for no limit."""

    read: int | None = None  #: bytes/s
    write: int | None = None  #: bytes/s
    read_operations: float | None = None  #: 1/s
    write_operations: float | None = None  #: 1/s

    def __post_init__(self) -> None:
        for name in ("read", "write"):
            size = getattr(self, name)
            if size is not None and size < 4096:
                raise BadInput(f"{size} bytes/s for {name} of a disk", remedy="give at least 4k/s, such as 20m/s")
        for name in ("read_operations", "write_operations"):
            rate = getattr(self, name)
            if rate is not None and rate < 1:
                raise BadInput(f"{rate:g}/s for {name} of a disk", remedy="give at least 1/s")

    def __bool__(self) -> bool:
        return any(value is not None for value in (self.read, self.write, self.read_operations, self.write_operations))

    @property
    def by_kernel(self) -> dict[str, int]:
        """Return the limits by the names of the kernel's io.max: those that were asked for."""
        values = {
            "rbps": self.read,
            "wbps": self.write,
            "riops": self.read_operations,
            "wiops": self.write_operations,
        }
        return {name: round(value) for name, value in values.items() if value is not None}


def device_of(folder: Path) -> str:
    """Return `major:minor` of the disk that has a folder, or the first of its parents that exists.

    OSError where it lies on no disk: in memory, or on the network. Of a partition it is the whole disk: the kernel
    limits that alone.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    number = there.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    place = _DEVICES / name
    if not place.exists():
        raise OSError(f"{there} is on no disk of this machine's own")
    if (place / "partition").exists():
        return (place.resolve().parent / "dev").read_text().strip()
    return name


#: Seconds. The quota is enforced in slices of this length. The choice shows in latency (a node that has used its share
#: waits for the next slice), so it is the same everywhere and goes into the manifest.
PERIOD = 0.1


@dataclass(frozen=True)
class Limits:
    """The most that one node may use; None for no limit."""

    cpus: float | None = None  #: cores, such as 0.5
    memory: int | None = None  #: bytes
    #: The numbers of the cores that all nodes share, or that are dealt out to them; None for those of the machine.
    cores: tuple[int, ...] | None = None
    cores_each: int | None = None  #: how many cores each node has to itself; None where they share them
    disk: DiskLimits = field(default_factory=DiskLimits)  #: of the disk that its folder is on

    def __post_init__(self) -> None:
        if self.cpus is not None and not 0.01 <= self.cpus <= 4096:
            raise BadInput(f"{self.cpus} CPUs for a node", remedy="give a number of cores of 0.01 or more, such as 0.5")
        if self.memory is not None and self.memory < 64 * 2**20:
            raise BadInput(f"{self.memory} bytes of memory for a node", remedy="give at least 64m, such as 1g")

    def __bool__(self) -> bool:
        return self.cpus is not None or self.memory is not None or bool(self.disk)

    @property
    def lifted(self) -> "Limits":
        """What is left of it while a node starts, or prepares: a node may always use its memory and no more."""
        return replace(self, cpus=None, disk=DiskLimits())


class Group(Protocol):
    """The limits of one process, or those that several share."""

    @property
    def folders(self) -> Mapping[str, Path]:
        """Controller -> folder that has the limits."""

    @property
    def entered(self) -> Mapping[str, Path]:
        """Controller -> folder; the process's id is written to `cgroup.procs` in each before it runs.

        These are others than `folders`, and below them, where several processes share the limits.
        """

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before the command line, for limits that a program applies."""

    @property
    def limiter(self) -> str:
        """The name of the limiter that it belongs to."""

    def located(self, pid: int) -> Mapping[str, Path]:
        """Controller -> folder once the process runs."""

    def throttle(self, limits: Limits) -> None:
        """Set the CPU quota and the limits of the disk, or lift those that are None."""


class Limiter(Protocol):
    """One way to enforce limits on this machine."""

    @property
    def name(self) -> str:
        """What it is called in manifests and messages."""

    def obstacle(self) -> str | None:
        """Return why it cannot be used here, or None when it can: it is tried out, not guessed."""

    def disk_obstacle(self, folder: Path) -> str | None:
        """Return why the disk that has a folder cannot be limited here, or None when it can."""

    @property
    def shares(self) -> bool:
        """Whether several processes can have one and the same limits."""

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> Group:
        """Make the limits for a process that is about to start: memory in force, CPU quota and disk not yet.

        `folder` is the one that it writes into. Processes with the same name for `shared` have these limits together;
        only a limiter that `shares` is given one.
        """

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> Group:
        """Return the limits that a process was started with earlier."""


def limiters() -> tuple[Limiter, ...]:
    """Return the ways to enforce limits, in the order of preference."""
    return (CgroupLimiter(cgroups.V1()), CgroupLimiter(cgroups.V2()), SystemdLimiter())


def choose() -> tuple[Limiter | None, str | None]:
    """Return the first limiter that works here, or None and the reasons against each."""
    reasons = []
    for limiter in limiters():
        reason = limiter.obstacle()
        if reason is None:
            return limiter, None
        reasons.append(f"{limiter.name}: {reason}")
    return None, "; ".join(reasons)


@dataclass(frozen=True)
class NoGroup:
    """No limit at all."""

    folders: Mapping[str, Path] = field(default_factory=dict)
    entered: Mapping[str, Path] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    limiter: str = "none"

    def located(self, pid: int) -> Mapping[str, Path]:
        """Nowhere."""
        return {}

    def throttle(self, limits: Limits) -> None:
        """Nothing to throttle."""


@dataclass(frozen=True)
class CgroupGroup:
    """A control group of our own making; of one that processes share each enters a group of its own below it."""

    version: cgroups.V1 | cgroups.V2
    folders: Mapping[str, Path]
    entered: Mapping[str, Path]
    device: str | None = None  #: the disk that is limited, where one is
    prefix: tuple[str, ...] = ()

    @property
    def limiter(self) -> str:
        """`cgroup v1` or `cgroup v2`."""
        return self.version.name

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return the folders that were made."""
        return self.folders

    def throttle(self, limits: Limits) -> None:
        """Write the quota, and the limits of the disk."""
        self.version.set_quota(self.folders, limits.cpus, PERIOD)
        if self.device:
            self.version.set_disk(self.folders, self.device, limits.disk.by_kernel)


@dataclass(frozen=True)
class CgroupLimiter:
    """Limits by control groups that we make ourselves; needs root, or a delegated hierarchy."""

    version: cgroups.V1 | cgroups.V2
    shares: bool = True

    @property
    def name(self) -> str:
        """`cgroup v1` or `cgroup v2`."""
        return self.version.name

    def obstacle(self) -> str | None:
        """Make a group with both limits, and remove it."""
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
        """Make a group that limits the disk, and remove it."""
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
        """Make the group and write its memory limit; one that is shared is made by the first of its processes."""
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
        """Return the group in these folders."""
        return CgroupGroup(self.version, folders, folders, device_of(folder) if limits.disk else None)


@dataclass(frozen=True)
class SystemdGroup:
    """A transient scope in the user's own systemd."""

    unit: str
    memory: int | None
    folders: Mapping[str, Path] = field(default_factory=dict)
    entered: Mapping[str, Path] = field(default_factory=dict)
    limiter: str = "systemd-run"

    @property
    def prefix(self) -> tuple[str, ...]:
        """`systemd-run --scope` replaces itself by the command, so the process id stays the same."""
        return (*_SCOPE, f"--unit={self.unit}", *_memory_property(self.memory), "--")

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return where systemd put the process."""
        folder = cgroups.folder_of(pid)
        return {"cpu": folder, "memory": folder} if folder else {}

    def throttle(self, limits: Limits) -> None:
        """Change the scope's quota; an empty value lifts it."""
        quota = "" if limits.cpus is None else f"{limits.cpus * 100:g}%"
        subprocess.run(
            ["systemctl", "--user", "set-property", "--runtime", f"{self.unit}.scope", f"CPUQuota={quota}"],
            check=True,
            capture_output=True,
            timeout=20,
        )


_SCOPE = (
    "systemd-run", "--user", "--scope", "--quiet", "--collect", f"--property=CPUQuotaPeriodSec={PERIOD * 1000:.0f}ms",
)  # fmt: skip


@dataclass(frozen=True)
class SystemdLimiter:
    """Limits for a user without rights of his own, as far as systemd delegates the controllers to him."""

    name: str = "systemd-run"
    shares: bool = False

    def obstacle(self) -> str | None:
        """Run a command in a limited scope and look whether its control group has the quota."""
        show = "cat /sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/cpu.max"
        command = [*_SCOPE, "--property=CPUQuota=50%", *_memory_property(2**30), "--", "sh", "-c", show]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except FileNotFoundError:
            return "there is no systemd-run"
        except subprocess.TimeoutExpired:
            return "systemd-run does not answer"
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"
        return None if done.stdout.startswith("50000 ") else "the cpu controller is not delegated to the user"

    def disk_obstacle(self, folder: Path) -> str | None:
        """A user's own systemd is not given the controller of disks, unless an administrator sees to it."""
        return "a user's own systemd does not limit disks"

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> Group:
        """Name the scope; it comes into being with the process and goes with it."""
        return SystemdGroup(name, limits.memory)

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> Group:
        """Return the scope of that name."""
        return SystemdGroup(name, limits.memory)


def _memory_property(memory: int | None) -> Iterator[str]:
    if memory is not None:
        yield f"--property=MemoryMax={memory}"
        yield "--property=MemorySwapMax=0"
