"""Where loadframe keeps things between commands: the cache of downloads and the clusters' folders; locks and room."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.base.units import format_size


def cache() -> Path:
    """Return the folder of downloads: LOADFRAME_CACHE, else ~/.cache/loadframe, else as root /var/cache/loadframe.

    Root's servers run as another user, who cannot look into root's home.
    """
    return _folder("LOADFRAME_CACHE", "XDG_CACHE_HOME", ".cache", "/var/cache")


def state() -> Path:
    """Return the folder of clusters, LOADFRAME_STATE, else ~/.local/state/loadframe, or as root /var/lib/loadframe."""
    return _folder("LOADFRAME_STATE", "XDG_STATE_HOME", ".local/state", "/var/lib")


def _folder(ours: str, standard: str, in_home: str, as_root: str) -> Path:
    if os.environ.get(ours):
        return Path(os.environ[ours]).absolute()
    if os.geteuid() == 0:
        return Path(as_root) / "loadframe"
    base = os.environ.get(standard)
    return (Path(base) if base else Path.home() / in_home) / "loadframe"


def make(folder: Path) -> Path:
    """Make a folder with its parents; BadInput when that is not possible.

    Those of the state are for their owner alone. All others are open to everybody.
    """
    try:
        for missing in [path for path in reversed((folder, *folder.parents)) if not path.exists()]:
            mode = _mode_of_state() if _of_state(missing) else 0o755
            missing.mkdir(mode=mode, exist_ok=True)
            # Whatever root's umask is, root's servers run as another user.
            missing.chmod(mode)
    except OSError as error:
        raise BadInput(
            f"the folder cannot be made: {error.strerror}",
            where=str(folder),
            remedy="set LOADFRAME_CACHE and LOADFRAME_STATE to folders that can be written",
        ) from error
    return folder


def shut(folder: Path) -> None:
    """Close a folder of the state to others; it may have been made when all were open to everybody."""
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077 & ~_mode_of_state():
        folder.chmod(_mode_of_state())


def _of_state(path: Path) -> bool:
    return path.is_relative_to(state())


def _mode_of_state() -> int:
    """Return who may do what in a folder of the state.

    Root's servers run as another user, who has to pass through to the node's own folder, and may list nothing.
    """
    return 0o711 if os.geteuid() == 0 else 0o700


def ours_alone(path: str, flags: int) -> int:
    """Open a file, for `open`'s argument `opener`, so that one which is made was never open to others."""
    return os.open(path, flags, 0o600)


def open_to_all(folder: Path) -> None:
    """Let everybody read what is in a folder and below, and run what its owner may run.

    Whatever root's umask is, root's servers run as another user.
    """
    with nofollow.folder(folder) as top:
        os.fchmod(top, _opened(os.fstat(top).st_mode))
        for entry in nofollow.walk(top):
            # What a link points to is here as well, or nowhere.
            if entry.is_folder or entry.is_file:
                opened = nofollow.open_entry(entry, folder)
                try:
                    os.fchmod(opened, _opened(entry.status.st_mode))
                finally:
                    os.close(opened)


def _opened(mode: int) -> int:
    return stat.S_IMODE(mode) | (0o555 if mode & 0o100 else 0o444)


def require_reachable(folder: Path, user: int | None) -> None:
    """BadInput if another user, that servers are to run as, cannot enter the folder."""
    if user is None or reachable(folder, user):
        return
    raise BadInput(
        f"user {user}, whom root's servers run as, cannot enter this folder",
        where=str(folder),
        remedy="set LOADFRAME_CACHE and LOADFRAME_STATE to folders that everybody may enter, or do not run as root",
    )


def reachable(path: Path, user: int) -> bool:
    """Whether a user in no special group may enter the folder and all above it."""
    for folder in (path, *path.parents):
        status = folder.stat()
        if not status.st_mode & (0o100 if status.st_uid == user else 0o001):
            return False
    return True


def require_room(folder: Path, size: int, purpose: str) -> None:
    """BadInput unless the folder's file system has that many bytes left, and a little more."""
    free = shutil.disk_usage(folder).free
    if free < size * 1.05:
        raise BadInput(
            f"no room on the disk: {purpose} needs {format_size(size)}, and {format_size(free)} are free",
            where=str(folder),
            remedy="free some space, or choose another disk by LOADFRAME_CACHE and LOADFRAME_STATE",
        )


@contextlib.contextmanager
def writing(what: str, target: Path) -> Iterator[None]:
    """Say in one message, BadInput, that something cannot be written, as on a disk that is full."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise BadInput(
            f"no room on the disk for {what}" if full else f"{what} cannot be written: {error.strerror}",
            where=str(error.filename or target),
            remedy=f"{'free some space' if full else 'make it writable'}, or choose another folder by LOADFRAME_CACHE "
            "and LOADFRAME_STATE",
        ) from error


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock on a file; `waiting` is called once if another process holds it now."""
    with open(path, "a", opener=ours_alone if _of_state(path) else None) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
