"""The kinds of experiments. Each module is named like its value of `kind:` and defines `KIND`, without a registry.

`loadframe.report.kinds` has the report of each kind.
"""

import importlib
import pkgutil

from loadframe.experiment.kinds.base import Kind

__all__ = ["Kind", "find", "names"]


def names() -> list[str]:
    """Return the name of every kind, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")


def find(name: str) -> Kind:
    """Return the kind with that name; ImportError for an unknown one."""
    kind: Kind = importlib.import_module(f"{__name__}.{name}").KIND
    return kind
