"""Interface of a store for the application: documents by id, user and date, and sums over them.

Every document has `user` and `date` (ms since 1970, of the simulated clock).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

#: All collections, by the names of the study.
COLLECTIONS = (
    "account",
    "baseline",
    "achievement",
    "activity",
    "app_interaction",
    "app_settings",
    "case",
    "data_description",
    "education_queue",
    "exercise",
    "feedback",
    "follow_up",
    "plan",
    "variables",
    "daily_goals",
)
#: Collections that are equal for all users.
STATIC = ("case", "exercise", "data_description", "variables")
#: Most used collections, which may be on a separate store.
CRITICAL = ("activity", "achievement")
#: Fields with numbers that are summed.
FIELDS = ("steps", "seconds")

Document = dict[str, Any]


class Documents(Protocol):
    """A store. A refused operation raises an exception, and the service answers 500."""

    async def prepare(self, collections: Sequence[str]) -> None:
        """Create missing collections."""

    async def clear(self, collections: Sequence[str]) -> None:
        """Remove all documents of these collections."""

    async def exists(self, collection: str, user: str) -> bool:
        """Return whether the user has a document."""
        ...

    async def get(self, collection: str, key: str) -> Document | None:
        """Return the document of that id."""
        ...

    async def latest(self, collection: str, user: str) -> Document | None:
        """Return the user's document of the latest date."""
        ...

    async def all(self, collection: str, user: str) -> list[Document]:
        """Return the user's documents, up to 1,000."""
        ...

    async def between(self, collection: str, user: str, start: int, end: int) -> list[Document]:
        """Return the user's documents of `start <= date < end`, up to 1,000."""
        ...

    async def total(
        self, collection: str, user: str, field: str, start: int | None = None, end: int | None = None
    ) -> float:
        """Return the sum of a field over the user's documents, optionally with `start <= date < end`."""
        ...

    async def count(self, collection: str, user: str) -> int:
        """Return the number of documents of the user."""
        ...

    async def size(self, collection: str) -> int:
        """Return the number of documents."""
        ...

    async def after(self, collection: str, key: str, most: int) -> dict[str, Document]:
        """Return the next documents in order of ids, as of the last refresh."""
        ...

    async def add(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Write the documents with new ids; existing documents do not change."""

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Write documents by id, replacing existing ones; several use one request."""

    async def refresh(self, collections: Sequence[str]) -> None:
        """Make all writes visible to later reads."""

    async def merge(self, collections: Sequence[str]) -> None:
        """Merge each collection into one segment, in stores that have segments."""

    async def close(self) -> None:
        """Close the connections."""
