"""OpenSearch Benchmark's operations on sets of vectors: bulk requests, searches for nearest neighbours, their recall.

A set is a file, or a corpus of the track. It becomes a corpus of columns, whose row i is document i.
"""

import re
from pathlib import Path
from typing import Any

from loadframe.workload import vectors
from loadframe.workload.importers.imported import Hole, literal
from loadframe.workload.importers.rally import searches
from loadframe.workload.importers.rally.administration import repeated
from loadframe.workload.importers.rally.making import Form, Making
from loadframe.workload.importers.source import Part

#: The data set of an HDF5 file that is meant, by what it is for; as in the files of ann-benchmarks.
_DOCUMENTS, _QUERIES, _NEIGHBORS = "train", "test", "neighbors"
#: As many queries are sent where their number is not known; files of ann-benchmarks have as many.
_UNKNOWN = 10_000
#: What says nothing of the requests.
_NO_MATTER = ("retries", "detailed-results", "parents_data_set_path", "filter_percentage")
#: Mappings that refuse fields which they do not name.
_STRICT = ("strict", "strict_allow_templates")
#: The field for the number of a document. It is stored and not indexed.
_ID = {"type": "long", "index": False, "doc_values": False}
_KNN = "/_plugins/_knn"


def bulk(make: Making, part: Part, name: str) -> list[Form]:
    """Return the bulk operation that indexes a set of vectors."""
    field, target = part.text("field"), make.target(part)
    size = part.whole("bulk_size", 0)
    if not size:
        raise part.error("bulk_size", "a bulk operation has documents", "give their number per request")
    part.asked.update(_NO_MATTER)
    if "." in field:
        make.leave_out(name, f"its vectors {field} are parts of nested documents")
        return []
    if attributes := part.get("filter_attributes"):
        texts = ", ".join(map(str, attributes)) if isinstance(attributes, list) else attributes
        make.leave_out(name, f"the attributes {texts} of its documents; searches that filter by them find nothing")
    _name_id(make, part, name, "documents have their number as `_id` and `id`")
    source = _source(make, part, "", _DOCUMENTS)
    limit = make.track.limited(part.whole("num_vectors", -1, least=-1), source.count)
    columns = {"columns": {field: source.text}, **limit, "at_most": "${documents}"}
    corpus = make.track.corpus(f"{name}-vectors", columns)
    collection = make.track.collection(target)
    _admit_id(make, collection)
    return [{"bulk": {"collection": collection, "corpus": corpus, "size": size, "id": "id"}}]


def _name_id(make: Making, part: Part, name: str, instead: str) -> None:
    """Name the field of ids that it asks for, which has another name here."""
    field = part.get("id-field-name")
    if field and field != "_id":
        make.leave_out(name, f"the field {field} for ids; {instead}")


def _admit_id(make: Making, collection: str) -> None:
    """Let a strict mapping have the number of each document."""
    definition = make.track.collections[collection].get("elasticsearch", {})
    mappings = definition.get("mappings", {})
    properties = mappings.get("properties", {}) if isinstance(mappings, dict) else {}
    if isinstance(mappings, dict) and mappings.get("dynamic") in _STRICT and "id" not in properties:
        extended = {**mappings, "properties": {**properties, "id": dict(_ID)}}
        make.track.collections[collection] = {"elasticsearch": {**definition, "mappings": extended}}
        make.track.remark(f"The mapping of {collection} has a field `id` more: each vector is stored with its number.")


class _Source:
    """A set of vectors: how a column names it, and how many it has if that is known."""

    def __init__(self, text: str, count: int | None) -> None:
        self.text = text
        self.count = count


def _given(part: Part, prefix: str) -> tuple[str, str, str]:
    """Return the format, the path and the corpus of a set; texts are empty where they are not given."""
    keys = [f"{prefix}data_set_{what}" for what in ("format", "path", "corpus")]
    part.asked.update((*keys, f"{prefix}data_set_name"))
    values = [part.data.get(key) or "" for key in keys]
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            raise part.error(key, "expected a text")
    if values[1] and values[2]:
        raise part.error(keys[1], f"{keys[2]} names another set", "give one of them")
    return values[0], values[1], values[2]


def _source(make: Making, part: Part, prefix: str, inside: str) -> _Source:
    """Return a set of vectors; BadInput if it is not given, or in a format that is not read."""
    kind, path, corpus = _given(part, prefix)
    count = None
    if corpus:
        documents = next((entry for entry in make.track.sets if entry.of == corpus), None)
        if documents is None:
            raise part.error(f"{prefix}data_set_corpus", f"the track has no corpus {corpus}")
        path, count = make.track.file_of(documents), documents.documents if inside == _DOCUMENTS else None
        shown = make.track.parameters.get(path.removeprefix("${").removesuffix("}"), path)
    elif path:
        shown, path = path, make.track.file_parameter(Path(path).name.partition(".")[0], path)
    else:
        what = f"no set of vectors is named; set the parameter that it, or {prefix}data_set_corpus, is made of"
        raise part.error(f"{prefix}data_set_path", what)
    if kind in ("hdf5", "parquet"):
        column = inside if kind == "hdf5" else part.text(f"{prefix}data_set_name")
        path, shown = f"{path}:{column}", f"{shown}:{column}"
    elif kind != "bigann":
        raise part.error(f"{prefix}data_set_format", f"{kind or 'nothing'} is not known: hdf5, bigann or parquet")
    if (wrong := vectors.wrong_source(shown)) is not None:
        raise part.error(f"{prefix}data_set_path", wrong)
    return _Source(path, count)


