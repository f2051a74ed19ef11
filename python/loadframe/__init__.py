"""Loadframe: load tests of data stores.

The names in `__all__` are the public interface. They are imported on first use, so that `import loadframe` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadframe.base.errors import BadInput, GeneratorFailed, LoadframeError, NothingUsable, StoreFailed
    from loadframe.library.actions import bench, capacity, check, compare, convert, fit, gate, run
    from loadframe.library.answers import Capacity, Check, Checks, Comparison, Fit, Gate
    from loadframe.library.calibrate import Calibration, calibrate
    from loadframe.library.cluster import Cluster
    from loadframe.library.experiment import Experiment, open
    from loadframe.library.gate_history import History, history
    from loadframe.library.imports import (
        Imported,
        import_mapping,
        import_queries,
        import_rally,
        import_sample,
        import_ycsb,
    )
    from loadframe.library.ingest import Ingested, ingest
    from loadframe.library.plan import DryRun, Plan, dry_run, plan
    from loadframe.library.plots import ExperimentPlots, Plot, RunPlots
    from loadframe.library.progress import NotebookProgress, Progress
    from loadframe.library.reports import Converted, Exported, Report
    from loadframe.library.run import Run
    from loadframe.library.tables import Table
    from loadframe.library.times import Times
    from loadframe.library.workload import Outline, Workload, workloads

__version__ = "0.3.0"

__all__ = [
    "BadInput",
    "Calibration",
    "Capacity",
    "Check",
    "Checks",
    "Cluster",
    "Comparison",
    "Converted",
    "DryRun",
    "Experiment",
    "ExperimentPlots",
    "Exported",
    "Fit",
    "Gate",
    "GeneratorFailed",
    "History",
    "Imported",
    "Ingested",
    "LoadframeError",
    "NotebookProgress",
    "NothingUsable",
    "Outline",
    "Plan",
    "Plot",
    "Progress",
    "Report",
    "Run",
    "RunPlots",
    "StoreFailed",
    "Table",
    "Times",
    "Workload",
    "__version__",
    "bench",
    "calibrate",
    "capacity",
    "check",
    "compare",
    "convert",
    "dry_run",
    "fit",
    "gate",
    "history",
    "import_mapping",
    "import_queries",
    "import_rally",
    "import_sample",
    "import_ycsb",
    "ingest",
    "open",
    "plan",
    "run",
    "workloads",
]

#: Public names by module.
_NAMES = {
    "base.errors": ("BadInput", "GeneratorFailed", "LoadframeError", "NothingUsable", "StoreFailed"),
    "library.actions": ("bench", "capacity", "check", "compare", "convert", "fit", "gate", "run"),
    "library.answers": ("Capacity", "Check", "Checks", "Comparison", "Fit", "Gate"),
    "library.calibrate": ("Calibration", "calibrate"),
    "library.cluster": ("Cluster",),
    "library.experiment": ("Experiment", "open"),
    "library.gate_history": ("History", "history"),
    "library.imports": (
        *("Imported", "import_mapping", "import_queries", "import_rally", "import_sample", "import_ycsb"),
    ),
    "library.ingest": ("Ingested", "ingest"),
    "library.plan": ("DryRun", "Plan", "dry_run", "plan"),
    "library.plots": ("ExperimentPlots", "Plot", "RunPlots"),
    "library.progress": ("NotebookProgress", "Progress"),
    "library.reports": ("Converted", "Exported", "Report"),
    "library.run": ("Run",),
    "library.tables": ("Table",),
    "library.times": ("Times",),
    "library.workload": ("Outline", "Workload", "workloads"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'loadframe' has no attribute {name!r}")
    value = getattr(import_module(f"loadframe.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
