"""How well a policy provided nodes, by the measures of the SPEC Research Group (BUNGEE).

Demand d(t) is the least number of nodes that sustains the load, from a measured capacity curve; supply s(t) counts the
nodes that serve balanced data, not those that are booted. Over a time T:

    under-provisioning accuracy (1/T) integral max(d - s, 0) / d        time share (1/T) integral [d > s]
    over-provisioning accuracy  (1/T) integral max(s - d, 0) / d        time share (1/T) integral [s > d]
    jitter (changes of s - changes of d) / T

Source: Herbst et al., "BUNGEE: An Elasticity Benchmark for Self-Adaptive IaaS Cloud Environments" (2015).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from loadframe.analyze.elasticity.course import Event, Series, deaths
from loadframe.record.schema.event_kinds import BALANCED, JOINED, LEAVING


@dataclass(frozen=True)
class Provisioning:
    """The scores of one run; accuracies and shares are 0 at best, jitter is in 1/s."""

    under_accuracy: float
    over_accuracy: float
    under_share: float
    over_share: float
    jitter: float

    def as_dict(self) -> dict[str, float]:
        """Return the scores for JSON."""
        return asdict(self)


def score(demand: Series, supply: Series) -> Provisioning:
    """Score a supply against a demand, both by second."""
    short, spare = np.maximum(demand - supply, 0), np.maximum(supply - demand, 0)
    changes = [int(np.count_nonzero(np.diff(series))) for series in (supply, demand)]
    return Provisioning(
        under_accuracy=float((short / demand).mean()),
        over_accuracy=float((spare / demand).mean()),
        under_share=float((short > 0).mean()),
        over_share=float((spare > 0).mean()),
        jitter=(changes[0] - changes[1]) / len(supply),
    )


def supply(times: Series, nodes: int, events: Sequence[Event]) -> Series:
    """Return at each time the nodes that serve balanced data."""
    series = np.full(len(times), float(nodes))
    for event, change in deaths(events):
        series[times >= event.time] += change
    waiting = 0
    for event in sorted(events, key=lambda entry: entry.time):
        change = 0
        if event.kind == JOINED:
            waiting += len(event.nodes)
        elif event.kind == BALANCED:
            change, waiting = waiting, 0
        elif event.kind == LEAVING:
            change = -len(event.nodes)
        series[times >= event.time] += change
    return series


def demand(rates: Series, capacity: Mapping[int, float]) -> Series:
    """Return the least number of nodes that sustains each rate; beyond the measured capacities, in proportion."""
    sizes = sorted(capacity)
    most = sizes[-1]

    def least(rate: float) -> int:
        return next((n for n in sizes if capacity[n] >= rate), math.ceil(most * rate / capacity[most] - 1e-9))

    return np.array([float(least(rate)) for rate in rates])


def level_at(level: Any, times: Series) -> Series:
    """Return a level of a plan (a number, or stages) at each time, s since the phase began."""
    if not isinstance(level, Mapping):
        return np.full(len(times), float(level))
    series = np.full(len(times), float(level["from"]))
    start, value = 0.0, float(level["from"])
    if level.get("repeats"):
        times = times % sum(float(stage["over"]) for stage in level["stages"])
    for stage in level["stages"]:
        over, to = float(stage["over"]), float(stage["to"])
        share = np.clip((times - start) / over, 0.0, 1.0) if over else np.ones(len(times))
        series = np.where(times >= start, value + share * (to - value), series)
        start, value = start + over, to
    return series
