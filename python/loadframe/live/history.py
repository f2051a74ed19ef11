"""The records of a command that a page needs when it is opened late; bounded, however long the command goes on.

A record is a JSON object with a `kind`; docs/live.md lists the kinds.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

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
