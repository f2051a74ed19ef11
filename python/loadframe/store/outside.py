"""Stores defined in a user's Python file.

A file is named by its path. A folder stands for its file `under_test.py`. The file defines `STORE`. A path contains a
slash or ends with `.py`, unlike the name of a store.
"""

import hashlib
import importlib.util
import sys
import traceback
from functools import cache
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.store.base import Store

#: The file of a folder that defines a store.
FILE = "under_test.py"


def is_path(kind: str) -> bool:
    """Whether `kind` is a path of a file or folder rather than the name of one of Loadframe's stores."""
    return "/" in kind or kind.endswith(".py") or kind in (".", "..")


def below(kind: str, folder: Path) -> str:
    """Return a path, relative to `folder`, as an absolute path; return the name of a store unchanged."""
    return str((folder / Path(kind).expanduser()).resolve()) if is_path(kind) else kind


def load(path: str) -> Store:
    """Return the store that the Python file or folder at `path` defines; BadInput if it is missing or invalid."""
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
    """Run a file once per process, because a store may keep state of its cluster."""
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
    """Return the last line of the file in the traceback, or the line of a syntax error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return next((line for line in reversed(lines) if line), 1)
