"""Follows one command after another, and gives what they say to any number of browsers."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from loadframe.live.following import Following
from loadframe.live.history import History, Record

#: Seconds between two looks at a feed, which is written once a second; and at whether another command has begun.
_LOOK = 0.25


class Relay:
    """Follows a command's feed in a thread while it is entered, and when that is over the next one that begins."""

    def __init__(self, feeds: Callable[[], Sequence[Path]]) -> None:
        """`feeds` returns those that may be followed, the newest last."""
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
        """Whether nothing more will come."""
        return self._left

    def after(self, number: int, patience: float) -> tuple[int, list[Record]]:
        """Return the records after record `number`, and the number of the last; wait `patience` s for one at most."""
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
            # It may be gone again by now, or not there yet.
            with contextlib.suppress(FileNotFoundError):
                if path:
                    with Following(path) as following:
                        seen.add(path)
                        self._follow(following)
            if self._leaving.wait(_LOOK):
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
            # What was written before leaving is taken yet.
            if following.over or left:
                return
            left = self._leaving.wait(_LOOK)

    def _all(self, records: list[Record]) -> list[Record]:
        return [*self._history.after(0)[1], *records]
