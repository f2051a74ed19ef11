"""Which cores each node may use: one set that all share, or a set of its own for each node. Needs no privilege."""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.units import format_nodes
from loadframe.host.limits import Limits

_TOPOLOGY = Path("/sys/devices/system/cpu")


def shortage(limits: Limits, nodes: int) -> str | None:
    """Return why that many nodes cannot have their cores on this machine; None when they can."""
    usable = os.sched_getaffinity(0)
    for core in limits.cores or ():
        if core not in usable:
            return f"core {core} cannot be used here"
    if limits.cores_each is None:
        return None
    wanted, there = nodes * limits.cores_each, len(limits.cores or usable)
    if wanted <= there:
        return None
    have = "1 core" if there == 1 else f"{there} cores"
    share = "1 core" if limits.cores_each == 1 else f"{limits.cores_each} cores"
    return f"{format_nodes(nodes)} with {share} each need {wanted}, and there {'is' if there == 1 else 'are'} {have}"


def generator_shares(limits: Limits, nodes: int) -> bool:
    """Whether that many nodes, although confined to cores, leave the generator no core to itself."""
    if limits.cores is None and limits.cores_each is None:
        return False
    return not os.sched_getaffinity(0) - set(pool(limits, nodes))


def require(limits: Limits, nodes: int) -> None:
    """BadInput when that many nodes cannot have their cores, or a set that they share leaves the generator none."""
    usable = sorted(os.sched_getaffinity(0))
    problem = shortage(limits, nodes)
    if problem:
        listed = ", ".join(map(str, usable))
        raise BadInput(
            problem, remedy=f"the cores that can be used here are {listed}: take fewer nodes, or cores of those"
        )
    if limits.cores_each is None and generator_shares(limits, nodes):
        every = "the only core" if len(usable) == 1 else f"all {len(usable)} cores"
        raise BadInput(
            f"the nodes have {every}, and the generator has none for itself",
            remedy="give the nodes fewer, or leave cores out: they then share them all",
        )


def pool(limits: Limits, nodes: int) -> tuple[int, ...]:
    """Return all cores that that many nodes run on: those that were named, or those that are dealt out.

    Where none were named, the first usable core is kept for the generator, and with it those that share its physical
    core, as far as the nodes can do without them. They take every core when they need it.
    """
    if limits.cores is not None:
        return limits.cores
    usable = tuple(sorted(os.sched_getaffinity(0)))
    wanted = nodes * (limits.cores_each or 0)
    beside = set(siblings(usable[0]))
    for kept in (beside, {usable[0]}):
        rest = tuple(core for core in usable if core not in kept)
        if len(rest) >= max(wanted, 1):
            return rest
    return usable


def deal(limits: Limits, nodes: int, taken: Iterable[int], before: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the cores of one more node of so many; `taken` are those of the others.

    A node keeps those that it had `before` where they are free. Otherwise whole physical cores go first: a node does
    not share one with another while there are enough, and its own cores lie together. BadInput when too few are left.
    """
    assert limits.cores_each is not None
    available = pool(limits, nodes)
    free = [core for core in available if core not in set(taken)]
    if before and len(before) == limits.cores_each and set(before) <= set(free):
        return tuple(sorted(before))
    if len(free) < limits.cores_each:
        raise BadInput(
            f"a node is to have {limits.cores_each} of the cores {', '.join(map(str, available))} for itself, and"
            f" {len(free)} {'is' if len(free) == 1 else 'are'} free",
            remedy="take fewer nodes, or name more cores",
        )
    chosen: list[int] = []
    while len(chosen) < limits.cores_each:
        rest = [core for core in free if core not in chosen]
        chosen.append(min(rest, key=lambda core: (_shared(core, chosen, taken=_others(available, rest, chosen)), core)))
    return tuple(sorted(chosen))


def of_companions(limits: Limits, nodes: int, taken: Collection[int]) -> tuple[int, ...]:
    """Return the cores of processes beside the data-bearing nodes: what these leave of the pool, or else all of it."""
    available = pool(limits, nodes)
    return tuple(core for core in available if core not in taken) or available


def siblings(core: int) -> tuple[int, ...]:
    """Return the logical processors of the physical core that this one belongs to, itself among them."""
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
    """Rank a candidate: beside one that the node has (0), on an unused physical core (1), beside another node (2)."""
    beside = set(siblings(core))
    if beside & set(chosen):
        return 0
    return 2 if beside & set(taken) else 1
