"""Feed of a command: JSON lines in the state folder, and a bounded history for pages opened late.

A record is a JSON object with a `kind`; docs/how-to/live-page.md lists the kinds.

The writing process holds a lock on the feed until it ends; a feed without a lock is stale. A feed is deleted at its
end. A long feed is replaced by a file with the records of its history, under the same name.
"""

import contextlib
import fcntl
import json
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

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
            "remark": deque(maxlen=REMARKS),
        }

    def add(self, record: Record) -> None:
        """Add a record, and drop the records that it replaces."""
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
        """Return the number of the last record, and the kept records after record `number`."""
        if number == self._number:
            return number, []
        later = sorted((entry for entry in self._entries() if entry[0] > number), key=lambda entry: entry[0])
        return self._number, [record for _, record in later]

    def _entries(self) -> Iterator[tuple[int, Record]]:
        yield from self._last.values()
        for records in self._many.values():
            yield from records


SUFFIX = ".jsonl"
#: Minimum size at which a feed is rewritten, bytes: some hours of a small cluster.
_LONG = 4_000_000


def folder() -> Path:
    """Return the folder of this user's feeds."""
    return folders.state() / "live"


def is_held(file: BinaryIO) -> bool:
    """Return whether the command of this feed still runs."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


class Feed:
    """A new feed; a context manager that creates and deletes its file. OSError if it cannot be written."""

    def __init__(self, long: int = _LONG) -> None:
        self.path = folder() / f"{secrets.token_hex(8)}{SUFFIX}"
        self._history = History()
        self._least = self._long = long
        self._number = 0

    def __enter__(self) -> "Feed":
        folders.make(folder())
        _remove_left_over(folder())
        self._file = self._begin([])
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
        self._file.close()

    def append(self, records: Sequence[Record]) -> None:
        """Number the records and write them in one write; rewrite the feed if it is long."""
        numbered = []
        for record in records:
            self._number += 1
            numbered.append({"n": self._number, **record})
            self._history.add(numbered[-1])
        self._file.write(_lines(numbered))
        if self._file.tell() > self._long:
            before = self._file
            self._file = self._begin(self._history.after(0)[1])
            self._long = max(self._least, 2 * self._file.tell())
            # Close after the rename: readers treat a feed without a lock as ended, unless its name has a new file.
            before.close()

    def _begin(self, records: Sequence[Record]) -> BinaryIO:
        """Replace the feed's file by one with these records, locked before it becomes visible."""
        draft = self.path.with_suffix(".draft")
        file = open(draft, "wb", buffering=0, opener=folders.ours_alone)  # noqa: SIM115 - open until the feed ends
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(_lines(records))
        draft.rename(self.path)
        return file


def _lines(records: Sequence[Record]) -> bytes:
    return "".join(f"{json.dumps(record, separators=(',', ':'), allow_nan=False)}\n" for record in records).encode()


def _remove_left_over(parent: Path) -> None:
    """Delete the feeds of killed commands."""
    for path in _files(parent):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if not is_held(file):
                path.unlink()


def _files(parent: Path) -> Iterator[Path]:
    return parent.glob(f"*{SUFFIX}")


def going_on() -> list[Path]:
    """Return the feeds of running commands, unordered."""
    feeds = []
    for path in _files(folder()):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if is_held(file):
                feeds.append(path)
    return feeds
