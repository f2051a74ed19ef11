"""What the application asks of a store, whichever it is: documents by id, by user and by date, and sums over them.

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
    "data_description",
    "education_queue",
    "exercise",
    "feedback",
    "follow_up",
    "plan",
    "variables",
    "daily_goals",
)
#: Those that are the same for all users.
STATIC = ("exercise", "data_description", "variables")
#: Those that users wait for most, which may have a store of their own.
CRITICAL = ("activity", "achievement")
#: What is counted in a document.
FIELDS = ("steps", "seconds")

Document = dict[str, Any]


class Documents(Protocol):
    """One store. An operation that the store refuses raises an exception, and the request is answered with 500."""

    async def prepare(self, collections: Sequence[str]) -> None:
        """Make these collections where they are not there."""

    async def clear(self, collections: Sequence[str]) -> None:
        """Remove all documents of these collections."""

    async def exists(self, collection: str, user: str) -> bool:
        """Whether there is a document of that user."""
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
        """Return the sum of a field over the user's documents, or over those of `start <= date < end`."""
        ...

    async def count(self, collection: str, user: str) -> int:
        """Return how many documents the user has."""
        ...

    async def size(self, collection: str) -> int:
        """Return how many documents there are."""
        ...

    async def after(self, collection: str, key: str, most: int) -> dict[str, Document]:
        """Return the next so many documents by their ids, in an order of ids, as they were when last refreshed."""
        ...

    async def add(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Write those whose ids are not there, and leave the others as they are."""

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Write documents by their ids, over those that are there; several go in one request."""

    async def refresh(self, collections: Sequence[str]) -> None:
        """Have what was written seen by all that is asked from now on."""

    async def close(self) -> None:
        """Let the connections go."""
