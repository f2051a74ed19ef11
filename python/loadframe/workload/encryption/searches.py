"""Searches of an encrypted collection: the same queries, with their values as the store has them.

Each value becomes a variable that the engine encrypts: before the load where it is known by then, otherwise when it is
drawn.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.workload.encryption.fields import Field, NotEncrypted
from loadframe.workload.holes import names

#: Keys of a search's body that hold no values of documents.
_PLAIN_KEYS = frozenset(
    ("size", "from", "_source", "track_total_hits", "track_scores", "timeout", "terminate_after", "profile", "explain")
)
#: Queries that hold no values of documents.
_PLAIN_QUERIES = frozenset(("match_all", "match_none", "exists", "ids"))
_LETTERS = "compares letters, which encrypted texts do not have"
_WORDS = "looks for words within a text, and texts are encrypted as a whole"
_REASONS = {
    **dict.fromkeys(("fuzzy", "prefix", "wildcard", "regexp"), _LETTERS),
    **dict.fromkeys(("match", "multi_match", "match_phrase", "query_string", "simple_query_string"), _WORDS),
}
_CLAUSES = ("must", "should", "filter", "must_not")
#: Aggregations that need the equality of values, or their order, and what they may say.
_AGGREGATIONS: Mapping[str, frozenset[str]] = {
    "terms": frozenset(("field", "size", "shard_size", "min_doc_count")),
    "cardinality": frozenset(("field", "precision_threshold")),
    **dict.fromkeys(("value_count", "missing", "min", "max"), frozenset(("field",))),
}
_ORDERED = frozenset(("min", "max"))
_ENDS = {"gte": "low", "lt": "low", "lte": "high", "gt": "high"}
#: What a search is sorted by besides fields.
_NO_FIELDS = frozenset(("_doc", "_shard_doc", "_score"))


@dataclass
class Searches:
    """Encrypts the values of the searches of one collection, and gathers the variables that they need.

    NotEncrypted says why a search cannot be asked of it.
    """

    fields: Mapping[str, Field]
    key: str
    #: Gives a name that no other variable has, of one that says what it is.
    name: Callable[[str], str]
    #: By name, as plans have them.
    variables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def body(self, body: Mapping[str, Any] | str) -> dict[str, Any]:
        """Return the body of a search."""
        if isinstance(body, str):
            raise NotEncrypted("its whole body is a variable")
        made: dict[str, Any] = {}
        for key, value in body.items():
            if key in ("query", "post_filter"):
                made[key] = self.query(value)
                continue
            made[key] = value
            if key in ("aggs", "aggregations"):
                self.check_aggregations(value)
            elif key == "sort":
                self._check_sort(value)
            elif key not in _PLAIN_KEYS:
                raise NotEncrypted(f"what {key!r} of a body would have to become is not known")
        return made

    def query(self, query: Any) -> dict[str, Any]:
        """Return a query."""
        if not isinstance(query, Mapping) or len(query) != 1:
            raise NotEncrypted("a query is a mapping with one name")
        kind, said = next(iter(query.items()))
        if not isinstance(said, Mapping):
            raise NotEncrypted(f"what the query {kind} asks is not a mapping")
        if kind in _PLAIN_QUERIES:
            return dict(query)
        if kind == "bool":
            return {kind: {key: self._clauses(value) if key in _CLAUSES else value for key, value in said.items()}}
        if kind == "constant_score":
            return {kind: {**said, "filter": self.query(said.get("filter"))}}
        known = {"term": self._term, "terms": self._terms, "range": self._range}
        if kind not in known:
            reason = _REASONS.get(kind, "has no form for encrypted values here")
            raise NotEncrypted(f"the query {kind} {reason}")
        boost = {key: value for key, value in said.items() if key == "boost"}
        asked = [(name, value) for name, value in said.items() if name != "boost"]
        if len(asked) != 1:
            raise NotEncrypted(f"a {kind} query asks for one field, not {len(asked)}")
        ((name, value),) = asked
        return {kind: {name: known[kind](self._field(name), value), **boost}}

    def check_aggregations(self, aggregations: Mapping[str, Any]) -> None:
        """Refuse aggregations that need more of values than that they are equal, or ordered; they stay as they are."""
        for said in aggregations.values():
            for kind, inner in said.items():
                if kind in ("aggs", "aggregations"):
                    self.check_aggregations(inner)
                elif kind != "meta":
                    self._check_aggregation(kind, inner)

    def _check_aggregation(self, kind: str, said: Mapping[str, Any]) -> None:
        if kind not in _AGGREGATIONS:
            raise NotEncrypted(f"the aggregation {kind} calculates with values, which are encrypted")
        for key in said.keys() - _AGGREGATIONS[kind]:
            raise NotEncrypted(f"what {key!r} of an aggregation would have to become is not known")
        known = self._field(str(said.get("field")))
        if kind in _ORDERED and not known.ordered:
            raise NotEncrypted(f"the encrypted values of {known.name!r} have no order")

    def _check_sort(self, sort: Any) -> None:
        for one in sort if isinstance(sort, list) else [sort]:
            for name, how in one.items() if isinstance(one, Mapping) else [(one, "asc")]:
                if name not in _NO_FIELDS and not self._field(name).ordered:
                    raise NotEncrypted(f"the encrypted values of {name!r} have no order")
                for key in how.keys() - {"order"} if isinstance(how, Mapping) else ():
                    raise NotEncrypted(f"what {key!r} of a sort would have to become is not known")

    def _clauses(self, said: Any) -> Any:
        return [self.query(query) for query in said] if isinstance(said, list) else self.query(said)

    def _term(self, known: Field, said: Any) -> Any:
        if not isinstance(said, Mapping):
            return self._value(known, said)
        for key in said.keys() - {"value", "boost"}:
            raise NotEncrypted(f"what {key!r} of a term would have to become is not known")
        return {**said, "value": self._value(known, said.get("value"))}

    def _terms(self, known: Field, said: Any) -> list[str]:
        if not isinstance(said, list):
            raise NotEncrypted("a terms query wants a list of values")
        return [self._value(known, value) for value in said]

    def _range(self, known: Field, said: Any) -> dict[str, Any]:
        if not known.ordered:
            raise NotEncrypted(f"the encrypted values of {known.name!r} have no order")
        if not isinstance(said, Mapping):
            raise NotEncrypted("a range query wants a mapping of its ends")
        for key in said.keys() - {*_ENDS, "format", "boost"}:
            raise NotEncrypted(f"what {key!r} of a range would have to become is not known")
        how = known.asked_in(said.get("format"))
        ends = {key: self._variable(known, how, value, _ENDS[key]) for key, value in said.items() if key in _ENDS}
        return {**ends, **({"boost": said["boost"]} if "boost" in said else {})}

    def _value(self, known: Field, value: Any) -> str:
        return self._variable(known, known.how, value, "none")

    def _variable(self, known: Field, how: str | Mapping[str, Any], value: Any, bound: str) -> str:
        """Return the hole of a variable that has a value encrypted; the value may have holes itself."""
        if isinstance(value, list | Mapping) or value is None:
            raise NotEncrypted(f"{value!r} is not one value of {known.name!r}")
        words = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in known.name)
        of = _one_hole(value)
        if of is None:
            of = self.name(f"plain_{words}")
            has_holes = isinstance(value, str) and any(names(value))
            self.variables[of] = {"derived": value} if has_holes else {"constant": _unescaped(value)}
        made = self.name(f"encrypted_{words}")
        said = {"of": of, "key": self.key, "field": known.name, "as": how, "bound": bound}
        self.variables[made] = {"encrypted": said}
        return f"${{{made}}}"

    def _field(self, name: str) -> Field:
        known = self.fields.get(name)
        if known is None:
            raise NotEncrypted(f"the mapping does not say what the field {name!r} is")
        if not known.searchable:
            reason = _WORDS if known.how == "text" else "measures distances, and numbers keep their order alone"
            raise NotEncrypted(f"a query of the field {name!r} {reason}")
        return known


def _one_hole(value: Any) -> str | None:
    """Return the name of the variable that a value is, if it is one."""
    held = list(names(value)) if isinstance(value, str) else []
    return held[0] if len(held) == 1 and value == f"${{{held[0]}}}" else None


def _unescaped(value: Any) -> Any:
    """Return a literal as the store is to see it: in operations `$${` stands for `${`."""
    return value.replace("$${", "${") if isinstance(value, str) else value
