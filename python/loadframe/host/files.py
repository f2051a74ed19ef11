"""File operations for node folders. Each function can run on another machine through `Machine.call`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput
from loadframe.base.nofollow import Owner

#: User and group for servers that refuse to run as root. The number is in a range that distributions and systemd leave
#: unassigned, so it belongs to no account and no other service.
SERVER_USER = 60960
#: Bytes that `log_end` reads.
_LOG_END = 2**16


def server_owner(user: int | None) -> Owner | None:
    """Return the user and group of a server's files, or None if the server runs as the current user.

    The group belongs to no account: members of the group of `nobody` could otherwise read a node's password.
    """
    if user is None:
        return None
    return Owner(user, SERVER_USER if is_mapped("gid_map", SERVER_USER) else user)


def is_mapped(table: str, number: int) -> bool:
    """Return whether a user (`uid_map`) or group (`gid_map`) exists in this user namespace; see user_namespaces(7).

    True if the kernel has no user namespaces.
    """
    try:
        lines = (Path("/proc/self") / table).read_text().splitlines()
    except FileNotFoundError:
        return True
    ranges = [[int(field) for field in line.split()] for line in lines]
    return any(first <= number < first + length for first, _, length in ranges)


def write_node(folder: Path, within: Sequence[str], files: Mapping[str, str], user: int | None) -> None:
    """Create a node's folder with the folders `within` it and its files; BadInput if that fails.

    `files` maps paths in the folder to texts. The server's user owns the folders `within`. It can read the other files,
    but not write them. Other users have no access. Existing files are replaced; links are not followed.
    """
    theirs = server_owner(user)
    ours = Owner(os.geteuid(), theirs.group) if theirs else None
    # As root: a server of another user reads the files through its group.
    shared = 0 if user is None else 0o040
    with folders.writing("a node's files", folder):
        folders.make(folder)
        paths = [PurePosixPath(name) for name in within]
        above = {parent for name in files for parent in PurePosixPath(name).parents} | {PurePosixPath()}
        with nofollow.folder(folder) as top:
            for upper in sorted(above - {*paths}):
                with nofollow.below(top, upper, make=0o700, where=folder) as made:
                    nofollow.give(made, 0o700 | shared | shared >> 2, ours)
            for path in paths:
                with nofollow.below(top, path, make=0o700, where=folder) as made:
                    nofollow.give(made, 0o700, theirs)
        for name, content in files.items():
            nofollow.write_text(folder, name, content, 0o600 | shared, ours)


def make_room(folder: Path, user: int | None, size: int, purpose: str, remedy: str | None = None) -> None:
    """Create a folder for nodes; BadInput unless their user can enter it and `size` bytes are free on its disk.

    `user` is an id; None is not checked. `purpose` appears in the message. `remedy` replaces the remedy for this
    machine.
    """
    try:
        folders.make(folder)
        folders.require_reachable(folder, user)
        folders.require_room(folder, size, purpose)
    except BadInput as error:
        error.remedy = remedy or error.remedy
        raise


def read(path: Path) -> str | None:
    """Return the text of a file, or None if it is missing, BadInput if it is not a regular file."""
    return nofollow.read_text(path.parent, path.name)


def exists(path: Path) -> bool:
    """Whether the path exists, including a broken link."""
    return os.path.lexists(path)


def remove(path: Path) -> None:
    """Remove a folder tree, if it exists; entries that cannot be removed are left."""
    nofollow.remove_tree(path)


def log_end(path: Path) -> str:
    """Return the last 64 KiB of a log; empty if it is missing, BadInput if it is not a regular file."""
    try:
        with nofollow.reading(path.parent, path.name) as handle:
            handle.seek(max(os.fstat(handle.fileno()).st_size - _LOG_END, 0))
            return handle.read(_LOG_END).decode(errors="replace")
    except FileNotFoundError:
        return ""
