"""How many documents collections should hold by what the store has acknowledged, as far as that can be known."""

from collections.abc import Mapping
from typing import Any

from loadframe.workload.gains import change, gain, written

_NONE: Mapping[str, Mapping[str, Any]] = {}


class Acknowledged:
    """Counts per collection since they were made."""

    def __init__(self) -> None:
        self._counts: dict[str, int | None] = {}

    def made(self, collection: str) -> None:
        """A collection is new and empty."""
        self._counts[collection] = 0

    @property
    def held(self) -> int | None:
        """All documents there are; None where nobody can know, or nothing was made."""
        counts = [count for count in self._counts.values() if count is not None]
        return sum(counts) if counts and len(counts) == len(self._counts) else None

    def gains(
        self, forms: Mapping[str, Mapping[str, Any]], corpora: Mapping[str, Mapping[str, Any]] = _NONE
    ) -> dict[str, dict[str, Any]]:
        """Return what each of these operations would add if the load began now; those that add nothing are left out."""
        collections = {name: write[1]["collection"] for name, form in forms.items() if (write := written(form))}
        known = {
            name: gain(form, corpora, first=self._counts.get(collections.get(name, "")) == 0)
            for name, form in forms.items()
        }
        return {name: added.as_dict() for name, added in known.items() if added}

    def add(
        self, form: Mapping[str, Any], documents: int, corpora: Mapping[str, Mapping[str, Any]] = _NONE
    ) -> str | None:
        """Count the documents that an operation was acknowledged, and return the collection if it writes to one."""
        write = written(form)
        # Collections that are made for the values of a field are not those that the workload defines.
        if write is None or write[1]["collection"] not in self._counts or write[1].get("per"):
            return None
        kind, content = write
        collection: str = content["collection"]
        count = self._counts[collection]
        changed = change(kind, content, corpora, first=count == 0)
        self._counts[collection] = None if count is None or changed is None else count + changed * documents
        return collection

    def difference(self, collection: str, counted: int) -> str | None:
        """Return a sentence if a collection holds another number of documents; None if not, or if nobody can know."""
        expected = self._counts.get(collection)
        if expected is None or expected == counted:
            return None
        return f"{collection} holds {counted:,} documents, but {expected:,} were acknowledged"
