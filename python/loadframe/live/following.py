"""Follows the feeds of commands: which are there, and what each says next."""

import contextlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from loadframe.live.feed import going_on, is_held
from loadframe.live.history import Record


class Following:
    """Reads a feed while it is written; a context manager. FileNotFoundError if the feed is gone by now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb")
        self._rest = b""
        self._number = 0
        #: Whether the command has ended and everything that it said was taken.
        self.over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def take(self) -> list[Record]:
        """Return what was written since the last call."""
        # Whether it goes on is asked first: what is written before its end is then read.
        held = is_held(self._file)
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        records = [record for record in map(json.loads, lines) if record["n"] > self._number]
        if records:
            self._number = records[-1]["n"]
        if not held and not self._reopened():
            self.over = True
        return records

    def _reopened(self) -> bool:
        """Go on with the file that has taken this one's place, if there is one: a long feed is written anew."""
        with contextlib.suppress(FileNotFoundError):
            file = self.path.open("rb")
            if os.fstat(file.fileno()).st_ino != os.fstat(self._file.fileno()).st_ino:
                self._file.close()
                self._file, self._rest = file, b""
                return True
            file.close()
        return False


def command_of(path: Path) -> Record | None:
    """Return what a feed says first: which command writes it; None if it is gone, or has said nothing yet."""
    with contextlib.suppress(FileNotFoundError), Following(path) as following:
        return next(iter(following.take()), None)
    return None


def commands(name: str | None = None) -> list[tuple[Path, Record]]:
    """Return the feeds that this machine's user has commands write now, with these commands; the newest last.

    With a name only those that run something of that name, or write a folder of it.
    """
    told = [(path, command) for path in going_on() if (command := command_of(path))]
    return sorted(
        (
            (path, command)
            for path, command in told
            if name is None or name in (command["name"], Path(command["path"]).name)
        ),
        key=lambda feed: feed[1]["started"],
    )
