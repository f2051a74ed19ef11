"""Kinds of store that loadframe does not bring: a Python file of the user's, beside an experiment or anywhere else.

A file is named by its path; a folder by its own, and has the file `under_test.py`. Either has a `STORE`, as the modules
here have. A path begins with `.` or `/`, has a slash in it, or ends with `.py`: kinds of store have neither.
"""

import hashlib
import importlib.util
import sys
import traceback
from functools import cache
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.store.base import Store

#: What a folder has to have.
FILE = "under_test.py"


def is_path(kind: str) -> bool:
    """Whether this names a file or a folder, and not a kind of store that loadframe brings."""
    return "/" in kind or kind.endswith(".py") or kind in (".", "..")


def below(kind: str, folder: Path) -> str:
    """Return a path as it is from anywhere, which was written in a file of that folder; a kind stays as it is."""
    return str((folder / Path(kind).expanduser()).resolve()) if is_path(kind) else kind


def load(path: str) -> Store:
    """Return the store that the file at `path`, or that of the folder there, has; BadInput where that cannot be."""
    place = Path(path).expanduser().absolute()
    if place.is_dir():
        place /= FILE
    if not place.is_file():
        raise BadInput(
            "there is no store here",
            where=str(place),
            remedy=f"name a Python file that has a STORE, or a folder with such a file, {FILE}",
        )
    return _loaded(place.resolve())


@cache
def _loaded(place: Path) -> Store:
    """Run a file, once: what its store keeps of a cluster is the cluster's for as long as this process runs."""
    name = f"_loadframe_store_{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, place)
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
            f"this file cannot be loaded: {type(error).__name__}: {error}",
            where=f"{place}, line {_line(error, place)}",
            remedy="see docs/applications.md for what it has to have",
        ) from error
    store = getattr(module, "STORE", None)
    if not isinstance(store, Store):
        had = "no STORE" if store is None else f"a STORE that is a {type(store).__name__}, and not a store"
        raise BadInput(
            f"this file has {had}",
            where=str(place),
            remedy="set STORE to an Application, or to an object of another class below loadframe.store.Store",
        )
    store.code = f"{place.name} {hashlib.sha256(place.read_bytes()).hexdigest()[:12]}"
    return store


def _line(error: Exception, place: Path) -> int:
    """Return the last line of the file that was reached; of a file that is not Python, the one that is wrong."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
    return next((line for line in reversed(lines) if line), 1)
