"""Documents on MongoDB: `_id` is the id, and writes are visible immediately."""

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import ASCENDING, DESCENDING, AsyncMongoClient, ReplaceOne
from pymongo.errors import BulkWriteError

from documents import Document

_MOST = 1000
#: Error code of a duplicate id.
_THERE = 11000
_DATABASE = "selfcare"


class OnMongoDB:
    """A server, or a replica set."""

    def __init__(self, hosts: Sequence[str], *, user_index: bool, login: tuple[str, str] | None = None) -> None:
        """Connect at the first operation. `login` is a user with a password."""
        user, password = login or (None, None)
        self._client: AsyncMongoClient[Document] = AsyncMongoClient(
            f"mongodb://{','.join(hosts)}/", username=user, password=password, maxPoolSize=64
        )
        self._database = self._client[_DATABASE]
        self._user_index = user_index

    async def prepare(self, collections: Sequence[str]) -> None:
        """Create the indexes, which also creates the collections."""
        for name in collections:
            if self._user_index:
                await self._database[name].create_index([("user", ASCENDING), ("date", DESCENDING)])

    async def clear(self, collections: Sequence[str]) -> None:
        """Remove their documents."""
        for name in collections:
            await self._database[name].delete_many({})

    async def exists(self, collection: str, user: str) -> bool:
        """Ask for one id."""
        return await self._database[collection].find_one({"user": user}, {"_id": 1}) is not None

    async def get(self, collection: str, key: str) -> Document | None:
        """Ask by id."""
        return await self._database[collection].find_one({"_id": key})

    async def latest(self, collection: str, user: str) -> Document | None:
        """Ask for the first by date."""
        return await self._database[collection].find_one({"user": user}, sort=[("date", DESCENDING)])

    async def all(self, collection: str, user: str) -> list[Document]:
        """Ask for all."""
        return await self._database[collection].find({"user": user}, limit=_MOST).to_list()

    async def between(self, collection: str, user: str, start: int, end: int) -> list[Document]:
        """Ask by date."""
        rows = self._database[collection].find({"user": user, "date": {"$gte": start, "$lt": end}}, limit=_MOST)
        return await rows.to_list()

    async def total(
        self, collection: str, user: str, field: str, start: int | None = None, end: int | None = None
    ) -> float:
        """Have it summed there."""
        match: dict[str, Any] = {"user": user}
        if start is not None:
            match["date"] = {"$gte": start, "$lt": end}
        grouped = await self._database[collection].aggregate(
            [{"$match": match}, {"$group": {"_id": None, "sum": {"$sum": f"${field}"}}}]
        )
        rows = await grouped.to_list()
        return float(rows[0]["sum"]) if rows else 0.0

    async def count(self, collection: str, user: str) -> int:
        """Have it counted there."""
        return await self._database[collection].count_documents({"user": user})

    async def size(self, collection: str) -> int:
        """Have them counted there."""
        return await self._database[collection].count_documents({})

    async def after(self, collection: str, key: str, most: int) -> dict[str, Document]:
        """Ask by id."""
        rows = self._database[collection].find({"_id": {"$gt": key}}, sort=[("_id", ASCENDING)], limit=most)
        return {row.pop("_id"): row for row in await rows.to_list()}

    async def add(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Insert, and ignore duplicate ids."""
        if not documents:
            return
        rows = [{"_id": key, **document} for key, document in documents.items()]
        try:
            await self._database[collection].insert_many(rows, ordered=False)
        except BulkWriteError as error:
            if {one["code"] for one in error.details["writeErrors"]} != {_THERE}:
                raise

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Replace, or insert."""
        if len(documents) == 1:
            ((key, document),) = documents.items()
            await self._database[collection].replace_one({"_id": key}, document, upsert=True)
        elif documents:
            writes = [ReplaceOne({"_id": key}, document, upsert=True) for key, document in documents.items()]
            await self._database[collection].bulk_write(writes, ordered=False)

    async def refresh(self, collections: Sequence[str]) -> None:
        """Do nothing: writes are visible immediately."""

    async def merge(self, collections: Sequence[str]) -> None:
        """Do nothing: MongoDB stores documents without segments."""

    async def close(self) -> None:
        """Close it."""
        await self._client.close()
