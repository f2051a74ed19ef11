"""Random documents of an index, with its mappings and settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.store.base import Sample

#: Documents per request.
_PAGE = 1000
_KEEP_OPEN = "1m"


def read(request: Any, addresses: Sequence[str], name: str, documents: int, indices: Mapping[str, Any]) -> Sample:
    """Return up to `documents` random documents. `request` is `SearchStore.request`; `indices` are its definitions."""
    # Of a series of indices, the last has the newest mappings.
    newest = indices[max(indices)]
    settings = newest.get("settings", {}).get("index", {})
    definition = {"settings": settings, "mappings": _without_type(newest.get("mappings", {}))}
    query = {"function_score": {"query": {"match_all": {}}, "random_score": {}, "boost_mode": "replace"}}
    body = {"size": min(documents, _PAGE), "query": query}
    answer = request(addresses, "POST", f"/{name}/_search?scroll={_KEEP_OPEN}", body, repeatable=True)
    sources: list[dict[str, Any]] = []
    try:
        while (hits := answer["hits"]["hits"]) and len(sources) < documents:
            sources += [hit["_source"] for hit in hits if hit.get("_source")]
            if len(sources) < documents:
                scroll = {"scroll": _KEEP_OPEN, "scroll_id": answer["_scroll_id"]}
                answer = request(addresses, "POST", "/_search/scroll", scroll)
    finally:
        request(addresses, "DELETE", "/_search/scroll", {"scroll_id": answer["_scroll_id"]})
    return Sample(sources[:documents], definition)


def _without_type(mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return mappings without the type of documents, which Elasticsearch 6 puts around them."""
    if len(mappings) == 1 and "properties" not in mappings:
        (inner,) = mappings.values()
        if isinstance(inner, dict) and "properties" in inner:
            return inner
    return mappings
