"""Sampling: workloads whose generated documents and queries follow the distributions of real ones.

`documents` reads samples from files, `profile` describes them, `schema` copies or infers the collection's definition,
and this module puts the workload together. Sampled values are replaced by pseudonyms unless the user keeps them.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.importers.imported import Hole, Imported, literal, name_of
from loadframe.workload.importers.source import json_of, text_of
from loadframe.workload.sampling import schema
from loadframe.workload.sampling.distributions import Dates, Keywords, Quantiles
from loadframe.workload.sampling.profile import Profile

__all__ = ["Profile", "Query", "Source", "collection_of", "of_mapping", "of_schema", "workload"]

#: The most default queries of a kind.
_QUERIES_OF_A_KIND = 2
#: The most values of a statement of PostgreSQL.
_MOST_VALUES = 65_535
#: The most dimensions of a vector.
_MOST_DIMENSIONS = 65_536
#: The most hits of a default query.
_HITS = 10
#: The longest name of a file's collection: with the prefix of an experiment, Cassandra permits 48 characters.
_LONGEST_NAME = 38
_ANONYMISED = (
    "Anonymised: keywords and words are pseudonyms, and numbers and dates follow the sampled distributions. Names of "
    "fields are unchanged."
)


@dataclass(frozen=True)
class Query:
    """An operation that reads, by family, and how often the log has it."""

    forms: Mapping[str, Any]
    weight: int = 1


@dataclass(frozen=True)
class Source:
    """A sampled collection or file."""

    #: Name for the head of the file, without addresses.
    title: str
    collection: str
    #: The family of the store, and its definition of the collection; empty for files.
    family: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict)
    #: The field that identifies documents; None if the store creates ids.
    key: str | None = None


def collection_of(stem: str) -> str:
    """Return a name for the documents of a file that every store permits, such as `my_orders` for `My-Orders`.

    Lower-case ASCII letters, digits and `_`, with a letter first.
    """
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower())[:_LONGEST_NAME].strip("_")
    return name if name[:1].isalpha() else f"documents_{name}"[:_LONGEST_NAME].rstrip("_")


def of_mapping(path: Path, collection: str) -> Source:
    """Return the source for a JSON file with a mapping: of `GET INDEX/_mapping`, or of an index definition.

    `collection` is the collection's name in the workload. BadInput if the file has no mapping or an invalid one.
    """
    content = json_of(text_of(path), str(path))
    while isinstance(content, dict) and not content.keys() & {"properties", "mappings"} and len(content) == 1:
        content = next(iter(content.values()))
    definition = content if isinstance(content, dict) and "mappings" in content else {"mappings": content}
    mappings = definition["mappings"]
    if not isinstance(mappings, dict) or not isinstance(mappings.get("properties"), dict):
        remedy = "name a JSON file with `properties`, such as the answer to GET INDEX/_mapping"
        raise BadInput("this is not a mapping", where=str(path), remedy=remedy)
    if not isinstance(definition.get("settings", {}), dict):
        raise BadInput("the settings are not an object", where=str(path), remedy="correct the file")
    _check_fields(mappings, "", str(path))
    return Source(path.name, collection, "elasticsearch", definition)


def _check_fields(mapping: Mapping[str, Any], name: str, where: str) -> None:
    """Refuse fields of a mapping, also nested, that are not objects or have empty names, and invalid parameters.

    Checked are `type`, `dims`, `dimension`, `scaling_factor`, `copy_to`, `properties` and `fields`. Raises BadInput.
    `name` is the path of the field, empty at the top; `where` is the file, for errors.
    """
    dimensions = [mapping[key] for key in ("dims", "dimension") if key in mapping]
    copies = mapping.get("copy_to", [])
    wrong = {
        "type": not isinstance(mapping.get("type", ""), str),
        "dims": not all(isinstance(size, int) and 0 < size <= _MOST_DIMENSIONS for size in dimensions),
        "scaling_factor": not _is_positive(mapping.get("scaling_factor", 1)),
        "copy_to": not all(isinstance(copy, str) for copy in (copies if isinstance(copies, list) else [copies])),
    }
    for part in ("properties", "fields"):
        inner = mapping.get(part, {})
        wrong[part] = not isinstance(inner, dict)
        for below, field_ in inner.items() if isinstance(inner, dict) else ():
            path = f"{name}.{below}" if name else below
            if not below:
                of = f"of {name}" if name else "of the mapping"
                raise BadInput(f"a field {of} has an empty name", where=where, remedy="correct the mapping")
            if not isinstance(field_, dict):
                raise BadInput(f"the field {path} is not an object", where=where, remedy="correct the mapping")
            _check_fields(field_, path, where)
    if any(wrong.values()):
        key = next(key for key, is_wrong in wrong.items() if is_wrong)
        of = f"of the field {name}" if name else "of the mapping"
        raise BadInput(f"the parameter {key} {of} has an invalid value", where=where, remedy="correct the mapping")


def _is_positive(value: object) -> bool:
    """Return whether a parameter of a mapping, which may be written as text, is a positive number."""
    try:
        return not isinstance(value, bool) and isinstance(value, int | float | str) and 0 < float(value) < math.inf
    except (ValueError, OverflowError):
        return False


def of_schema(source: Source, count: int, stem: str, seed: int) -> Imported:
    """Return a workload with `count` (1 or more) synthetic documents for a collection's definition.

    It has default queries. `stem` is the name of the workload and the beginning of the name of its file of documents.
    If values of the key repeat, they become the numbers of the documents. Equal seeds give equal documents. BadInput
    for a definition without fields.
    """
    definition, left_out = schema.safe(source.definition, source.family, None)
    made = list(schema.documents(definition, source.family, count, seed))
    key = source.key if source.key in made[0] else None
    if key is not None and len({document[key] for document in made}) < count:
        for number, document in enumerate(made):
            document[key] = number if isinstance(document[key], int) else str(number)
    profile = Profile(made, seed=seed)
    data = _data(source, {source.family: definition}, profile, key, count, stem, [])
    files = {f"{stem}-documents.ndjson": [_line(document) for document in made]}
    remarks = (f"{count:,} synthetic documents with the types of the schema.",)
    return Imported(data, remarks, tuple(dict.fromkeys(left_out)), source.title, files=files)


def workload(
    source: Source, profile: Profile, count: int, stem: str, queries: Sequence[Query] = (), left_out: Sequence[str] = ()
) -> Imported:
    """Return the workload with a corpus of `count` generated documents in the file `STEM-documents.ndjson`.

    Without `queries`, it gets default ones. `left_out` are omissions so far. Nothing is written: the result holds the
    lines of the file.
    """
    if source.family:
        definition, lost = schema.safe(source.definition, source.family, profile)
        definitions = {source.family: definition}
    else:
        definitions, lost = schema.inferred(profile), []
    key = source.key if source.family else schema.key_of(profile)
    if key is not None and key not in profile.root.fields:
        key = None
    documents = profile.documents(count, [key] if key else [])
    lines = [_line(document) for document in documents]
    remarks = [f"{profile.sampled:,} sampled documents; {count:,} generated ones."]
    if profile.kept:
        remarks.append(f"Fields with original values: {', '.join(sorted(profile.kept))}.")
    remarks.append(_ANONYMISED)
    data = _data(source, definitions, profile, key, count, stem, list(queries))
    return Imported(
        data,
        tuple(remarks),
        (*left_out, *dict.fromkeys(lost)),
        source.title,
        files={f"{stem}-documents.ndjson": lines},
    )


def _line(document: Mapping[str, Any]) -> str:
    """Return a document as a line of NDJSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _data(
    source: Source,
    definitions: schema.Definitions,
    profile: Profile,
    key: str | None,
    count: int,
    stem: str,
    queries: list[Query],
) -> dict[str, Any]:
    """Return the sections of the workload file: collection, corpus, operations, and phases that load and query.

    `definitions` are by family, and `key` is the field with the id or None. `count` is the number of documents, and
    `stem` the name of their file without its suffix. Without `queries`, default queries are used.
    """
    collection = name_of(source.collection)
    bulk = {"collection": collection, "corpus": collection, "size": "${bulk_size}"}
    # Cassandra, PostgreSQL and key-value stores identify documents by a field; others create ids.
    load: dict[str, Any] = {"bulk": {**bulk, **({"id": key} if key else {})}}
    variables: dict[str, Any] = {}
    if not queries:
        queries = list(_defaults(source, collection, definitions, profile, key, variables))
    reads = {f"query_{number}": dict(query.forms) for number, query in enumerate(queries, start=1)}
    weights = {f"query_{number}": query.weight for number, query in enumerate(queries, start=1)}
    searches = any("elasticsearch" in forms for forms in reads.values()) or "elasticsearch" in definitions
    refresh = {"refresh": {"elasticsearch": {"refresh": {"collection": collection}}}} if searches else {}
    phases: list[dict[str, Any]] = [
        {"name": "load", "prepares": True, "operation": "load", "clients": "${clients}", "until": "exhausted"}
    ]
    if refresh:
        phases.append({"name": "refresh", "prepares": True, "operation": "refresh", "clients": 1, "requests": 1})
    phases.append(
        {
            "name": "queries",
            **({"mix": weights} if len(weights) > 1 else {"operation": next(iter(weights))}),
            "clients": "${clients}",
            "warmup": "${warmup}",
            "duration": "${duration}",
        }
    )
    return {
        "workload": name_of(stem),
        "description": "Generated documents that follow the distributions of sampled ones",
        "parameters": {
            "documents": count,
            "bulk_size": max(1, min(1000, count, _MOST_VALUES // (len(profile.root.fields) + 1))),
            "clients": 8,
            "warmup": "2s",
            "duration": "10s",
        },
        "collections": {collection: {name: literal(entry) for name, entry in definitions.items()}},
        "corpora": {collection: {"file": literal(f"{stem}-documents.ndjson"), "at_most": "${documents}"}},
        "variables": variables,
        "operations": {"load": load, **refresh, **reads},
        "phases": phases,
    }


def _defaults(
    source: Source,
    collection: str,
    definitions: schema.Definitions,
    profile: Profile,
    key: str | None,
    variables: dict[str, Any],
) -> list[Query]:
    """Return queries for values of keywords and ranges of numbers and dates; at least one query.

    Queries values of up to 2 fields, and ranges of up to 2 others, if all families have a form for it. Families that
    read documents by id do so instead. Adds the variables, which draw values from the corpus, to `variables`. Without a
    field, the query has no condition.
    """
    fields = [(name, "equal") for name in profile.fields_of(Keywords)[:_QUERIES_OF_A_KIND]]
    ordered = [*profile.fields_of(Quantiles), *profile.fields_of(Dates)]
    fields += [(name, "from") for name in ordered[:_QUERIES_OF_A_KIND]]
    families = [source.family] if source.family else [*definitions, "mongodb", "redis", "couchbase"]
    by_id: dict[str, Any] = {"read": {"collection": collection, "id": Hole("${id}")}}
    read = [family for family in families if _reads_by_id(family, definitions)]
    if read and key:
        variables["id"] = {"field": {"corpus": collection, "field": literal(key)}}
    elif read:
        # The number of a document in the corpus is its id.
        variables["number"] = {"uniform": [1, "${documents}"]}
        variables["id"] = {"linear": {"of": "number", "plus": -1}}
    queries = []
    for number, (name, kind) in enumerate(fields, start=1):
        value = Hole(f"${{value_{number}}}")
        candidates = {family: _form(family, collection, definitions, name, kind, value) for family in families}
        forms = {family: form for family, form in candidates.items() if form is not None}
        # Each operation of a phase needs a form for each family.
        if len(forms) == len(families) - len(read) and forms:
            variables[f"value_{number}"] = {"field": {"corpus": collection, "field": literal(name)}}
            queries.append(Query({**forms, **dict.fromkeys(read, by_id)}))
    return queries or [Query({**_all(collection, families, definitions), **dict.fromkeys(read, by_id)})]


def _all(collection: str, families: Sequence[str], definitions: schema.Definitions) -> dict[str, Any]:
    """Return requests for up to 10 documents without a condition, for those families that do not read by id."""
    table = literal('"' + collection + '"')
    forms = {
        "elasticsearch": {"search": {"collection": collection, "size": _HITS}},
        "mongodb": {"find": {"collection": collection, "limit": _HITS}},
        "postgresql": {"sql": {"statement": f"SELECT * FROM {table} LIMIT {_HITS}"}},
        "cassandra": {"cql": {"statement": f"SELECT * FROM loadframe.{table} LIMIT {_HITS}"}},
    }
    return {family: forms[family] for family in families if family in forms and not _reads_by_id(family, definitions)}


def _reads_by_id(family: str, definitions: schema.Definitions) -> bool:
    """Return whether default queries of a family read documents by id.

    These are redis, couchbase, and cassandra with a key of one column.
    """
    if family == "cassandra":
        return isinstance(definitions.get(family, {}).get("key"), str)
    return family in ("redis", "couchbase")


def _form(
    family: str, collection: str, definitions: schema.Definitions, name: str, kind: str, value: Hole
) -> dict[str, Any] | None:
    """Return a request for up to 10 documents by a value of the field `name`; None if it cannot be queried.

    `kind` is `equal` for this value, or `from` for this value and greater ones. `value` is a placeholder.
    """
    if family == "elasticsearch":
        properties = definitions[family].get("mappings", {}).get("properties", {})
        field_ = _searchable(name, properties.get(name, {"type": "keyword"}))
        if field_ is None:
            return None
        query = {"term": {field_: value}} if kind == "equal" else {"range": {field_: {"gte": value}}}
        return {"search": {"collection": collection, "size": _HITS, "body": {"query": literal(query)}}}
    if family == "mongodb":
        condition = value if kind == "equal" else {"$gte": value}
        return {"find": {"collection": collection, "filter": {literal(name): condition}, "limit": _HITS}}
    if family == "postgresql" and "columns" in definitions[family]:
        table, column = (literal('"' + text.replace('"', '""') + '"') for text in (collection, name))
        comparison = "=" if kind == "equal" else ">="
        statement = f"SELECT * FROM {table} WHERE {column} {comparison} $1 LIMIT {_HITS}"
        return {"sql": {"statement": statement, "values": [value]}}
    return None


def _searchable(name: str, mapping: Mapping[str, Any]) -> str | None:
    """Return the field for exact values: the field, or its keyword subfield.

    Return None if it is not indexed, or only analyzed text.
    """
    if mapping.get("type") != "text":
        return name if mapping.get("index", True) not in (False, "false") else None
    inner = (sub for sub, spec in mapping.get("fields", {}).items() if spec.get("type") == "keyword")
    return next((f"{name}.{sub}" for sub in inner), None)
