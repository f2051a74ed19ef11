"""Collections of the search family: data streams and rolling indices with their templates, and random documents."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from loadframe.store.base import Sample

#: Above the priority of the products' templates (100 to 200).
_PRIORITY = 500


class Request(Protocol):
    """Type of `SearchStore.request`."""

    def __call__(
        self, addresses: Sequence[str], method: str, path: str, body: Mapping[str, Any] | None = None, /
    ) -> Any:
        """Send a request to the first address that answers, and return its JSON."""


def create(request: Request, addresses: Sequence[str], name: str, definition: Mapping[str, Any]) -> None:
    """Create a data stream, and a template with the index `definition`."""
    _put_template(request, addresses, name, [name], definition, {"data_stream": {}})
    request(addresses, "PUT", f"/_data_stream/{name}")


def create_rolling(
    request: Request, addresses: Sequence[str], name: str, definition: Mapping[str, Any], *, composed: bool
) -> None:
    """Create an index NAME-000001 with the write alias NAME, and a template for its successors.

    `composed` is whether the product has composable templates.
    """
    pattern = f"{name}-*"
    if composed:
        _put_template(request, addresses, name, [pattern], definition, {})
    else:
        request(addresses, "PUT", f"/_template/{name}", {**definition, "index_patterns": [pattern]})
    request(addresses, "PUT", f"/{name}-000001", {"aliases": {name: {"is_write_index": True}}})


def drop(request: Request, addresses: Sequence[str], name: str, *, composed: bool) -> bool:
    """Delete a data stream, or the indices of a rolling alias, with the template; return whether it existed.

    `composed`: templates are composable index templates. Indices behind an alias without a template stay.
    """
    place = "_index_template" if composed else "_template"
    has_template = name in _templates(request, addresses, place, composed=composed)
    if composed and name in data_streams(request, addresses):
        request(addresses, "DELETE", f"/_data_stream/{name}")
    else:
        # Keep an alias without our template: Loadframe did not create it.
        indices = behind(request, addresses, name) if has_template else []
        if not indices:
            return False
        request(addresses, "DELETE", f"/{','.join(indices)}")
    if has_template:
        request(addresses, "DELETE", f"/{place}/{name}")
    return True


def data_streams(request: Request, addresses: Sequence[str]) -> set[str]:
    """Return the names of all data streams."""
    return {str(stream["name"]) for stream in request(addresses, "GET", "/_data_stream").get("data_streams", [])}


def behind(request: Request, addresses: Sequence[str], name: str) -> list[str]:
    """Return the sorted names of the indices behind an alias; empty if the name is not an alias."""
    indices = request(addresses, "GET", f"/{name}?ignore_unavailable=true")
    return sorted(index for index, details in indices.items() if index != name and name in details.get("aliases", {}))


def _put_template(
    request: Request,
    addresses: Sequence[str],
    name: str,
    patterns: Sequence[str],
    definition: Mapping[str, Any],
    more: Mapping[str, Any],
) -> None:
    """Create or replace a composable template for indices that match `patterns`; `more` are further keys."""
    body = {"index_patterns": list(patterns), "priority": _PRIORITY, "template": dict(definition), **more}
    request(addresses, "PUT", f"/_index_template/{name}", body)


def _templates(request: Request, addresses: Sequence[str], place: str, *, composed: bool) -> set[str]:
    """Return the names of the templates that the endpoint `place` lists; `composed` tells their format."""
    answer = request(addresses, "GET", f"/{place}")
    return {str(template["name"]) for template in answer["index_templates"]} if composed else set(answer)


#: Documents per request.
_PAGE = 1000
_KEEP_OPEN = "1m"


def sample(request: Any, addresses: Sequence[str], name: str, documents: int, indices: Mapping[str, Any]) -> Sample:
    """Return up to `documents` random documents, with settings and mappings of the newest index.

    `indices` are the definitions of the indices behind the name, by index. Requests a scroll, and deletes it.
    """
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
