"""The hidden folder in which a run grows until it is whole, and the removal of those whose process has ended.

The writer holds a lock on a file in the folder, which the kernel releases when the process ends. Containers may
share the machine's name, process numbers and the results folder, so those identify no writer. The folder's name has the
machine's boot, because only processes of one kernel see each other's locks on every file system.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import BinaryIO

_NAME = re.compile(r"\.(?P<run>.+)\.partial-(?P<host>.+)-(?P<boot>[0-9a-f]{8})-(?P<unique>[0-9a-f]{12})")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/mountinfo")
#: Held by the writer, in its folder.
LOCK_FILE = ".lock"
#: File systems that other kernels may use at the same time, and whose locks may not reach them.
_SHARED = re.compile(r"nfs|cifs|smb|9p|virtiofs|fuse|lustre|gpfs|beegfs|ceph|afs|panfs|pvfs|orangefs|gfs|ocfs|gluster")


def partial_name(run: str) -> str:
    """Return a new name of a folder in which a process of this machine writes `run`."""
    return f".{run}.partial-{os.uname().nodename}-{_boot()}-{secrets.token_hex(6)}"


def hold(folder: Path) -> BinaryIO | None:
    """Lock a partial folder for as long as the returned file is open.

    None if the file system has no locks: nobody may take that folder for abandoned then. BlockingIOError if another
    process holds the lock; FileNotFoundError if the folder is gone.
    """
    file = (folder / LOCK_FILE).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(file.fileno()), (folder / LOCK_FILE).stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    except OSError as error:
        file.close()
        if isinstance(error, BlockingIOError | FileNotFoundError):
            raise
        (folder / LOCK_FILE).unlink(missing_ok=True)
        return None
    return file


def remove_stale(parent: Path) -> list[Path]:
    """Remove the partial folders in `parent` whose process has ended; return them."""
    removed = []
    for path, _ in stale(parent):
        with contextlib.suppress(OSError):
            held = hold(path)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
            if held:
                held.close()
    return removed


def stale(parent: Path) -> list[tuple[Path, str]]:
    """Return the partial folders in `parent` whose process has ended, with the names of their runs.

    A folder of another kernel on a file system that machines share is never among them.
    """
    matches = [(path, _NAME.fullmatch(path.name)) for path in sorted(parent.glob(".*.partial-*"))]
    return [(path, match["run"]) for path, match in matches if match and _is_stale(path, match["boot"])]


def _is_stale(path: Path, boot: str) -> bool:
    if boot != _boot() and _is_shared(path):
        return False
    try:
        # Opened, not made: a folder without the file is new, or of a file system without locks.
        with (path / LOCK_FILE).open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _boot() -> str:
    """Return eight digits that only processes of this kernel have in common."""
    return _BOOT.read_text()[:8]


def _is_shared(path: Path) -> bool:
    """Whether the path lies on a file system that other machines may have mounted; true if that is not known."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == number:
            return bool(_SHARED.search(after.split()[0]))
    return True
