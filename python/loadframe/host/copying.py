"""A folder of data that goes from one machine to another in pieces: each function runs on the machine it is about.

What arrives is compared with what was sent by its checksums before it gets its name, and what was sent stays as it is.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadframe import folders
from loadframe.errors import BadInput, LoadframeError

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
    if not folder.is_dir():
        return False
    (folder / _SIGN).write_text(token)
    return True


def signed(folder: Path, token: str) -> bool:
    """Whether a folder is the one in which that sign was left."""
    try:
        return (folder / _SIGN).read_text() == token
    except OSError:
        return False


def marked(folder: Path, mark: str) -> bool:
    """Whether a folder is that of the node which was started with this mark."""
    try:
        return (folder / MARK).read_text() == mark
    except OSError:
        return False


def unsign(folder: Path) -> None:
    """Take the sign away."""
    (folder / _SIGN).unlink(missing_ok=True)


def entries(folder: Path) -> list[Entry]:
    """Return all that is in a folder. Sockets and the like, which nobody can copy, are not."""
    contents = []
    for path in sorted(folder.rglob("*")):
        status, name = path.lstat(), str(path.relative_to(folder))
        mode = stat.S_IMODE(status.st_mode)
        if path.is_symlink():
            contents.append(Entry(name, mode, link=str(path.readlink())))
        elif path.is_dir():
            contents.append(Entry(name, mode, folder=True))
        elif path.is_file() and name != _SIGN:
            contents.append(Entry(name, mode, status.st_size, _sha256(path)))
    return contents


def read(path: Path, start: int, size: int) -> Piece:
    """Return as many bytes of a file, if it has them."""
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(size)
    return Piece(len(content), b"" if content.count(0) == len(content) else content)


def begin(place: Path, size: int, what: str) -> Path:
    """Return where to write what is to be at `place` in the end; what a copy that was cut off has left is removed.

    BadInput where there is something already, or no room.
    """
    if place.exists():
        raise BadInput(
            f"there is another copy of {what}, from before it went elsewhere",
            where=str(place),
            remedy="move it away, or delete it",
        )
    folders.require_room(folders.make(place.parent), size, f"a copy of {what}")
    draft = _draft(place)
    shutil.rmtree(draft, ignore_errors=True)
    return folders.make(draft)


def _draft(place: Path) -> Path:
    """Return where that which is to be at `place` arrives."""
    return place.with_name(f".{place.name}.arriving")


def append(path: Path, piece: Piece) -> None:
    """Add bytes to a file of the draft; zeros take no room on its disk."""
    with folders.writing("a copy of the data", path):
        folders.make(path.parent)
        with path.open("ab") as file:
            if piece.content:
                file.write(piece.content)
            else:
                file.truncate(file.tell() + piece.size)


def copy(source: Path, draft: Path) -> None:
    """Copy a folder that this machine sees, too."""
    with folders.writing("a copy of the data", draft):
        shutil.copytree(source, draft, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_SIGN))


def settle(draft: Path, place: Path, wanted: Sequence[Entry], user: int | None) -> None:
    """Compare what has arrived with what is wanted, give it to its user, and put it in its place.

    LoadframeError, with nothing left, when it is not the same.
    """
    for entry in wanted:
        path = draft / entry.path
        if entry.folder:
            path.mkdir(parents=True, exist_ok=True)
        elif entry.link is not None:
            if not path.is_symlink():
                path.symlink_to(entry.link)
        elif not path.is_file() or path.stat().st_size != entry.size or _sha256(path) != entry.sha256:
            discard(draft)
            raise LoadframeError(f"{entry.path} has not arrived as it was sent", where=str(place), remedy="try again")
    # Folders last, and from within: one that may not be written to could get no more files.
    for entry in reversed(wanted):
        path = draft / entry.path
        if user is not None:
            os.chown(path, user, user, follow_symlinks=False)
        if entry.link is None:
            path.chmod(entry.mode)
    if user is not None:
        os.chown(draft, user, user)
    draft.chmod(0o700)
    draft.rename(place)


def discard(folder: Path) -> None:
    """Remove a copy, or what has arrived of it, and the folder above it if nothing else is there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(_draft(folder), ignore_errors=True)
    try:
        folder.parent.rmdir()
    except OSError:
        # Others have theirs there, or it is gone with them.
        return


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
