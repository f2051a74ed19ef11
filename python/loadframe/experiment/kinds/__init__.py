"""The kinds of experiments: each module here has a `KIND`, and is named as in `kind:`. No list of them is kept.

What such a kind's runs say when they are made is the business of `loadframe.report.kinds`.
"""

import importlib
import pkgutil

from loadframe.experiment.kinds.base import Kind

__all__ = ["Kind", "find", "names"]


def names() -> list[str]:
    """Return the name of every kind, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")


def find(name: str) -> Kind:
    """Return the kind of that name, which must be one."""
    kind: Kind = importlib.import_module(f"{__name__}.{name}").KIND
    return kind