def search(make: Making, part: Part, name: str) -> list[Form]:
    """Return a search for the nearest neighbours of the vectors of a set, with recall if the set has right answers.

    An operation without a set becomes an ordinary search.
    """
    if not any(key.startswith("data_set_") for key in part.data):
        return searches.search(make, part, name)
    part.asked.update(_NO_MATTER)
    body, field, target = part.mapping("body"), part.text("field"), make.target(part)
    k = part.whole("k", 0)
    bounds = {key: part.number(key) for key in ("max_distance", "min_score") if part.get(key) is not None}
    if bool(k) == bool(bounds):
        raise part.error("k", "a search for neighbours has one of k, max_distance and min_score")
    columns = {"vector": _source(make, part, "", _QUERIES).text}
    if neighbors := _neighbors(make, part, name, k):
        columns["neighbors"] = neighbors
    vector, truth = _drawn(make, part, name, columns)
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


def _with_ids(make: Making, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body whose hits have their ids, which recall is computed from."""
    if body.get("stored_fields") == "_none_":
        make.leave_out(name, "stored_fields of its body, because recall needs the ids of hits")
        body = {key: value for key, value in body.items() if key != "stored_fields"}
        if body.get("docvalue_fields") == ["_id"]:
            del body["docvalue_fields"]
    return {key: value for key, value in body.items() if key != "_source" or value is not False}


def _around(part: Part, field: str, near: dict[str, Any], kind: Any, filtered: Any) -> dict[str, Any]:
    """Return the query for neighbours within those that its field and its filter want around it."""
    query: dict[str, Any] = {"knn": {field: near}}
    if "." in field:
        return {"nested": {"path": field.partition(".")[0], "query": query}}
    if kind in (None, "efficient", "post_filter"):
        return query
    if kind == "boolean":
        return {"bool": {"filter": filtered, "must": [query]}}
    if kind != "script":
        raise part.error("filter_type", f"{kind} is not known: efficient, post_filter, boolean or script")
    values = {"field": field, "query_value": near["vector"], "space_type": "l2"}
    script = {"source": "knn_score", "lang": "knn", "params": values}
    return {"script_score": {"query": {"bool": {"filter": filtered}}, "script": script}}


def _neighbors(make: Making, part: Part, name: str, k: int) -> str | None:
    """Return the set with the ids of the right answers; None, with the reason named, if recall cannot use it."""
    wanted = part.flag("calculate-recall", True)
    _name_id(make, part, name, "recall goes by `_id`, which is each vector's number in what this file loads")
    kind, path, corpus = _given(part, "neighbors_")
    if not wanted:
        return None
    if not k:
        make.leave_out(name, "its recall, because the lists of neighbours within a distance are filled up with -1")
        return None
    inside = _NEIGHBORS
    if path or corpus:
        given = part if kind else Part({**part.data, "neighbors_data_set_format": part.data.get("data_set_format")}, "")
        return _source(make, given, "neighbors_", inside).text
    if part.data.get("data_set_format") != "hdf5":
        make.leave_out(name, "its recall, because no set names the right answers")
        return None
    return _source(make, part, "", inside).text


def _drawn(make: Making, part: Part, name: str, columns: dict[str, str]) -> tuple[Hole, Hole | None]:
    """Return the variables for a query's vector, and for the ids of its neighbours if columns has them."""
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


def _requests(make: Making, part: Part, name: str) -> int:
    """Return how many requests the vectors of a set are."""
    count = part.whole("num_vectors", -1, least=-1)
    if count <= 0:
        count = _UNKNOWN
        make.track.remark(
            f"{name} sends {count:,} queries, as many as the files of ann-benchmarks have; with another number, change "
            "`requests` of its phase."
        )
    return count * max(1, part.whole("repetitions", 1))


def warm_up(make: Making, part: Part, _: str) -> list[Form]:
    """Return the request that loads the graphs of an index into memory, repeated until it succeeds on every shard."""
    (form,) = make.request(part, "GET", f"{_KNN}/warmup/{make.target(part)}")
    return [form | repeated(part, {"_shards.failed": 0})]


def train(make: Making, part: Part, _: str) -> list[Form]:
    """Return the request that trains a model, and the wait until the model is there."""
    model = part.text("model_id")
    make.note(f"{_KNN}/models", model)
    (begin,) = make.request(part, "POST", f"{_KNN}/models/{model}/_train", part.mapping("body"))
    wait = Part({"retry-wait-period": part.number("poll_period", 0.5)}, part.where)
    part.get("retries")
    state = make.request(Part({}, part.where), "GET", f"{_KNN}/models/{model}")[0]
    return [begin, state | repeated(wait, {"state": "created"})]
