"""Questions about documents of the search family. Only searches are sent; errors are those of `SearchStore.request`."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from loadframe.base.errors import LoadframeError, StoreFailed
from loadframe.store.base import daily_families
from loadframe.store.exploring import (
    DOCUMENTS,
    VALUES,
    Findings,
    Kind,
    Period,
    Question,
    notes_on_counts,
    period_width,
)
from loadframe.store.search.collections import data_streams

_TIMES = {"date", "date_nanos"}
_INTEGERS = {"long", "integer", "short", "byte", "unsigned_long"}
_NUMBERS = {*_INTEGERS, "double", "float", "half_float", "scaled_float"}
_KEYWORDS = {"keyword", "constant_keyword", "wildcard", "boolean", "ip", "version"}
#: Values that each shard reports. More than are shown, so that few counts are approximate.
_SHARD_VALUES = 1000
#: Timeout of a search. The server then returns partial results.
_TIMEOUT = "30s"


def names(request: Any, addresses: Sequence[str]) -> list[str]:
    """Return the sorted indices, aliases, data streams, and `NAME-*` for daily indices.

    `request` takes addresses, method and path, and returns the JSON of the answer. Names with a leading dot are left
    out.
    """
    indices = request(addresses, "GET", "/_alias")
    known = {*indices, *(alias for details in indices.values() for alias in details.get("aliases", {}))}
    # Versions without data streams refuse the request.
    with contextlib.suppress(LoadframeError):
        known |= data_streams(request, addresses)
    visible = [name for name in known if not name.startswith(".")]
    return sorted([*visible, *daily_families(visible)])


@dataclass(frozen=True)
class Field:
    """A field that can be aggregated: its kind, its types in all indices, and the path of its nested objects."""

    kind: Kind
    types: frozenset[str]
    path: str | None


@contextlib.contextmanager
def understood(addresses: Sequence[str]) -> Iterator[None]:
    """Turn errors of unexpected answers in the block into StoreFailed with these addresses.

    They are AttributeError, IndexError, KeyError, TypeError, ValueError and RecursionError.
    """
    try:
        yield
    except RecursionError as error:
        raise StoreFailed(
            "a document is nested too deeply", where=", ".join(addresses), remedy="select others by a filter or a time"
        ) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise StoreFailed(
            f"the answer lacks an expected part ({type(error).__name__}: {error})",
            where=", ".join(addresses),
            remedy="check that the address is of a cluster, and not of another service",
        ) from error


def fields(request: Any, addresses: Sequence[str], name: str) -> dict[str, Field]:
    """Return the fields that can be aggregated in all indices, by name, sorted.

    Left out are fields with a leading `_`, times in nested objects, and fields whose types are not all times, all
    numbers or all keywords.
    """
    answer = request(addresses, "GET", f"/{_path(name)}/_field_caps?fields=*")["fields"]
    nested = [field for field, types in answer.items() if "nested" in types]
    kinds: dict[str, Field] = {}
    for field, types in sorted(answer.items()):
        if field.startswith("_") or not all(details.get("aggregatable") for details in types.values()):
            continue
        path = max((name for name in nested if field.startswith(f"{name}.")), key=len, default=None)
        kind: Kind
        if types.keys() <= _TIMES and path is None:
            kind = "time"
        elif types.keys() <= _NUMBERS:
            kind = "number"
        elif types.keys() <= _KEYWORDS:
            kind = "keyword"
        else:
            continue
        kinds[field] = Field(kind, frozenset(types), path)
    return kinds


def explore(
    request: Any, addresses: Sequence[str], question: Question, known: Mapping[str, Field], *, sorts_mixed: bool
) -> Findings:
    """Answer a question with one search: counts by period, values, statistics and example documents, with notes.

    With a time field, a first search finds the time range. `known` are the collection's fields; those in the question
    must be among them. `sorts_mixed` is whether the version sorts a field whose types differ between indices.
    """
    query = _query(question, known)
    start, end = _range(request, addresses, question, query)
    width = period_width(start, end) if start is not None and end is not None else 0.0
    field = known[question.field] if question.field else None
    is_number = field is not None and field.kind == "number"
    inner: dict[str, Any] = {"numbers": {"stats": {"field": question.field}}} if is_number else {}
    parts: dict[str, Any] = {}
    if field:
        values = {"terms": {"field": question.field, "size": VALUES, "shard_size": _SHARD_VALUES}}
        parts |= _inside(field, {"values": values, **inner})
        # OpenSearch 3.8 counts each value of a `wildcard` field twice if this is the only aggregation.
        parts["having"] = {"filter": _nested(field, {"exists": {"field": question.field}})}
    if question.time:
        parts["timed"] = {"filter": {"exists": {"field": question.time}}}
    if question.time and width:
        histogram = {"field": question.time, "interval": width * 1000, "min_doc_count": 1}
        # Versions name the interval of a date histogram differently. A plain histogram accepts dates in all of them.
        periods = _inside(field, inner) if field and inner else {}
        parts["periods"] = {"histogram": histogram, **({"aggs": periods} if periods else {})}
    unsorted = ""
    if field and field.path:
        # Such a sort fails in indices that lack the objects.
        unsorted = "nested objects do not sort documents"
    elif field and _is_mixed(field) and not sorts_mixed:
        unsorted = f"this version does not sort by {question.field}, whose types differ between indices"
    order = question.field if question.largest and is_number and not unsorted else question.time
    sort = {"sort": [{order: _order(known[order])}]} if order else {}
    body = {"size": DOCUMENTS, **sort, **({"aggs": parts} if parts else {})}
    answer = _search(request, addresses, question, query, body)
    sections = answer.get("aggregations", {})
    of_field = sections.get("objects", sections)
    terms = of_field.get("values", {})
    findings = Findings(
        total=_total(answer),
        width=width,
        periods=[_period(bucket) for bucket in sections.get("periods", {}).get("buckets", [])],
        values=[
            (bucket.get("key_as_string", bucket["key"]), bucket["doc_count"]) for bucket in terms.get("buckets", [])
        ],
        unit="nested objects" if field and field.path else "documents",
        statistics=_statistics(of_field["numbers"]) if is_number else {},
        documents=[hit.get("_source", {}) for hit in answer["hits"]["hits"]],
    )
    counts = {name: sections.get(name, {}).get("doc_count", 0) for name in ("timed", "having")}
    notes = notes_on_counts(question, findings, **counts, others=terms.get("sum_other_doc_count", 0))
    if findings.unit != "documents":
        notes.append(f"Values and statistics are of all nested objects with {question.field} in these documents.")
    if question.largest and unsorted:
        notes.append(f"The newest documents come first: {unsorted}.")
    if error := terms.get("doc_count_error_upper_bound", 0):
        bound = f": each may be up to {error:,} too low" if error > 0 else ""
        notes.append(f"The counts of values are approximate{bound}, because each shard reports its own most frequent.")
    return replace(findings, notes=notes)


def _inside(field: Field, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return `parts`, aggregations by name, for a field: below `objects`, over its nested objects, if it is nested."""
    return {"objects": {"nested": {"path": field.path}, "aggs": dict(parts)}} if field.path else dict(parts)


