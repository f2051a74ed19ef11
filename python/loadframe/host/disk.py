"""Limits of reading and writing a disk: what can be asked for, and which block device has a folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from loadframe.errors import BadInput

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
