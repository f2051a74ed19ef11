"""Feeds of commands: JSON lines in the state folder, a bounded history, and their relay to browsers.

A record is a JSON object with a `kind`; docs/how-to/live-page.md lists the kinds.

The writing process holds a lock on the feed until it ends; a feed without a lock is stale. A feed is deleted at its
end. A long feed is replaced by a file with the records of its history, under the same name.
"""

import contextlib
import fcntl
import json
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from loadframe.base import folders

Record = Mapping[str, Any]

#: Numbers of kept records: figures (a quarter of an hour at two a second), events, finished runs, remarks.
FIGURES, EVENTS, RUNS, REMARKS = 1800, 500, 500, 50
#: Kinds of records of which only the last is kept, until the next run.
OF_A_RUN = ("phase", "answer")


class History:
    """Bounded history of records, with increasing numbers."""

    def __init__(self) -> None:
        self._number = 0
        #: Last records of kinds of which only the last is kept.
        self._last: dict[str, tuple[int, Record]] = {}
        self._many: dict[str, deque[tuple[int, Record]]] = {
            "figures": deque(maxlen=FIGURES),
            "event": deque(maxlen=EVENTS),
            "finished": deque(maxlen=RUNS),
            "judged": deque(maxlen=RUNS),
            "remark": deque(maxlen=REMARKS),
        }

    def add(self, record: Record) -> None:
        """Add a record under the next number, and drop records that it replaces or that exceed the limit of their kind.

        A `command` replaces all records; a `run` the phase, answers, figures and events of the run before. For kinds
        without a limit only the last record is kept, for `answer` the last of each operation. `load` and `watched`
        share the limit of figures.
        """
        kind = record["kind"]
        if kind == "command":
            self._last.clear()
            for records in self._many.values():
                records.clear()
        elif kind == "run":
            self._last = {name: entry for name, entry in self._last.items() if entry[1]["kind"] not in OF_A_RUN}
            self._many["figures"].clear()
            self._many["event"].clear()
        self._number += 1
        entry = (self._number, record)
        kept = self._many.get("figures" if kind in ("load", "watched") else kind)
        if kept is None:
            # Keep the last answer of each operation.
            self._last[f"{kind} {record['operation']}" if kind == "answer" else kind] = entry
        else:
            kept.append(entry)

    def after(self, number: int) -> tuple[int, list[Record]]:
        """Return the number of the last record (0 without any), and the kept records after record `number` in order."""
        if number == self._number:
            return number, []
        later = sorted((entry for entry in self._entries() if entry[0] > number), key=lambda entry: entry[0])
        return self._number, [record for _, record in later]

    def _entries(self) -> Iterator[tuple[int, Record]]:
        """Yield all kept records with their numbers, in any order."""
        yield from self._last.values()
        for records in self._many.values():
            yield from records


SUFFIX = ".jsonl"
#: Minimum size at which a feed is rewritten, bytes: some hours of a small cluster.
_LONG = 4_000_000


def folder() -> Path:
    """Return the path of the folder with this user's feeds, `live` in the state folder; it need not exist."""
    return folders.state() / "live"


