"""Core assignment: all nodes share one set of cores, or each node has its own. Needs no privilege."""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.units import format_nodes
from loadframe.host.limits import Limits

_TOPOLOGY = Path("/sys/devices/system/cpu")


def shortage(limits: Limits, nodes: int) -> str | None:
    """Return why this machine lacks the cores for that many nodes, or None if it has them."""
    usable = os.sched_getaffinity(0)
    for core in limits.cores or ():
        if core not in usable:
            return f"core {core} is not usable by this process"
    if limits.cores_each is None:
        return None
    wanted, available = nodes * limits.cores_each, len(limits.cores or usable)
    if wanted <= available:
        return None
    share = "1 core" if limits.cores_each == 1 else f"{limits.cores_each} cores"
    return f"{format_nodes(nodes)} with {share} each need {wanted} cores; this machine has {available}"


def generator_shares(limits: Limits, nodes: int) -> bool:
    """Whether the node cores, if assigned, leave no core for the generator."""
    if limits.cores is None and limits.cores_each is None:
        return False
    return not os.sched_getaffinity(0) - set(pool(limits, nodes))


def require(limits: Limits, nodes: int) -> None:
    """Raise BadInput if cores are missing for that many nodes, or a shared set leaves the generator none."""
    usable = sorted(os.sched_getaffinity(0))
    problem = shortage(limits, nodes)
    if problem:
        listed = ", ".join(map(str, usable))
        raise BadInput(problem, remedy=f"use fewer nodes, or other cores; usable are {listed}")
    if limits.cores_each is None and generator_shares(limits, nodes):
        every = "the only core" if len(usable) == 1 else f"all {len(usable)} cores"
        raise BadInput(
            f"the nodes have {every}, which leaves none for the load generator",
            remedy="give the nodes fewer cores, or omit --cores, so that nodes and generator share all",
        )


def pool(limits: Limits, nodes: int) -> tuple[int, ...]:
    """Return the cores for that many nodes: the given ones, or a selection.

    The selection leaves the first usable core to the generator, and the other threads of its physical core. If the
    nodes need more cores, it leaves only the first one, and then none.
    """
    if limits.cores is not None:
        return limits.cores
    usable = tuple(sorted(os.sched_getaffinity(0)))
    wanted = nodes * (limits.cores_each or 0)
    first_physical = set(siblings(usable[0]))
    for kept in (first_physical, {usable[0]}):
        rest = tuple(core for core in usable if core not in kept)
        if len(rest) >= max(wanted, 1):
            return rest
    return usable


def deal(limits: Limits, nodes: int, taken: Iterable[int], before: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the cores of the next node; `taken` are those of the other nodes.

    A node keeps its previous cores (`before`) if they are free. Otherwise a node gets whole physical cores while there
    are enough, so that it does not share one with another node. BadInput if too few are free.
    """
    assert limits.cores_each is not None
    available = pool(limits, nodes)
    free = [core for core in available if core not in set(taken)]
    if before and len(before) == limits.cores_each and set(before) <= set(free):
        return tuple(sorted(before))
    if len(free) < limits.cores_each:
        raise BadInput(
            f"a node needs {limits.cores_each} of the cores {', '.join(map(str, available))}, but only"
            f" {len(free)} {'is' if len(free) == 1 else 'are'} free",
            remedy="use fewer nodes, or give more cores",
        )
    chosen: list[int] = []
    while len(chosen) < limits.cores_each:
        rest = [core for core in free if core not in chosen]
        chosen.append(min(rest, key=lambda core: (_shared(core, chosen, taken=_others(available, rest, chosen)), core)))
    return tuple(sorted(chosen))


def of_companions(limits: Limits, nodes: int, taken: Collection[int]) -> tuple[int, ...]:
    """Return the cores of processes other than data nodes: those that data nodes leave free, or all if none is free."""
    available = pool(limits, nodes)
    return tuple(core for core in available if core not in taken) or available


def siblings(core: int) -> tuple[int, ...]:
    """Return the logical processors of this core's physical core, including itself."""
    try:
        text = (_TOPOLOGY / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return (core,)
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers) or (core,)


def _others(available: Sequence[int], free: Sequence[int], chosen: Sequence[int]) -> set[int]:
    return set(available) - set(free) - set(chosen)


def _shared(core: int, chosen: Sequence[int], taken: Collection[int]) -> int:
    """Rank a candidate: same physical core as a chosen one (0), unused physical core (1), core of another node (2)."""
    threads = set(siblings(core))
    if threads & set(chosen):
        return 0
    return 2 if threads & set(taken) else 1
