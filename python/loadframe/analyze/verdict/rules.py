"""The reasons for which a run is invalid: each has its figures, its cause, its remedy, and whose fault it is."""

import functools

from loadframe.analyze.verdict.generator import (
    AWAY_LIMIT,
    BEGAN_LATE_LIMIT,
    CEILING_LIMIT,
    CPU_LIMIT,
    NETWORK_LIMIT,
    STALL_LIMIT,
    THROTTLED_LIMIT,
    WAITED_LIMIT,
    BeganLate,
    Broke,
    GeneratorBusy,
    Late,
    LeftOver,
    LoopLag,
    MissingEvents,
    NearCeiling,
    NetworkBusy,
    ReaderBusy,
    Stalled,
    Starved,
    Straggler,
    Throttled,
    lateness_limit,
)
from loadframe.analyze.verdict.reason import Effect, Fault, Reason
from loadframe.analyze.verdict.requests import (
    ACHIEVED_LIMIT,
    DROPPED_LIMIT,
    ERROR_LIMIT,
    Backlog,
    ChangeFailed,
    ClusterState,
    CopiesLost,
    DocumentsLost,
    Dropped,
    Errors,
    MachineSilent,
    NodeLost,
    NotAchieved,
    NothingMeasured,
    Unsteady,
)

__all__ = [
    "ACHIEVED_LIMIT",
    "AWAY_LIMIT",
    "BEGAN_LATE_LIMIT",
    "CEILING_LIMIT",
    "CPU_LIMIT",
    "DROPPED_LIMIT",
    "ERROR_LIMIT",
    "NETWORK_LIMIT",
    "STALL_LIMIT",
    "THROTTLED_LIMIT",
    "WAITED_LIMIT",
    "Backlog",
    "BeganLate",
    "Broke",
    "ChangeFailed",
    "ClusterState",
    "CopiesLost",
    "DocumentsLost",
    "Dropped",
    "Effect",
    "Errors",
    "Fault",
    "GeneratorBusy",
    "Late",
    "LeftOver",
    "LoopLag",
    "MachineSilent",
    "MissingEvents",
    "NearCeiling",
    "NetworkBusy",
    "NodeLost",
    "NotAchieved",
    "NothingMeasured",
    "ReaderBusy",
    "Reason",
    "Stalled",
    "Starved",
    "Straggler",
    "Throttled",
    "Unsteady",
    "effect_of",
    "fault_of",
    "lateness_limit",
]


def fault_of(code: str) -> Fault:
    """Return whose fault a recorded reason is; the generator's where this version does not know the code."""
    known = _by_code().get(code)
    return known.fault if known else "generator"


def effect_of(code: str) -> Effect:
    """Return what a recorded reason does to the figures of its phase; `unknown` where the code is not known."""
    known = _by_code().get(code)
    return known.effect if known else "unknown"


@functools.cache
def _by_code() -> dict[str, type[Reason]]:
    kinds: dict[str, type[Reason]] = {}
    below = list(Reason.__subclasses__())
    while below:
        kind = below.pop()
        below += kind.__subclasses__()
        if "code" in vars(kind):
            kinds[kind.code] = kind
    return kinds
