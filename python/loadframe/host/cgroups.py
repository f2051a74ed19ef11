"""Control groups of both versions, as files: make one, write its limits, remove it. Decides nothing.

The files and their units are those of the kernel's documentation (cgroup-v1/memory, sched-bwc and cgroup-v2).
"""

import contextlib
import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

_MOUNTS = Path("/proc/self/mountinfo")
#: The controllers of every group.
_ALWAYS = ("cpu", "memory")
#: Limits of a disk: version 2's name, and version 1's.
_THROTTLES = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}


@dataclass(frozen=True)
class V1:
    """One hierarchy per controller, such as /sys/fs/cgroup/cpu. `mounts` overrides where they are."""

    mounts: Mapping[str, Path] | None = None
    name: str = "cgroup v1"

    #: The controller that limits disks.
    disk: ClassVar[str] = "blkio"

    def make(self, name: str, *more: str) -> dict[str, Path]:
        """Make a group in the cpu and the memory hierarchy, and those of `more`; OSError when that is not possible."""
        return _make(self.places(name, *more))

    def places(self, name: str, *more: str) -> dict[str, Path]:
        """Return where a group of that name is; OSError when a hierarchy is missing."""
        mounts = self.mounts if self.mounts is not None else _v1_mounts()
        controllers = (*_ALWAYS, *more)
        for controller in controllers:
            if controller not in mounts:
                raise OSError(errno.ENOENT, f"there is no {controller} hierarchy")
        return {controller: mounts[controller] / name for controller in controllers}

    def make_below(self, folders: Mapping[str, Path], name: str) -> dict[str, Path]:
        """Make a group without limits of its own below another one, whose limits hold for it."""
        return _make({controller: folder / name for controller, folder in folders.items()})

    def set_quota(self, folders: Mapping[str, Path], cpus: float | None, period: float) -> None:
        """Write microseconds of CPU time per period; -1 for no quota."""
        _write(folders["cpu"] / "cpu.cfs_period_us", round(period * 1e6))
        _write(folders["cpu"] / "cpu.cfs_quota_us", -1 if cpus is None else _microseconds(cpus, period))

    def set_memory(self, folders: Mapping[str, Path], limit: int) -> None:
        """Write the limit in bytes. A node that swaps measures the disk, so it is told not to."""
        _write(folders["memory"] / "memory.limit_in_bytes", limit)
        _write(folders["memory"] / "memory.swappiness", 0)

    def set_disk(self, folders: Mapping[str, Path], device: str, limits: Mapping[str, int]) -> None:
        """Write the limits of a disk by the names of io.max; one that is not among them is lifted.

        They hold for direct and for synchronous reading and writing. What a process leaves to the kernel to be written
        later is written without a limit.
        """
        for name, file in _THROTTLES.items():
            _write(folders["blkio"] / f"blkio.throttle.{file}_device", f"{device} {limits.get(name, 0)}")


@dataclass(frozen=True)
class V2:
    """One hierarchy for all controllers. `mount` overrides where it is."""

    mount: Path | None = None
    name: str = "cgroup v2"

    #: The controller that limits disks.
    disk: ClassVar[str] = "io"

    def make(self, name: str, *more: str) -> dict[str, Path]:
        """Make a group below `loadframe`, with the cpu and memory controllers and `more`; OSError when it cannot be."""
        places = self.places(name, *more)
        mount = self.mount or _v2_mount()
        available = (mount / "cgroup.controllers").read_text().split()
        controllers = (*_ALWAYS, *more)
        missing = set(controllers) - set(available)
        if missing:
            raise OSError(errno.ENOENT, f"the hierarchy has no {' and no '.join(sorted(missing))} controller")
        # Limits live in a child's files only if its parent passes the controllers on; the parent holds no process.
        _enable(mount, controllers)
        parent = mount / "loadframe"
        parent.mkdir(exist_ok=True)
        _enable(parent, controllers)
        return _make(places)

    def places(self, name: str, *more: str) -> dict[str, Path]:
        """Return where a group of that name is; OSError when no hierarchy is mounted."""
        mount = self.mount or _v2_mount()
        return dict.fromkeys((*_ALWAYS, *more), mount / "loadframe" / name)

    def make_below(self, folders: Mapping[str, Path], name: str) -> dict[str, Path]:
        """Make a group without limits of its own below another one, whose limits hold for it."""
        _enable(folders["cpu"], tuple(folders))
        return _make({controller: folder / name for controller, folder in folders.items()})

    def set_quota(self, folders: Mapping[str, Path], cpus: float | None, period: float) -> None:
        """Write microseconds of CPU time and the period; `max` for no quota."""
        quota = "max" if cpus is None else _microseconds(cpus, period)
        _write(folders["cpu"] / "cpu.max", f"{quota} {round(period * 1e6)}")

    def set_memory(self, folders: Mapping[str, Path], limit: int) -> None:
        """Write the limit in bytes, and forbid swapping where there is swap."""
        _write(folders["memory"] / "memory.max", limit)
        with contextlib.suppress(FileNotFoundError):
            _write(folders["memory"] / "memory.swap.max", 0)

    def set_disk(self, folders: Mapping[str, Path], device: str, limits: Mapping[str, int]) -> None:
        """Write the limits of a disk by the names of io.max; one that is not among them is lifted."""
        words = " ".join(f"{name}={limits.get(name, 'max')}" for name in _THROTTLES)
        _write(folders["io"] / "io.max", f"{device} {words}")


def _make(folders: Mapping[str, Path]) -> dict[str, Path]:
    """Make these folders, or none of them."""
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
    """Remove groups that hold no process any more. The kernel may take a moment to see that they are empty."""
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


def folder_of(pid: int) -> Path | None:
    """Return the version 2 group of a process, or None."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return _v2_mount() / line[3:].lstrip("/")
    return None


def _microseconds(cpus: float, period: float) -> int:
    # The kernel refuses quotas under 1 ms.
    return max(round(cpus * period * 1e6), 1000)


def _write(path: Path, value: int | str) -> None:
    # Not write_text: it would create a file where the kernel offers none.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


def _enable(folder: Path, controllers: Sequence[str]) -> None:
    control = folder / "cgroup.subtree_control"
    if not set(controllers) <= set(control.read_text().split()):
        _write(control, " ".join(f"+{controller}" for controller in controllers))


def _v1_mounts() -> dict[str, Path]:
    mounts: dict[str, Path] = {}
    for kind, point, options in _mounted():
        if kind == "cgroup":
            mounts |= {option: point for option in options if option in (*_ALWAYS, V1.disk)}
    return mounts


def _v2_mount() -> Path:
    for kind, point, _ in _mounted():
        if kind == "cgroup2":
            return point
    raise OSError(errno.ENOENT, "no version 2 hierarchy is mounted")


def _mounted() -> list[tuple[str, Path, list[str]]]:
    """Return type, mount point and superblock options of each mount (see proc(5), mountinfo)."""
    mounts = []
    for line in _MOUNTS.read_text().splitlines():
        front, _, back = line.partition(" - ")
        kind, _, options = back.split(" ", 2)
        mounts.append((kind, Path(front.split(" ")[4]), options.split(",")))
    return mounts
