"""Converts OpenSearch Benchmark's vector operations: bulk requests, nearest-neighbour searches and recall.

A data set (a file or a corpus of the track) becomes a corpus with `columns`, whose row i is document i.
"""

import re
from pathlib import Path
from typing import Any

from loadframe.workload import vectors
from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally import searches
from loadframe.workload.importers.rally.administration import repeated
from loadframe.workload.importers.rally.track import Form, TrackConversion
from loadframe.workload.importers.source import ImportedObject

#: Names of HDF5 data sets in files of ann-benchmarks.
_DOCUMENTS, _QUERIES, _NEIGHBORS = "train", "test", "neighbors"
#: Default number of queries, as in files of ann-benchmarks.
_UNKNOWN = 10_000
#: Keys without effect on the requests.
_NO_MATTER = ("retries", "detailed-results", "parents_data_set_path", "filter_percentage")
#: Values of `dynamic` with which a mapping rejects unknown fields.
_STRICT = ("strict", "strict_allow_templates")
#: The mapping of the document number: stored, not indexed.
_ID = {"type": "long", "index": False, "doc_values": False}
_KNN = "/_plugins/_knn"


def bulk(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert to a bulk operation that indexes a vector data set."""
    field, target = part.text("field"), make.target(part)
    size = part.whole("bulk_size", 0)
    if not size:
        raise part.error("bulk_size", "must be at least 1", "set the number of documents per request")
    part.read_keys.update(_NO_MATTER)
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
    """Report a custom id field, which is not imported."""
    field = part.get("id-field-name")
    if field and field != "_id":
        make.leave_out(name, f"the field {field} for ids; {instead}")


def _admit_id(make: TrackConversion, collection: str) -> None:
    """Add the field `id` to a strict mapping, and report it."""
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
        self.text = text
        self.count = count


def _data_set(part: ImportedObject, prefix: str) -> tuple[str, str, str]:
    """Return format, path and corpus of a data set; empty texts for missing keys."""
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
    """Return a vector data set and add the parameter of its path; BadInput if missing or in an unknown format."""
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


def search(make: TrackConversion, part: ImportedObject, name: str) -> list[Form]:
    """Convert a search for the nearest neighbours of a data set's vectors, with recall if it has ground truth.

    An operation without a data set becomes an ordinary search.
    """
    if not any(key.startswith("data_set_") for key in part.data):
        return searches.search(make, part, name)
    part.read_keys.update(_NO_MATTER)
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
    """Return a body whose hits include ids, which recall needs."""
    if body.get("stored_fields") == "_none_":
        make.leave_out(name, "stored_fields of its body, because recall needs the ids of hits")
        body = {key: value for key, value in body.items() if key != "stored_fields"}
        if body.get("docvalue_fields") == ["_id"]:
            del body["docvalue_fields"]
    return {key: value for key, value in body.items() if key != "_source" or value is not False}


def _around(part: ImportedObject, field: str, near: dict[str, Any], kind: Any, filtered: Any) -> dict[str, Any]:
    """Return the neighbour query, wrapped as its nested field and filter type require."""
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
    """Return the column with the ids of true neighbours; None, with the reason reported, if recall cannot use it."""
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
    """Add variables for a query's vector and for the ids of its neighbours (if in `columns`); return their holes."""
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
    """Return the number of requests for a data set, and report a default number."""
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


def train(make: TrackConversion, part: ImportedObject, _: str) -> list[Form]:
    """Convert the training of a model: the request, and a wait for its completion."""
    model = part.text("model_id")
    make.note(f"{_KNN}/models", model)
    (begin,) = make.request(part, "POST", f"{_KNN}/models/{model}/_train", part.mapping("body"))
    wait = ImportedObject({"retry-wait-period": part.number("poll_period", 0.5)}, part.where)
    part.get("retries")
    state = make.request(ImportedObject({}, part.where), "GET", f"{_KNN}/models/{model}")[0]
    return [begin, state | repeated(wait, {"state": "created"})]
