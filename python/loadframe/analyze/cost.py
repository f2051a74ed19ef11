"""Cost of a cluster per month and per million requests, from the prices in the experiment file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.estimate import Estimate

#: Hours of a month, on average over years.
MONTH = 365.25 * 24 / 12
_GB = 1e9


@dataclass(frozen=True)
class Prices:
    """Prices of an experiment; `node_hour` has a price for each of the `levels` of the factor `by`, or one for all."""

    currency: str
    node_hour: Sequence[float]
    by: str | None
    levels: Sequence[Any]
    #: Price of the storage of one node for an hour.
    storage_hour: float

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> "Prices | None":
        """Return the prices of an experiment's description; None if it has none."""
        given = description.get("prices")
        if not given:
            return None
        price, by = given["node_hour"], given.get("by")
        levels = description["factors"][by] if by else ()
        storage = (given.get("storage") or 0) / _GB * (given.get("gb_month") or 0.0) / MONTH
        return cls(given["currency"], price if by else [price], by, levels, storage)

    def hourly(self, nodes: int, levels: Mapping[str, Any]) -> float:
        """Return the price of a cluster for an hour, by the levels of its treatment."""
        number = 0 if self.by is None else list(self.levels).index(levels[self.by])
        return nodes * (self.node_hour[number] + self.storage_hour)


@dataclass(frozen=True)
class Cost:
    """Cost of one treatment at its throughput (requests/s). The interval follows from that of the throughput."""

    treatment: Mapping[str, Any]
    nodes: int
    month: float
    rate: Estimate
    million: Estimate
    #: Whether the ends of the throughput are the tried rates of one search, and no interval.
    by_one_search: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the cost for JSON."""
        return {
            "treatment": dict(self.treatment),
            "nodes": self.nodes,
            "per_month": self.month,
            "per_million_requests": self.million.as_dict(),
            "by_one_search": self.by_one_search,
        }


def cost(
    prices: Prices, treatment: Mapping[str, Any], nodes: int, rate: Estimate, *, by_one_search: bool = False
) -> Cost:
    """Return the cost of a cluster that answers `rate` requests/s all the time."""
    hourly = prices.hourly(nodes, treatment)

    def million(requests: float) -> float:
        return hourly / 3600 / requests * 1e6 if requests > 0 else math.inf

    return Cost(
        treatment,
        nodes,
        hourly * MONTH,
        rate,
        Estimate(million(rate.value), million(rate.high) if math.isfinite(rate.high) else 0.0, million(rate.low)),
        by_one_search,
    )


@dataclass(frozen=True)
class Cheapest:
    """The cheapest treatment that sustains a demand (requests/s), and cheaper ones that may sustain it."""

    demand: float
    cost: Cost | None
    #: The demand is within their interval.
    open: tuple[Cost, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the answer for JSON."""
        return {
            "demand": self.demand,
            "cheapest": self.cost and dict(self.cost.treatment),
            "undecided": [dict(entry.treatment) for entry in self.open],
        }


def cheapest(costs: Sequence[Cost], demand: float) -> Cheapest:
    """Return the cheapest treatment that reaches `demand` (requests/s) by the low end of its throughput."""
    certain = [entry for entry in costs if entry.rate.low >= demand]
    best = min(certain, key=lambda entry: entry.month, default=None)
    limit = best.month if best else math.inf
    unsure = [entry for entry in costs if entry.rate.low < demand <= entry.rate.high and entry.month < limit]
    return Cheapest(demand, best, tuple(sorted(unsure, key=lambda entry: entry.month)))
