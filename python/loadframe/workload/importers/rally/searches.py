"""A track's searches: of one page, or of all pages by a scroll, by search_after or by the buckets of an aggregation."""

from typing import Any

from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally.making import Form, Making
from loadframe.workload.importers.source import Part

#: What the forms that read page by page say themselves.
_PAGING = ("size", "from", "search_after", "pit", "scroll")
#: The store's default number of hits or buckets.
_DEFAULT_SIZE = 10


def search(make: Making, part: Part, name: str) -> list[Form]:
    """Return a search; one with several pages is a scroll, as it is for Rally."""
    if part.get("pages") is not None:
        return scroll(make, part, name)
    return _one_page(make, part, name)


def scroll(make: Making, part: Part, name: str) -> list[Form]:
    """Return a scroll."""
    return _paged(make, part, name, "scroll", {})


def search_after(make: Making, part: Part, name: str) -> list[Form]:
    """Return a search whose pages follow one another by its sort, in a point in time if it says whose."""
    body = part.get("body", {})
    in_point = part.get("with-point-in-time-from") is not None
    if isinstance(body, dict) and not body.get("sort"):
        return _first_page(make, part, name, "it has no sort that they could follow by")
    return _paged(make, part, name, "search_after", {} if in_point else {"point_in_time": False})


def composite_aggregation(make: Making, part: Part, name: str) -> list[Form]:
    """Return the one composite aggregation of a search, read to its last bucket."""
    body, target = part.get("body", {}), make.target(part)
    named = body.get("aggs", body.get("aggregations")) if isinstance(body, dict) else None
    outer = next(iter(named.values())) if isinstance(named, dict) and len(named) == 1 else None
    whole = outer.get("composite") if isinstance(outer, dict) else None
    plain = {"aggs", "aggregations", "query", "size", "track_total_hits"} >= set(body if isinstance(body, dict) else ())
    if not plain or not isinstance(outer, dict) or not isinstance(whole, dict) or not make.is_collection(target):
        return _first_page(make, part, name, "it is more than one aggregation of one index")
    composite: dict[str, Any] = {"collection": target, "sources": literal(whole.get("sources"))}
    composite["size"] = part.whole("results-per-page", 0) or whole.get("size", _DEFAULT_SIZE)
    inner = outer.get("aggs", outer.get("aggregations"))
    more = {"query": body.get("query"), "aggregations": inner, "pages": _pages(part)}
    composite |= {key: literal(value) for key, value in more.items() if value is not None}
    _name_address(make, part, name)
    return [{"composite": composite, **_asserted(make, part, name)}]


def in_point_in_time(make: Making, part: Part, name: str) -> list[Form]:
    """Return the one search of a `composite` that opens a point in time, reads in it and closes it."""
    requests: list[Part] = []
    _unfold(part, "requests", requests)
    part.asked.add("max-connections")
    kinds = [request.text("operation-type", "none") for request in requests]
    opens = [request for request, kind in zip(requests, kinds, strict=True) if kind == "open-point-in-time"]
    reads = [request for request, kind in zip(requests, kinds, strict=True) if kind == "paginated-search"]
    closes = [kind for kind in kinds if kind == "close-point-in-time"]
    alone = len(opens) == len(reads) == 1 and len(opens) + len(reads) + len(closes) == len(requests)
    if not alone or reads[0].get("with-point-in-time-from") != opens[0].get("name"):
        make.leave_out(name, "a composite of other requests than those of one point in time and the pages in it")
        return []
    where = {key: opens[0].data[key] for key in ("index", "data-stream") if key in opens[0].data}
    read = Part(where | reads[0].data, reads[0].where)
    read.asked.update(("name", "operation-type"))
    forms = search_after(make, read, name)
    for key in read.rest(("assertions",)):
        make.leave_out(name, key)
    return forms


