"""Copying of a data folder to another machine in pieces. Each function runs on the machine that holds its folder.

The copy is compared with the source by checksums before it gets its final name. The source is not changed.
"""

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.nofollow import Owner
from loadframe.host.files import server_owner

#: Token file that identifies a folder when it is seen from another machine, or under another path.
_SIGN = ".sign"
#: File in a node's folder that changes with each start, and so reveals an outdated copy of the folder.
MARK = ".start"


@dataclass(frozen=True)
class Entry:
    """Folder, file or link below the copied folder."""

    path: str
    mode: int
    size: int = 0
    sha256: str = ""  #: empty for folders and links
    link: str | None = None  #: target, if it is a link
    folder: bool = False


@dataclass(frozen=True)
class Piece:
    """Bytes of a file. Preallocated logs of stores are long and mostly zeros, so zeros are not sent."""

    size: int
    content: bytes  #: empty if all are zero


def sign(folder: Path, token: str) -> bool:
    """Write a token into a folder; return False if the folder does not exist."""
    try:
        nofollow.write_text(folder, _SIGN, token)
    except FileNotFoundError:
        return False
    return True


def signed(folder: Path, token: str) -> bool:
    """Return whether a folder contains that token, which `sign` has written; False if the folder is missing."""
    return _has_text(folder, _SIGN, token)


def marked(folder: Path, mark: str) -> bool:
    """Return whether the file `.start` of a node's folder has the text `mark`, that of the node's last start.

    False for an outdated copy of the folder, and without the file.
    """
    return _has_text(folder, MARK, mark)


def _has_text(folder: Path, name: str, text: str) -> bool:
    """Return whether a file of a folder has exactly this text; False if it is missing or not a regular file."""
    try:
        return nofollow.read_text(folder, name) == text
    except (OSError, BadInput):
        return False


def unsign(folder: Path) -> None:
    """Remove the token that `sign` has written into a folder; a missing one is ignored."""
    nofollow.unlink(folder, _SIGN)


def entries(folder: Path) -> list[Entry]:
    """Return all folders, files (with checksums) and links below a folder, by name, parents before their content.

    Modes lack setuid, setgid and sticky bits. The token, and sockets and other special files, are skipped.
    """
    contents = []
    with nofollow.folder(folder) as top:
        for inner in nofollow.walk(top):
            # Without setuid, setgid and sticky bits: the copy gets another owner.
            mode = stat.S_IMODE(inner.status.st_mode) & 0o777
            if inner.is_link:
                contents.append(Entry(inner.path, mode, link=os.readlink(inner.name, dir_fd=inner.descriptor)))
            elif inner.is_folder:
                contents.append(Entry(inner.path, mode, folder=True))
            elif inner.is_file and inner.path != _SIGN:
                size, digest = _digest(inner.descriptor, inner.name, folder / inner.path)
                contents.append(Entry(inner.path, mode, size, digest))
    return contents


def read_part(folder: Path, name: str, start: int, size: int) -> Piece:
    """Return up to `size` bytes of a file, from the byte offset `start`; a piece of size 0 at its end.

    `name` is its path below the folder. If all bytes are zero, the piece has their number, but no content.
    FileNotFoundError for a missing file; BadInput for a link or special file, and for a path out of the folder.
    """
    with nofollow.reading(folder, name) as file:
        file.seek(start)
        content = file.read(size)
    return Piece(len(content), b"" if content.count(0) == len(content) else content)


def begin(place: Path, size: int, what: str) -> Path:
    """Create and return the draft folder for a copy that ends up at `place`; remove an unfinished draft.

    Creates missing parents. `what` describes the data in messages. BadInput if `place` exists or its disk lacks `size`
    bytes.
    """
    if os.path.lexists(place):
        raise BadInput(
            f"an older copy of {what} is still on this machine",
            where=str(place),
            remedy="move it to another place, or delete it",
        )
    folders.require_room(folders.make(place.parent), size, f"a copy of {what}")
    draft = _draft(place)
    nofollow.remove_tree(draft)
    return folders.make(draft)


def _draft(place: Path) -> Path:
    """Return the path of the draft folder of a copy that ends up at `place`: a hidden folder next to it."""
    return place.with_name(f".{place.name}.arriving")


def append(draft: Path, name: str, piece: Piece) -> None:
    """Append a piece to a file of the draft, created with its folders if missing; BadInput if the disk is full.

    `name` is its path below the draft. Zeros become a hole in the file and use no disk space.
    """
    with folders.writing("a copy of the data", draft / name):
        nofollow.append(draft, name, piece.content, 0 if piece.content else piece.size)


