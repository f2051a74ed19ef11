"""Folders of Loadframe for downloads and state: their paths, permissions, locks and disk space."""

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
    """Return the folder of downloads: LOADFRAME_CACHE, or /var/cache/loadframe as root, or ~/.cache/loadframe.

    XDG_CACHE_HOME replaces ~/.cache. As root, servers run as another user, who cannot read root's home.
    """
    return _folder("LOADFRAME_CACHE", "XDG_CACHE_HOME", ".cache", "/var/cache")


def state() -> Path:
    """Return the state folder: LOADFRAME_STATE, or /var/lib/loadframe as root, or ~/.local/state/loadframe.

    XDG_STATE_HOME replaces ~/.local/state.
    """
    return _folder("LOADFRAME_STATE", "XDG_STATE_HOME", ".local/state", "/var/lib")


def _folder(ours: str, standard: str, in_home: str, as_root: str) -> Path:
    """Return the folder in the environment variable `ours`, as absolute path; without it, a folder `loadframe`.

    That folder is in `as_root` for root, otherwise in the folder of the variable `standard`, or in `in_home` (in the
    home). Creates nothing.
    """
    if os.environ.get(ours):
        return Path(os.environ[ours]).absolute()
    if os.geteuid() == 0:
        return Path(as_root) / "loadframe"
    base = os.environ.get(standard)
    return (Path(base) if base else Path.home() / in_home) / "loadframe"


def make(folder: Path) -> Path:
    """Create a folder with its parents, and return it; BadInput if that fails.

    New state folders get the mode 0700 (0711 as root), other new folders 0755. Existing folders stay unchanged.
    """
    try:
        for missing in [path for path in reversed((folder, *folder.parents)) if not path.exists()]:
            mode = _mode_of_state() if _of_state(missing) else 0o755
            missing.mkdir(mode=mode, exist_ok=True)
            # Override root's umask: as root, servers run as another user.
            missing.chmod(mode)
    except OSError as error:
        raise BadInput(
            f"cannot create the folder: {error.strerror}",
            where=str(folder),
            remedy="set LOADFRAME_CACHE and LOADFRAME_STATE to writable folders",
        ) from error
    return folder


def shut(folder: Path) -> None:
    """Set the mode of a folder of this user to 0700 (0711 as root) if it allows others more; older versions did.

    Another user's folder stays unchanged. FileNotFoundError if it is missing.
    """
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077 & ~_mode_of_state():
        folder.chmod(_mode_of_state())


def _of_state(path: Path) -> bool:
    """Return whether a path is the state folder or lies in it."""
    return path.is_relative_to(state())


def _mode_of_state() -> int:
    """Return the mode of state folders: 0700, or 0711 as root.

    As root, servers run as another user, who must be able to enter the folders above a node's folder, not list them.
    """
    return 0o711 if os.geteuid() == 0 else 0o700


def ours_alone(path: str, flags: int) -> int:
    """Open a file and return its descriptor; a new file gets mode 0600. For the argument `opener` of `open`."""
    return os.open(path, flags, 0o600)


def open_to_all(folder: Path) -> None:
    """Make a folder and its tree readable for all users, and executable where its owner may execute.

    As root, servers run as another user. Skips links, devices and FIFOs. FileNotFoundError if the folder is missing;
    BadInput for another user's link on the way to it or hard link in it, and for more than 100 levels.
    """
    with nofollow.folder(folder) as top:
        os.fchmod(top, _opened(os.fstat(top).st_mode))
        for entry in nofollow.walk(top):
            # Skip links: targets within the tree are visited themselves.
            if entry.is_folder or entry.is_file:
                opened = nofollow.open_entry(entry, folder)
                try:
                    os.fchmod(opened, _opened(entry.status.st_mode))
                finally:
                    os.close(opened)


def _opened(mode: int) -> int:
    """Return a mode with read permission for all, and with execute permission for all if the owner has it."""
    return stat.S_IMODE(mode) | (0o555 if mode & 0o100 else 0o444)


def require_reachable(folder: Path, user: int | None) -> None:
    """Raise BadInput unless `user`, the user id of the servers, may enter the folder and all its parents.

    Permissions of groups do not count. None skips the check. FileNotFoundError for a missing folder.
    """
    if user is None or reachable(folder, user):
        return
    raise BadInput(
        f"user {user}, as whom root's servers run, cannot enter this folder",
        where=str(folder),
        remedy="set LOADFRAME_CACHE and LOADFRAME_STATE to folders that all users may enter, or do not run as root",
    )


def reachable(path: Path, user: int) -> bool:
    """Return whether a user id may enter the folder and all its parents, by their execute permissions.

    Group permissions and the rights of root are ignored. FileNotFoundError if the folder is missing.
    """
    for folder in (path, *path.parents):
        status = folder.stat()
        if not status.st_mode & (0o100 if status.st_uid == user else 0o001):
            return False
    return True


def named_path(path: Path) -> Path:
    """Return a path whose last part is the name of its folder: `.`, `..` and paths that end in `..` are resolved."""
    return path.resolve() if path.name in ("", "..") else path


def require_utf8(path: Path) -> None:
    """Raise BadInput for a path in another encoding than UTF-8, which the library for Parquet files refuses."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise BadInput(
            "the path of a run must be UTF-8",
            where=str(path).encode(errors="backslashreplace").decode(),
            remedy="rename the folder, or name another one",
        ) from None


def require_room(folder: Path, size: int, purpose: str) -> None:
    """Raise BadInput unless the folder's file system has 1.05 times `size` bytes free; `purpose` is for the message."""
    free = shutil.disk_usage(folder).free
    if free < size * 1.05:
        raise BadInput(
            f"not enough disk space: {purpose} needs {format_size(size)}; {format_size(free)} are free",
            where=str(folder),
            remedy="free space, or choose another disk with LOADFRAME_CACHE and LOADFRAME_STATE",
        )


@contextlib.contextmanager
def writing(what: str, target: Path) -> Iterator[None]:
    """Convert an OSError in the block, such as on a full disk, to BadInput.

    `what` names the written content in the message; `target` is its path, used if the exception has no file name.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise BadInput(
            f"not enough disk space for {what}" if full else f"cannot write {what}: {error.strerror}",
            where=str(error.filename or target),
            remedy=f"{'free space' if full else 'make the folder writable'}, or choose another folder with"
            " LOADFRAME_CACHE and LOADFRAME_STATE",
        ) from error


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock on a file during the block; creates the file if it is missing.

    If another process holds the lock, calls `waiting` once and then waits, without a timeout.
    """
    with open(path, "a", opener=ours_alone if _of_state(path) else None) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def ends_mid_line(descriptor: int) -> bool:
    """Return whether the last line of an open file lacks its newline, as after a crash; False for an empty file."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
