"""A folder of data that goes from one machine to another in pieces: each function runs on the machine it is about.

What arrives is compared with what was sent by its checksums before it gets its name, and what was sent stays as it is.
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

#: A file in a folder, by which it is recognised from another machine, or at another path.
_SIGN = ".sign"
#: A file in a node's folder, anew with each start: a copy of the folder from before has another.
MARK = ".start"


@dataclass(frozen=True)
class Entry:
    """A folder, a file or a link below the folder that is copied."""

    path: str
    mode: int
    size: int = 0
    sha256: str = ""  #: of a file
    link: str | None = None  #: where it points to, if it is a link
    folder: bool = False


@dataclass(frozen=True)
class Piece:
    """Bytes of a file. Logs that a store makes room for in advance are long and have nothing but zeros in them."""

    size: int
    content: bytes  #: empty if all are zero


def sign(folder: Path, token: str) -> bool:
    """Leave a sign in a folder, and return whether it is there."""
    try:
        nofollow.write_text(folder, _SIGN, token)
    except FileNotFoundError:
        return False
    return True


def signed(folder: Path, token: str) -> bool:
    """Whether a folder is the one in which that sign was left."""
    return _reads(folder, _SIGN, token)


def marked(folder: Path, mark: str) -> bool:
    """Whether a folder is that of the node which was started with this mark."""
    return _reads(folder, MARK, mark)


def _reads(folder: Path, name: str, text: str) -> bool:
    try:
        return nofollow.read_text(folder, name) == text
    except (OSError, BadInput):
        return False


def unsign(folder: Path) -> None:
    """Take the sign away."""
    nofollow.unlink(folder, _SIGN)


def entries(folder: Path) -> list[Entry]:
    """Return all that is in a folder. Sockets and the like, which nobody can copy, are not."""
    contents = []
    with nofollow.folder(folder) as top:
        for inner in nofollow.walk(top):
            # No special bits: a copy is another user's.
            mode = stat.S_IMODE(inner.status.st_mode) & 0o777
            if inner.is_link:
                contents.append(Entry(inner.path, mode, link=os.readlink(inner.name, dir_fd=inner.descriptor)))
            elif inner.is_folder:
                contents.append(Entry(inner.path, mode, folder=True))
            elif inner.is_file and inner.path != _SIGN:
                size, digest = _digest(inner.descriptor, inner.name, folder / inner.path)
                contents.append(Entry(inner.path, mode, size, digest))
    return contents


def read(folder: Path, name: str, start: int, size: int) -> Piece:
    """Return as many bytes of a file in a folder, if it has them."""
    with nofollow.reading(folder, name) as file:
        file.seek(start)
        content = file.read(size)
    return Piece(len(content), b"" if content.count(0) == len(content) else content)


def begin(place: Path, size: int, what: str) -> Path:
    """Return where to write what is to be at `place` in the end; what a copy that was cut off has left is removed.

    BadInput where there is something already, or no room.
    """
    if os.path.lexists(place):
        raise BadInput(
            f"there is another copy of {what}, from before it went elsewhere",
            where=str(place),
            remedy="move it away, or delete it",
        )
    folders.require_room(folders.make(place.parent), size, f"a copy of {what}")
    draft = _draft(place)
    nofollow.remove_tree(draft)
    return folders.make(draft)


def _draft(place: Path) -> Path:
    """Return where that which is to be at `place` arrives."""
    return place.with_name(f".{place.name}.arriving")


def append(draft: Path, name: str, piece: Piece) -> None:
    """Add bytes to a file of the draft; zeros take no room on its disk."""
    with folders.writing("a copy of the data", draft / name):
        nofollow.append(draft, name, piece.content, 0 if piece.content else piece.size)


def _above(draft: Path, name: str) -> contextlib.AbstractContextManager[int]:
    """Open the folder that an entry of the draft is in, made where it is missing."""
    return nofollow.making(draft, str(PurePosixPath(name).parent))


def copy(source: Path, draft: Path) -> None:
    """Copy a folder that this machine sees, too. Sockets and the like are left out."""
    with folders.writing("a copy of the data", draft), nofollow.folder(source) as top:
        for inner in nofollow.walk(top):
            if inner.path == _SIGN or not (inner.is_file or inner.is_folder or inner.is_link):
                continue
            with _above(draft, inner.path) as above:
                if inner.is_folder:
                    os.mkdir(inner.name, 0o700, dir_fd=above)
                elif inner.is_link:
                    os.symlink(os.readlink(inner.name, dir_fd=inner.descriptor), inner.name, dir_fd=above)
                else:
                    with os.fdopen(nofollow.open_entry(inner, source), "rb") as original:
                        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                        written = nofollow.open_file(above, inner.name, flags, draft / inner.path)
                        with os.fdopen(written, "wb") as made:
                            shutil.copyfileobj(original, made, 2**20)


def settle(draft: Path, place: Path, wanted: Sequence[Entry], user: int | None) -> None:
    """Compare what has arrived with what is wanted, give it to its user, and put it in its place.

    LoadframeError, with nothing left, when it is not the same.
    """
    owner = server_owner(user)
    for entry in wanted:
        name = PurePosixPath(entry.path).name
        with _above(draft, entry.path) as above:
            if entry.folder:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=above)
            elif entry.link is not None:
                with contextlib.suppress(FileExistsError):
                    os.symlink(entry.link, name, dir_fd=above)
            elif not _arrived(above, name, draft / entry.path, entry):
                discard(draft)
                raise LoadframeError(
                    f"{entry.path} has not arrived as it was sent", where=str(place), remedy="try again"
                )
    # Folders last, and from within: one that may not be written to could get no more files.
    for entry in reversed(wanted):
        with _above(draft, entry.path) as above:
            _give(above, PurePosixPath(entry.path), draft / entry.path, entry, owner)
    with nofollow.folder(draft) as top:
        nofollow.give(top, 0o700, owner)
    draft.rename(place)


def _arrived(above: int, name: str, path: Path, entry: Entry) -> bool:
    try:
        return _digest(above, name, path) == (entry.size, entry.sha256)
    except (FileNotFoundError, BadInput):
        return False


def _give(above: int, name: PurePosixPath, path: Path, entry: Entry, owner: Owner | None) -> None:
    """Set the mode and the owner of an entry in its open folder."""
    if entry.link is not None:
        if owner:
            os.chown(name.name, owner.user, owner.group, dir_fd=above, follow_symlinks=False)
    elif entry.folder:
        with nofollow.below(above, PurePosixPath(name.name), where=path.parent) as opened:
            nofollow.give(opened, entry.mode, owner)
    else:
        opened = nofollow.open_file(above, name.name, os.O_RDONLY, path)
        try:
            nofollow.give(opened, entry.mode, owner)
        finally:
            os.close(opened)


def discard(folder: Path) -> None:
    """Remove a copy, or what has arrived of it, and the folder above it if nothing else is there."""
    nofollow.remove_tree(folder)
    nofollow.remove_tree(_draft(folder))
    try:
        folder.parent.rmdir()
    except OSError:
        # Others have theirs there, or it is gone with them.
        return


def _digest(above: int, name: str, path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file in an open folder."""
    with os.fdopen(nofollow.open_file(above, name, os.O_RDONLY, path), "rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
