"""Converts searches of a track, and OpenSearch Benchmark's vector operations.

Searches: single pages, scrolls, search_after, composite aggregations, SQL and ES|QL. A vector data set (a file or a
corpus of the track) becomes a corpus with `columns`, whose row i is document i.

Converters mark the keys of an operation that they read or that do not matter, because `Operations.forms` reports all
others as not imported. BadInput, with its place, for a key with an invalid value.
"""

import re
from pathlib import Path
from typing import Any

from loadframe.workload import vectors
from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally.administration import repeated
from loadframe.workload.importers.rally.track import Form, TrackConversion
from loadframe.workload.importers.source import ImportedObject

#: Body keys that paging forms set.
_PAGING = ("size", "from", "search_after", "pit", "scroll")
#: The store's default number of hits or buckets.
_DEFAULT_SIZE = 10


def search(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search of one page; with the key `pages`, also with the value 1, it is converted by `scroll`."""
    if part.get("pages") is not None:
        return scroll(make, part, name)
    return _one_page(make, part, name)


def scroll(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a scroll to a `scroll` form; import a search of more than one index only with `pages: 1`."""
    return _paged(make, part, name, "scroll", {})


def search_after(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a paginated search; it opens a point in time if the operation names one.

    Without a sort, it is imported as one search with `pages: 1`; otherwise it is reported, and the list is empty.
    """
    body = part.get("body", {})
    in_point = part.get("with-point-in-time-from") is not None
    if isinstance(body, dict) and not body.get("sort"):
        return _first_page(make, part, name, "it lacks a sort")
    return _paged(make, part, name, "search_after", {} if in_point else {"point_in_time": False})


def composite_aggregation(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search with a single composite aggregation, which may have inner ones, to `composite`.

    Hits beside the buckets are reported as not imported. Another search, or one of several indices, is imported only
    with `pages: 1`; otherwise it is reported, and the list is empty.
    """
    body, target = part.get("body", {}), make.target(part)
    named = body.get("aggs", body.get("aggregations")) if isinstance(body, dict) else None
    outer = next(iter(named.values())) if isinstance(named, dict) and len(named) == 1 else None
    whole = outer.get("composite") if isinstance(outer, dict) else None
    plain = {"aggs", "aggregations", "query", "size", "track_total_hits"} >= set(body if isinstance(body, dict) else ())
    if not plain or not isinstance(outer, dict) or not isinstance(whole, dict) or not make.is_collection(target):
        if (size := part.whole("results-per-page", 0)) and isinstance(body, dict):
            # It counts buckets, not hits.
            part.data = {**part.data, "body": _with_buckets(body, size), "results-per-page": None}
        return _first_page(make, part, name, "it is not a single composite aggregation of one index")
    if hits := body.get("size", _DEFAULT_SIZE):
        make.leave_out(name, f"the {hits} hits of each page beside its buckets")
    composite: dict[str, Any] = {"collection": target, "sources": literal(whole.get("sources"))}
    composite["size"] = part.whole("results-per-page", 0) or whole.get("size", _DEFAULT_SIZE)
    inner = outer.get("aggs", outer.get("aggregations"))
    more = {"query": body.get("query"), "aggregations": inner, "pages": _pages(part)}
    composite |= {key: literal(value) for key, value in more.items() if value is not None}
    _report_parameters(make, part, name)
    return [{"composite": composite, **_asserted(make, part, name)}]


def _with_buckets(part: dict[str, Any], size: int) -> dict[str, Any]:
    """Return a copy of a body or aggregation whose composite aggregations, also inner ones, have `size` buckets."""
    copy = dict(part)
    if isinstance(part.get("composite"), dict):
        copy["composite"] = {**part["composite"], "size": size}
    for key in ("aggs", "aggregations"):
        if isinstance(part.get(key), dict):
            copy[key] = {
                name: _with_buckets(inner, size) if isinstance(inner, dict) else inner
                for name, inner in part[key].items()
            }
    return copy


def in_point_in_time(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a `composite` that opens a point in time, pages through one search, and closes it.

    Other composites are reported as not imported.
    """
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
    """Convert an SQL query of one page to an `sql` form.

    Without a query text, or with query parameters, it is a plain request to `_sql`. With several pages, it is reported,
    and the list is empty.
    """
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
    """Convert an ES|QL query to an `esql` form, with its filter and query parameters."""
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
    """Append the requests in the list under `key` to `into`, with the requests of nested streams in their place.

    BadInput for invalid entries.
    """
    for entry in part.parts(key):
        if "stream" in entry.data:
            _unfold(entry, "stream", into)
        else:
            into.append(entry)


def _pages(part: ImportedObject) -> int | None:
    """Return the number of pages, or None for all, which is the default; 0 becomes 1. BadInput for other values."""
    return None if part.get("pages", "all") == "all" else max(1, part.whole("pages", 1))


def _paged(make: TrackConversion, part: ImportedObject, name: str, kind: str, more: dict[str, Any]) -> list[Form]:
    """Convert a search of several pages to a form of `kind` with the additional keys `more`.

    A search of a target that is not one collection, or with a body that is not an object, is imported only with
    `pages: 1`; otherwise it is reported, and the list is empty.
    """
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
    """Report the query parameters of an operation as not imported. BadInput for a mapping as a value."""
    for key in make.parameters(part):
        make.leave_out(name, f"the query parameter {key}")


def _first_page(make: TrackConversion, part: ImportedObject, name: str, why: str) -> list[Form]:
    """Convert a search with `pages: 1`; report any other as not imported, with the reason `why`.

    The list is then empty.
    """
    part.read_keys.update(("pages", "with-point-in-time-from"))
    if part.data.get("pages") == 1:
        return _one_page(make, part, name)
    make.leave_out(name, f"{why}, so only its first page could be read")
    return []


def _one_page(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search of one page: to a `search` of one collection, else to a plain request.

    A body that is not an object is reported as not imported.
    """
    body = part.get("body", {})
    if not isinstance(body, dict | Hole):
        make.leave_out(name, "its body is not an object")
        return []
    search: dict[str, Any] = {"body": literal(body)}
    # 0 counts as missing, as in Rally.
    if size := part.whole("results-per-page", 0):
        search["size"] = size
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
    """Return `{"assert": ...}` for the last assertion on the number of hits; empty without one.

    Supported conditions are `>`, `>=` and `==`; other assertions are reported as not imported.
    """
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


#: Names of HDF5 data sets in files of ann-benchmarks.
_DOCUMENTS, _QUERIES, _NEIGHBORS = "train", "test", "neighbors"
#: Default number of queries, as in files of ann-benchmarks.
_UNKNOWN = 10_000
#: Keys without effect on the requests.
_NO_EFFECT = ("retries", "detailed-results", "parents_data_set_path", "filter_percentage")
#: Values of `dynamic` with which a mapping rejects unknown fields.
_STRICT = ("strict", "strict_allow_templates")
#: The mapping of the document number: stored, not indexed.
_ID = {"type": "long", "index": False, "doc_values": False}
_KNN = "/_plugins/_knn"


def bulk_vectors(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert to a bulk operation that indexes a vector data set; its ids are the numbers of the vectors, from 0.

    Adds its corpus and collection. A custom id field and filter attributes are reported as not imported. Vectors of
    nested documents (a field with a dot) are reported; then the list is empty. BadInput without `bulk_size`.
    """
    field, target = part.text("field"), make.target(part)
    size = part.whole("bulk_size", 0)
    if not size:
        raise part.error("bulk_size", "must be at least 1", "set the number of documents per request")
    part.read_keys.update(_NO_EFFECT)
    if "." in field:
        make.leave_out(name, f"its vectors {field} belong to nested documents")
        return []
    if attributes := part.get("filter_attributes"):
        texts = ", ".join(map(str, attributes)) if isinstance(attributes, list) else attributes
        make.leave_out(name, f"the attributes {texts} of its documents; searches that filter by them find nothing")
    _report_id_field(make, part, name, "documents have their number as `_id` and `id`")
    source = _source(make, part, "", _DOCUMENTS)
    limit = make.track.limited(part.whole("num_vectors", -1, least=-1), source.count)
    columns = {"columns": {field: source.text}, **limit, "at_most": "${documents}"}
    corpus = make.track.corpus(f"{name}-vectors", columns)
    collection = make.track.collection(target)
    _admit_id(make, collection)
    return [{"bulk": {"collection": collection, "corpus": corpus, "size": size, "id": "id"}}]


def _report_id_field(make: TrackConversion, part: ImportedObject, name: str, instead: str) -> None:
    """Report a custom id field as not imported; the message ends with `instead`, the id that is used."""
    field = part.get("id-field-name")
    if field and field != "_id":
        make.leave_out(name, f"the field {field} for ids; {instead}")


def _admit_id(make: TrackConversion, collection: str) -> None:
    """Add the field `id` to the collection's mapping if it is strict and lacks it, and report it."""
    definition = make.track.collections[collection].get("elasticsearch", {})
    mappings = definition.get("mappings", {})
    properties = mappings.get("properties", {}) if isinstance(mappings, dict) else {}
    if isinstance(mappings, dict) and mappings.get("dynamic") in _STRICT and "id" not in properties:
        extended = {**mappings, "properties": {**properties, "id": dict(_ID)}}
        make.track.collections[collection] = {"elasticsearch": {**definition, "mappings": extended}}
        make.track.remark(f"The mapping of {collection} has an additional field `id` for the number of each vector.")


class _Source:
    """A vector data set: the text of its column, and the number of vectors if known."""

    def __init__(self, text: str, count: int | None) -> None:
        """`text` is the source of a column, as in `vectors.vector_source`; `count` is None if unknown."""
        self.text = text
        self.count = count


def _data_set(part: ImportedObject, prefix: str) -> tuple[str, str, str]:
    """Return format, path and corpus of a vector data set; empty texts for missing keys.

    `prefix` stands before the keys, such as `neighbors_`. BadInput for a path together with a corpus.
    """
    keys = [f"{prefix}data_set_{key}" for key in ("format", "path", "corpus")]
    part.read_keys.update((*keys, f"{prefix}data_set_name"))
    values = [part.data.get(key) or "" for key in keys]
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            raise part.error(key, "expected a text")
    if values[1] and values[2]:
        raise part.error(keys[1], f"{keys[1]} and {keys[2]} exclude each other", "remove one of them")
    return values[0], values[1], values[2]


def _source(make: TrackConversion, part: ImportedObject, prefix: str, inside: str) -> _Source:
    """Return a vector data set and add the parameter of its path; BadInput if missing or in an unknown format.

    `inside` is the data set in an HDF5 file; a Parquet column is named by the operation. `prefix` stands before the
    keys of the operation, such as `neighbors_`.
    """
    kind, path, corpus = _data_set(part, prefix)
    count = None
    if corpus:
        documents = next((entry for entry in make.track.sets if entry.of == corpus), None)
        if documents is None:
            raise part.error(f"{prefix}data_set_corpus", f"unknown corpus {corpus}")
        path, count = make.track.file_of(documents), documents.documents if inside == _DOCUMENTS else None
        shown = make.track.parameters.get(path.removeprefix("${").removesuffix("}"), path)
    elif path:
        shown, path = path, make.track.file_parameter(Path(path).name.partition(".")[0], path)
    else:
        remedy = f"set the track parameter for it, or for {prefix}data_set_corpus"
        raise part.error(f"{prefix}data_set_path", "the vector data set is missing", remedy)
    if kind in ("hdf5", "parquet"):
        column = inside if kind == "hdf5" else part.text(f"{prefix}data_set_name")
        path, shown = f"{path}:{column}", f"{shown}:{column}"
    elif kind != "bigann":
        what = f"unknown format {kind}" if kind else "the format is missing"
        raise part.error(f"{prefix}data_set_format", what, "use hdf5, bigann or parquet")
    if (wrong := vectors.wrong_source(shown)) is not None:
        raise part.error(f"{prefix}data_set_path", wrong)
    return _Source(path, count)


def vector_search(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search for the nearest neighbours of a data set's vectors, to `knn` or, with other keys, to `search`.

    Asserts recall if the data set has ground truth. Records the number of its requests in `make.ends`, and adds the
    corpus of queries. An operation without a data set becomes an ordinary search. BadInput for both `k` and a distance
    or score, or neither.
    """
    if not any(key.startswith("data_set_") for key in part.data):
        return search(make, part, name)
    part.read_keys.update(_NO_EFFECT)
    body, field, target = part.mapping("body"), part.text("field"), make.target(part)
    k = part.whole("k", 0)
    bounds = {key: part.number(key) for key in ("max_distance", "min_score") if part.get(key) is not None}
    if bool(k) == bool(bounds):
        what = "a neighbour search needs k, or max_distance or min_score, but not both"
        raise part.error("k", what, "keep one of them")
    columns = {"vector": _source(make, part, "", _QUERIES).text}
    if neighbors := _neighbors(make, part, name, k):
        columns["neighbors"] = neighbors
    vector, truth = _add_query_vector(make, part, name, columns)
    make.ends[name] = _requests(make, part, name)
    filtered = part.get("filter_body") or part.get("filter") or None
    kind = part.get("filter_type") or ("efficient" if filtered else None)
    parameters = {"allow_partial_search_results": "false", **make.parameters(part)}
    parameters.pop("_source", None)
    asserted = {"assert": {"recall": {"of": truth, "k": k}}} if truth is not None else {}
    body = _with_ids(make, name, {key: value for key, value in body.items() if key != "query"})
    plain = "." not in field and set(body) <= {"size"} and body.get("size", k) == k and kind in (None, "efficient")
    if k and plain:
        form = {"collection": make.track.collection(target), "field": field, "vector": vector, "k": k}
        form |= {"filter": literal(filtered)} if filtered else {}
        return [{"knn": {**form, "parameters": parameters}, **asserted}]
    near: dict[str, Any] = {"vector": vector, **({"k": k} if k else bounds)}
    if filtered and kind == "efficient":
        near["filter"] = literal(filtered)
    query = _around(part, field, near, kind, literal(filtered))
    more = {"post_filter": literal(filtered)} if kind == "post_filter" else {}
    whole = {**({"size": k} if k else {}), "_source": False, **literal(body), **more, "query": query}
    form = {"collection": make.track.collection(target), "body": whole, "parameters": parameters}
    return [{"search": form, **asserted}]


def _with_ids(make: TrackConversion, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a search body whose hits have ids, which recall needs, and without `_source: false`.

    Removes `stored_fields: _none_`, with `docvalue_fields: [_id]`, and reports it.
    """
    if body.get("stored_fields") == "_none_":
        make.leave_out(name, "stored_fields of its body, because recall needs the ids of hits")
        body = {key: value for key, value in body.items() if key != "stored_fields"}
        if body.get("docvalue_fields") == ["_id"]:
            del body["docvalue_fields"]
    return {key: value for key, value in body.items() if key != "_source" or value is not False}


def _around(part: ImportedObject, field: str, near: dict[str, Any], kind: Any, filtered: Any) -> dict[str, Any]:
    """Return the query for neighbours in `field`, wrapped for a nested field or by the filter type `kind`.

    `near` is the body of the `knn` query, `filtered` the filter. A nested field ignores the filter type. `efficient`
    and `post_filter` are not wrapped: the caller adds their filter. BadInput for an unknown type.
    """
    query: dict[str, Any] = {"knn": {field: near}}
    if "." in field:
        return {"nested": {"path": field.partition(".")[0], "query": query}}
    if kind in (None, "efficient", "post_filter"):
        return query
    if kind == "boolean":
        return {"bool": {"filter": filtered, "must": [query]}}
    if kind != "script":
        remedy = "use efficient, post_filter, boolean or script"
        raise part.error("filter_type", f"unknown filter type {kind}", remedy)
    values = {"field": field, "query_value": near["vector"], "space_type": "l2"}
    script = {"source": "knn_score", "lang": "knn", "params": values}
    return {"script_score": {"query": {"bool": {"filter": filtered}}, "script": script}}


def _neighbors(make: TrackConversion, part: ImportedObject, name: str, k: int) -> str | None:
    """Return the column with the ids of true neighbours; None, with the reason reported, if recall cannot use it.

    None also if the operation turns recall off. `k` is 0 for a search by distance or score.
    """
    wanted = part.flag("calculate-recall", True)
    _report_id_field(make, part, name, "recall compares `_id`, which is the number of the vector")
    kind, path, corpus = _data_set(part, "neighbors_")
    if not wanted:
        return None
    if not k:
        make.leave_out(name, "its recall, because lists of neighbours within a distance are padded with -1")
        return None
    inside = _NEIGHBORS
    if path or corpus:
        given = (
            part
            if kind
            else ImportedObject({**part.data, "neighbors_data_set_format": part.data.get("data_set_format")}, "")
        )
        return _source(make, given, "neighbors_", inside).text
    if part.data.get("data_set_format") != "hdf5":
        make.leave_out(name, "its recall, because the ground truth is missing")
        return None
    return _source(make, part, "", inside).text


def _add_query_vector(
    make: TrackConversion, part: ImportedObject, name: str, columns: dict[str, str]
) -> tuple[Hole, Hole | None]:
    """Add variables for a query's vector and for the ids of its neighbours; return their placeholders.

    `columns` are the columns of the data set: the vector, and the ids if it has any, else the second is None. Also adds
    the corpus that the variables read.
    """
    count = part.whole("num_vectors", -1, least=-1)
    limit = {"at_most": count} if count > 0 else {}
    corpus = make.track.corpus(f"{name}-queries", {"columns": columns, **limit})
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", name)
    row = make.track.variable(f"{stem}_query", {"document": {"corpus": corpus, "order": "sequential"}})
    holes = [
        Hole(f"${{{make.track.variable(f'{stem}_{column}', {'part': {'of': row, 'field': column}})}}}")
        for column in columns
    ]
    return holes[0], holes[1] if len(holes) > 1 else None


def _requests(make: TrackConversion, part: ImportedObject, name: str) -> int:
    """Return the number of requests for a data set: `num_vectors` times `repetitions`.

    If the number of vectors is not set, it is 10,000, with a remark in the file.
    """
    count = part.whole("num_vectors", -1, least=-1)
    if count <= 0:
        count = _UNKNOWN
        make.track.remark(
            f"{name} sends {count:,} queries, the number in files of ann-benchmarks. If your file has another number, "
            "change `requests` of its phase."
        )
    return count * max(1, part.whole("repetitions", 1))


def warm_up(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert the request that loads the graphs of an index into memory, repeated until all shards succeed."""
    (form,) = make.request(part, "GET", f"{_KNN}/warmup/{make.target(part)}")
    return [form | repeated(part, {"_shards.failed": 0})]


def train_model(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert the training of a model to two forms: the request, and a wait for its completion.

    Records the model as created, so that a later deletion is imported.
    """
    model = part.text("model_id")
    make.note(f"{_KNN}/models", model)
    (begin,) = make.request(part, "POST", f"{_KNN}/models/{model}/_train", part.mapping("body"))
    wait = ImportedObject({"retry-wait-period": part.number("poll_period", 0.5)}, part.where)
    part.get("retries")
    state = make.request(ImportedObject({}, part.where), "GET", f"{_KNN}/models/{model}")[0]
    return [begin, state | repeated(wait, {"state": "created"})]
