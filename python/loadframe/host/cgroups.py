"""Control groups of both versions, as files: create one, set its limits, remove it.

The kernel's documentation defines the files and their units (cgroup-v1/memory, sched-bwc and cgroup-v2). In functions,
`folders` are the folders of a group by controller, such as `cpu`.
"""

import contextlib
import errno
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

_MOUNTS = Path("/proc/self/mountinfo")
#: The controllers of every group.
_ALWAYS = ("cpu", "memory")
#: Disk limits: name in version 2 -> name in version 1.
_THROTTLES = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}
#: Version 1 writes no memory limit as the largest multiple of the page size below 2**63.
_NO_MEMORY_LIMIT = 2**62


@dataclass(frozen=True)
class InForce:
    """Limits of a group as the kernel has them, or None for no limit."""

    quota: int | None  #: CPU time per period, µs
    period: int  #: µs
    memory: int | None  #: bytes
    disk: Mapping[str, int]  #: by the names in io.max; without the names of missing limits


@dataclass(frozen=True)
class V1:
    """Version 1: one hierarchy per controller, such as /sys/fs/cgroup/cpu. `mounts` overrides the mount points."""

    mounts: Mapping[str, Path] | None = None
    name: str = "cgroup v1"

    #: The controller that limits disks.
    disk: ClassVar[str] = "blkio"

    def make(self, name: str, *more: str) -> dict[str, Path]:
        """Create a group in the hierarchies of cpu, memory and `more`; return controller -> folder.

        OSError, with no group created, if one fails or exists.
        """
        return _make(self.places(name, *more))

    def places(self, name: str, *more: str) -> dict[str, Path]:
        """Return controller -> folder of the group `name`, which may not exist; OSError if a hierarchy is missing."""
        mounts = self.mounts if self.mounts is not None else _v1_mounts()
        controllers = (*_ALWAYS, *more)
        for controller in controllers:
            if controller not in mounts:
                raise OSError(errno.ENOENT, f"no {controller} hierarchy is mounted")
        return {controller: mounts[controller] / name for controller in controllers}

    def make_below(self, folders: Mapping[str, Path], name: str) -> dict[str, Path]:
        """Create the group `name` below another one, under the limits of both; return controller -> folder.

        `folders` are the folders of the upper group. OSError, with no group created, if one fails or exists.
        """
        return _make({controller: folder / name for controller, folder in folders.items()})

    def set_quota(self, folders: Mapping[str, Path], cpus: float | None, period: float) -> None:
        """Set the quota to `cpus` cores, as CPU time in each period (s); for None, lift it. OSError if that fails."""
        _write(folders["cpu"] / "cpu.cfs_period_us", round(period * 1e6))
        _write(folders["cpu"] / "cpu.cfs_quota_us", -1 if cpus is None else microseconds(cpus, period))

    def set_memory(self, folders: Mapping[str, Path], limit: int) -> None:
        """Set the memory limit in bytes and disable swapping, which is as slow as the disk. OSError if that fails."""
        _write(folders["memory"] / "memory.limit_in_bytes", limit)
        _write(folders["memory"] / "memory.swappiness", 0)

    def set_disk(self, folders: Mapping[str, Path], device: str, limits: Mapping[str, int]) -> None:
        """Set the disk limits (bytes/s, operations/s) by their names in io.max; limits that are not given are lifted.

        `device` is the `major:minor` of the disk. The limits apply to direct and synchronous I/O: version 1 does not
        limit buffered writes, which the kernel writes back later. OSError if it refuses.
        """
        for name, file in _THROTTLES.items():
            _write(folders["blkio"] / f"blkio.throttle.{file}_device", f"{device} {limits.get(name, 0)}")

    def read(self, folders: Mapping[str, Path], device: str | None) -> InForce:
        """Return the limits of a group; OSError if the group does not exist.

        `device` is the `major:minor` of the disk; without it, the disk limits are empty.
        """
        quota, period = (int((folders["cpu"] / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        memory = int((folders["memory"] / "memory.limit_in_bytes").read_text())
        disk = {}
        for name, file in _THROTTLES.items() if device else ():
            for line in (folders["blkio"] / f"blkio.throttle.{file}_device").read_text().splitlines():
                number, value = line.split()
                if number == device:
                    disk[name] = int(value)
        return InForce(quota if quota > 0 else None, period, memory if memory < _NO_MEMORY_LIMIT else None, disk)


@dataclass(frozen=True)
class V2:
    """Version 2: one hierarchy for all controllers. `mount` overrides its mount point."""

    mount: Path | None = None
    name: str = "cgroup v2"

    #: The controller that limits disks.
    disk: ClassVar[str] = "io"

    def make(self, name: str, *more: str) -> dict[str, Path]:
        """Create a group below `loadframe`, with the controllers cpu, memory and `more`; return controller -> folder.

        OSError if that fails or the group exists. Side effects: enables the controllers in the root group, and creates
        the group `loadframe`.
        """
        places = self.places(name, *more)
        mount = self.mount or _v2_mount()
        available = (mount / "cgroup.controllers").read_text().split()
        controllers = (*_ALWAYS, *more)
        missing = set(controllers) - set(available)
        if missing:
            raise OSError(errno.ENOENT, f"controllers that this hierarchy lacks: {', '.join(sorted(missing))}")
        # A group has the files of a controller only if its parent enables it. The parent must not hold processes.
        _enable(mount, controllers)
        parent = mount / "loadframe"
        parent.mkdir(exist_ok=True)
        _enable(parent, controllers)
        return _make(places)

    def places(self, name: str, *more: str) -> dict[str, Path]:
        """Return controller -> folder of the group of that name, the same folder for all; it may not exist.

        OSError if the hierarchy is not mounted.
        """
        mount = self.mount or _v2_mount()
        return dict.fromkeys((*_ALWAYS, *more), mount / "loadframe" / name)

    def make_below(self, folders: Mapping[str, Path], name: str) -> dict[str, Path]:
        """Create the group `name` below another one, under the limits of both; return controller -> folder.

        `folders` are the folders of the upper group; its controllers are enabled for the new group. OSError if that
        fails or the group exists.
        """
        _enable(folders["cpu"], tuple(folders))
        return _make({controller: folder / name for controller, folder in folders.items()})

    def set_quota(self, folders: Mapping[str, Path], cpus: float | None, period: float) -> None:
        """Set the quota to `cpus` cores, as CPU time in each period (s); for None, lift it. OSError if that fails."""
        quota = "max" if cpus is None else microseconds(cpus, period)
        _write(folders["cpu"] / "cpu.max", f"{quota} {round(period * 1e6)}")

    def set_memory(self, folders: Mapping[str, Path], limit: int) -> None:
        """Set the memory limit in bytes and disable swapping, if the system has swap. OSError if that fails."""
        _write(folders["memory"] / "memory.max", limit)
        with contextlib.suppress(FileNotFoundError):
            _write(folders["memory"] / "memory.swap.max", 0)

    def read(self, folders: Mapping[str, Path], device: str | None) -> InForce:
        """Return the limits of a group; OSError if the group does not exist.

        `device` is the `major:minor` of the disk; without it, the disk limits are empty.
        """
        quota, period = (folders["cpu"] / "cpu.max").read_text().split()
        memory = (folders["memory"] / "memory.max").read_text().strip()
        disk: dict[str, int] = {}
        for line in (folders["io"] / "io.max").read_text().splitlines() if device else ():
            number, *limits = line.split()
            if number == device:
                pairs = (limit.split("=") for limit in limits)
                disk = {name: int(value) for name, value in pairs if value != "max"}
        return InForce(
            None if quota == "max" else int(quota), int(period), None if memory == "max" else int(memory), disk
        )

    def set_disk(self, folders: Mapping[str, Path], device: str, limits: Mapping[str, int]) -> None:
        """Set the disk limits (bytes/s, operations/s) by their names in io.max; limits that are not given are lifted.

        `device` is the `major:minor` of the disk. OSError if the kernel refuses.
        """
        words = " ".join(f"{name}={limits.get(name, 'max')}" for name in _THROTTLES)
        _write(folders["io"] / "io.max", f"{device} {words}")


def _make(folders: Mapping[str, Path]) -> dict[str, Path]:
    """Create these folders and return them. If one fails or exists, remove those created here and raise OSError."""
    made: dict[str, Path] = {}
    for controller, folder in folders.items():
        if folder not in made.values():
            try:
                folder.mkdir()
            except OSError:
                remove(made)
                raise
        made[controller] = folder
    return made


def remove(folders: Mapping[str, Path]) -> None:
    """Remove groups without processes; groups that cannot be removed are left.

    Retries each busy group for 2 s, because the kernel needs time to notice that it is empty.
    """
    for folder in set(folders.values()):
        for _ in range(100):
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY:
                    break
                time.sleep(0.02)
            else:
                break


def strays(folders: Mapping[str, Path], pids: Collection[int]) -> dict[int, str]:
    """Return process id -> its actual group, for each of `pids` that is not in these groups or those directly below.

    The group is a path within its hierarchy, for the first controller for which the process is outside. Processes that
    end meanwhile may be included, with `unknown`.
    """
    outside: dict[int, str] = {}
    for controller, folder in folders.items():
        inside: set[int] = set()
        for file in (folder / "cgroup.procs", *folder.glob("*/cgroup.procs")):
            with contextlib.suppress(FileNotFoundError):
                inside.update(map(int, file.read_text().split()))
        for pid in pids:
            if pid not in inside:
                outside.setdefault(pid, _path_of(pid, controller))
    return outside


def _path_of(pid: int, controller: str) -> str:
    """Return the path of a process's group within its hierarchy; `unknown` after its end.

    The hierarchy is that of the version 1 `controller`, or version 2.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if controller in controllers.split(",") or (number == "0" and not controllers):
                return path
    return "unknown"


def folder_of(pid: int) -> Path | None:
    """Return the folder of the version 2 group of a process; None with version 1 or if the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return _v2_mount() / line[3:].lstrip("/")
    return None


def microseconds(cpus: float, period: float) -> int:
    """Return the CPU time, µs, of `cpus` cores in a period (s); at least 1,000, because the kernel refuses less."""
    # The kernel refuses quotas under 1 ms.
    return max(round(cpus * period * 1e6), 1000)


def _write(path: Path, value: int | str) -> None:
    """Write a value to an existing control file; OSError, with the path, if the kernel refuses it."""
    # write_text would create a file that the kernel does not offer.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


def _enable(folder: Path, controllers: Sequence[str]) -> None:
    """Enable the controllers for the groups below this one, unless they are enabled; OSError if the kernel refuses."""
    control = folder / "cgroup.subtree_control"
    if not set(controllers) <= set(control.read_text().split()):
        _write(control, " ".join(f"+{controller}" for controller in controllers))


def _v1_mounts() -> dict[str, Path]:
    """Return the mount points of the version 1 hierarchies of cpu, memory and blkio, by controller, if mounted."""
    mounts: dict[str, Path] = {}
    for kind, point, options in _mounted():
        if kind == "cgroup":
            mounts |= {option: point for option in options if option in (*_ALWAYS, V1.disk)}
    return mounts


def _v2_mount() -> Path:
    """Return the mount point of the version 2 hierarchy; OSError if it is not mounted."""
    for kind, point, _ in _mounted():
        if kind == "cgroup2":
            return point
    raise OSError(errno.ENOENT, "no version 2 hierarchy is mounted")


def _mounted() -> list[tuple[str, Path, list[str]]]:
    """Return type, mount point and superblock options of each mount (proc(5), mountinfo)."""
    mounts = []
    for line in _MOUNTS.read_text().splitlines():
        front, _, back = line.partition(" - ")
        kind, _, options = back.split(" ", 2)
        mounts.append((kind, Path(front.split(" ")[4]), options.split(",")))
    return mounts
