"""Client-side encryption: rewrites collection definitions, corpora, operations and searches of a workload.

Each value of a search becomes a variable. The engine encrypts the values: constants before the load, others when they
are drawn (`crates/engine/src/workload/cipher.rs`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.encryption.fields import ClientEncryption, Field, NotEncryptable, encrypted_mappings, fields_of
from loadframe.workload.holes import names
from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload
from loadframe.yamlfile import Document

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
        """Return the body of a search with encrypted values; adds variables.

        NotEncryptable for a body that is a variable, and for keys other than queries, aggregations, sorts and options.
        """
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
        """Return a query with encrypted values; adds the variables that encrypt them.

        match_all, match_none, exists and ids stay as they are. NotEncryptable for a query other than these, bool,
        constant_score, term, terms and range, and for several fields in one.
        """
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
        """Refuse aggregations, also inner ones, other than terms, cardinality, value_count, missing, min and max.

        min and max need a field that keeps its order. NotEncryptable for others and for unsupported keys.
        """
        for aggregation in aggregations.values():
            for kind, inner in aggregation.items():
                if kind in ("aggs", "aggregations"):
                    self.check_aggregations(inner)
                elif kind != "meta":
                    self._check_aggregation(kind, inner)

    def _check_aggregation(self, kind: str, body: Mapping[str, Any]) -> None:
        """Refuse an aggregation that computes with values, needs an order that encryption loses, or has other keys.

        `kind` is its type, such as `terms`, and `body` the value under it. NotEncryptable names the reason.
        """
        if kind not in _AGGREGATIONS:
            raise NotEncryptable(f"the aggregation {kind} computes with values, which are encrypted")
        for key in body.keys() - _AGGREGATIONS[kind]:
            raise NotEncryptable(f"the key {key!r} of an aggregation is unsupported with encryption")
        known = self._field(str(body.get("field")))
        if kind in _ORDERED and not known.ordered:
            raise NotEncryptable(f"encryption does not preserve the order of {known.name!r}")

    def _check_sort(self, sort: Any) -> None:
        """Refuse a sort by a field that loses its order when encrypted, or with keys other than `order`.

        NotEncryptable. `sort` is a field, a mapping of fields to options, or a list of these. `_doc`, `_shard_doc` and
        `_score` are allowed.
        """
        for entry in sort if isinstance(sort, list) else [sort]:
            for name, how in entry.items() if isinstance(entry, Mapping) else [(entry, "asc")]:
                if name not in _NO_FIELDS and not self._field(name).ordered:
                    raise NotEncryptable(f"encryption does not preserve the order of {name!r}")
                for key in how.keys() - {"order"} if isinstance(how, Mapping) else ():
                    raise NotEncryptable(f"the key {key!r} of a sort is unsupported with encryption")

    def _clauses(self, clauses: Any) -> Any:
        """Return a clause of a bool query, one query or a list, with encrypted values. NotEncryptable as in `query`."""
        return [self.query(query) for query in clauses] if isinstance(clauses, list) else self.query(clauses)

    def _term(self, known: Field, body: Any) -> Any:
        """Return the condition of a term query on the field `known`, with its value encrypted.

        `body` is the value, or a mapping with `value` and `boost`; NotEncryptable for other keys.
        """
        if not isinstance(body, Mapping):
            return self._value(known, body)
        for key in body.keys() - {"value", "boost"}:
            raise NotEncryptable(f"the key {key!r} of a term query is unsupported with encryption")
        return {**body, "value": self._value(known, body.get("value"))}

    def _terms(self, known: Field, values: Any) -> list[str]:
        """Return the placeholders for the encrypted values of a terms query; NotEncryptable unless they are a list."""
        if not isinstance(values, list):
            raise NotEncryptable("a terms query requires a list of values")
        return [self._value(known, value) for value in values]

    def _range(self, known: Field, body: Any) -> dict[str, Any]:
        """Return the bounds of a range query as placeholders, and its `boost`; `format` is applied and removed.

        Adds the variables that encrypt the bounds. NotEncryptable for a field without order, for unsupported keys and
        formats, and for bounds that are null, lists or objects.
        """
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
        """Add the variables that encrypt a value for equality; return the placeholder. NotEncryptable unless scalar."""
        return self._variable(known, known.how, value, "none")

    def _variable(self, known: Field, how: str | Mapping[str, Any], value: Any, bound: str) -> str:
        """Add the variables that encrypt a value, and return the placeholder of the encrypted one.

        The value may hold placeholders itself. `how` is the encryption (see `Field.encryption_in`). `bound` is the end
        of a range that the value is, `low` (gte, lt) or `high` (gt, lte), or `none`. NotEncryptable for null, a list or
        an object.
        """
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
        """Return a field by its full name; NotEncryptable for an unknown one, full text and geographic points."""
        known = self.fields.get(name)
        if known is None:
            raise NotEncryptable(f"the mapping lacks the field {name!r}")
        if not known.searchable:
            reason = _WORDS if known.how == "text" else "measures distances, which encryption does not preserve"
            raise NotEncryptable(f"a query of the field {name!r} {reason}")
        return known


def _one_hole(value: Any) -> str | None:
    """Return the variable name of a value that is exactly one placeholder, or None."""
    used = list(names(value)) if isinstance(value, str) else []
    return used[0] if len(used) == 1 and value == f"${{{used[0]}}}" else None


def _unescaped(value: Any) -> Any:
    """Return a text with the escape `$${` replaced by `${`; return other values unchanged."""
    return value.replace("$${", "${") if isinstance(value, str) else value


_FAMILY = "elasticsearch"
#: Operations without document values.
_WITHOUT_VALUES = frozenset(
    (
        *("refresh", "flush", "force_merge", "put_settings", "shrink", "wait_for_health"),
        *("create_repository", "snapshot", "delete_snapshot"),
    )
)

Form = dict[str, Any]
Fields = Mapping[str, Mapping[str, Field]]


def encrypted(workload: ResolvedWorkload, config: ClientEncryption | None, document: Document) -> ResolvedWorkload:
    """Return the workload with documents and searches encrypted; unchanged if encryption is off or `config` is None.

    BadInput for another family, for fields without an encrypted form, and for operations that do not work on encrypted
    values.
    """
    if config is None or not config.enabled:
        return workload
    if workload.family != _FAMILY:
        what = f"client_encryption requires a store of the family {_FAMILY}; got {workload.family}"
        remedy = "turn client_encryption off, or choose another store"
        raise document.error(("client_encryption", "enabled"), what, remedy)
    mappings = {name: definition.get("mappings", {}) for name, definition in workload.collections.items()}
    fields = {name: _fields(document, name, workload.collections[name]) for name in mappings}
    # Collect all problems, so that the user can exclude all these operations at once.
    problems: dict[str, str] = {}
    phases = [_phase(phase, fields, config.key, problems) for phase in workload.phases]
    if problems:
        raise _refused(workload.phases, problems, document)
    return replace(
        workload,
        collections={
            name: {**workload.collections[name], "mappings": encrypted_mappings(mapping)}
            for name, mapping in mappings.items()
        },
        corpora={**workload.corpora, **{name: form for phase in phases for name, form in phase.corpora.items()}},
        phases=tuple(phases),
    )


def _fields(document: Document, name: str, definition: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of the collection `name` by full name, from its `definition`.

    BadInput, at the collection, if it is a data stream or its mapping cannot be encrypted.
    """
    try:
        if definition.get("data_stream"):
            raise NotEncryptable("a data stream requires a plain date as @timestamp")
        return fields_of(definition.get("mappings", {}))
    except NotEncryptable as error:
        what = f"cannot encrypt the documents of the collection {name!r}: {error}"
        raise document.error(("collections", name), what, "turn client_encryption off", key=True) from None


