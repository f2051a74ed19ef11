"""The stores that Loadframe supports: each module or package here that defines `STORE`.

A file is named by its path. A folder stands for its file `under_test.py`. The file defines `STORE`. A path contains a
slash or ends with `.py`, unlike the name of a store.

To add a store, write its module. A store outside Loadframe is named by the path of its file.
"""

import difflib
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from functools import cache
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.store.access import OPEN, Access
from loadframe.store.base import (
    Balancing,
    Figure,
    FoundInstallation,
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

#: The file of a folder that defines a store.
FILE = "under_test.py"


def is_path(kind: str) -> bool:
    """Whether `kind` is a path: it contains a slash, ends with `.py`, or is `.` or `..`; otherwise it names a store.

    Whether the file exists is not checked.
    """
    return "/" in kind or kind.endswith(".py") or kind in (".", "..")


def below(kind: str, folder: Path) -> str:
    """Return a path, relative to `folder`, as an absolute path; return the name of a store unchanged.

    `~` is expanded and links are resolved. Whether the path exists, or is below `folder`, is not checked.
    """
    return str((folder / Path(kind).expanduser()).resolve()) if is_path(kind) else kind


def load_file(path: str) -> Store:
    """Return the store that the Python file or folder at `path` defines; BadInput if it is missing or invalid.

    A folder stands for its file `under_test.py`. Each file is executed only once per process.
    """
    file = Path(path).expanduser().absolute()
    if file.is_dir():
        file /= FILE
    if not file.is_file():
        raise BadInput(
            "no such file",
            where=str(file),
            remedy=f"name a Python file that defines STORE, or a folder with such a file, {FILE}",
        )
    return _load_file(file.resolve())


@cache
def _load_file(file: Path) -> Store:
    """Execute a store's file and return its STORE; BadInput if it fails or defines no store.

    Sets the store's `code` to the file's name and 12 hexadecimal digits of its SHA-256. The result is cached by path,
    because a store may keep state of its cluster.
    """
    name = f"_loadframe_store_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BadInput:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise BadInput(
            f"cannot load this file: {type(error).__name__}: {error}",
            where=f"{file}, line {_line(error, file)}",
            remedy="see docs/reference/experiment-file.md, section Applications",
        ) from error
    store = getattr(module, "STORE", None)
    if not isinstance(store, Store):
        problem = "does not define STORE" if store is None else f"sets STORE to a {type(store).__name__}, not a store"
        raise BadInput(
            f"this file {problem}",
            where=str(file),
            remedy="set STORE to an Application, or to an object of a subclass of loadframe.store.Store",
        )
    store.code = f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
    return store


def _line(error: Exception, file: Path) -> int:
    """Return the number of the last line of `file` in the traceback, or the line of a syntax error; 1 if unknown."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return next((line for line in reversed(lines) if line), 1)


__all__ = [
    "OPEN",
    "Access",
    "Balancing",
    "Figure",
    "FoundInstallation",
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
    """Import all modules here, and return their stores by kind, in alphabetical order of the modules."""
    stores = (_store_of(name) for name in _modules())
    return {store.kind: store for store in stores if store is not None}


def find(kind: str, where: str = "--store") -> Store:
    """Return the store of a kind, or the store at a path; BadInput at `where`, with a suggestion, for an unknown kind.

    Imports only the module with the kind's name if that defines the store, and otherwise all. A path is of a Python
    file or a folder that defines a store; BadInput if it does not.
    """
    if is_path(kind):
        return load_file(kind)
    store = _store_of(kind) if kind in _modules() else None
    if store is not None and store.kind == kind:
        return store
    known = stores()
    if kind in known:
        return known[kind]
    near = difflib.get_close_matches(kind, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"the stores are {', '.join(known)}; see `loadframe stores`"
    raise BadInput(f"unknown store {kind!r}", where=where, remedy=remedy)


def _modules() -> list[str]:
    """Return the names of the modules and packages in this package, in alphabetical order, without importing them."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def _store_of(name: str) -> Store | None:
    """Import the module of that name in this package; return its store, or None if it does not define one."""
    store = getattr(importlib.import_module(f"{__name__}.{name}"), "STORE", None)
    return store if isinstance(store, Store) else None
