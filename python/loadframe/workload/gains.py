"""What requests do to the number of documents that collections hold, as far as their form says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: What each writing verb that was acknowledged does to the number of documents; None where only the store can tell.
_CHANGES: Mapping[str, int | None] = {
    "insert": 1,
    "create": 1,
    "delete": -1,
    "update": 0,
    "upsert": None,
    "take_in": None,
}
_WRITES = ("bulk", "insert", "index", "update", "upsert", "delete", "take_in")


@dataclass(frozen=True)
class Gain:
    """By how much documents become more with each document that an operation counts, or with each of its successes.

    Where only the store can tell (`sure` is False), each is taken for a new one.
    """

    amount: float
    by: str = "documents"  #: or `successes`
    sure: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return it as outcomes have it."""
        return dict(vars(self))


def written(form: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind of a request that writes documents, and what it says; None of all others."""
    return next(((kind, form[kind]) for kind in _WRITES if form.get(kind) is not None), None)


def change(
    kind: str, content: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]], *, first: bool
) -> int | None:
    """Return what each document does to the count; None where only the store can tell. `first`: there are no others."""
    if content.get("conflicts"):
        return None
    action = content.get("action", "index") if kind == "bulk" else kind
    corpus = corpora.get(content.get("corpus", ""), {})
    if action == "index" and "id" not in content and corpus.get("encrypted", {}).get("of", corpus).get("actions"):
        # Action lines may repeat an id.
        return None
    if action in ("index", "upsert"):
        # Documents without an id are new ones, and so are those with ids as long as there are no others.
        return 1 if "id" not in content or (kind == "bulk" and first) else None
    return _CHANGES[action]


def gain(form: Mapping[str, Any], corpora: Mapping[str, Mapping[str, Any]], *, first: bool) -> Gain | None:
    """Return what an operation adds; None if nothing. `first`: its collection is empty when the load begins."""
    write = written(form)
    said = form.get("new_documents")
    if said is not None:
        return Gain(said, "documents" if write and write[0] == "bulk" else "successes") if said else None
    changed = 0 if write is None else change(*write, corpora, first=first)
    return Gain(1.0, sure=False) if changed is None else Gain(float(changed)) if changed else None
