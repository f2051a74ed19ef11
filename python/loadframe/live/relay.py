"""Relay of commands' feeds to browsers."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from loadframe.live.feed import History, Record, going_on, is_held


class Following:
    """Reader of a feed that is being written; a context manager. FileNotFoundError if the feed does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb")
        self._rest = b""
        self._number = 0
        #: Whether the command has ended and all its records were taken.
        self.over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def take(self) -> list[Record]:
        """Return the records written since the last call, and set `over` at the end of the feed."""
        # Check the lock before reading, so that the last records are not missed.
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
        """Switch to the file that has replaced this one, if any, and return whether one has."""
        with contextlib.suppress(FileNotFoundError):
            file = self.path.open("rb")
            if os.fstat(file.fileno()).st_ino != os.fstat(self._file.fileno()).st_ino:
                self._file.close()
                self._file, self._rest = file, b""
                return True
            file.close()
        return False


def command_of(path: Path) -> Record | None:
    """Return the first record of a feed, its command; None if the feed is gone or empty."""
    with contextlib.suppress(FileNotFoundError), Following(path) as following:
        return next(iter(following.take()), None)
    return None


def commands(name: str | None = None) -> list[tuple[Path, Record]]:
    """Return the feeds of this user's running commands with their command records, the newest last.

    `name` selects commands by the name of their workload, experiment or output folder.
    """
    feeds = [(path, command) for path in going_on() if (command := command_of(path))]
    return sorted(
        (
            (path, command)
            for path, command in feeds
            if name is None or name in (command["name"], Path(command["path"]).name)
        ),
        key=lambda feed: feed[1]["started"],
    )


#: Poll interval of the feed and of new commands, s.
_POLL = 0.25


class Relay:
    """Follower of a command's feed, and then of the next command's, in a thread while it is entered."""

    def __init__(self, feeds: Callable[[], Sequence[Path]]) -> None:
        """`feeds` returns the feeds to follow, the newest last."""
        self._feeds = feeds
        self._history = History()
        self._news = threading.Condition()
        self._leaving = threading.Event()
        self._left = False
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join()
        with self._news:
            self._left = True
            self._news.notify_all()

    @property
    def left(self) -> bool:
        """Whether no more records will come."""
        return self._left

    def after(self, number: int, patience: float) -> tuple[int, list[Record]]:
        """Return the number of the last record and the records after `number`; wait up to `patience` s for one."""
        with self._news:
            last, records = self._history.after(number)
            if not records and not self.left:
                self._news.wait(patience)
                last, records = self._history.after(number)
        return last, records

    def _run(self) -> None:
        seen = set()
        while True:
            path = next((path for path in reversed(self._feeds()) if path not in seen), None)
            # The feed may have been deleted in the meantime.
            with contextlib.suppress(FileNotFoundError):
                if path:
                    with Following(path) as following:
                        seen.add(path)
                        self._follow(following)
            if self._leaving.wait(_POLL):
                return

    def _follow(self, following: Following) -> None:
        left = False
        while True:
            records = following.take()
            if following.over and not any(record["kind"] == "over" for record in self._all(records)):
                records.append({"kind": "over", "how": "killed", "why": None, "report": None})
            if records:
                with self._news:
                    for record in records:
                        self._history.add(record)
                    self._news.notify_all()
            # After the request to leave, take the records once more.
            if following.over or left:
                return
            left = self._leaving.wait(_POLL)

    def _all(self, records: list[Record]) -> list[Record]:
        return [*self._history.after(0)[1], *records]