def is_held(file: BinaryIO) -> bool:
    """Return whether the command that writes the feed `file` still runs: it holds a lock on the file. Does not wait."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


class Feed:
    """A new feed; a context manager that creates and deletes its file. OSError if it cannot be written."""

    def __init__(self, long: int = _LONG) -> None:
        """Choose the path of a new file, which is not created yet.

        `long` is the size in bytes above which it is rewritten.
        """
        self.path = folder() / f"{secrets.token_hex(8)}{SUFFIX}"
        self._history = History()
        self._least = self._long = long
        self._number = 0

    def __enter__(self) -> "Feed":
        """Create and lock the feed's file, and delete the feeds of killed commands. OSError if it cannot be written."""
        folders.make(folder())
        _remove_left_over(folder())
        self._file = self._begin([])
        return self

    def __exit__(self, *_: object) -> None:
        """Delete and close the feed's file."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def append(self, records: Sequence[Record]) -> None:
        """Give the records the next numbers (`n`, from 1) and write them in one write.

        OSError if the file cannot be written. A file that becomes too long is rewritten with the records of the
        history. Later, it must double before that happens again. ValueError for NaN or infinite numbers.
        """
        numbered = []
        for record in records:
            self._number += 1
            numbered.append({"n": self._number, **record})
            self._history.add(numbered[-1])
        _write(self._file, numbered)
        if self._file.tell() > self._long:
            before = self._file
            self._file = self._begin(self._history.after(0)[1])
            self._long = max(self._least, 2 * self._file.tell())
            # Close after the rename: readers treat a feed without a lock as ended, unless its name has a new file.
            before.close()

    def _begin(self, records: Sequence[Record]) -> BinaryIO:
        """Replace the feed's file by one with these records, locked before it becomes visible, and return it open.

        A file that was open before is not closed.
        """
        draft = self.path.with_suffix(".draft")
        file = open(draft, "wb", buffering=0, opener=folders.ours_alone)  # noqa: SIM115 - open until the feed ends
        fcntl.flock(file, fcntl.LOCK_EX)
        _write(file, records)
        draft.rename(self.path)
        return file


def _write(file: BinaryIO, records: Sequence[Record]) -> None:
    """Write records completely to an unbuffered file; OSError, with a part of them written, if the disk is full."""
    lines = _lines(records)
    while lines:
        lines = lines[file.write(lines) :]


def _lines(records: Sequence[Record]) -> bytes:
    """Return records as JSON lines in UTF-8; ValueError for NaN or infinite numbers."""
    return "".join(f"{json.dumps(record, separators=(',', ':'), allow_nan=False)}\n" for record in records).encode()


def _remove_left_over(parent: Path) -> None:
    """Delete the feeds of ended commands in the folder `parent`; ignore files that cannot be deleted."""
    for path in _files(parent):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if not is_held(file):
                path.unlink()


def _files(parent: Path) -> Iterator[Path]:
    """Yield the paths of feeds in a folder, of running and ended commands, unordered; none if the folder is missing."""
    return parent.glob(f"*{SUFFIX}")


def running_feeds() -> list[Path]:
    """Return the paths of the feeds of this user's running commands, unordered."""
    feeds = []
    for path in _files(folder()):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if is_held(file):
                feeds.append(path)
    return feeds


class Following:
    """Reader of a feed that is being written; a context manager. FileNotFoundError if the feed does not exist."""

    def __init__(self, path: Path) -> None:
        """Open the feed for reading. FileNotFoundError if it does not exist."""
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
        """Return the complete records written since the last call, without waiting; set `over` at the end of the feed.

        Records that a rewritten feed repeats are left out.
        """
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
        """Return whether another file has replaced this feed, and if so continue with the start of that file.

        False if the file is the same, or the feed was deleted.
        """
        with contextlib.suppress(FileNotFoundError):
            file = self.path.open("rb")
            if os.fstat(file.fileno()).st_ino != os.fstat(self._file.fileno()).st_ino:
                self._file.close()
                self._file, self._rest = file, b""
                return True
            file.close()
        return False


def command_of(path: Path) -> Record | None:
    """Return the first record of a feed, its command; None if the feed is gone or empty. Does not wait."""
    with contextlib.suppress(FileNotFoundError), Following(path) as following:
        return next(iter(following.take()), None)
    return None


def commands(name: str | None = None) -> list[tuple[Path, Record]]:
    """Return the feeds of this user's running commands with their command records, ordered by start, the newest last.

    `name` selects commands by the name of their workload or experiment, or of their output folder; None is all.
    """
    feeds = [(path, command) for path in running_feeds() if (command := command_of(path))]
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
        """Prepare the relay.

        `feeds` returns the paths of the feeds to follow, the newest last; it is called again and again.
        """
        self._feeds = feeds
        self._history = History()
        self._news = threading.Condition()
        self._leaving = threading.Event()
        self._left = False
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the last records, end the thread and wait for it, and wake all readers."""
        self._leaving.set()
        self._thread.join()
        with self._news:
            self._left = True
            self._news.notify_all()

    @property
    def left(self) -> bool:
        """Whether the relay is left, so that no more records will come."""
        return self._left

    def after(self, number: int, patience: float) -> tuple[int, list[Record]]:
        """Return the number of the last record and the kept records after `number`; wait up to `patience` s for one.

        Does not wait once the relay is left. Safe in several threads.
        """
        with self._news:
            last, records = self._history.after(number)
            if not records and not self.left:
                self._news.wait(patience)
                last, records = self._history.after(number)
        return last, records

    def _run(self) -> None:
        """Follow the newest feed not yet followed; after its end do so again, until the relay is left.

        The next feed may be older than the one before. Polls for feeds every 0.25 s.
        """
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
        """Add the records of a feed to the history, and wake readers, until its end or until the relay is left.

        Polls every 0.25 s. Adds a record `over` if the feed ended without one: the command was killed.
        """
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
        """Return the records of the relay's history, followed by `records`."""
        return [*self._history.after(0)[1], *records]
