"""Feed of a command: JSON lines in the state folder, and a bounded history for pages opened late.

A record is a JSON object with a `kind`; docs/live.md lists the kinds.

Whoever writes a feed holds a lock on it until it ends, however it ends; a feed that nobody holds is left over. A feed
is removed at its end. One that has become long is written anew with what its history keeps, under the same name.
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

#: Of figures, two records a second of a quarter of an hour; of events, runs that are over, and remarks the last ones.
FIGURES, EVENTS, RUNS, REMARKS = 1800, 500, 500, 50
#: Kinds of records of which only the last one counts, and which the next run does not keep.
OF_A_RUN = ("phase", "answer")


class History:
    """Records in the order in which they were added, each with a number that only grows."""

    def __init__(self) -> None:
        self._number = 0
        #: Of kinds of which only the last one counts.
        self._last: dict[str, tuple[int, Record]] = {}
        self._many: dict[str, deque[tuple[int, Record]]] = {
            "figures": deque(maxlen=FIGURES),
            "event": deque(maxlen=EVENTS),
            "finished": deque(maxlen=RUNS),
            "remark": deque(maxlen=REMARKS),
        }

    def add(self, record: Record) -> None:
        """Add a record, and forget those that it replaces."""
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
            # Of answers the last one to each operation counts.
            self._last[f"{kind} {record['operation']}" if kind == "answer" else kind] = entry
        else:
            kept.append(entry)

    def after(self, number: int) -> tuple[int, list[Record]]:
        """Return the number of the last record, and all records after record `number` that are still kept."""
        if number == self._number:
            return number, []
        later = sorted((entry for entry in self._entries() if entry[0] > number), key=lambda entry: entry[0])
        return self._number, [record for _, record in later]

    def _entries(self) -> Iterator[tuple[int, Record]]:
        yield from self._last.values()
        for records in self._many.values():
            yield from records


SUFFIX = ".jsonl"
#: Bytes after which a feed is written anew, or twice what it had after the last time: some hours of a small cluster.
_LONG = 4_000_000


def folder() -> Path:
    """Return where the feeds of this machine's user are."""
    return folders.state() / "live"


def is_held(file: BinaryIO) -> bool:
    """Whether the command that writes this feed is still at it."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


class Feed:
    """A new feed; a context manager. OSError where it cannot be written, as on a disk that is full."""

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
        """Write records; one write for all of them."""
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
            # Only now: who follows takes a feed without a lock for one that is over, unless another has its name.
            before.close()

    def _begin(self, records: Sequence[Record]) -> BinaryIO:
        """Put a file of these records in the feed's place, locked before it can be seen."""
        draft = self.path.with_suffix(".draft")
        file = open(draft, "wb", buffering=0, opener=folders.ours_alone)  # noqa: SIM115 - open until the feed ends
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(_lines(records))
        draft.rename(self.path)
        return file


def _lines(records: Sequence[Record]) -> bytes:
    return "".join(f"{json.dumps(record, separators=(',', ':'), allow_nan=False)}\n" for record in records).encode()


def _remove_left_over(parent: Path) -> None:
    """Remove the feeds of commands that were killed."""
    for path in _files(parent):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if not is_held(file):
                path.unlink()


def _files(parent: Path) -> Iterator[Path]:
    return parent.glob(f"*{SUFFIX}")


def going_on() -> list[Path]:
    """Return the feeds of commands that are going on, in no order."""
    feeds = []
    for path in _files(folder()):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if is_held(file):
                feeds.append(path)
    return feeds
