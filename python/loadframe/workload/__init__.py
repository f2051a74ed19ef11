"""Workloads: reads workload files and resolves them to the engine's plans.

Nothing here starts processes or imports store code: a store family is a string, and a plan is JSON data.
"""

from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload
from loadframe.workload.workload import Workload, library, load_workload, workload_of

__all__ = [
    "ResolvedPhase",
    "ResolvedWorkload",
    "Workload",
    "library",
    "load_workload",
    "workload_of",
]
