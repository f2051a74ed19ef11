"""Placement of nodes: names of machines with numbers of nodes, and the cores of each node there."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import format_nodes
from loadframe.host.limits import Limits

#: A name as in ssh, optionally with a user, and optionally the number of nodes.
_MACHINE = re.compile(r"(?P<name>(?:[\w.-]+@)?[\w][\w.-]*)(?::(?P<slots>\d+)|\s+slots=(?P<more>\d+))?")


@dataclass(frozen=True)
class Placement:
    """Placement of nodes on machines."""

    per_machine: int | None = None  #: slots of a machine without a number, or None for 1
    share: bool = True  #: whether machines that run the load generator may also run nodes
    network: str | None = None  #: interface, network such as 10.1.0.0/16, or suffix of host names such as -ib

    def __post_init__(self) -> None:
        """Raise BadInput for a number of nodes per machine below 1."""
        if self.per_machine is not None and self.per_machine < 1:
            raise BadInput(f"nodes per machine must be at least 1; got {self.per_machine}", remedy="give 1 or more")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Placement":
        """Create it from the dictionary that `dataclasses.asdict` returned."""
        return cls(**record)


def parse(text: str) -> tuple[str, int | None]:
    """Return the machine name and slots of `name`, `name:2` or, as in host files, `name slots=2`.

    The slots are None if not given. BadInput for other text and for 0 slots.
    """
    match = _MACHINE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text.strip()!r} is not a machine name", remedy="write name, name:2, or name slots=2")
    slots = match["slots"] or match["more"]
    if slots is not None and int(slots) < 1:
        raise BadInput(
            f"the slots of {match['name']} must be at least 1; got {slots}",
            remedy="give 1 or more, or omit the machine",
        )
    return match["name"], None if slots is None else int(slots)


def parse_machines(text: str) -> tuple[str, ...]:
    """Return the machines of a list `a,b:2`, or of the host file in `@path`, each as `name` or `name:slots`.

    A host file has a machine per line, and comments after `#`. BadInput for invalid entries, an empty list or an
    unreadable file.
    """
    if not text.startswith("@"):
        return _checked((word for word in text.split(",") if word.strip()), "--machines")
    path = Path(text[1:]).expanduser()
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"could not read the host file: {error}", where=str(path), remedy="give another file") from error
    return _checked((line for line in (line.partition("#")[0] for line in lines) if line.strip()), str(path))


def _checked(words: Iterable[str], where: str) -> tuple[str, ...]:
    """Return entries as `name` or `name:slots`; BadInput, with `where`, for an invalid entry or an empty list."""
    machines = []
    for word in words:
        try:
            name, slots = parse(word)
        except BadInput as error:
            raise BadInput(error.what, where=where, remedy=error.remedy) from None
        machines.append(name if slots is None else f"{name}:{slots}")
    if not machines:
        raise BadInput(
            "the list of machines is empty", where=where, remedy="name machines, such as --machines node1,node2:2"
        )
    return tuple(machines)


_TOPOLOGY = Path("/sys/devices/system/cpu")


def shortage(limits: Limits, nodes: int) -> str | None:
    """Return why this machine lacks the cores for that many nodes, or None if it has them.

    A core in `limits.cores` that this process may not use is a reason, too.
    """
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
    """Whether the cores of the nodes leave no core for the generator; False if no cores are assigned to nodes."""
    if limits.cores is None and limits.cores_each is None:
        return False
    return not os.sched_getaffinity(0) - set(candidate_cores(limits, nodes))


def require(limits: Limits, nodes: int) -> None:
    """Raise BadInput if cores are missing for that many nodes, or if nodes share a set of all usable cores."""
    usable = sorted(os.sched_getaffinity(0))
    problem = shortage(limits, nodes)
    if problem:
        listed = ", ".join(map(str, usable))
        raise BadInput(problem, remedy=f"use fewer nodes, or other cores; usable are {listed}")
    if limits.cores_each is None and generator_shares(limits, nodes):
        every = "the only core" if len(usable) == 1 else f"all {len(usable)} cores"
        raise BadInput(
            f"the nodes have {every}, which leaves none for the load generator",
            remedy="give the nodes fewer cores, or omit --cores or limits.cores, so that nodes and generator share all",
        )


def candidate_cores(limits: Limits, nodes: int) -> tuple[int, ...]:
    """Return all cores that nodes may use, which can be more or fewer than that many nodes need.

    These are `limits.cores`, or else all usable cores except the generator's: the first usable core and the other
    threads of its physical core. If the nodes need more, only the first core is the generator's, and then none.
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
    """Return the cores of the next node, sorted; `taken` are the cores of the other nodes. `cores_each` must be set.

    `nodes` is the number of nodes for `candidate_cores`. A node keeps its previous cores (`before`) if they are
    free and as many as `cores_each`.
    Otherwise a node gets whole physical cores while there are enough, so that it does not share one with another node.
    BadInput if too few are free.
    """
    assert limits.cores_each is not None
    available = candidate_cores(limits, nodes)
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
        chosen.append(
            min(rest, key=lambda core: (_core_rank(core, chosen, taken=_others(available, rest, chosen)), core))
        )
    return tuple(sorted(chosen))


def of_companions(limits: Limits, nodes: int, taken: Collection[int]) -> tuple[int, ...]:
    """Return the cores of processes other than data nodes: the candidates that are not `taken`, or else all candidates.

    `taken` are the cores of the data nodes; `limits` and `nodes` determine the candidates (see `candidate_cores`).
    """
    available = candidate_cores(limits, nodes)
    return tuple(core for core in available if core not in taken) or available


def siblings(core: int) -> tuple[int, ...]:
    """Return the logical processors of this core's physical core, including itself; only itself if that is unknown."""
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
    """Return the available cores that other nodes have: neither free nor chosen."""
    return set(available) - set(free) - set(chosen)


def _core_rank(core: int, chosen: Sequence[int], taken: Collection[int]) -> int:
    """Rank a candidate: same physical core as a chosen one (0), unused physical core (1), core of another node (2).

    A lower rank is better. `taken` are the cores of other nodes.
    """
    threads = set(siblings(core))
    if threads & set(chosen):
        return 0
    return 2 if threads & set(taken) else 1