def _open_parent(draft: Path, name: str) -> contextlib.AbstractContextManager[int]:
    """Return a context manager that opens the parent folder of the entry `name`, and yields its descriptor.

    `name` is a path below the draft. Missing folders are created.
    """
    return nofollow.making(draft, str(PurePosixPath(name).parent))


def copy(source: Path, draft: Path) -> None:
    """Copy the content of a folder that is visible on this machine, such as on a shared file system, into a draft.

    The draft must be empty. Links are copied as links. Skips special files, and the token that identifies the original.
    Modes and owners are left to `settle`. BadInput for a full disk or an unreadable file.
    """
    with folders.writing("a copy of the data", draft), nofollow.folder(source) as top:
        for inner in nofollow.walk(top):
            if inner.path == _SIGN or not (inner.is_file or inner.is_folder or inner.is_link):
                continue
            with _open_parent(draft, inner.path) as parent:
                if inner.is_folder:
                    os.mkdir(inner.name, 0o700, dir_fd=parent)
                elif inner.is_link:
                    os.symlink(os.readlink(inner.name, dir_fd=inner.descriptor), inner.name, dir_fd=parent)
                else:
                    with os.fdopen(nofollow.open_entry(inner, source), "rb") as original:
                        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                        written = nofollow.open_file(parent, inner.name, flags, draft / inner.path)
                        with os.fdopen(written, "wb") as made:
                            shutil.copyfileobj(original, made, 2**20)


def settle(draft: Path, place: Path, expected: Sequence[Entry], user: int | None) -> None:
    """Verify the draft against the entries of the source, set modes and owners, and rename it to `place`.

    Creates missing folders and links; further entries of the draft stay. `user` is the id of the new owner, or None to
    keep the owner. Discards the draft and raises LoadframeError if a file is missing or differs.
    """
    owner = server_owner(user)
    for entry in expected:
        name = PurePosixPath(entry.path).name
        with _open_parent(draft, entry.path) as parent:
            if entry.folder:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=parent)
            elif entry.link is not None:
                with contextlib.suppress(FileExistsError):
                    os.symlink(entry.link, name, dir_fd=parent)
            elif not _matches(parent, name, draft / entry.path, entry):
                discard(draft)
                raise LoadframeError(
                    f"{entry.path} differs from the original after the transfer", where=str(place), remedy="try again"
                )
    # Deepest first: a folder without write permission would refuse further files.
    for entry in reversed(expected):
        with _open_parent(draft, entry.path) as parent:
            _set_owner(parent, PurePosixPath(entry.path), draft / entry.path, entry, owner)
    with nofollow.folder(draft) as top:
        nofollow.give(top, 0o700, owner)
    draft.rename(place)


def _matches(parent: int, name: str, path: Path, entry: Entry) -> bool:
    """Return whether a file has the size and checksum of an entry; False if it is missing or not a regular file.

    `name` is in the open folder `parent`; `path` is for messages.
    """
    try:
        return _digest(parent, name, path) == (entry.size, entry.sha256)
    except (FileNotFoundError, BadInput):
        return False


def _set_owner(parent: int, name: PurePosixPath, path: Path, entry: Entry, owner: Owner | None) -> None:
    """Set the mode and the owner of an entry in its open parent folder; without `owner`, the owner stays.

    Of a link, only the owner is set. `name` is the entry's path below the copy, `path` its full path, for messages.
    """
    if entry.link is not None:
        if owner:
            os.chown(name.name, owner.user, owner.group, dir_fd=parent, follow_symlinks=False)
    elif entry.folder:
        with nofollow.below(parent, PurePosixPath(name.name), where=path.parent) as opened:
            nofollow.give(opened, entry.mode, owner)
    else:
        opened = nofollow.open_file(parent, name.name, os.O_RDONLY, path)
        try:
            nofollow.give(opened, entry.mode, owner)
        finally:
            os.close(opened)


def discard(folder: Path) -> None:
    """Remove a copy and its draft, and the parent folder if it is empty; missing ones are ignored.

    `folder` is the copy. Given the draft, the copy stays.
    """
    nofollow.remove_tree(folder)
    nofollow.remove_tree(_draft(folder))
    try:
        folder.parent.rmdir()
    except OSError:
        # It holds other copies, or is already removed.
        return


def _digest(parent: int, name: str, path: Path) -> tuple[int, str]:
    """Return the size in bytes and the hexadecimal SHA-256 of a file in an open folder.

    `path` is for messages. FileNotFoundError if it is missing, BadInput if it is not a regular file.
    """
    with os.fdopen(nofollow.open_file(parent, name, os.O_RDONLY, path), "rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