def _nested(field: Field, query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `query` on a field, inside a nested query with the field's path if it is in nested objects."""
    # Indices may lack the nested objects.
    return {"nested": {"path": field.path, "query": query, "ignore_unmapped": True}} if field.path else query


def _order(field: Field) -> dict[str, Any]:
    """Return the options of a descending sort by the field; documents without it come last.

    Indices may lack the field, or have it with different types, which are converted.
    """
    common = "date" if field.kind == "time" else "double"
    return {
        "order": "desc",
        "missing": "_last",
        "unmapped_type": common,
        **({"numeric_type": common} if _is_mixed(field) else {}),
    }


def _is_mixed(field: Field) -> bool:
    """Whether the field's types in different indices sort together only after a conversion.

    These are `date` with `date_nanos`, and whole with other numbers.
    """
    return len(field.types if field.kind == "time" else {kind in _INTEGERS for kind in field.types}) > 1


def _range(
    request: Any, addresses: Sequence[str], question: Question, query: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Return the earliest and the latest time of the documents that `query` selects, s since the epoch.

    Both are None without a time field or documents.
    """
    if question.time is None:
        return None, None
    ends = {name: {name: {"field": question.time}} for name in ("min", "max")}
    answer = _search(request, addresses, question, query, {"size": 0, "aggs": ends})["aggregations"]
    first, last = answer["min"]["value"], answer["max"]["value"]
    if first is None or last is None:
        return None, None
    return first / 1000, last / 1000


def _query(question: Question, known: Mapping[str, Field]) -> dict[str, Any]:
    """Return the search query for the question's filters (field and value) and time range, start inclusive.

    Without a time field, the time range does not count. `known` are the collection's fields, with all those in the
    filters.
    """
    filters: list[Any] = [_nested(known[name], {"term": {name: value}}) for name, value in question.filters]
    bounds = {"gte": question.start, "lt": question.end}
    limits = {name: round(value * 1000) for name, value in bounds.items() if value is not None}
    if question.time and limits:
        filters.append({"range": {question.time: {**limits, "format": "epoch_millis"}}})
    return {"bool": {"filter": filters}}


def _search(
    request: Any, addresses: Sequence[str], question: Question, query: Mapping[str, Any], body: Mapping[str, Any]
) -> Any:
    """Search the question's collection with `query` and the further keys in `body`, and return the answer.

    The number of hits is exact. StoreFailed if it takes over 30 s, or if a shard failed.
    """
    path = f"/{_path(question.collection)}/_search"
    whole = {"timeout": _TIMEOUT, "track_total_hits": True, "query": query, **body}
    answer = request(addresses, "POST", path, whole, repeatable=True)
    if answer.get("timed_out"):
        raise StoreFailed(f"no answer within {_TIMEOUT}", remedy="select a shorter time range or a filter")
    if failed := answer["_shards"]["failed"]:
        reason = answer["_shards"].get("failures", [{}])[0].get("reason", {}).get("reason", "unknown reason")
        raise StoreFailed(f"the search failed on {failed} shards: {reason}", remedy="select other fields or times")
    return answer


def _path(name: str) -> str:
    """Return a collection's name as a path segment, quoted except for `*`."""
    return quote(name, safe="*")


def _total(answer: Mapping[str, Any]) -> int:
    """Return the number of hits of a search's answer, in the format of any version."""
    total = answer["hits"]["total"]
    return int(total["value"] if isinstance(total, dict) else total)


def _statistics(answer: Mapping[str, Any]) -> dict[str, float | None]:
    """Return `count`, `min`, `mean`, `max` and `sum` from the answer of a `stats` aggregation."""
    names = {"count": "count", "min": "min", "mean": "avg", "max": "max", "sum": "sum"}
    return {name: answer[key] for name, key in names.items()}


def _period(bucket: Mapping[str, Any]) -> Period:
    """Return the period of a histogram's bucket: start in s, documents, and mean and maximum of the field, if any."""
    numbers = bucket.get("objects", bucket).get("numbers", {})
    return Period(bucket["key"] / 1000, bucket["doc_count"], numbers.get("avg"), numbers.get("max"))