def _refused(phases: Sequence[ResolvedPhase], problems: Mapping[str, str], document: Document) -> BadInput:
    """Return the error for operations that do not work on encrypted values, with the phases that use them."""
    using = [phase.name for phase in phases if problems.keys() & phase.operations.keys()]
    reasons = "; ".join(f"{name}: {reason}" for name, reason in problems.items())
    subject = "this operation does" if len(problems) == 1 else "these operations do"
    what = f"{subject} not work on encrypted values: {reasons}"
    remedy = f"exclude the phases {', '.join(using)} with --only or measure, or turn client_encryption off"
    return document.error(("operations", next(iter(problems))), what, remedy, key=True)


def _phase(phase: ResolvedPhase, fields: Fields, key: str, problems: dict[str, str]) -> ResolvedPhase:
    """Return a phase with its operations, variables and corpora encrypted; `key` is the AES key in hexadecimal digits.

    `fields` are the fields by collection. Adds each operation without an encrypted form, with the reason, to
    `problems`.
    """
    taken = set(phase.variables)
    operations: dict[str, Form] = {}
    variables: dict[str, Form] = dict(phase.variables)
    corpora: dict[str, Form] = {}
    for name, form in phase.operations.items():
        try:
            operations[name] = _operation(form, fields, key, partial(_free, taken), variables, phase.corpora, corpora)
        except NotEncryptable as error:
            problems.setdefault(name, str(error))
    # Corpora that variables sample stay plain: the engine encrypts the values when it draws them.
    drawn = [source["corpus"] for v in variables.values() for way, source in v.items() if way in ("field", "document")]
    plain = {name: phase.corpora[name] for name in drawn}
    return replace(phase, operations=operations, variables=variables, corpora={**plain, **corpora})


