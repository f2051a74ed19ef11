"""Cost of a cluster per month and per million requests or documents, from the prices in the experiment file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from loadframe.analyze.compare import Measure
from loadframe.analyze.estimate import Estimate, half_width, on_log_scale, session_units
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.rates import THROUGHPUT, rate_of
from loadframe.analyze.scale.treatments import main_operation
from loadframe.analyze.sessions import sessions_of

#: Hours of a month, on average over years.
MONTH = 365.25 * 24 / 12
#: Bytes of a GB: sizes such as `500g` are powers of 1024.
_GB = 2**30


@dataclass(frozen=True)
class Prices:
    """Prices of an experiment; `node_hour` has a price for each of the `levels` of the factor `by`, or one for all."""

    currency: str
    node_hour: Sequence[float]
    by: str | None
    levels: Sequence[Any]
    #: Price of the storage of one node for an hour.
    storage_hour: float
    #: Maximum p99 of response times, s, of the configurations to choose from; None without an SLO.
    p99: float | None = None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> "Prices | None":
        """Return the prices of an experiment's description; None if it has none."""
        given = description.get("prices")
        if not given:
            return None
        price, by = given["node_hour"], given.get("by")
        levels = description["factors"][by] if by else ()
        storage = (given.get("storage") or 0) / _GB * (given.get("gb_month") or 0.0) / MONTH
        return cls(
            given["currency"], price if by else [price], by, levels, storage, (given.get("slo") or {}).get("p99")
        )

    def hourly(self, nodes: int, levels: Mapping[str, Any]) -> float:
        """Return the price of a cluster for an hour, by the levels of its treatment."""
        number = 0 if self.by is None else list(self.levels).index(levels[self.by])
        return nodes * (self.node_hour[number] + self.storage_hour)


@dataclass(frozen=True)
class Cost:
    """Cost of one treatment at its throughput (1/s of `counted`). The interval follows from the throughput's."""

    treatment: Mapping[str, Any]
    nodes: int
    month: float
    rate: Estimate
    million: Estimate
    #: Whether the ends of the throughput are the tried rates of one search, and no interval.
    by_one_search: bool = False
    #: p99 of response times, s; None if it is unknown.
    p99: Estimate | None = None
    #: Whether the store failed in a run.
    failed: bool = False
    #: What the throughput and `million` count: requests or documents.
    counted: str = THROUGHPUT.counted

    def meets(self, p99: float | None) -> Literal["yes", "no", "unknown"]:
        """Return whether the interval of the p99 is within a maximum; without one, whether the store never failed."""
        if self.failed:
            return "no"
        if p99 is None:
            return "yes"
        if self.p99 is None or self.p99.low <= p99 < self.p99.high:
            return "unknown"
        return "yes" if self.p99.high <= p99 else "no"

    def as_dict(self) -> dict[str, Any]:
        """Return the cost for JSON."""
        return {
            **({} if self.p99 is None else {"p99": self.p99.as_dict()}),
            "treatment": dict(self.treatment),
            "nodes": self.nodes,
            "per_month": self.month,
            f"per_million_{self.counted}": self.million.as_dict(),
            "by_one_search": self.by_one_search,
        }


def cost(
    prices: Prices,
    treatment: Mapping[str, Any],
    nodes: int,
    rate: Estimate,
    *,
    by_one_search: bool = False,
    counted: str = THROUGHPUT.counted,
) -> Cost:
    """Return the cost of a cluster that serves `rate` requests or documents per second (`counted`) all the time."""
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
        counted=counted,
    )


def estimates(measure: Measure, groups: Sequence[Sequence[RecordedRun]]) -> list[Estimate | None]:
    """Return the geometric mean of each group of runs, or None for a group without a figure.

    The intervals are Student's, with the variance of the logarithms pooled over the groups. The units are runs, or
    session means if the runs are of several sessions. Bounds of figures widen the intervals.
    """
    everything = [run for runs in groups for run in runs]
    sessions = {id(run): number for run, number in zip(everything, sessions_of(everything), strict=True)}
    logs = []
    for runs in groups:
        known = [(math.log(value), sessions[id(run)]) for run in runs if (value := measure.of(run))]
        logs.append(session_units([log for log, _ in known], [session for _, session in known]))
    freedom = sum(len(group) - 1 for group in logs if group)
    squares = sum((value - fmean(group)) ** 2 for group in logs for value in group)
    variation = math.sqrt(squares / freedom) if freedom else math.inf
    return [
        measure.stretch(runs).widened(
            on_log_scale(math.exp(fmean(group)), half_width(variation / math.sqrt(len(group)), freedom))
        )
        if group
        else None
        for group, runs in zip(logs, groups, strict=True)
    ]


def costs_of(folder: RecordedExperiment, prices: Prices) -> list[Cost]:
    """Return the cost of each treatment at its throughput in the first measured phase, with its p99."""
    groups: dict[str, list[RecordedRun]] = {}
    for run in folder.counted:
        groups.setdefault(run.treatment_key, []).append(run)
    measured = [[run for run in runs if folder.counts(run)] for runs in groups.values()]
    phase, default = folder.description["measure"][0], int(folder.description["store"].get("nodes") or 1)
    main = main_operation([run for runs in measured for run in runs], phase)
    unit = rate_of(folder.description)
    rates = estimates(Measure(phase, unit.name), measured)
    times = estimates(Measure(phase, "p99", main), measured)
    return [
        replace(
            cost(prices, used[0].treatment, used[0].nodes or default, rate, counted=unit.counted),
            p99=time,
            failed=any(run.requests_failed for run in runs),
        )
        for runs, used, rate, time in zip(groups.values(), measured, rates, times, strict=True)
        if rate is not None
    ]


@dataclass(frozen=True)
class CheapestWithin:
    """The treatment with the lowest cost per million and a p99 certainly within the SLO, and its rivals."""

    p99: float | None
    cost: Cost | None
    #: Within the SLO, with a cost that does not differ significantly.
    alike: tuple[Cost, ...]
    #: Perhaps as cheap, and perhaps within the SLO.
    open: tuple[Cost, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the answer for JSON."""
        return {
            "p99": self.p99,
            "cheapest": self.cost and dict(self.cost.treatment),
            "perhaps_cheaper": [dict(entry.treatment) for entry in self.alike],
            "undecided": [dict(entry.treatment) for entry in self.open],
        }


def cheapest_within(costs: Sequence[Cost], p99: float | None) -> CheapestWithin:
    """Return the cheapest treatment per million, without store failures and with a p99 of at most `p99`, s."""
    ordered = sorted(costs, key=lambda entry: entry.million.value)
    certain = [entry for entry in ordered if entry.meets(p99) == "yes"]
    best = certain[0] if certain else None
    limit = best.million.high if best else math.inf
    rivals = [entry for entry in ordered if entry is not best and entry.million.low <= limit]
    return CheapestWithin(
        p99,
        best,
        tuple(entry for entry in rivals if entry.meets(p99) == "yes"),
        tuple(entry for entry in rivals if entry.meets(p99) == "unknown"),
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
