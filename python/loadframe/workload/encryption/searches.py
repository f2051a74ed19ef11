"""Rewrites searches for an encrypted collection: the same queries, with encrypted values.

Each value becomes a variable that the engine encrypts: constants before the load, others when they are drawn.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.workload.encryption.fields import Field, NotEncryptable
from loadframe.workload.holes import names

#: Keys of a search body without document values.
_PLAIN_KEYS = frozenset(
    ("size", "from", "_source", "track_total_hits", "track_scores", "timeout", "terminate_after", "profile", "explain")
)
#: Queries without document values.
_PLAIN_QUERIES = frozenset(("match_all", "match_none", "exists", "ids"))
_LETTERS = "compares characters, which encryption does not preserve"
_WORDS = "matches words within a text, but texts are encrypted as a whole"
_REASONS = {
    **dict.fromkeys(("fuzzy", "prefix", "wildcard", "regexp"), _LETTERS),
    **dict.fromkeys(("match", "multi_match", "match_phrase", "query_string", "simple_query_string"), _WORDS),
}
_CLAUSES = ("must", "should", "filter", "must_not")
#: Aggregations that only need equality or order of values, with their supported keys.
_AGGREGATIONS: Mapping[str, frozenset[str]] = {
    "terms": frozenset(("field", "size", "shard_size", "min_doc_count")),
    "cardinality": frozenset(("field", "precision_threshold")),
    **dict.fromkeys(("value_count", "missing", "min", "max"), frozenset(("field",))),
}
_ORDERED = frozenset(("min", "max"))
_ENDS = {"gte": "low", "lt": "low", "lte": "high", "gt": "high"}
#: Sort keys that are not fields.
_NO_FIELDS = frozenset(("_doc", "_shard_doc", "_score"))


@dataclass
class Searches:
    """Rewrites searches of one collection for encrypted values and collects the variables that they need.

    NotEncryptable explains why a search does not work on encrypted values.
    """

    fields: Mapping[str, Field]
    key: str
    #: Returns an unused variable name that starts with the given one.
    name: Callable[[str], str]
    #: New variables by name, in the format of plans.
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def body(self, body: Mapping[str, Any] | str) -> dict[str, Any]:
        """Return the body of a search with encrypted values; adds variables."""
        if isinstance(body, str):
            raise NotEncryptable("its whole body is a variable")
        rewritten: dict[str, Any] = {}
        for key, value in body.items():
            if key in ("query", "post_filter"):
                rewritten[key] = self.query(value)
                continue
            rewritten[key] = value
            if key in ("aggs", "aggregations"):
                self.check_aggregations(value)
            elif key == "sort":
                self._check_sort(value)
            elif key not in _PLAIN_KEYS:
                raise NotEncryptable(f"the key {key!r} of a search body is unsupported with encryption")
        return rewritten

    def query(self, query: Any) -> dict[str, Any]:
        """Return a query with encrypted values; adds variables."""
        if not isinstance(query, Mapping) or len(query) != 1:
            raise NotEncryptable("a query must be a mapping with one key")
        kind, body = next(iter(query.items()))
        if not isinstance(body, Mapping):
            raise NotEncryptable(f"the body of the query {kind} must be a mapping")
        if kind in _PLAIN_QUERIES:
            return dict(query)
        if kind == "bool":
            return {kind: {key: self._clauses(value) if key in _CLAUSES else value for key, value in body.items()}}
        if kind == "constant_score":
            return {kind: {**body, "filter": self.query(body.get("filter"))}}
        known = {"term": self._term, "terms": self._terms, "range": self._range}
        if kind not in known:
            reason = _REASONS.get(kind, "does not support encrypted values")
            raise NotEncryptable(f"the query {kind} {reason}")
        boost = {key: value for key, value in body.items() if key == "boost"}
        fields = [(name, value) for name, value in body.items() if name != "boost"]
        if len(fields) != 1:
            raise NotEncryptable(f"a {kind} query must name one field; got {len(fields)}")
        ((name, value),) = fields
        return {kind: {name: known[kind](self._field(name), value), **boost}}

    def check_aggregations(self, aggregations: Mapping[str, Any]) -> None:
        """Refuse aggregations that need more than equality or order of values; others need no rewriting."""
        for aggregation in aggregations.values():
            for kind, inner in aggregation.items():
                if kind in ("aggs", "aggregations"):
                    self.check_aggregations(inner)
                elif kind != "meta":
                    self._check_aggregation(kind, inner)

    def _check_aggregation(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind not in _AGGREGATIONS:
            raise NotEncryptable(f"the aggregation {kind} computes with values, which are encrypted")
        for key in body.keys() - _AGGREGATIONS[kind]:
            raise NotEncryptable(f"the key {key!r} of an aggregation is unsupported with encryption")
        known = self._field(str(body.get("field")))
        if kind in _ORDERED and not known.ordered:
            raise NotEncryptable(f"encryption does not preserve the order of {known.name!r}")

    def _check_sort(self, sort: Any) -> None:
        for entry in sort if isinstance(sort, list) else [sort]:
            for name, how in entry.items() if isinstance(entry, Mapping) else [(entry, "asc")]:
                if name not in _NO_FIELDS and not self._field(name).ordered:
                    raise NotEncryptable(f"encryption does not preserve the order of {name!r}")
                for key in how.keys() - {"order"} if isinstance(how, Mapping) else ():
                    raise NotEncryptable(f"the key {key!r} of a sort is unsupported with encryption")

    def _clauses(self, clauses: Any) -> Any:
        return [self.query(query) for query in clauses] if isinstance(clauses, list) else self.query(clauses)

    def _term(self, known: Field, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return self._value(known, body)
        for key in body.keys() - {"value", "boost"}:
            raise NotEncryptable(f"the key {key!r} of a term query is unsupported with encryption")
        return {**body, "value": self._value(known, body.get("value"))}

    def _terms(self, known: Field, values: Any) -> list[str]:
        if not isinstance(values, list):
            raise NotEncryptable("a terms query requires a list of values")
        return [self._value(known, value) for value in values]

    def _range(self, known: Field, body: Any) -> dict[str, Any]:
        if not known.ordered:
            raise NotEncryptable(f"encryption does not preserve the order of {known.name!r}")
        if not isinstance(body, Mapping):
            raise NotEncryptable("a range query requires a mapping of bounds")
        for key in body.keys() - {*_ENDS, "format", "boost"}:
            raise NotEncryptable(f"the key {key!r} of a range query is unsupported with encryption")
        how = known.encryption_in(body.get("format"))
        ends = {key: self._variable(known, how, value, _ENDS[key]) for key, value in body.items() if key in _ENDS}
        return {**ends, **({"boost": body["boost"]} if "boost" in body else {})}

    def _value(self, known: Field, value: Any) -> str:
        return self._variable(known, known.how, value, "none")

    def _variable(self, known: Field, how: str | Mapping[str, Any], value: Any, bound: str) -> str:
        """Add the variables that encrypt a value, and return the placeholder; the value may hold placeholders."""
        if isinstance(value, list | Mapping) or value is None:
            raise NotEncryptable(f"{known.name!r} requires a single value; got {value!r}")
        words = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in known.name)
        of = _one_hole(value)
        if of is None:
            of = self.name(f"plain_{words}")
            has_holes = isinstance(value, str) and any(names(value))
            self.variables[of] = {"derived": value} if has_holes else {"constant": _unescaped(value)}
        name = self.name(f"encrypted_{words}")
        self.variables[name] = {
            "encrypted": {"of": of, "key": self.key, "field": known.name, "as": how, "bound": bound}
        }
        return f"${{{name}}}"

    def _field(self, name: str) -> Field:
        """Return the mapping of a field; NotEncryptable if it has none, or if its encryption allows no queries."""
        known = self.fields.get(name)
        if known is None:
            raise NotEncryptable(f"the mapping lacks the field {name!r}")
        if not known.searchable:
            reason = _WORDS if known.how == "text" else "measures distances, which encryption does not preserve"
            raise NotEncryptable(f"a query of the field {name!r} {reason}")
        return known


def _one_hole(value: Any) -> str | None:
    """Return the variable name of a value that is exactly one placeholder; None otherwise."""
    used = list(names(value)) if isinstance(value, str) else []
    return used[0] if len(used) == 1 and value == f"${{{used[0]}}}" else None


def _unescaped(value: Any) -> Any:
    """Replace the escape `$${` by `${`."""
    return value.replace("$${", "${") if isinstance(value, str) else value
