"""Schemas of sampled collections, copied or inferred; and synthetic documents for a schema without data."""

import random
import re
import string
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from loadframe.base.errors import BadInput
from loadframe.workload.sampling.distributions import (
    Dates,
    Identifiers,
    Keywords,
    OriginalValues,
    Points,
    Quantiles,
    Text,
    Weighted,
)
from loadframe.workload.sampling.profile import Array, Field, Object, Profile
from loadframe.workload.sampling.pseudonyms import is_ipv4, looks_like_identifier

#: Parameters of a mapping that hold no data of the user.
# fmt: off
_MAPPING = (
    "type", "dynamic", "enabled", "index", "doc_values", "store", "norms", "format", "scaling_factor",
    "ignore_above", "index_options", "analyzer", "search_analyzer", "similarity", "dims", "dimension",
    "element_type", "method", "copy_to", "coerce", "ignore_malformed", "term_vector", "depth_limit",
    "positive_score_impact", "eager_global_ordinals", "index_prefixes", "index_phrases", "include_in_parent",
    "include_in_root", "max_shingle_size",
)
#: Analyzers that every cluster has.
_ANALYZERS = (
    "standard", "simple", "whitespace", "stop", "keyword", "pattern", "fingerprint", "english", "french", "german",
    "spanish", "italian", "portuguese", "dutch", "russian", "arabic", "cjk", "danish", "finnish", "swedish",
    "norwegian", "turkish", "greek", "hungarian", "romanian", "hindi",
)
# fmt: on
_SIMILARITIES = ("BM25", "boolean", "classic")
#: Formats of dates, without literal texts except T and Z.
_FORMAT = re.compile(r"(?:[\w|:./, \[\]+-]|'[TZ]')+", re.ASCII)
#: Column of the number of a document, in tables without a key of one column.
_NUMBER = "loadframe_number"
_SETTINGS = ("number_of_shards", "number_of_replicas", "codec", "refresh_interval", "sort", "knn")
#: Types of columns that accept the JSON values of a sample; others become text.
_SQL = re.compile(
    r"(smallint|integer|bigint|real|double precision|numeric(\(\d+(,-?\d+)?\))?|boolean|text|uuid|date|jsonb?|inet"
    r"|character varying(\(\d+\))?|character(\(\d+\))?|timestamp(\(\d\))? with(out)? time zone"
    r"|time(\(\d\))? without time zone)(\[\])*"
)
_CQL_TYPES = re.compile(
    r"(ascii|bigint|boolean|date|decimal|double|float|inet|int|smallint|text|time|timestamp|timeuuid|tinyint|uuid"
    r"|varchar|varint|list|set|map|frozen|[<>, ])+"
)
_INDEX = re.compile(r'(USING \w+ )?\((("[^"]+"|\w+)( \w+_ops)?( DESC| ASC)?(, )?)+\)')
#: Date patterns of the search family, by strftime pattern.
DATE_FORMATS = {
    "%Y-%m-%d %H:%M:%S": "yyyy-MM-dd HH:mm:ss",
    "%Y-%m-%d %H:%M": "yyyy-MM-dd HH:mm",
    "%Y%m%d": "yyyyMMdd",
    "%d/%m/%Y": "dd/MM/yyyy",
    "%m/%d/%Y": "MM/dd/yyyy",
    "%Y/%m/%d": "yyyy/MM/dd",
    "%Y/%m/%d %H:%M:%S": "yyyy/MM/dd HH:mm:ss",
}

Definitions = dict[str, dict[str, Any]]


