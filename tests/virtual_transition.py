"""Nodes that join and leave in virtual time: throughput by second while a simulated cluster moves its data.

Uses the fluid model of `Placement.throughput`: every server is busy, and a node with less than its fair share of the
data serves that much less. The events alone therefore determine the true value of each elasticity measure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadframe.store.sim.model import SimModel
from loadframe.store.sim.shared import Placement


@dataclass(frozen=True)
class Change:
    """A request for a number of nodes at a time (s)."""

    at: float
    nodes: int


@dataclass(frozen=True, eq=False)
class Transition:
    """Throughput (1/s) in each second, and when things happened: kind, s."""

    throughput: npt.NDArray[np.float64]
    events: tuple[tuple[str, float], ...]


def transition(model: SimModel, nodes: int, shards: int, changes: Sequence[Change], seconds: int) -> Transition:
    """Return the transitions of a cluster with `shards` shards (one copy each) under full load.

    Events are `node requested`, `node joined`, `cluster balanced`, `node leaving` and `node left`.
    """
    placement = Placement(model)
    for node in range(nodes):
        placement.start(f"node-{node}", 0.0, founding=True)
    placement.advance(0.0)
    placement.create("data", shards, 0, 0.0)
    events: list[tuple[str, float]] = []
    due = sorted(changes, key=lambda change: change.at)
    throughput = np.zeros(seconds)
    now, unbalanced = 0.0, False
    leaving: list[str] = []
    while now < seconds:
        if due and due[0].at <= now:
            _ask(placement, due.pop(0).nodes, now, events, leaving)
            unbalanced = True
        members = len(placement.members)
        placement.advance(now)
        if len(placement.members) > members:
            events.append(("node joined", now))
        if unbalanced and not placement.moves and not placement.joining:
            unbalanced = False
            if leaving:
                placement.gone(leaving, now)
                placement.exclude([], now)
                events.append(("node left", now))
                leaving.clear()
            else:
                events.append(("cluster balanced", now))
        coming = [placement.next(), due[0].at if due else None, float(seconds)]
        later = min(at for at in coming if at is not None)
        _add(throughput, now, later, placement.throughput())
        now = later
    return Transition(throughput, tuple(events))


def _ask(placement: Placement, nodes: int, now: float, events: list[tuple[str, float]], leaving: list[str]) -> None:
    names = placement.members
    if nodes > len(names):
        events.append(("node requested", now))
        for number in range(len(names), nodes):
            placement.start(f"node-{number}", now, founding=False)
    elif nodes < len(names):
        events.append(("node leaving", now))
        leaving += names[nodes:]
        placement.exclude(leaving, now)


def _add(throughput: npt.NDArray[np.float64], begins: float, ends: float, rate: float) -> None:
    """Spread a constant rate over the seconds that it lasts."""
    for second in range(int(begins), min(int(np.ceil(ends)), len(throughput))):
        throughput[second] += rate * (min(ends, second + 1) - max(begins, second))
