"""A workload that is ready to be run, with its values encrypted: collections, corpora, operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.workload.encryption.fields import ClientEncryption, Field, NotEncrypted, encrypted_mappings, fields_of
from loadframe.workload.encryption.searches import Searches
from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload
from loadframe.yamlfile import Document

_FAMILY = "elasticsearch"
#: Operations that hold no values of documents.
_WITHOUT_VALUES = frozenset(
    (
        *("refresh", "flush", "force_merge", "put_settings", "shrink", "wait_for_health"),
        *("create_repository", "snapshot", "delete_snapshot"),
    )
)

Form = dict[str, Any]
Fields = Mapping[str, Mapping[str, Field]]


def encrypted(workload: ResolvedWorkload, said: ClientEncryption | None, document: Document) -> ResolvedWorkload:
    """Return the workload with its documents and searches encrypted; as it is, where encryption is off.

    BadInput for another family, for a field that has no encrypted form, and for operations that cannot be asked of
    encrypted values.
    """
    if said is None or not said.enabled:
        return workload
    if workload.family != _FAMILY:
        what = f"values can be encrypted for stores of the family {_FAMILY}, and not of {workload.family}"
        remedy = "turn client_encryption off, or choose such a store"
        raise document.error(("client_encryption", "enabled"), what, remedy)
    mappings = {name: definition.get("mappings", {}) for name, definition in workload.collections.items()}
    fields = {name: _fields(document, name, workload.collections[name]) for name in mappings}
    # Operations that have no place in it are told together: to leave out one after the other takes long.
    problems: dict[str, str] = {}
    phases = [_phase(phase, fields, said.key, problems) for phase in workload.phases]
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
            raise NotEncrypted("it is a data stream, which wants a date as @timestamp")
        return fields_of(definition.get("mappings", {}))
    except NotEncrypted as error:
        what = f"the documents of the collection {name!r} cannot be encrypted: {error}"
        raise document.error(("collections", name), what, "turn client_encryption off", key=True) from None


def _refused(phases: Sequence[ResolvedPhase], problems: Mapping[str, str], document: Document) -> BadInput:
    """Return the error of operations that cannot be asked, with the phases that would have to be left out."""
    using = [phase.name for phase in phases if problems.keys() & phase.operations.keys()]
    reasons = "; ".join(f"{name}: {reason}" for name, reason in problems.items())
    these = "this operation" if len(problems) == 1 else "these operations"
    what = f"{these} cannot be asked of encrypted values: {reasons}"
    remedy = f"run the others (--only, or measure), without {', '.join(using)}; or turn client_encryption off"
    return document.error(("operations", next(iter(problems))), what, remedy, key=True)


def _phase(phase: ResolvedPhase, fields: Fields, key: str, problems: dict[str, str]) -> ResolvedPhase:
    """Return a phase with its operations encrypted; those that cannot be are added to the problems."""
    taken = set(phase.variables)
    operations: dict[str, Form] = {}
    variables: dict[str, Form] = dict(phase.variables)
    corpora: dict[str, Form] = {}
    for name, form in phase.operations.items():
        try:
            operations[name] = _operation(form, fields, key, partial(_free, taken), variables, phase.corpora, corpora)
        except NotEncrypted as error:
            problems.setdefault(name, str(error))
    # What variables are drawn from stays plain: they are encrypted when they are drawn.
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
    """Return an operation with its values encrypted; its variables and its corpus are added to the others."""
    if "target" in form or form.keys() & _WITHOUT_VALUES:
        return form
    if "fields" in form.get("assert", {}):
        raise NotEncrypted("it asserts what a document's fields are")
    if "bulk" in form:
        bulk = form["bulk"]
        known = _known(fields, bulk["collection"])
        name = f"{bulk['corpus']} encrypted for {bulk['collection']}"
        corpora[name] = _corpus(plain[bulk["corpus"]], key, known)
        return {**form, "bulk": {**bulk, "corpus": name}}
    for kind, rewrite in _SEARCHES.items():
        if kind in form:
            asked: Form = form[kind]
            made = [
                rewrite(_searches(fields, one, key, free, variables), one) for one in asked.get("searches", [asked])
            ]
            return {**form, kind: {**asked, "searches": made} if "searches" in asked else made[0]}
    kind = next(iter(form))
    raise NotEncrypted(f"{kind} has no form for encrypted values here")


def _searches(
    fields: Fields, asked: Form, key: str, free: Callable[[str], str], variables: dict[str, Form]
) -> Searches:
    return Searches(_known(fields, asked["collection"]), key, free, variables)


def _with_body(searches: Searches, asked: Form) -> Form:
    return {**asked, "body": searches.body(asked.get("body", {}))}


def _with_query(searches: Searches, asked: Form) -> Form:
    query = {"query": searches.query(asked["query"])} if asked.get("query") else {}
    searches.check_aggregations(asked.get("aggregations", {}))
    return {**asked, **query}


#: How each kind of search is encrypted.
_SEARCHES: Mapping[str, Callable[[Searches, Form], Form]] = {
    "search": _with_body,
    "scroll": _with_body,
    "search_after": _with_body,
    "multi_search": _with_body,
    "count": _with_query,
    "aggregation": _with_query,
}


def _known(fields: Fields, collection: str) -> Mapping[str, Field]:
    if collection not in fields:
        raise NotEncrypted(f"the workload has no mapping of {collection!r}")
    return fields[collection]


def _corpus(plain: Form, key: str, fields: Mapping[str, Field]) -> Form:
    """Return a corpus as plans have it, with its documents encrypted."""
    if "columns" in plain:
        raise NotEncrypted("its documents are vectors")
    counts: Form = {name: plain[name] for name in ("documents", "at_most") if name in plain}
    how = {name: field.how for name, field in fields.items()}
    return {"encrypted": {"of": plain, "key": key, "fields": how}, **counts}


def _free(taken: set[str], name: str) -> str:
    """Return a name that no variable has yet."""
    made = next(f"{name}_{number}" for number in count(1) if f"{name}_{number}" not in taken)
    taken.add(made)
    return made
