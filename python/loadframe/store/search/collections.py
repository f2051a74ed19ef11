"""Collections of the search family: data streams and rolling indices with their templates, and random documents."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from loadframe.base.errors import LoadframeError, StoreFailed
from loadframe.store.base import Sample, daily_families
from loadframe.store.exploring import DOCUMENTS, VALUES, Findings, Kind, Period, Question, period_width

#: Above the priority of the products' templates (100 to 200).
_PRIORITY = 500


class Request(Protocol):
    """Type of `SearchStore.request`."""

    def __call__(
        self, addresses: Sequence[str], method: str, path: str, body: Mapping[str, Any] | None = None, /
    ) -> Any:
        """Send a request to the first address that answers, and return its JSON."""


def create(request: Request, addresses: Sequence[str], name: str, definition: Mapping[str, Any]) -> None:
    """Create a data stream with its template."""
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
    """Delete a data stream, or the indices of a rolling alias, with the template; return whether it existed."""
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
    """Return the indices of an alias; empty if the name is not an alias."""
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
    body = {"index_patterns": list(patterns), "priority": _PRIORITY, "template": dict(definition), **more}
    request(addresses, "PUT", f"/_index_template/{name}", body)


def _templates(request: Request, addresses: Sequence[str], place: str, *, composed: bool) -> set[str]:
    answer = request(addresses, "GET", f"/{place}")
    return {str(template["name"]) for template in answer["index_templates"]} if composed else set(answer)


#: Documents per request.
_PAGE = 1000
_KEEP_OPEN = "1m"


def sample(request: Any, addresses: Sequence[str], name: str, documents: int, indices: Mapping[str, Any]) -> Sample:
    """Return up to `documents` random documents. `indices` are its definitions."""
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


_TIMES = {"date", "date_nanos"}
_NUMBERS = {
    *("long", "integer", "short", "byte", "unsigned_long"),
    *("double", "float", "half_float", "scaled_float"),
}
_KEYWORDS = {"keyword", "constant_keyword", "wildcard", "boolean", "ip", "version"}
#: Timeout of a search. The server then returns partial results.
_TIMEOUT = "30s"


def names(request: Any, addresses: Sequence[str]) -> list[str]:
    """Return indices, aliases, data streams, and `NAME-*` for daily indices. Names with a leading dot are left out."""
    indices = request(addresses, "GET", "/_alias")
    known = {*indices, *(alias for details in indices.values() for alias in details.get("aliases", {}))}
    # Versions without data streams refuse the request.
    with contextlib.suppress(LoadframeError):
        known |= data_streams(request, addresses)
    visible = [name for name in known if not name.startswith(".")]
    return sorted([*visible, *daily_families(visible)])


def fields(request: Any, addresses: Sequence[str], name: str) -> dict[str, Kind]:
    """Return the fields that can be aggregated, by name."""
    answer = request(addresses, "GET", f"/{_path(name)}/_field_caps?fields=*")
    kinds: dict[str, Kind] = {}
    for field, types in sorted(answer["fields"].items()):
        usable = {kind for kind, details in types.items() if details.get("aggregatable")}
        if not usable or field.startswith("_"):
            continue
        if usable <= _TIMES:
            kinds[field] = "time"
        elif usable <= _NUMBERS:
            kinds[field] = "number"
        elif usable <= _KEYWORDS:
            kinds[field] = "keyword"
    return kinds


def explore(request: Any, addresses: Sequence[str], question: Question, kinds: Mapping[str, Kind]) -> Findings:
    """Answer a question. Its collection and fields must exist."""
    start, end = _range(request, addresses, question)
    width = period_width(start, end) if start is not None and end is not None else 0.0
    is_number = question.field is not None and kinds[question.field] == "number"
    parts: dict[str, Any] = {}
    if question.field:
        parts["values"] = {"terms": {"field": question.field, "size": VALUES}}
    if is_number:
        parts["numbers"] = {"stats": {"field": question.field}}
    if question.time and width:
        histogram = {"field": question.time, "interval": width * 1000, "min_doc_count": 1}
        inner = {"aggs": {"numbers": parts["numbers"]}} if is_number else {}
        # Versions name the interval of a date histogram differently. A plain histogram accepts dates in all of them.
        parts["periods"] = {"histogram": histogram, **inner}
    order = question.field if question.largest and is_number else question.time
    sort = {"sort": [{order: {"order": "desc", "missing": "_last"}}]} if order else {}
    body = {"size": DOCUMENTS, **sort, **({"aggs": parts} if parts else {})}
    answer = _search(request, addresses, question, body)
    sections = answer.get("aggregations", {})
    periods = [_period(bucket) for bucket in sections.get("periods", {}).get("buckets", [])]
    return Findings(
        total=_total(answer),
        start=start,
        width=width,
        periods=periods,
        values=[
            (bucket.get("key_as_string", bucket["key"]), bucket["doc_count"])
            for bucket in sections.get("values", {}).get("buckets", [])
        ],
        statistics=_statistics(sections["numbers"]) if "numbers" in sections else {},
        documents=[hit.get("_source", {}) for hit in answer["hits"]["hits"]],
    )


def _range(request: Any, addresses: Sequence[str], question: Question) -> tuple[float | None, float | None]:
    """Return the time range of the selected documents, s since the epoch; None without a time field or documents."""
    if question.time is None:
        return None, None
    ends = {name: {name: {"field": question.time}} for name in ("min", "max")}
    answer = _search(request, addresses, question, {"size": 0, "aggs": ends})["aggregations"]
    first, last = answer["min"]["value"], answer["max"]["value"]
    if first is None or last is None:
        return None, None
    return first / 1000, last / 1000


def _search(request: Any, addresses: Sequence[str], question: Question, body: Mapping[str, Any]) -> Any:
    filters: list[Any] = [{"term": {name: value}} for name, value in question.filters.items()]
    bounds = {"gte": question.start, "lt": question.end}
    limits = {name: round(value * 1000) for name, value in bounds.items() if value is not None}
    if question.time and limits:
        filters.append({"range": {question.time: {**limits, "format": "epoch_millis"}}})
    query = {"bool": {"filter": filters}}
    path = f"/{_path(question.collection)}/_search"
    whole = {"timeout": _TIMEOUT, "track_total_hits": True, "query": query, **body}
    answer = request(addresses, "POST", path, whole, repeatable=True)
    if answer.get("timed_out"):
        raise StoreFailed(f"no answer within {_TIMEOUT}", remedy="select a shorter time range or a filter")
    if failed := answer["_shards"]["failed"]:
        reason = answer["_shards"].get("failures", [{}])[0].get("reason", {}).get("reason", "unknown reason")
        raise StoreFailed(f"the search failed on {failed} shards: {reason}", remedy="see the reason")
    return answer


def _path(name: str) -> str:
    return quote(name, safe="*")


def _total(answer: Mapping[str, Any]) -> int:
    total = answer["hits"]["total"]
    return int(total["value"] if isinstance(total, dict) else total)


def _statistics(answer: Mapping[str, Any]) -> dict[str, float | None]:
    names = {"count": "count", "min": "min", "mean": "avg", "max": "max", "sum": "sum"}
    return {name: answer[key] for name, key in names.items()}


def _period(bucket: Mapping[str, Any]) -> Period:
    numbers = bucket.get("numbers", {})
    return Period(bucket["key"] / 1000, bucket["doc_count"], numbers.get("avg"), numbers.get("max"))
