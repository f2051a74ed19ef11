"""Collections of the search family: data streams and rolling indices with their templates, and random documents."""

import math
import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

from loadframe.base.errors import LoadframeError
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
#: Documents of an index that are sampled together: neighbours by the sequence number that the store gives to writes.
_RUN = 20
#: The most runs per search, so that a page has their documents.
_RUNS = _PAGE // _RUN


def sample(request: Any, addresses: Sequence[str], name: str, documents: int, indices: Mapping[str, Any]) -> Sample:
    """Return up to `documents` random documents in the order of writes, with settings and mappings of the newest index.

    Each is drawn with the documents of its index that were written next, if the store tells and searches the sequence
    numbers of writes. `indices` are the definitions of the indices behind the name, by index. Requests a scroll, and
    deletes it.
    """
    # Of a series of indices, the last has the newest mappings.
    newest = indices[max(indices)]
    settings = newest.get("settings", {}).get("index", {})
    definition = {"settings": settings, "mappings": _without_type(newest.get("mappings", {}))}
    sampled: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
    pages = _random_pages(request, addresses, name, min(_RUNS, math.ceil(documents / _RUN)))
    with closing(pages):
        page: list[dict[str, Any]] = []
        while len(sampled) < documents and (page or (page := next(pages, []))):
            # Overlapping runs leave fewer documents; take only as many further runs.
            runs = math.ceil((documents - len(sampled)) / _RUN)
            first, page = page[:runs], page[runs:]
            for hit in [*first, *_written_next(request, addresses, name, first, indices)]:
                if hit.get("_source"):
                    sampled[hit["_index"], hit["_id"]] = (hit.get("_seq_no", 0), hit["_source"])
    ordered = [source for _, (_, source) in sorted(sampled.items(), key=lambda it: (it[0][0], it[1][0]))]
    places = sorted(random.sample(range(len(ordered)), min(documents, len(ordered))))
    return Sample([ordered[place] for place in places], definition)


def _random_pages(request: Any, addresses: Sequence[str], name: str, size: int) -> Generator[list[dict[str, Any]]]:
    """Yield all hits in random order, `size` at a time; deletes its scroll when closed."""
    query = {"function_score": {"query": {"match_all": {}}, "random_score": {}, "boost_mode": "replace"}}
    body = {"size": size, "query": query, "seq_no_primary_term": True}
    answer = request(addresses, "POST", f"/{name}/_search?scroll={_KEEP_OPEN}", body, repeatable=True)
    try:
        while hits := answer["hits"]["hits"]:
            yield hits
            scroll = {"scroll": _KEEP_OPEN, "scroll_id": answer["_scroll_id"]}
            answer = request(addresses, "POST", "/_search/scroll", scroll)
    finally:
        request(addresses, "DELETE", "/_search/scroll", {"scroll_id": answer["_scroll_id"]})


def _written_next(
    request: Any, addresses: Sequence[str], name: str, hits: Sequence[Mapping[str, Any]], indices: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the documents that were written after each hit, about a run of them; none if the store refuses."""
    clauses = []
    for hit in hits:
        begin = hit.get("_seq_no", -1)
        settings = indices.get(hit["_index"], {}).get("settings", {}).get("index", {})
        # Each shard numbers its documents from 0.
        width = math.ceil(_RUN / int(settings.get("number_of_shards", 1)))
        numbers = {"range": {"_seq_no": {"gte": begin, "lt": begin + width}}}
        if begin >= 0:
            clauses.append({"bool": {"filter": [{"term": {"_index": hit["_index"]}}, numbers]}})
    query = {"bool": {"filter": [{"bool": {"should": clauses}}]}}
    body = {"size": _PAGE, "query": query, "seq_no_primary_term": True}
    if not clauses:
        return []
    try:
        answer = request(addresses, "POST", f"/{name}/_search", body, repeatable=True)
    except LoadframeError:
        # Indices without sequence numbers refuse to search them.
        return []
    found: list[dict[str, Any]] = answer["hits"]["hits"]
    return found


def _without_type(mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return mappings without the type of documents, which Elasticsearch 6 puts around them."""
    if len(mappings) == 1 and "properties" not in mappings:
        (inner,) = mappings.values()
        if isinstance(inner, dict) and "properties" in inner:
            return inner
    return mappings
