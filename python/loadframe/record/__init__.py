"""Run folders: writing, which is atomic, reading, and their schema.

The names in `__all__` are imported on first use: reading and writing need Arrow, which takes a quarter of a second to
import, and modules such as `redact` do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Types of a run's histograms, for modules that must not import the engine.
    from loadframe._engine import Histogram as Histogram
    from loadframe._engine import HistogramLog as HistogramLog
    from loadframe.record.machine import ManifestDraft, file_record
    from loadframe.record.reader import Recordings, Run
    from loadframe.record.schema.manifest import Manifest
    from loadframe.record.schema.summary import Summary
    from loadframe.record.writer import RunWriter, Subscriber

__all__ = ["Manifest", "ManifestDraft", "Recordings", "Run", "RunWriter", "Subscriber", "Summary", "file_record"]

#: Names by module.
_NAMES = {
    "machine": ("ManifestDraft", "file_record"),
    "reader": ("Recordings", "Run"),
    "schema.manifest": ("Manifest",),
    "schema.summary": ("Summary",),
    "writer": ("RunWriter", "Subscriber"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
