"""What is done with files on the machine that they are on. Each function can be called there, see Machine.call."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadframe import folders
from loadframe.errors import BadInput

#: Bytes at the end of a log that are looked at.
_LOG_END = 2**16


@dataclass(frozen=True)
class Answer:
    """What a command that has ended left with, and said."""

    status: int
    output: str
    errors: str


def write_node(folder: Path, within: Sequence[str], files: Mapping[str, str], user: int | None) -> None:
    """Make a node's folder with the folders `within` it and its files; BadInput when that is not possible.

    The server's user owns the folders `within`, and can read all else but not write it. Nobody else can read anything.
    """
    with folders.writing("a node's files", folder):
        theirs = [folders.make(folder / name) for name in within]
        made = [folders.make(folder), *theirs]
        for name, content in files.items():
            target = folder / name
            made += [folders.make(target.parent), target]
            with open(target, "w", opener=folders.ours_alone) as file:
                file.write(content)
        for path in made:
            mode = 0o700 if path.is_dir() else 0o600
            if user is not None and path not in theirs:
                os.chown(path, os.geteuid(), user)
                # As root, since another user's server has to read it by its group.
                mode |= mode >> 3 & 0o050
            elif user is not None:
                os.chown(path, user, user)
            path.chmod(mode)


def make_room(folder: Path, user: int | None, size: int, purpose: str) -> None:
    """Make a folder for nodes; BadInput unless their user can enter it and the disk has that many bytes left."""
    folders.make(folder)
    folders.require_reachable(folder, user)
    folders.require_room(folder, size, purpose)


def read(path: Path) -> str | None:
    """Return what a file reads; None if it is not there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def write(path: Path, text: str) -> None:
    """Write a file in place: it stays its owner's."""
    path.write_text(text)


def replace(path: Path, text: str) -> None:
    """Replace a file, in one step since somebody may be reading it, by one that everybody may read."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)


def exists(path: Path) -> bool:
    """Whether there is something."""
    return path.exists()


def remove(path: Path) -> None:
    """Remove a folder with all that is in it, as far as that is possible; it need not be there."""
    shutil.rmtree(path, ignore_errors=True)


def log_end(path: Path) -> str:
    """Return the end of a log; empty when there is none."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(path.stat().st_size - _LOG_END, 0))
            return handle.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def run(command: Sequence[str], within: float) -> Answer:
    """Run a command to its end, for `within` s at most; BadInput where there is no such program."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within, check=False
        )
    except OSError as error:
        raise BadInput(f"{command[0]} cannot be run: {error.strerror}", where=os.uname().nodename) from error
    return Answer(done.returncode, done.stdout, done.stderr)
