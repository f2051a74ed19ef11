"""Safe access to folders that another user can write, such as a node's folder if its server runs as its own user.

Every function works below a directory descriptor and follows no symbolic link there. The other user therefore cannot
redirect a read, a write or a change of owner of a privileged process. FIFOs and devices are refused unopened.
Standard library only: agents on other machines use the same functions.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path, PurePosixPath
from secrets import token_hex

from loadframe.base.errors import BadInput

#: Maximum size of a small text file, bytes.
_MOST = 16 * 2**20
#: Maximum number of symbolic links in a path, as in the kernel.
_LINKS = 40
#: Maximum depth of a tree: each level takes a descriptor.
_DEPTH = 100
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


@dataclass(frozen=True)
class Owner:
    """The user and group that get a new file or folder."""

    user: int
    group: int


@contextlib.contextmanager
def folder(path: Path) -> Iterator[int]:
    """Open a folder and yield its descriptor; FileNotFoundError if it is missing.

    Links on the way are followed only if root or this user must have created them. BadInput for other links, and for
    a part that is not a folder. The descriptor is closed at the end of the block.
    """
    descriptor = os.open("/", _ENTER)
    try:
        rest, links = [*reversed(path.absolute().parts[1:])], 0
        while rest:
            name = rest.pop()
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode) and links < _LINKS and _trusted(descriptor, status):
                links += 1
                target = PurePosixPath(os.readlink(name, dir_fd=descriptor))
                rest += [part for part in reversed(target.parts) if part != "/"]
                name = "/" if target.is_absolute() else "."
            elif not stat.S_ISDIR(status.st_mode):
                raise _wrong(path, status, "a folder")
            entered = os.open(name, _ENTER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = entered
        yield descriptor
    finally:
        os.close(descriptor)


def _trusted(descriptor: int, link: os.stat_result) -> bool:
    """Return whether only root or this user can have created a link in the folder with this descriptor."""
    ours, above = (0, os.geteuid()), os.fstat(descriptor)
    if link.st_uid not in ours or above.st_uid not in ours:
        return False
    return not above.st_mode & 0o022 or bool(above.st_mode & stat.S_ISVTX)


@contextlib.contextmanager
def below(
    descriptor: int, names: PurePosixPath, *, make: int | None = None, where: Path | None = None
) -> Iterator[int]:
    """Open a folder below another, and yield its descriptor.

    BadInput if a link or a file is in the way, or if `names` is absolute or contains `..`.
    Missing folders get the mode `make`; without it they are FileNotFoundError. `where` is the upper folder's path, for
    messages.
    """
    place = where or Path()
    # The kernel ignores the descriptor if a path begins with `/`.
    if names.is_absolute() or ".." in names.parts:
        raise BadInput(
            "a path leaves its folder", where=f"{place}: {names}", remedy="give a relative path without `..`"
        )
    current = os.dup(descriptor)
    try:
        for name in names.parts:
            place /= name
            if make is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, make, dir_fd=current)
            entered = _enter(current, name, place)
            os.close(current)
            current = entered
        yield current
    finally:
        os.close(current)


def _enter(descriptor: int, name: str, place: Path) -> int:
    """Open a folder of a folder, and return its descriptor; BadInput for a link or a file, OSError if it is missing."""
    try:
        return os.open(name, _ENTER, dir_fd=descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise _wrong(place, os.stat(name, dir_fd=descriptor, follow_symlinks=False), "a folder") from error


def _wrong(place: Path, status: os.stat_result, wanted: str) -> BadInput:
    """Return the error for a path that is not `wanted` (`a file` or `a folder`); `status` gives its actual kind."""
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    if kind == wanted:
        kind = "a hard link to another user's file"
    return BadInput(
        f"this is {kind}, where Loadframe needs {wanted} of its own",
        where=str(place),
        remedy="another process has replaced it. Remove it if that was you; otherwise delete the cluster with "
        "`loadframe cluster down NAME --delete-data`",
    )


def open_file(descriptor: int, name: str, flags: int, place: Path, mode: int = 0o600) -> int:
    """Open a regular file in a folder, and return its descriptor; `place` is its path, for messages.

    `descriptor` is the folder's; `flags` are flags of `os.open`; a new file gets `mode`. BadInput for a link, folder,
    device or FIFO, for a hard link to a file of another user than the folder's, and for a name with `/`.
    FileNotFoundError if the file is missing and `flags` lack O_CREAT.
    """
    if "/" in name:
        raise BadInput("this name of a file contains `/`", where=str(place), remedy="name a file in this folder")
    try:
        _require_regular(descriptor, os.stat(name, dir_fd=descriptor, follow_symlinks=False), place)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    try:
        opened = os.open(name, flags | _OPEN, mode, dir_fd=descriptor)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _wrong(place, os.stat(name, dir_fd=descriptor, follow_symlinks=False), "a file") from error
        raise
    try:
        _require_regular(descriptor, os.fstat(opened), place)
    except BaseException:
        os.close(opened)
        raise
    os.set_blocking(opened, True)
    return opened


def _require_regular(descriptor: int, status: os.stat_result, place: Path) -> None:
    """Raise BadInput unless it is a regular file, and for a hard link to a file of another user than the folder's.

    `descriptor` is the folder's, `status` and `place` are the file's.
    """
    linked = status.st_nlink > 1 and status.st_uid != os.fstat(descriptor).st_uid
    if not stat.S_ISREG(status.st_mode) or linked:
        raise _wrong(place, status, "a file")


@contextlib.contextmanager
def reading(root: Path, name: str) -> Iterator[BufferedReader]:
    """Open a file below `root` to read bytes; FileNotFoundError if missing, BadInput for a link or another kind."""
    path = PurePosixPath(name)
    with folder(root) as top, below(top, path.parent, where=root) as above:
        opened = open_file(above, path.name, os.O_RDONLY, root / name)
    with os.fdopen(opened, "rb") as file:
        yield file


@contextlib.contextmanager
def appending(root: Path, name: str) -> Iterator[BufferedWriter]:
    """Open a file directly in a folder to append bytes; creates it with mode 0600.

    FileNotFoundError if `root` is missing, BadInput if the file is a link or of another kind.
    """
    with folder(root) as top:
        opened = open_file(top, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, root / name)
    with os.fdopen(opened, "ab") as file:
        yield file


def read_text(root: Path, name: str) -> str | None:
    """Return the text of a file below `root`; None if it is missing.

    BadInput for a link or another kind, and above 16 MiB. Bytes that are not UTF-8 are replaced.
    """
    try:
        with reading(root, name) as file:
            content = file.read(_MOST + 1)
    except FileNotFoundError:
        return None
    if len(content) > _MOST:
        raise BadInput(f"this file is larger than {_MOST} bytes", where=str(root / name), remedy="remove it")
    return content.decode(errors="replace")


def write_text(
    root: Path, name: str, text: str, mode: int = 0o600, owner: Owner | None = None, *, durable: bool = False
) -> None:
    """Replace a file, link or FIFO below a folder atomically by a file with this text; BadInput for a folder.

    The new file gets `mode`, and is this user's unless `owner` is given. FileNotFoundError if its folder is missing.
    With `durable`, it is complete even after a loss of power.
    """
    path = PurePosixPath(name)
    with folder(root) as top, below(top, path.parent, where=root) as above:
        _replace(above, path.name, text.encode(), mode, root / name, owner, durable=durable)


def rewrite_text(root: Path, name: str, text: str) -> None:
    """Replace a file below a folder atomically; the new file has the mode and, as root, the owner of the old one.

    A new file, and one instead of a link, a FIFO or a file with several hard links, gets the mode 0600 and, as root,
    the owner of its folder. BadInput for a folder; FileNotFoundError if its folder is missing.
    """
    path = PurePosixPath(name)
    with folder(root) as top, below(top, path.parent, where=root) as above:
        status, mode = os.fstat(above), 0o600
        with contextlib.suppress(FileNotFoundError):
            old = os.stat(path.name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISREG(old.st_mode) and old.st_nlink == 1:
                status, mode = old, stat.S_IMODE(old.st_mode) & 0o777
        owner = Owner(status.st_uid, status.st_gid) if os.geteuid() == 0 else None
        _replace(above, path.name, text.encode(), mode, root / name, owner)


def _replace(
    descriptor: int,
    name: str,
    content: bytes,
    mode: int,
    place: Path,
    owner: Owner | None,
    *,
    durable: bool = False,
) -> None:
    """Write a draft file in the folder of `descriptor` and rename it to `name`, which replaces a file, link or FIFO.

    It gets `mode` and, if given, `owner`. BadInput if `name` is a folder; `place` is its path, for messages. With
    `durable`, the content is on disk before the renaming.
    """
    draft = f".{name}.{token_hex(4)}"
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=descriptor)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            if owner:
                os.fchown(file.fileno(), owner.user, owner.group)
            os.fchmod(file.fileno(), mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.rename(draft, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=descriptor)
        if isinstance(error, IsADirectoryError):
            raise _wrong(place, os.stat(name, dir_fd=descriptor, follow_symlinks=False), "a file") from error
        raise


@contextlib.contextmanager
def making(root: Path, name: str, mode: int = 0o700) -> Iterator[int]:
    """Open the folder `name` below `root`, and yield its descriptor; missing folders below `root` get the mode.

    FileNotFoundError if `root` is missing, BadInput for a link or a file in the way, and for a path that leaves `root`.
    """
    with folder(root) as top, below(top, PurePosixPath(name), make=mode, where=root) as made:
        yield made


def append(root: Path, name: str, content: bytes, zeros: int = 0) -> None:
    """Append bytes, and then a hole of `zeros` bytes, to a file below `root`; BadInput for a link or another kind.

    A missing file gets the mode 0600, missing folders 0700.
    """
    path = PurePosixPath(name)
    with making(root, str(path.parent)) as above:
        opened = open_file(above, path.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, root / name)
    with os.fdopen(opened, "ab") as file:
        file.write(content)
        if zeros:
            file.truncate(os.fstat(opened).st_size + zeros)


def unlink(root: Path, name: str) -> None:
    """Remove a file or link below `root`, if it exists; OSError for a folder, BadInput for a link on the way to it."""
    path = PurePosixPath(name)
    with contextlib.suppress(FileNotFoundError), folder(root) as top, below(top, path.parent, where=root) as above:
        os.unlink(path.name, dir_fd=above)


def give(descriptor: int, mode: int, owner: Owner | None) -> None:
    """Set the mode of an open file or folder, and its owner if given.

    A file with several hard links stays unchanged, because one of its names may be another user's.
    """
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return
    if owner:
        os.fchown(descriptor, owner.user, owner.group)
    os.fchmod(descriptor, mode)


@dataclass(frozen=True)
class TreeEntry:
    """One entry of a tree, with the open folder that it is in."""

    descriptor: int  #: of the folder
    name: str  #: in the folder
    path: str  #: from the tree's top
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.status.st_mode)


def walk(descriptor: int, above: str = "") -> Iterator[TreeEntry]:
    """Yield the entries of a tree, each folder before its content, in the order of names.

    `descriptor` is the top folder's; `above` is put before the paths. Links are not followed. BadInput below 100
    levels. The descriptor of an entry is valid only until the iteration leaves the entry's folder.
    """
    for name in sorted(os.listdir(descriptor)):
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        path = f"{above}{name}"
        if path.count("/") > _DEPTH:
            raise BadInput(f"this folder is more than {_DEPTH} levels deep", where=path, remedy="remove it")
        yield TreeEntry(descriptor, name, path, status)
        if stat.S_ISDIR(status.st_mode):
            try:
                entered = os.open(name, _ENTER, dir_fd=descriptor)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                yield from walk(entered, f"{path}/")
            finally:
                os.close(entered)


def open_entry(entry: TreeEntry, root: Path) -> int:
    """Open a file or folder for reading, and return its descriptor, which the caller closes.

    BadInput if a link or another kind has replaced it, or for another user's hard link. `root` is the tree's path, for
    messages.
    """
    if entry.is_folder:
        return _enter(entry.descriptor, entry.name, root / entry.path)
    return open_file(entry.descriptor, entry.name, os.O_RDONLY, root / entry.path)


def remove_tree(path: Path) -> None:
    """Remove a folder with its content, if it exists. Entries that cannot be removed remain."""
    with contextlib.suppress(OSError, BadInput), folder(path.parent) as above:
        pending = [path.name]
        while pending:
            _remove(above, pending.pop(), above, pending)


def _remove(descriptor: int, name: str, top: int, pending: list[str], depth: int = 0) -> None:
    """Remove an entry of a folder, if possible; never raises for what stays.

    Entries that are too deep move to the folder `top`, and their new names are added to `pending`.
    """
    try:
        entered = os.open(name, _ENTER, dir_fd=descriptor)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=descriptor)
        return
    try:
        for inner in os.listdir(entered):  # noqa: PTH208 - a descriptor
            if depth < _DEPTH:
                _remove(entered, inner, top, pending, depth + 1)
                continue
            moved = f".{token_hex(8)}"
            with contextlib.suppress(OSError):
                os.rename(inner, moved, src_dir_fd=entered, dst_dir_fd=top)
                pending.append(moved)
    finally:
        os.close(entered)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=descriptor)