def sql(make: Making, part: Part, name: str) -> list[Form]:
    """Return a query in SQL."""
    body = part.mapping("body")
    pages = part.get("pages")
    if pages not in (None, 1):
        make.leave_out(name, "its pages after the first, because a form of SQL asks for one page")
        return []
    if not isinstance(body.get("query"), str) or not body["query"] or part.data.get("request-params"):
        return make.request(part, "POST", "/_sql", body)
    form = {key: body[key] for key in ("query", "fetch_size") if key in body}
    beside = {key: value for key, value in body.items() if key not in form}
    return [{"sql": literal(form | ({"body": beside} if beside else {}))}]


def esql(make: Making, part: Part, _: str) -> list[Form]:
    """Return a query in ES|QL, with everything else that its body has."""
    body = {key: value for key, value in part.mapping("body").items() if key != "query"}
    if query_filter := part.mapping("filter"):
        body["filter"] = query_filter
    form: dict[str, Any] = {"query": literal(part.text("query"))}
    if body:
        form["body"] = literal(body)
    if parameters := make.parameters(part):
        form["parameters"] = parameters
    return [{"esql": form}]


def _unfold(part: Part, key: str, into: list[Part]) -> None:
    """Collect the requests of a composite, and of the streams in it."""
    for entry in part.parts(key):
        if "stream" in entry.data:
            _unfold(entry, "stream", into)
        else:
            into.append(entry)


def _pages(part: Part) -> int | None:
    """Return the number of pages, None for all of them."""
    return None if part.get("pages", "all") == "all" else max(1, part.whole("pages", 1))


def _paged(make: Making, part: Part, name: str, kind: str, more: dict[str, Any]) -> list[Form]:
    body, target = part.get("body", {}), make.target(part)
    if not isinstance(body, dict) or not make.is_collection(target):
        return _first_page(make, part, name, "it goes to more than one index")
    size = part.whole("results-per-page", 0) or body.get("size", _DEFAULT_SIZE)
    searched = {key: value for key, value in body.items() if key not in _PAGING}
    form: dict[str, Any] = {"collection": target, "body": literal(searched), "size": size, **more}
    if (pages := _pages(part)) is not None:
        form["pages"] = pages
    if part.flag("cache"):
        make.leave_out(name, "cache, which is not for results of several pages")
    _name_address(make, part, name)
    return [{kind: form, **_asserted(make, part, name)}]


def _name_address(make: Making, part: Part, name: str) -> None:
    for key in make.parameters(part):
        make.leave_out(name, f"the parameter {key} of its address")


def _first_page(make: Making, part: Part, name: str, why: str) -> list[Form]:
    """Return a search that asks for one page; leave out one that asks for more, with the reason `why`."""
    part.asked.update(("pages", "with-point-in-time-from"))
    if part.data.get("pages") == 1:
        return _one_page(make, part, name)
    make.leave_out(name, f"its pages after the first, because {why}; it would measure another search")
    return []


def _one_page(make: Making, part: Part, name: str) -> list[Form]:
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
        make.leave_out(name, "its assertion, because it goes to more than one index")
    more |= search.get("parameters", {})
    request = {"method": "POST", "path": literal(f"/{target}/_search"), "body": search["body"]}
    return [{"request": request | ({"parameters": more} if more else {})}]


def _asserted(make: Making, part: Part, name: str) -> Form:
    """Return what is asserted of the number of hits; other assertions are named."""
    asserted: dict[str, int] = {}
    for assertion in part.parts("assertions"):
        told = [assertion.get(key) for key in ("property", "condition", "value")]
        of_hits = told[0] in ("hits.total.value", "hits.total", "hits")
        if of_hits and told[1] in (">", ">="):
            least = assertion.whole("value", 0) + (told[1] == ">")
            asserted = {"min_hits": least} if least else {}
        elif of_hits and told[1] == "==":
            asserted = {"hits": assertion.whole("value", 0)}
        else:
            make.leave_out(name, f"the assertion {' '.join(map(str, told))}")
    return {"assert": asserted} if asserted else {}
