"""Private folder of the ranks of one `--ranks`: the launcher's socket, MPI's shared memory and session files.

Each process that uses the folder holds a shared lock on it, which the kernel releases when the process ends. A folder
without locks is abandoned, and the next command removes it. Process ids are not needed.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def workspace() -> Iterator[tuple[Path, int]]:
    """Create a locked folder; yield it and the descriptor of the lock. Remove the folder on exit."""
    held = None
    while held is None:
        path = Path(tempfile.mkdtemp(prefix=f"{_prefix()}{secrets.token_hex(4)}-", dir=_base()))
        # Until it is locked, another command can take the new folder for an abandoned one and remove it.
        held = hold(path)
    try:
        yield path, held
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


def hold(path: Path) -> int | None:
    """Lock a workspace while the returned descriptor is open, or None if the folder is missing or another user's."""
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        there = os.fstat(held)
        if there.st_uid == os.geteuid():
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.path.samestat(there, path.lstat()):
                return held
    os.close(held)
    return None


def remove_abandoned() -> list[Path]:
    """Remove this user's workspaces that no process holds, and return them."""
    removed = []
    for path in sorted(_base().glob(f"{_prefix()}*")):
        held = hold(path)
        if held is None:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
            removed.append(path)
        except OSError:
            # Ranks or their launcher still use it.
            pass
        finally:
            os.close(held)
    return removed


def _base() -> Path:
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


def _prefix() -> str:
    return f"loadframe-ranks-{os.geteuid()}-"
