"""Workloads: what there is, what is asked of it, and with what load; files in, the engine's plans out.

It starts nothing and knows no store: a family of stores is a word here, and a plan is data.
"""

from loadframe.workload.resolved import ResolvedPhase, ResolvedWorkload
from loadframe.workload.walks import least_seconds, walks_journeys
from loadframe.workload.workload import Workload, library, load_workload

__all__ = [
    "ResolvedPhase",
    "ResolvedWorkload",
    "Workload",
    "least_seconds",
    "library",
    "load_workload",
    "walks_journeys",
]
