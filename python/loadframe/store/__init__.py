"""The stores that Loadframe supports: each module or package here that defines `STORE`.

To add a store, write its module. A store outside Loadframe is named by the path of its file; see `outside`.
"""

import difflib
import importlib
import pkgutil

from loadframe.base.errors import BadInput
from loadframe.store import outside
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
    ProcessSpec,
    RunningSetting,
    Sample,
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
    "ProcessSpec",
    "RunningSetting",
    "Sample",
    "Store",
    "Watch",
    "find",
    "stores",
]


def stores() -> dict[str, Store]:
    """Return every store by its kind, in alphabetical order."""
    stores = (_store_of(name) for name in _modules())
    return {store.kind: store for store in stores if store is not None}


def find(kind: str) -> Store:
    """Return the store of a kind, or the store at a path; BadInput with a suggestion for an unknown kind.

    Most modules have the name of their store's kind, so that usually only one module is imported.
    """
    if outside.is_path(kind):
        return outside.load(kind)
    store = _store_of(kind) if kind in _modules() else None
    if store is not None and store.kind == kind:
        return store
    known = stores()
    if kind in known:
        return known[kind]
    near = difflib.get_close_matches(kind, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"the stores are {', '.join(known)}; see `loadframe stores`"
    raise BadInput(f"unknown store {kind!r}", remedy=remedy)


def _modules() -> list[str]:
    """Return the names of the modules and packages here, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def _store_of(name: str) -> Store | None:
    """Import the module of that name; return its store, or None if it defines none."""
    store = getattr(importlib.import_module(f"{__name__}.{name}"), "STORE", None)
    return store if isinstance(store, Store) else None
