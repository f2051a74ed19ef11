"""Documents on Elasticsearch (from 6.8 on) and OpenSearch: one index per collection, with explicit refreshes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from documents import FIELDS, Document

_MOST = 1000
#: Status of a duplicate id.
_THERE = 409
#: First version without mapping types.
_WITHOUT_TYPES = 7
_MAPPINGS = {
    "dynamic": False,
    "properties": {
        "user": {"type": "keyword"},
        "date": {"type": "date", "format": "epoch_millis"},
        **{field: {"type": "long"} for field in FIELDS},
    },
}


class RefusedError(Exception):
    """The store refused an operation."""


class OnSearch:
    """One node, over HTTP, with one shard per collection and without replicas."""

    def __init__(self, host: str, *, wait_for: bool) -> None:
        """With `wait_for`, each write waits for the next refresh."""
        self._root = f"http://{host}"
        self._write = "?refresh=wait_for" if wait_for else ""
        self._kept: aiohttp.ClientSession | None = None
        self._typed = False

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._kept is None:
            self._kept = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64))
        return self._kept

    async def _ask(self, method: str, path: str, body: Any = None, *, missing: bool = False) -> Any:
        data = None if body is None else body if isinstance(body, str) else json.dumps(body)
        kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
        headers = {"Content-Type": kind} if data is not None else {}
        async with self._session.request(method, self._root + path, data=data, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 400 and not (missing and answer.status == 404):
                raise RefusedError(f"{method} {path}: {answer.status} {text[:300]!r}")
            return json.loads(text) if text else {}

    async def prepare(self, collections: Sequence[str]) -> None:
        """Create missing indices."""
        said = (await self._ask("GET", "/"))["version"]
        self._typed = said.get("distribution") != "opensearch" and int(said["number"].split(".")[0]) < _WITHOUT_TYPES
        flag = "?include_type_name=false" if self._typed else ""
        there = {row["index"] for row in await self._ask("GET", "/_cat/indices?format=json")}
        for name in collections:
            if name not in there:
                settings = {"number_of_shards": 1, "number_of_replicas": 0}
                try:
                    await self._ask("PUT", f"/{name}{flag}", {"settings": settings, "mappings": _MAPPINGS})
                except RefusedError as error:
                    # Another instance created it in the meantime.
                    if "resource_already_exists" not in str(error):
                        raise

    async def clear(self, collections: Sequence[str]) -> None:
        """Delete by query, which keeps the indices."""
        body = {"query": {"match_all": {}}}
        await self._ask("POST", f"/{','.join(collections)}/_refresh")
        await self._ask("POST", f"/{','.join(collections)}/_delete_by_query?refresh=true&conflicts=proceed", body)

    async def _search(self, collection: str, query: list[Document], **rest: Any) -> Any:
        body = {"query": {"bool": {"filter": query}}, **rest}
        return await self._ask("POST", f"/{collection}/_search", body)

    async def exists(self, collection: str, user: str) -> bool:
        """Search for one document without its content."""
        told = await self._search(collection, [_of(user)], size=0, terminate_after=1)
        total = told["hits"]["total"]
        return bool(total["value"] if isinstance(total, dict) else total)

    async def get(self, collection: str, key: str) -> Document | None:
        """Get by id, which sees unrefreshed writes."""
        told = await self._ask("GET", f"/{collection}/_doc/{key}", missing=True)
        return told.get("_source")

    async def latest(self, collection: str, user: str) -> Document | None:
        """Search for the first by date."""
        hits = (await self._search(collection, [_of(user)], size=1, sort=[{"date": "desc"}]))["hits"]["hits"]
        return hits[0]["_source"] if hits else None

    async def all(self, collection: str, user: str) -> list[Document]:
        """Search for all."""
        hits = (await self._search(collection, [_of(user)], size=_MOST))["hits"]["hits"]
        return [hit["_source"] for hit in hits]

    async def between(self, collection: str, user: str, start: int, end: int) -> list[Document]:
        """Search by date."""
        hits = (await self._search(collection, [_of(user), _dates(start, end)], size=_MOST))["hits"]["hits"]
        return [hit["_source"] for hit in hits]

    async def total(
        self, collection: str, user: str, field: str, start: int | None = None, end: int | None = None
    ) -> float:
        """Have it summed there."""
        query = [_of(user)] if start is None else [_of(user), _dates(start, end)]
        told = await self._search(collection, query, size=0, aggs={"sum": {"sum": {"field": field}}})
        return float(told["aggregations"]["sum"]["value"])

    async def count(self, collection: str, user: str) -> int:
        """Have it counted there."""
        body = {"query": {"bool": {"filter": [_of(user)]}}}
        return int((await self._ask("POST", f"/{collection}/_count", body))["count"])

    async def size(self, collection: str) -> int:
        """Have them counted there."""
        return int((await self._ask("GET", f"/{collection}/_count"))["count"])

    async def after(self, collection: str, key: str, most: int) -> dict[str, Document]:
        """Search behind an id, which the store may be set not to sort by (indices.id_field_data.enabled)."""
        hits = (await self._search(collection, [], size=most, sort=[{"_id": "asc"}], search_after=[key]))["hits"][
            "hits"
        ]
        return {hit["_id"]: hit["_source"] for hit in hits}

    async def add(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Create, and ignore duplicate ids."""
        if documents:
            await self._bulk(collection, "create", documents, "")

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Index by id, or in bulk."""
        if len(documents) == 1:
            ((key, document),) = documents.items()
            await self._ask("PUT", f"/{collection}/_doc/{key}{self._write}", document)
        elif documents:
            await self._bulk(collection, "index", documents, self._write)

    async def _bulk(self, collection: str, action: str, documents: Mapping[str, Document], how: str) -> None:
        lines = [json.dumps(line) for key, document in documents.items() for line in ({action: {"_id": key}}, document)]
        kind = "/_doc" if self._typed else ""
        told = await self._ask("POST", f"/{collection}{kind}/_bulk{how}", "\n".join(lines) + "\n")
        refused = [item for item in told["items"] if item[action]["status"] >= 300]
        if action == "create":
            refused = [item for item in refused if item[action]["status"] != _THERE]
        if refused:
            raise RefusedError(f"bulk into {collection}: {str(refused)[:300]}")

    async def refresh(self, collections: Sequence[str]) -> None:
        """Refresh these."""
        await self._ask("POST", f"/{','.join(collections)}/_refresh")

    async def close(self) -> None:
        """Close it."""
        if self._kept:
            await self._kept.close()


def _of(user: str) -> Document:
    return {"term": {"user": user}}


def _dates(start: int, end: int | None) -> Document:
    return {"range": {"date": {"gte": start, "lt": end}}}
