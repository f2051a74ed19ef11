"""Client-side encryption: rewrites collection definitions, corpora, operations and searches of a workload.

The engine encrypts the values (`crates/engine/src/workload/cipher.rs`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.encryption.fields import ClientEncryption, Field, NotEncryptable, encrypted_mappings, fields_of
from loadframe.workload.encryption.searches import Searches
from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload
from loadframe.yamlfile import Document

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
    """Return the workload with documents and searches encrypted; unchanged if encryption is off.

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
    """Return a phase with its operations encrypted; add operations without an encrypted form to `problems`."""
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
    """Return an operation with its values encrypted; add the new variables and corpus to `variables` and `corpora`."""
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
    return {**search, "body": searches.body(search.get("body", {}))}


def _with_query(searches: Searches, search: Form) -> Form:
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
    if collection not in fields:
        raise NotEncryptable(f"the workload lacks a mapping of the collection {collection!r}")
    return fields[collection]


def _corpus(plain: Form, key: str, fields: Mapping[str, Field]) -> Form:
    """Return the encrypted version of a corpus for the plan."""
    if "columns" in plain:
        raise NotEncryptable("its documents are vectors")
    counts: Form = {name: plain[name] for name in ("documents", "at_most") if name in plain}
    how = {name: field.how for name, field in fields.items()}
    return {"encrypted": {"of": plain, "key": key, "fields": how}, **counts}


def _free(taken: set[str], name: str) -> str:
    """Return an unused variable name that starts with `name`, and add it to `taken`."""
    free = next(f"{name}_{number}" for number in count(1) if f"{name}_{number}" not in taken)
    taken.add(free)
    return free


__all__ = ["ClientEncryption", "encrypted"]
