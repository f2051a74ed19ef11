"""Converts searches of a track: single pages, scrolls, search_after, composite aggregations, SQL and ES|QL."""

from typing import Any

from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally.track import Form, TrackConversion
from loadframe.workload.importers.source import ImportedObject

#: Body keys that paging forms set.
_PAGING = ("size", "from", "search_after", "pit", "scroll")
#: The store's default number of hits or buckets.
_DEFAULT_SIZE = 10


def search(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search; with `pages` it is a scroll, as in Rally."""
    if part.get("pages") is not None:
        return scroll(make, part, name)
    return _one_page(make, part, name)


def scroll(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a scroll."""
    return _paged(make, part, name, "scroll", {})


def search_after(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a paginated search, in a point in time if the operation names one."""
    body = part.get("body", {})
    in_point = part.get("with-point-in-time-from") is not None
    if isinstance(body, dict) and not body.get("sort"):
        return _first_page(make, part, name, "it lacks a sort")
    return _paged(make, part, name, "search_after", {} if in_point else {"point_in_time": False})


def composite_aggregation(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search with a single composite aggregation."""
    body, target = part.get("body", {}), make.target(part)
    named = body.get("aggs", body.get("aggregations")) if isinstance(body, dict) else None
    outer = next(iter(named.values())) if isinstance(named, dict) and len(named) == 1 else None
    whole = outer.get("composite") if isinstance(outer, dict) else None
    plain = {"aggs", "aggregations", "query", "size", "track_total_hits"} >= set(body if isinstance(body, dict) else ())
    if not plain or not isinstance(outer, dict) or not isinstance(whole, dict) or not make.is_collection(target):
        return _first_page(make, part, name, "it is not a single composite aggregation of one index")
    composite: dict[str, Any] = {"collection": target, "sources": literal(whole.get("sources"))}
    composite["size"] = part.whole("results-per-page", 0) or whole.get("size", _DEFAULT_SIZE)
    inner = outer.get("aggs", outer.get("aggregations"))
    more = {"query": body.get("query"), "aggregations": inner, "pages": _pages(part)}
    composite |= {key: literal(value) for key, value in more.items() if value is not None}
    _report_parameters(make, part, name)
    return [{"composite": composite, **_asserted(make, part, name)}]


def in_point_in_time(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a `composite` that opens a point in time, pages through one search, and closes it."""
    requests: list[ImportedObject] = []
    _unfold(part, "requests", requests)
    part.read_keys.add("max-connections")
    kinds = [request.text("operation-type", "none") for request in requests]
    opens = [request for request, kind in zip(requests, kinds, strict=True) if kind == "open-point-in-time"]
    reads = [request for request, kind in zip(requests, kinds, strict=True) if kind == "paginated-search"]
    closes = [kind for kind in kinds if kind == "close-point-in-time"]
    alone = len(opens) == len(reads) == 1 and len(opens) + len(reads) + len(closes) == len(requests)
    if not alone or reads[0].get("with-point-in-time-from") != opens[0].get("name"):
        make.leave_out(name, "a composite other than one paginated search in a point in time")
        return []
    where = {key: opens[0].data[key] for key in ("index", "data-stream") if key in opens[0].data}
    read = ImportedObject(where | reads[0].data, reads[0].where)
    read.read_keys.update(("name", "operation-type"))
    forms = search_after(make, read, name)
    for key in read.rest(("assertions",)):
        make.leave_out(name, key)
    return forms


def sql(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert an SQL query; only its first page."""
    body = part.mapping("body")
    pages = part.get("pages")
    if pages not in (None, 1):
        make.leave_out(name, "its pages after the first, because an sql form reads one page")
        return []
    if not isinstance(body.get("query"), str) or not body["query"] or part.data.get("request-params"):
        return make.request(part, "POST", "/_sql", body)
    form = {key: body[key] for key in ("query", "fetch_size") if key in body}
    beside = {key: value for key, value in body.items() if key not in form}
    return [{"sql": literal(form | ({"body": beside} if beside else {}))}]


def esql(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert an ES|QL query."""
    body = {key: value for key, value in part.mapping("body").items() if key != "query"}
    if query_filter := part.mapping("filter"):
        body["filter"] = query_filter
    form: dict[str, Any] = {"query": literal(part.text("query"))}
    if body:
        form["body"] = literal(body)
    if parameters := make.parameters(part):
        form["parameters"] = parameters
    return [{"esql": form}]


def _unfold(part: ImportedObject, key: str, into: list[ImportedObject]) -> None:
    """Append the requests of a composite, and of its streams, to `into`."""
    for entry in part.parts(key):
        if "stream" in entry.data:
            _unfold(entry, "stream", into)
        else:
            into.append(entry)


def _pages(part: ImportedObject) -> int | None:
    """Return the number of pages, or None for all."""
    return None if part.get("pages", "all") == "all" else max(1, part.whole("pages", 1))


def _paged(make: TrackConversion, part: ImportedObject, name: str, kind: str, more: dict[str, Any]) -> list[Form]:
    body, target = part.get("body", {}), make.target(part)
    if not isinstance(body, dict) or not make.is_collection(target):
        return _first_page(make, part, name, "it searches more than one index")
    size = part.whole("results-per-page", 0) or body.get("size", _DEFAULT_SIZE)
    searched = {key: value for key, value in body.items() if key not in _PAGING}
    form: dict[str, Any] = {"collection": target, "body": literal(searched), "size": size, **more}
    if (pages := _pages(part)) is not None:
        form["pages"] = pages
    if part.flag("cache"):
        make.leave_out(name, "cache, which does not apply to several pages")
    _report_parameters(make, part, name)
    return [{kind: form, **_asserted(make, part, name)}]


def _report_parameters(make: TrackConversion, part: ImportedObject, name: str) -> None:
    for key in make.parameters(part):
        make.leave_out(name, f"the query parameter {key}")


def _first_page(make: TrackConversion, part: ImportedObject, name: str, why: str) -> list[Form]:
    """Convert a search of one page; report one of several pages as not imported, with the reason `why`."""
    part.read_keys.update(("pages", "with-point-in-time-from"))
    if part.data.get("pages") == 1:
        return _one_page(make, part, name)
    make.leave_out(name, f"{why}, so only its first page could be read")
    return []


def _one_page(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    body = part.get("body", {})
    if not isinstance(body, dict | Hole):
        make.leave_out(name, "its body is not an object")
        return []
    search: dict[str, Any] = {"body": literal(body)}
    if part.get("results-per-page") is not None:
        search["size"] = part.whole("results-per-page", _DEFAULT_SIZE)
    if (cache := part.flag("cache")) is not None:
        search["request_cache"] = cache
    if parameters := make.parameters(part):
        cached = parameters.pop("request_cache", None)
        if isinstance(cached, str | bool):
            search["request_cache"] = str(cached).lower() == "true"
        search["parameters"] = parameters
    target, asserted = make.target(part), _asserted(make, part, name)
    if make.is_collection(target):
        return [{"search": {"collection": target, **search}, **asserted}]
    more = {key: value for key, value in search.items() if key in ("size", "request_cache")}
    if asserted:
        make.leave_out(name, "its assertion, because it searches more than one index")
    more |= search.get("parameters", {})
    request = {"method": "POST", "path": literal(f"/{target}/_search"), "body": search["body"]}
    return [{"request": request | ({"parameters": more} if more else {})}]


def _asserted(make: TrackConversion, part: ImportedObject, name: str) -> Form:
    """Convert assertions on the number of hits; report other assertions as not imported."""
    asserted: dict[str, int] = {}
    for assertion in part.parts("assertions"):
        terms = [assertion.get(key) for key in ("property", "condition", "value")]
        of_hits = terms[0] in ("hits.total.value", "hits.total", "hits")
        if of_hits and terms[1] in (">", ">="):
            least = assertion.whole("value", 0) + (terms[1] == ">")
            asserted = {"min_hits": least} if least else {}
        elif of_hits and terms[1] == "==":
            asserted = {"hits": assertion.whole("value", 0)}
        else:
            make.leave_out(name, f"the assertion {' '.join(map(str, terms))}")
    return {"assert": asserted} if asserted else {}
