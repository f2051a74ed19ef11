"""The kinds of store that loadframe knows: each module here that has a `STORE` is one, registered nowhere else."""

import difflib
import importlib
import pkgutil

from loadframe.errors import BadInput
from loadframe.store.access import OPEN, Access
from loadframe.store.base import (
    Balancing,
    Figure,
    Found,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    Place,
    Store,
    Watch,
)

__all__ = [
    "OPEN",
    "Access",
    "Balancing",
    "Figure",
    "Found",
    "Health",
    "Installation",
    "Member",
    "NodePlan",
    "NodeSpec",
    "Place",
    "Store",
    "Watch",
    "find",
    "stores",
]


def stores() -> dict[str, Store]:
    """Return every store by its kind, in alphabetical order."""
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        store = getattr(importlib.import_module(f"{__name__}.{module.name}"), "STORE", None)
        if isinstance(store, Store):
            found[store.kind] = store
    return found


def find(kind: str) -> Store:
    """Return the store of that kind; BadInput with the nearest kind when there is none."""
    known = stores()
    if kind in known:
        return known[kind]
    near = difflib.get_close_matches(kind, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"the stores are {', '.join(known)}; see `loadframe stores`"
    raise BadInput(f"there is no store {kind!r}", remedy=remedy)
