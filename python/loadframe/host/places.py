"""Where clusters' folders are on this machine. The folder above them may be one that many machines share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from loadframe import folders, nofollow
from loadframe.host import identity

#: The folder of clusters without a name, which end with the command that started them.
PASSING = "passing"


def passing(token: str, scratch: Path | None = None) -> Path:
    """Return the folder of a cluster without a name, below that of the state or `scratch`; it is not made.

    What a crash of this machine has left there is removed. While the machine is up, the guards of the nodes do that.
    """
    parent = (scratch or folders.state()) / PASSING
    if parent.exists():
        for left in _left(parent):
            nofollow.remove_tree(left)
    return parent / f"{identity.machine()}-{identity.boot()}-{token}"


def named(name: str, scratch: Path | None = None) -> Path:
    """Return the folder of a cluster with that name."""
    return (scratch or folders.state()) / "clusters" / name


def _left(parent: Path) -> Iterator[Path]:
    """Yield the folders of clusters that ran on this very machine before it was booted, and those of no other.

    Many machines may keep theirs here. One that is taken for this machine, because it has the same name and the same
    machine-id(5), still has written something since: a cluster that runs never rests.
    """
    ours, now, booted = f"{identity.machine()}-", f"{identity.machine()}-{identity.boot()}-", identity.up_since()
    for folder in parent.iterdir():
        if folder.name.startswith(ours) and not folder.name.startswith(now) and _last_written(folder) < booted:
            yield folder


def _last_written(folder: Path) -> float:
    """Return when anything in a folder was written last, in s since the epoch."""
    latest = 0.0
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            latest = max(latest, path.lstat().st_mtime)
    return latest