def _operation(
    form: Form,
    fields: Fields,
    key: str,
    free: Callable[[str], str],
    variables: dict[str, Form],
    plain: Mapping[str, Form],
    corpora: dict[str, Form],
) -> Form:
    """Return an operation with its values encrypted; add the new variables and corpus to `variables` and `corpora`.

    `free` returns an unused variable name, and `plain` are the phase's corpora. An operation for another target, or
    without document values, is returned unchanged. NotEncryptable for one that does not work on encrypted values.
    """
    if "target" in form or form.keys() & _WITHOUT_VALUES:
        return form
    if "fields" in form.get("assert", {}):
        raise NotEncryptable("it asserts values of fields")
    if "bulk" in form:
        bulk = form["bulk"]
        known = _fields_of(fields, bulk["collection"])
        name = f"{bulk['corpus']} encrypted for {bulk['collection']}"
        corpora[name] = _corpus(plain[bulk["corpus"]], key, known)
        return {**form, "bulk": {**bulk, "corpus": name}}
    for kind, rewrite in _SEARCHES.items():
        if kind in form:
            request: Form = form[kind]
            rewritten = [
                rewrite(Searches(_fields_of(fields, search["collection"]), key, free, variables), search)
                for search in request.get("searches", [request])
            ]
            return {**form, kind: {**request, "searches": rewritten} if "searches" in request else rewritten[0]}
    kind = next(iter(form))
    raise NotEncryptable(f"{kind} does not support encrypted values")


def _with_body(searches: Searches, search: Form) -> Form:
    """Return a search with the values in its `body` encrypted.

    Adds variables to `searches`; NotEncryptable as in `Searches.body`.
    """
    return {**search, "body": searches.body(search.get("body", {}))}


def _with_query(searches: Searches, search: Form) -> Form:
    """Return a count or an aggregation with the values in its `query` encrypted.

    Adds variables to `searches`. NotEncryptable for unsupported queries and aggregations.
    """
    query = {"query": searches.query(search["query"])} if search.get("query") else {}
    searches.check_aggregations(search.get("aggregations", {}))
    return {**search, **query}


#: The function that rewrites each kind of search.
_SEARCHES: Mapping[str, Callable[[Searches, Form], Form]] = {
    "search": _with_body,
    "scroll": _with_body,
    "search_after": _with_body,
    "multi_search": _with_body,
    "count": _with_query,
    "aggregation": _with_query,
}


def _fields_of(fields: Fields, collection: str) -> Mapping[str, Field]:
    """Return the fields of a collection; NotEncryptable without a mapping of it."""
    if collection not in fields:
        raise NotEncryptable(f"the workload lacks a mapping of the collection {collection!r}")
    return fields[collection]


def _corpus(plain: Form, key: str, fields: Mapping[str, Field]) -> Form:
    """Return the encrypted version of the corpus `plain`, in the format of plans; NotEncryptable for vectors.

    `key` is the AES key in hexadecimal digits, `fields` are the fields of the collection.
    """
    if "columns" in plain:
        raise NotEncryptable("its documents are vectors")
    counts: Form = {name: plain[name] for name in ("documents", "at_most") if name in plain}
    how = {name: field.how for name, field in fields.items()}
    return {"encrypted": {"of": plain, "key": key, "fields": how}, **counts}


def _free(taken: set[str], name: str) -> str:
    """Return `name` with the lowest suffix `_1`, `_2`, ... that is not in `taken`, and add the result to `taken`.

    The suffix is always added.
    """
    free = next(f"{name}_{number}" for number in count(1) if f"{name}_{number}" not in taken)
    taken.add(free)
    return free


__all__ = ["ClientEncryption", "encrypted"]
