"""Collections of the search family: data streams and rolling indices with their templates, and random documents."""

import math
import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
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
    """Create or replace the index template `name`, with `definition`, and create the data stream that uses it.

    `definition` has `settings` and `mappings`.
    """
    _put_template(request, addresses, name, [name], definition, {"data_stream": {}})
    request(addresses, "PUT", f"/_data_stream/{name}")


def create_rolling(
    request: Request, addresses: Sequence[str], name: str, definition: Mapping[str, Any], *, composed: bool
) -> None:
    """Create a template with the index `definition` for NAME-*, and the index NAME-000001 with the write alias NAME.

    `composed` is whether the product has composable templates.
    """
    pattern = f"{name}-*"
    if composed:
        _put_template(request, addresses, name, [pattern], definition, {})
    else:
        request(addresses, "PUT", f"/_template/{name}", {**definition, "index_patterns": [pattern]})
    request(addresses, "PUT", f"/{name}-000001", {"aliases": {name: {"is_write_index": True}}})


def drop(request: Request, addresses: Sequence[str], name: str, *, composed: bool) -> bool:
    """Delete the data stream of that name, or the indices behind the rolling alias, and its template.

    Return False, without a change, if it is neither. An alias without a template of its name is not a rolling one.
    `composed` is whether the product has composable templates and data streams.
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
    """Create or replace the composable template `name`, with `definition`, for indices that match `patterns`.

    `more` are further keys of the template.
    """
    body = {"index_patterns": list(patterns), "priority": _PRIORITY, "template": dict(definition), **more}
    request(addresses, "PUT", f"/_index_template/{name}", body)


def _templates(request: Request, addresses: Sequence[str], place: str, *, composed: bool) -> set[str]:
    """Return the names of the templates at `place`: `_index_template` if `composed`, else `_template`."""
    answer = request(addresses, "GET", f"/{place}")
    return {str(template["name"]) for template in answer["index_templates"]} if composed else set(answer)


#: Documents per request.
_PAGE = 1000
#: Between two pages, each document of a page may need several requests.
_KEEP_OPEN = "30m"
#: Documents that are sampled together: neighbours in the order of writes.
_RUN = 20


def sample(request: Any, addresses: Sequence[str], name: str, documents: int, indices: Mapping[str, Any]) -> Sample:
    """Return up to `documents` documents in the order of writes, with settings and mappings of the newest index.

    Draws runs of neighbours, so that the sample shows how they resemble each other; each document is equally likely.
    Draws single documents if the sample is at least half of the collection, or if the store does not search the
    sequence numbers of writes. `indices` are the definitions of the indices behind the name, by index; the newest is
    the last by name.
    """
    # Of a series of indices, the last has the newest mappings.
    newest = indices[max(indices)]
    settings = newest.get("settings", {}).get("index", {})
    definition = {"settings": settings, "mappings": _without_type(newest.get("mappings", {}))}
    in_runs = request(addresses, "GET", f"/{name}/_count")["count"] > 2 * documents
    draws = math.ceil(documents / _RUN) if in_runs else documents
    sampled: dict[tuple[str, str], Any] = {}
    with closing(_random_hits(request, addresses, name, min(draws, _PAGE))) as hits:
        for requested, hit in enumerate(hits):
            run = [hit]
            in_runs = in_runs and hit.get("_seq_no", -1) >= 0
            # The index may be newer than `indices`.
            if in_runs and hit["_index"] in indices:
                try:
                    run = _run(request, addresses, name, hit, indices)
                except LoadframeError:
                    if sampled:
                        raise
                    in_runs = False
            sampled |= {(one["_index"], one["_id"]): one for one in run if one.get("_source")}
            if len(sampled) >= documents:
                break
            # Indices that do not store documents.
            if not sampled and in_runs and requested >= _RUN:
                break
    ordered = sorted(sampled.values(), key=lambda hit: (hit["_index"], hit.get("_seq_no", 0)))
    chosen = sorted(random.sample(range(len(ordered)), min(documents, len(ordered))))
    return Sample([ordered[place]["_source"] for place in chosen], definition)


def _random_hits(request: Any, addresses: Sequence[str], name: str, size: int) -> Generator[dict[str, Any]]:
    """Yield all hits in random order, requesting `size` at a time; deletes its scroll when closed."""
    query = {"function_score": {"query": {"match_all": {}}, "random_score": {}, "boost_mode": "replace"}}
    place = f"/{name}/_search?scroll={_KEEP_OPEN}"
    body = {"size": size, "query": query}
    try:
        answer = request(addresses, "POST", place, {**body, "seq_no_primary_term": True}, repeatable=True)
    except LoadframeError:
        # Elasticsearch before 6.7 does not know the key.
        answer = request(addresses, "POST", place, body, repeatable=True)
    try:
        while hits := answer["hits"]["hits"]:
            yield from hits
            scroll = {"scroll": _KEEP_OPEN, "scroll_id": answer["_scroll_id"]}
            answer = request(addresses, "POST", "/_search/scroll", scroll)
    finally:
        # If this fails, the store ends it after `_KEEP_OPEN`.
        with suppress(LoadframeError):
            request(addresses, "DELETE", "/_search/scroll", {"scroll_id": answer["_scroll_id"]})


def _run(
    request: Any, addresses: Sequence[str], name: str, start: Mapping[str, Any], indices: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return hits that were written one after the other, from the hit `start` on: 20, or a few more.

    The number is a multiple of the shards, and lower only if there are fewer documents. After its index, the run
    continues in the next of `indices` by name, and after the last in the first: if it ended there, documents at the
    beginning of an index would belong to fewer runs. LoadframeError if the store does not search sequence numbers.
    """
    names = sorted(indices)
    first = names.index(start["_index"])
    settings = indices[start["_index"]].get("settings", {}).get("index", {})
    # Each shard numbers its documents from 0. With as many from each, none is less likely.
    shards = int(settings.get("number_of_shards", 1))
    size = shards * math.ceil(_RUN / shards)
    run: list[dict[str, Any]] = []
    for step in range(len(names) + 1):
        low = 0 if step else start["_seq_no"]
        # Where numbers are dense, the limit spares the store sorting all documents.
        for limit in (low + 8 * size, None):
            bounds = {"gte": low, **({"lt": limit} if limit else {})}
            filters = [{"term": {"_index": names[(first + step) % len(names)]}}, {"range": {"_seq_no": bounds}}]
            query = {"bool": {"filter": filters}}
            body = {"size": size - len(run), "query": query, "sort": ["_seq_no"], "seq_no_primary_term": True}
            run += request(addresses, "POST", f"/{name}/_search", body, repeatable=True)["hits"]["hits"]
            if len(run) >= size:
                return run
            low = limit or low
    return run


def _without_type(mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return mappings without the type of documents, which Elasticsearch 6 puts around them."""
    if len(mappings) == 1 and "properties" not in mappings:
        (inner,) = mappings.values()
        if isinstance(inner, dict) and "properties" in inner:
            return inner
    return mappings
