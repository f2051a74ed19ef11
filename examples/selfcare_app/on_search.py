"""Documents on Elasticsearch (from 6.8 on) and OpenSearch: one index per collection, with explicit refreshes."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from documents import COLLECTIONS, FIELDS, Document

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
    """A cluster over HTTP; its nodes take turns."""

    def __init__(self, hosts: Sequence[str], *, wait_for: bool, shards: int, replicas: int, routing: bool) -> None:
        """With `wait_for`, each write waits for the next refresh. With `routing`, a user's documents share a shard."""
        self._roots = itertools.cycle(f"http://{host}" for host in hosts)
        self._write = {"refresh": "wait_for"} if wait_for else {}
        self._layout = {"number_of_shards": shards, "number_of_replicas": replicas}
        self._routing = routing
        self._kept: aiohttp.ClientSession | None = None
        self._typed = False

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._kept is None:
            self._kept = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64))
        return self._kept

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        missing: bool = False,
        parameters: Mapping[str, str] | None = None,
    ) -> Any:
        data = None if body is None else body if isinstance(body, str) else json.dumps(body)
        kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
        headers = {"Content-Type": kind} if data is not None else {}
        async with self._session.request(
            method, next(self._roots) + path, data=data, headers=headers, params=parameters
        ) as answer:
            text = await answer.read()
            if answer.status >= 400 and not (missing and answer.status == 404):
                raise RefusedError(f"{method} {path}: {answer.status} {text[:300]!r}")
            return json.loads(text) if text else {}

    async def prepare(self, collections: Sequence[str]) -> None:
        """Create missing indices, and wait for the replicas that the nodes can hold."""
        said = (await self._ask("GET", "/"))["version"]
        self._typed = said.get("distribution") != "opensearch" and int(said["number"].split(".")[0]) < _WITHOUT_TYPES
        flag = "?include_type_name=false" if self._typed else ""
        there = {row["index"] for row in await self._ask("GET", "/_cat/indices?format=json")}
        for name in collections:
            if name not in there:
                try:
                    await self._ask("PUT", f"/{name}{flag}", {"settings": self._layout, "mappings": _MAPPINGS})
                except RefusedError as error:
                    # Another instance created it in the meantime.
                    if "resource_already_exists" not in str(error):
                        raise
        await self._ask("GET", "/_cluster/health?wait_for_no_initializing_shards=true&timeout=60s")

    async def clear(self, collections: Sequence[str]) -> None:
        """Delete by query, which keeps the indices."""
        body = {"query": {"match_all": {}}}
        await self._ask("POST", f"/{','.join(collections)}/_refresh")
        await self._ask("POST", f"/{','.join(collections)}/_delete_by_query?refresh=true&conflicts=proceed", body)

    def _routed(self, collection: str, user: str) -> dict[str, str]:
        """Return the parameter that names the user's shard. State of the instances is not routed: its keys vary."""
        return {"routing": user} if self._routing and collection in COLLECTIONS else {}

    async def _search(self, collection: str, query: list[Document], *, user: str | None = None, **rest: Any) -> Any:
        body = {"query": {"bool": {"filter": [*([_of(user)] if user else []), *query]}}, **rest}
        return await self._ask(
            "POST", f"/{collection}/_search", body, parameters=self._routed(collection, user) if user else {}
        )

    async def exists(self, collection: str, user: str) -> bool:
        """Search for one document without its content."""
        told = await self._search(collection, [], user=user, size=0, terminate_after=1)
        total = told["hits"]["total"]
        return bool(total["value"] if isinstance(total, dict) else total)

    async def get(self, collection: str, key: str) -> Document | None:
        """Get by id, which sees unrefreshed writes. Documents that are read by id have their user as id."""
        told = await self._ask(
            "GET", f"/{collection}/_doc/{key}", missing=True, parameters=self._routed(collection, key)
        )
        return told.get("_source")

    async def latest(self, collection: str, user: str) -> Document | None:
        """Search for the first by date."""
        hits = (await self._search(collection, [], user=user, size=1, sort=[{"date": "desc"}]))["hits"]["hits"]
        return hits[0]["_source"] if hits else None

    async def all(self, collection: str, user: str) -> list[Document]:
        """Search for all."""
        hits = (await self._search(collection, [], user=user, size=_MOST))["hits"]["hits"]
        return [hit["_source"] for hit in hits]

    async def between(self, collection: str, user: str, start: int, end: int) -> list[Document]:
        """Search by date."""
        hits = (await self._search(collection, [_dates(start, end)], user=user, size=_MOST))["hits"]["hits"]
        return [hit["_source"] for hit in hits]

    async def total(
        self, collection: str, user: str, field: str, start: int | None = None, end: int | None = None
    ) -> float:
        """Have it summed there."""
        query = [] if start is None else [_dates(start, end)]
        told = await self._search(collection, query, user=user, size=0, aggs={"sum": {"sum": {"field": field}}})
        return float(told["aggregations"]["sum"]["value"])

    async def count(self, collection: str, user: str) -> int:
        """Have it counted there."""
        body = {"query": {"bool": {"filter": [_of(user)]}}}
        return int(
            (await self._ask("POST", f"/{collection}/_count", body, parameters=self._routed(collection, user)))["count"]
        )

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
            await self._bulk(collection, "create", documents, {})

    async def put(self, collection: str, documents: Mapping[str, Document]) -> None:
        """Index by id, or in bulk."""
        if len(documents) == 1:
            ((key, document),) = documents.items()
            parameters = {**self._write, **self._routed(collection, document["user"])}
            await self._ask("PUT", f"/{collection}/_doc/{key}", document, parameters=parameters)
        elif documents:
            await self._bulk(collection, "index", documents, self._write)

    async def _bulk(
        self, collection: str, action: str, documents: Mapping[str, Document], how: Mapping[str, str]
    ) -> None:
        lines = []
        for key, document in documents.items():
            target = {"_id": key, **self._routed(collection, document["user"])}
            lines += [json.dumps({action: target}), json.dumps(document)]
        kind = "/_doc" if self._typed else ""
        told = await self._ask("POST", f"/{collection}{kind}/_bulk", "\n".join(lines) + "\n", parameters=how)
        refused = [item for item in told["items"] if item[action]["status"] >= 300]
        if action == "create":
            refused = [item for item in refused if item[action]["status"] != _THERE]
        if refused:
            raise RefusedError(f"bulk into {collection}: {str(refused)[:300]}")

    async def refresh(self, collections: Sequence[str]) -> None:
        """Refresh these."""
        await self._ask("POST", f"/{','.join(collections)}/_refresh")

    async def merge(self, collections: Sequence[str]) -> None:
        """Merge them, and write the result to disk."""
        await self._ask("POST", f"/{','.join(collections)}/_forcemerge?max_num_segments=1&flush=true")

    async def close(self) -> None:
        """Close it."""
        if self._kept:
            await self._kept.close()


def _of(user: str) -> Document:
    return {"term": {"user": user}}


def _dates(start: int, end: int | None) -> Document:
    return {"range": {"date": {"gte": start, "lt": end}}}
