"""Loadframe: load tests of data stores.

The names in `__all__` are the public interface. They are imported on first use, so that `import loadframe` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadframe.base.errors import BadInput, GeneratorFailed, LoadframeError, NothingUsable, StoreFailed
    from loadframe.library.experiment import Experiment
    from loadframe.library.opening import open
    from loadframe.library.run import Run
    from loadframe.library.tables import Table
    from loadframe.library.times import Times

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "Experiment",
    "GeneratorFailed",
    "LoadframeError",
    "NothingUsable",
    "Run",
    "StoreFailed",
    "Table",
    "Times",
    "__version__",
    "open",
]

#: Module of each public name.
_MODULES = {
    **dict.fromkeys(("BadInput", "GeneratorFailed", "LoadframeError", "NothingUsable", "StoreFailed"), "base.errors"),
    "Experiment": "library.experiment",
    "Run": "library.run",
    "Table": "library.tables",
    "Times": "library.times",
    "open": "library.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'loadframe' has no attribute {name!r}")
    value = getattr(import_module(f"loadframe.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
