"""How many documents collections should hold by what the store has acknowledged, as far as that can be known."""

from collections.abc import Mapping
from typing import Any

#: What each writing verb that was acknowledged does to the number of documents; None where only the store can tell.
_CHANGES: Mapping[str, int | None] = {"insert": 1, "create": 1, "delete": -1, "update": 0, "upsert": None}


class Acknowledged:
    """Counts per collection since they were made."""

    def __init__(self) -> None:
        self._counts: dict[str, int | None] = {}

    def made(self, collection: str) -> None:
        """A collection is new and empty."""
        self._counts[collection] = 0

    def add(self, form: Mapping[str, Any], documents: int) -> str | None:
        """Count the documents that an operation was acknowledged, and return the collection if it writes to one."""
        for kind in ("bulk", "insert", "index", "update", "upsert", "delete"):
            content = form.get(kind)
            # Collections that are made for the values of a field are not those that the workload defines.
            if content is None or content["collection"] not in self._counts or content.get("per"):
                continue
            collection: str = content["collection"]
            count = self._counts[collection]
            change = _change(kind, content, first=count == 0)
            self._counts[collection] = None if count is None or change is None else count + change * documents
            return collection
        return None

    def difference(self, collection: str, counted: int) -> str | None:
        """Return a sentence if a collection holds another number of documents; None if not, or if nobody can know."""
        expected = self._counts.get(collection)
        if expected is None or expected == counted:
            return None
        return f"{collection} holds {counted:,} documents, but {expected:,} were acknowledged"


def _change(kind: str, content: Mapping[str, Any], *, first: bool) -> int | None:
    """Return what each document does to the count. `first`: the collection is empty."""
    if content.get("conflicts"):
        return None
    action = content.get("action", "index") if kind == "bulk" else kind
    if action in ("index", "upsert"):
        # Documents without an id are new ones, and so are those with ids as long as there are no others.
        return 1 if "id" not in content or (kind == "bulk" and first) else None
    return _CHANGES[action]
