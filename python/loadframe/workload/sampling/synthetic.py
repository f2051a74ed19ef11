"""Synthetic documents for a schema without data: a mapping of the search family, or columns of a table."""

import random
import re
import string
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from loadframe.base.errors import BadInput
from loadframe.workload.sampling.schema import DATE_FORMATS

#: Distinct keywords of a field, and words of the vocabulary.
_KEYWORDS, _WORDS = 1000, 5000
_ELEMENTS = 3
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_SECONDS = 366 * 86_400
_WHOLE = {"byte": 7, "short": 15, "smallint": 15, "tinyint": 7, "integer": 31, "int": 31}

#: Types of which documents have no values: these fields hold none, or objects of a special form.
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
    """Generate `count` documents with the fields and types of a definition. BadInput for one without fields."""
    rng = random.Random(f"synthetic:{seed}")
    if family == "elasticsearch":
        make = _object(definition.get("mappings", {}).get("properties", {}), rng)
    else:
        columns = {name: _column(str(kind), rng) for name, kind in definition.get("columns", {}).items()}
        make = _of_fields(columns)
    if not make(rng):
        remedy = "sample documents instead: loadframe import sample"
        raise BadInput("the schema has no fields", remedy=remedy)
    return (make(rng) for _ in range(count))


def _of_fields(fields: Mapping[str, Maker]) -> Callable[[random.Random], dict[str, Any]]:
    return lambda rng: {name: make(rng) for name, make in fields.items()}


def _object(properties: Mapping[str, Any], rng: random.Random) -> Callable[[random.Random], dict[str, Any]]:
    return _of_fields({name: make for name, field in properties.items() if (make := _field(field, rng)) is not None})


def _field(field: Mapping[str, Any], rng: random.Random) -> Maker | None:
    """Return the generator of a mapped field's values; None for types that documents do not set."""
    kind = field.get("type", "object")
    if kind in ("object", "nested"):
        return _object(field.get("properties", {}), rng)
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
    return None if kind in _OMITTED or "_range" in kind else _scalar(scalar, rng)


def _column(kind: str, rng: random.Random) -> Maker:
    """Return the generator of a column's values."""
    array = re.fullmatch(r"(?:list|set)<(.*)>|(.*)\[\]", kind)
    if array:
        inner = _column(array[1] or array[2], rng)
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
    scalar = _scalar(names.get(bare, bare), rng)
    if length and bare in ("varchar", "character"):
        return lambda rng: str(scalar(rng))[: int(length[1])]
    return scalar


def _scalar(kind: str, rng: random.Random) -> Maker:
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
    words = [_word(rng) for _ in range(_WORDS)]

    def make(rng: random.Random) -> str:
        places = (min(int(rng.paretovariate(0.7)) - 1, _WORDS - 1) for _ in range(rng.randint(5, 40)))
        return " ".join(words[place] for place in places)

    return make


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 10)))


def _date(format_: str) -> Maker:
    patterns = {written: pattern for pattern, written in DATE_FORMATS.items()}
    patterns |= {"yyyy-MM-dd": "%Y-%m-%d", "basic_date": "%Y%m%d", "strict_date": "%Y-%m-%d", "date": "%Y-%m-%d"}
    pattern = patterns.get(format_, "%Y-%m-%dT%H:%M:%SZ")
    epoch = {"epoch_millis": 1000, "epoch_second": 1}.get(format_)

    def make(rng: random.Random) -> Any:
        instant = _BEGIN + timedelta(seconds=rng.randrange(_SECONDS))
        return instant.strftime(pattern) if epoch is None else int(instant.timestamp()) * epoch

    return make