def safe(definition: Mapping[str, Any], family: str, profile: Profile | None) -> tuple[dict[str, Any], list[str]]:
    """Return a live collection's definition without values of the user, and descriptions of the omitted parts.

    `profile` tells which names of fields are data; None if nothing was sampled. Omitted without a description: MongoDB
    indexes of fields whose names look like data, and settings and mapping parameters that are not on a list, except
    analyzers.
    """
    left_out: list[str] = []
    if family == "elasticsearch":
        mappings = _safe_mapping(
            definition.get("mappings", {}), None if profile is None else profile.root, "", left_out.append
        )
        given = definition.get("settings", {})
        settings = {key: value for key, value in given.items() if key in _SETTINGS}
        if "analysis" in given:
            left_out.append("settings.analysis: analyzers may hold words of the data")
        return {key: value for key, value in (("settings", settings), ("mappings", mappings)) if value}, left_out
    safe_definition = dict(definition)
    if family == "postgresql":
        columns = {name: str(kind) for name, kind in definition.get("columns", {}).items()}
        safe_columns = {name: kind if _SQL.fullmatch(kind) else "text" for name, kind in columns.items()}
        safe_definition |= {"columns": safe_columns} if columns else {}
        left_out += [f"type {k} of column {n}: text instead" for n, k in columns.items() if not _SQL.fullmatch(k)]
        indexes: list[Any] = [index for index in definition.get("indexes", []) if _INDEX.fullmatch(index)]
        left_out += ["an index with an expression or a condition"] * (len(definition.get("indexes", [])) - len(indexes))
        safe_definition = with_key({**safe_definition, "indexes": indexes}, definition.get("key"))
    if family == "cassandra":
        columns = {name: str(kind) for name, kind in definition["columns"].items()}
        safe_definition["columns"] = {name: _safe_cql(kind) for name, kind in columns.items()}
        left_out += [f"type {k} of column {n}: text instead" for n, k in columns.items() if _safe_cql(k) != k]
    if family == "mongodb":
        indexes = [index for index in definition.get("indexes", []) if not any(map(looks_like_identifier, index))]
        safe_definition["indexes"] = indexes
    return {key: value for key, value in safe_definition.items() if value != []}, left_out


def _safe_cql(kind: str) -> str:
    """Return a CQL type that a generated value fits; bigint for counters, and text for user-defined types."""
    if kind == "counter":
        return "bigint"
    return kind if _CQL_TYPES.fullmatch(kind) else "text"


def _safe_mapping(
    mapping: Mapping[str, Any], sampled: Object | None, path: str, report: Callable[[str], None]
) -> dict[str, Any]:
    """Return a mapping with known parameters only; other parameters are left out without a report.

    Also left out, with a call of `report` for each, are fields with names that are data, values of known parameters
    that may be data, dynamic templates and runtime fields, and fields of types without their own values.
    `sampled` are the sampled objects of this mapping, None without any; `path` is the mapping's, empty at the top.
    """
    kept = {key: value for key, value in mapping.items() if key in _MAPPING}
    safe_values: dict[str, Callable[[Any], bool]] = {
        "analyzer": _ANALYZERS.__contains__,
        "search_analyzer": _ANALYZERS.__contains__,
        "similarity": _SIMILARITIES.__contains__,
        "format": lambda value: _FORMAT.fullmatch(str(value)) is not None,
        "copy_to": lambda value: not any(map(looks_like_identifier, [value] if isinstance(value, str) else value)),
    }
    for key, is_safe in safe_values.items():
        if key in kept and not is_safe(kept[key]):
            report(f"{key} of the field {path}")
            del kept[key]
    if "dynamic_templates" in mapping or "runtime" in mapping:
        report("dynamic templates and runtime fields")
    for part in ("properties", "fields"):
        if not isinstance(mapping.get(part), dict):
            continue
        kept[part] = {}
        for name, inner in mapping[part].items():
            below = f"{path}.{name}" if path else name
            field = sampled.fields.get(name) if sampled and part == "properties" else None
            if looks_like_identifier(name) or (sampled and sampled.entry and part == "properties" and field is None):
                report(f"a field of {path or 'the mapping'} with a name that is data")
            elif inner.get("type") in ("alias", "join", "percolator"):
                report(f"the field {below} of type {inner['type']}")
            else:
                kept[part][name] = _safe_mapping(inner, None if field is None else _object(field), below, report)
    return kept


def _object(field: Field) -> Object | None:
    """Return the distribution of a field's objects, or of objects in its arrays, or None without objects."""
    for kind in field.kinds.values():
        if isinstance(kind, Object):
            return kind
        if isinstance(kind, Array) and kind.elements and (inner := _object(kind.elements[0])):
            return inner
    return None


def inferred(profile: Profile) -> Definitions:
    """Return the definitions of a collection for profiled documents, by family: elasticsearch, cassandra, postgresql.

    Without a key (see `key_of`), Cassandra is omitted. If names of top-level fields are data, Cassandra and PostgreSQL
    are.
    """
    fields = profile.root.fields
    definitions: Definitions = {
        "elasticsearch": {"mappings": {"properties": {name: _mapped(field) for name, field in fields.items()}}}
    }
    if profile.root.entry is None:
        definitions["cassandra"] = {"columns": {name: _column(field, _CQL) for name, field in fields.items()}}
        definitions["postgresql"] = {"columns": {name: _column(field, _POSTGRESQL) for name, field in fields.items()}}
        key = key_of(profile)
        definitions["postgresql"] = with_key(definitions["postgresql"], key)
        if key is None:
            del definitions["cassandra"]
        else:
            definitions["cassandra"]["key"] = key
    return definitions


def with_key(table: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    """Return a copy of a PostgreSQL table with a key, which bulk requests need.

    Without a key, a table with columns gets the column `loadframe_number` as its key.
    """
    if key is not None or "columns" not in table:
        return {**table, **({"key": key} if key else {})}
    return {**table, "columns": {_NUMBER: "bigint", **table["columns"]}, "key": _NUMBER}


def key_of(profile: Profile) -> str | None:
    """Return `id`, `_id` or `key`, the first that identifies documents, or None.

    A field identifies them if it holds a different text or whole number in every document.
    """
    return next((name for name in ("id", "_id", "key") if profile.is_unique(name)), None)


def _only(field: Field) -> Any:
    """Return the distribution of a field's values, without null; None unless it has exactly one kind of values."""
    kinds = [kind for kind in field.kinds.values() if kind is not None]
    return kinds[0] if len(kinds) == 1 else None


def _mapped(field: Field) -> dict[str, Any]:
    """Return the mapping of a field for the search family; an array has the mapping of its elements.

    It is `keyword` for mixed kinds and for arrays without elements.
    """
    kind = _only(field)
    scalar = {"whole": "long", "number": "double", "boolean": "boolean"}.get(_scalar(kind), "keyword")
    mapping: dict[str, Any] = {"type": scalar}
    match kind:
        case Array() if kind.elements:
            mapping = _mapped(kind.elements[0])
        case Object():
            mapping = {"properties": {name: _mapped(inner) for name, inner in kind.fields.items()}}
        case Points():
            mapping = {"type": "geo_point"}
        case Dates() if kind.format.pattern in DATE_FORMATS:
            mapping = {"type": "date", "format": DATE_FORMATS[kind.format.pattern]}
        case Dates() if kind.format.is_iso:
            mapping = {"type": "date"}
        case Keywords() if all(is_ipv4(value) for value in kind.values):
            mapping = {"type": "ip"}
        case Text() | OriginalValues() if isinstance(kind, Text) or field.has_long_text:
            mapping = {"type": "text"}
    return mapping


def _scalar(kind: Any) -> str:
    """Return the type of a distribution's values: `whole`, `number`, `boolean` or `text`.

    Empty for arrays, objects and None.
    """
    if kind is None or isinstance(kind, Array | Object):
        return ""
    if isinstance(kind, Quantiles):
        return "whole" if kind.is_whole else "number"
    if isinstance(kind, Weighted | OriginalValues):
        types = {type(value) for value in kind.values}
        names = {frozenset({bool}): "boolean", frozenset({int}): "whole"}
        return names.get(frozenset(types), "number" if types <= {int, float} else "text")
    return "whole" if isinstance(kind, Identifiers) else "text"


_CQL = {"whole": "bigint", "number": "double", "boolean": "boolean", "": "text"}
_POSTGRESQL = {"whole": "bigint", "number": "double precision", "boolean": "boolean", "": "jsonb"}


def _column(field: Field, types: Mapping[str, str]) -> str:
    """Return the type of a field's column; `types` is `_CQL` or `_POSTGRESQL`, types by the result of `_scalar`.

    Dates are dates or timestamps if the store reads their format, else texts.
    """
    kind = _only(field)
    if isinstance(kind, Dates) and kind.format.pattern != "%H:%M:%S":
        if kind.format.is_day and kind.format.is_iso:
            return "date"
        if kind.format.is_iso or (types is _POSTGRESQL and kind.format.pattern.startswith("%Y")):
            return "timestamp" if types is _CQL else "timestamptz" if kind.format.zone else "timestamp"
    return types.get(_scalar(kind), "text")


#: Distinct keywords of a field, and words of the vocabulary.
_KEYWORDS, _WORDS = 1000, 5000
_ELEMENTS = 3
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_SECONDS = 366 * 86_400
_WHOLE = {"byte": 7, "short": 15, "smallint": 15, "tinyint": 7, "integer": 31, "int": 31}

#: Types that are left out of documents: their fields take no value, or only objects of a special form.
_OMITTED = (
    *(
        "alias",
        "join",
        "percolator",
        "binary",
        "flattened",
        "flat_object",
        "geo_shape",
        "shape",
        "xy_shape",
        "xy_point",
    ),
    *("rank_feature", "rank_features", "sparse_vector", "dense_vector", "knn_vector", "histogram"),
    "aggregate_metric_double",
)

Maker = Callable[[random.Random], Any]


def documents(definition: Mapping[str, Any], family: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Return an iterator of `count` synthetic documents with the fields and types of a definition.

    BadInput, at the call, for a definition without fields. Equal seeds give equal documents.
    """
    rng = random.Random(f"synthetic:{seed}")
    if family == "elasticsearch":
        make = _synthetic_object(definition.get("mappings", {}).get("properties", {}), rng)
    else:
        columns = {name: _synthetic_column(str(kind), rng) for name, kind in definition.get("columns", {}).items()}
        make = _of_fields(columns)
    if not make(rng):
        remedy = "sample documents instead: loadframe import sample"
        raise BadInput("the schema has no fields", remedy=remedy)
    return (make(rng) for _ in range(count))


def _of_fields(fields: Mapping[str, Maker]) -> Callable[[random.Random], dict[str, Any]]:
    """Return the generator of documents with these fields, from the generators of their values."""
    return lambda rng: {name: make(rng) for name, make in fields.items()}


def _synthetic_object(properties: Mapping[str, Any], rng: random.Random) -> Callable[[random.Random], dict[str, Any]]:
    """Return the generator of objects with these mapped fields, without types that documents do not set."""
    return _of_fields({name: make for name, field in properties.items() if (make := _field(field, rng)) is not None})


def _field(field: Mapping[str, Any], rng: random.Random) -> Maker | None:
    """Return the generator of a mapped field's values, or None for types that documents do not set.

    `rng` draws the field's vocabulary now.
    """
    kind = field.get("type", "object")
    if kind in ("object", "nested"):
        return _synthetic_object(field.get("properties", {}), rng)
    size = int(field.get("dims", field.get("dimension", 0)) or 0)
    if size:
        return lambda rng: [round(rng.uniform(-1, 1), 6) for _ in range(size)]
    if kind in ("date", "date_nanos"):
        return _date(str(field.get("format", "")).partition("||")[0])
    if kind in ("geo_point", "point"):
        return lambda rng: {"lat": round(rng.uniform(-60, 70), 5), "lon": round(rng.uniform(-180, 180), 5)}
    if kind in ("text", "match_only_text", "search_as_you_type", "completion"):
        return _text(rng)
    known = {"double": "double", "float": "double", "half_float": "double", "scaled_float": "double"}
    scalar = known.get(
        kind,
        kind if kind in (*_WHOLE, "boolean", "ip", "constant_keyword") else "bigint" if "long" in kind else "keyword",
    )
    return None if kind in _OMITTED or "_range" in kind else _synthetic_scalar(scalar, rng)


def _synthetic_column(kind: str, rng: random.Random) -> Maker:
    """Return the generator of values of a CQL or SQL column type: lists have up to 3 values, maps and JSON are empty.

    `rng` draws the column's vocabulary now. Unknown types get keywords.
    """
    if frozen := re.fullmatch(r"frozen<(.*)>", kind):
        return _synthetic_column(frozen[1], rng)
    array = re.fullmatch(r"(?:list|set)<(.*)>|(.*)\[\]", kind)
    if array:
        inner = _synthetic_column(array[1] or array[2], rng)
        return lambda rng: [inner(rng) for _ in range(rng.randint(0, _ELEMENTS))]
    bare = re.sub(r"\(.*\)| with.*", "", kind).replace("character varying", "varchar")
    length = re.search(r"\((\d+)", kind)
    names = {"double precision": "double", "real": "double", "float": "double", "numeric": "double"}
    names |= {"decimal": "double", "inet": "ip", "uuid": "uuid", "timeuuid": "uuid", "varint": "bigint"}
    special: dict[str, Maker] = {
        "date": _date("yyyy-MM-dd"),
        "timestamp": _date(""),
        "time": lambda rng: f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}",
        **dict.fromkeys(("json", "jsonb", "map"), lambda rng: {}),
    }
    if (first := re.split("[ <]", bare)[0]) in special:
        return special[first]
    scalar = _synthetic_scalar(names.get(bare, bare), rng)
    if length and bare in ("varchar", "character"):
        return lambda rng: str(scalar(rng))[: int(length[1])]
    return scalar


def _synthetic_scalar(kind: str, rng: random.Random) -> Maker:
    """Return the generator of values of a scalar kind, such as `bigint`, `double` or `ip`.

    Unknown kinds get keywords, a few of which are frequent. `rng` draws the vocabulary now; the generator's own
    argument draws the values.
    """
    bits = _WHOLE.get(kind)
    words = [_word(rng) for _ in range(_KEYWORDS)]
    makers: dict[str, Maker] = {
        "boolean": lambda rng: rng.random() < 0.5,
        "double": lambda rng: round(rng.lognormvariate(3, 1), 2),
        "bigint": lambda rng: rng.randrange(1_000_000),
        # The first document sets the value for all.
        "constant_keyword": lambda rng: words[0],
        "ip": lambda rng: f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
        "uuid": lambda rng: str(UUID(int=rng.getrandbits(128), version=4)),
    }
    if bits is not None:
        return lambda rng: rng.randrange(min(2**bits, 100_000))
    return makers.get(kind, lambda rng: words[min(int(rng.paretovariate(0.7)) - 1, _KEYWORDS - 1)])


def _text(rng: random.Random) -> Maker:
    """Return the generator of texts of 5 to 40 words from a vocabulary that `rng` draws now."""
    words = [_word(rng) for _ in range(_WORDS)]

    def make(rng: random.Random) -> str:
        """Return a text of 5 to 40 words; the first words of the vocabulary are the most frequent."""
        places = (min(int(rng.paretovariate(0.7)) - 1, _WORDS - 1) for _ in range(rng.randint(5, 40)))
        return " ".join(words[place] for place in places)

    return make


def _word(rng: random.Random) -> str:
    """Return a random word of 3 to 10 letters."""
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 10)))


def _date(format_: str) -> Maker:
    """Return the generator of dates in 2024 (UTC) in a date format of the search family; numbers for `epoch_...`.

    An unknown or empty format gives ISO 8601.
    """
    patterns = {written: pattern for pattern, written in DATE_FORMATS.items()}
    patterns |= {"yyyy-MM-dd": "%Y-%m-%d", "basic_date": "%Y%m%d", "strict_date": "%Y-%m-%d", "date": "%Y-%m-%d"}
    pattern = patterns.get(format_, "%Y-%m-%dT%H:%M:%SZ")
    epoch = {"epoch_millis": 1000, "epoch_second": 1}.get(format_)

    def make(rng: random.Random) -> Any:
        """Return a random date as a text in the format, or as a number for `epoch_...`."""
        instant = _BEGIN + timedelta(seconds=rng.randrange(_SECONDS))
        return instant.strftime(pattern) if epoch is None else int(instant.timestamp()) * epoch

    return make
