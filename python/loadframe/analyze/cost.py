"""Cost of a cluster per month and per million requests or documents, from the prices in the experiment file.

`description` is the content of experiment.json.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Any, Literal

from loadframe.analyze.capacity.criteria import Failures, LimitedFigures, Slo, limited_figures
from loadframe.analyze.compare import Measure
from loadframe.analyze.estimate import ONE_SIDED, Estimate, half_width, mean_share, on_log_scale, session_units
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.figures import UNKNOWN, Figure, stretch_of
from loadframe.analyze.rates import THROUGHPUT, rate_of
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
    #: Service level objective that a configuration has to meet, if any.
    slo: Slo | None = None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> "Prices | None":
        """Return the prices of an experiment's description; None if it has none.

        `description` is the content of experiment.json. A missing price or size of storage costs nothing.
        """
        given = description.get("prices")
        if not given:
            return None
        price, by = given["node_hour"], given.get("by")
        levels = description["factors"][by] if by else ()
        storage = (given.get("storage") or 0) / _GB * (given.get("gb_month") or 0.0) / MONTH
        slo = dict(given.get("slo") or {})
        if "p99" in slo:
            # The short form of files, and the only one of earlier versions.
            slo = {"response": slo["p99"]}
        return cls(given["currency"], price if by else [price], by, levels, storage, Slo.read(slo) if slo else None)

    def hourly(self, nodes: int, levels: Mapping[str, Any]) -> float:
        """Return the price for an hour of a cluster of `nodes` nodes with their storage.

        `levels` is the treatment, factor -> level; its level of `by` selects the price. KeyError if it lacks the factor
        `by`, ValueError for a level without a price.
        """
        number = 0 if self.by is None else list(self.levels).index(levels[self.by])
        return nodes * (self.node_hour[number] + self.storage_hour)


Standing = Literal["yes", "no", "unknown"]
ERRORS = "errors"


@dataclass(frozen=True)
class LimitAt:
    """One limit of the SLO at a treatment: a percentile of response times, s, or the share of failed requests.

    Ends of the interval of a share are one-sided 95 % limits. `operation` is None for the general limit, whose
    percentile and share are the worst of the operations.
    """

    operation: str | None
    figure: str
    limit: float
    #: None if no run has the figure.
    estimate: Estimate | None

    @property
    def name(self) -> str:
        """The figure with its operation: `p99`, `get_totals: errors`."""
        return self.figure if self.operation is None else f"{self.operation}: {self.figure}"

    @property
    def standing(self) -> Standing:
        """`yes` if the whole interval is within the limit, `no` if the whole interval is beyond it, else `unknown`.

        Also `unknown` without an estimate. Shares of errors must be below the limit; response times may equal it.
        """
        if self.estimate is None:
            return "unknown"
        # Shares of errors must be below their limit, and response times may reach theirs.
        within = [end < self.limit if self.figure == ERRORS else end <= self.limit
                  for end in (self.estimate.low, self.estimate.high)]  # fmt: skip
        return "yes" if all(within) else "unknown" if any(within) else "no"

    def as_dict(self) -> dict[str, Any]:
        """Return the limit and its estimate for JSON; null without an estimate. `within` is the `standing`."""
        return {
            "operation": self.operation,
            "figure": self.figure,
            "limit": self.limit,
            "estimate": self.estimate and self.estimate.as_dict(),
            "within": self.standing,
        }


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
    #: Each limit of the SLO; empty without an SLO.
    limits: tuple[LimitAt, ...] = ()
    #: Whether the store, or too many requests, failed in a run.
    failed: bool = False
    #: Unit of the throughput and of `million`: requests or documents.
    counted: str = THROUGHPUT.counted

    @property
    def standing(self) -> Standing:
        """`no` if the store failed or a limit of the SLO is exceeded, `unknown` if a limit is undecided, else `yes`."""
        standings = {limit.standing for limit in self.limits}
        if self.failed or "no" in standings:
            return "no"
        return "unknown" if "unknown" in standings else "yes"

    def as_dict(self) -> dict[str, Any]:
        """Return the cost for JSON, without the throughput, and without `within` and `limits` if the SLO has none."""
        return {
            **({"within": self.standing, "limits": [limit.as_dict() for limit in self.limits]} if self.limits else {}),
            "treatment": dict(self.treatment),
            "nodes": self.nodes,
            "per_month": self.month,
            f"per_million_{self.counted}": self.million.as_dict(),
            "by_one_search": self.by_one_search,
            "failed": self.failed,
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
    """Return the cost of a cluster that serves `rate` requests or documents per second (`counted`) all the time.

    `treatment` selects the price of a node; KeyError or ValueError if it has no level with a price. Costs are in the
    currency of `prices`; their interval follows from the interval of `rate`. At a rate of 0, a million requests cost
    infinitely much. `by_one_search` is only stored in the result: whether `rate` is from a single capacity search.
    """
    hourly = prices.hourly(nodes, treatment)

    def million(requests: float) -> float:
        """Return the price of a million requests at this many per second; infinite at 0."""
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


def estimates(
    figure_of: Callable[[RecordedRun], Figure], groups: Sequence[Sequence[RecordedRun]], *, unequal: bool = False
) -> list[Estimate | None]:
    """Return the geometric mean of a figure over each group of runs, or None for a group without the figure.

    `figure_of` returns the figure of a run; unknown figures and zeros are left out. The intervals are Student's on a
    log scale, with the variance pooled over the groups. They are 0 to infinity if each group has one unit. With
    `unequal`, a group of several units with a variance above the pooled one uses its own. The units are runs, or
    session means if the group's runs are of several sessions. Bounds of figures widen the intervals.
    """
    everything = [run for runs in groups for run in runs]
    sessions = {id(run): number for run, number in zip(everything, sessions_of(everything), strict=True)}
    figures = [[(figure_of(run), sessions[id(run)]) for run in runs] for runs in groups]
    logs = []
    for group in figures:
        known = [(math.log(it.value), session) for it, session in group if it.counts and it.value]
        logs.append(session_units([log for log, _ in known], [session for _, session in known]))
    freedom = sum(len(group) - 1 for group in logs if group)
    squares = sum((value - fmean(group)) ** 2 for group in logs for value in group)
    pooled = squares / freedom if freedom else math.inf

    def half(group: Sequence[float]) -> float:
        """Return the half-width of the 95 % interval of the mean of these logarithms."""
        alone = variance(group) if unequal and len(group) > 1 else 0.0
        used = (alone, len(group) - 1) if alone > pooled else (pooled, freedom)
        return half_width(math.sqrt(used[0] / len(group)), used[1])

    return [
        stretch_of(it for it, _ in of_group).widened(on_log_scale(math.exp(fmean(group)), half(group)))
        if group
        else None
        for of_group, group in zip(figures, logs, strict=True)
    ]


def limits_at(slo: Slo | None, phase: str, groups: Sequence[Sequence[RecordedRun]]) -> list[tuple[LimitAt, ...]]:
    """Return the limits of the SLO in a phase with their estimates, for each group; empty tuples without an SLO.

    Each operation with limits has two entries, response time and share of errors; then the general limit has two. The
    general limit is left out without a response time, or if each operation has its own limits.
    """
    if slo is None:
        return [() for _ in groups]
    everything = [run for runs in groups for run in runs]
    sessions = {id(run): number for run, number in zip(everything, sessions_of(everything), strict=True)}
    figures = {id(run): _limited(run, slo, phase) for run in everything}
    named: list[tuple[str | None, Slo]] = [*slo.operations]
    limits: list[list[LimitAt]] = [[] for _ in groups]
    for name, bounds in [*named, (None, slo)]:
        if name is None and (slo.response is None or (named and not any(None in known for known in figures.values()))):
            continue  # Each operation has a separate limit.
        for of_group, time, runs in zip(limits, _times(bounds, name, figures, groups), groups, strict=True):
            known = [(it, sessions[id(run)]) for run in runs if (it := figures[id(run)].get(name)) and it.failures]
            of_group.append(LimitAt(name, bounds.subject, bounds.response or math.inf, time))
            of_group.append(LimitAt(name, ERRORS, bounds.errors, _failed_share(known)))
    return [tuple(of_group) for of_group in limits]


def _limited(run: RecordedRun, slo: Slo, phase: str) -> Mapping[str | None, LimitedFigures]:
    """Return the run's figures under each limit by operation (None: the general limit).

    Empty if the run did not reach the phase, or if a figure is missing.
    """
    entry = run.phase(phase)
    try:
        return {figures.name: figures for figures in limited_figures(run, slo, [entry])} if entry else {}
    except LookupError:
        return {}


def _times(
    slo: Slo,
    name: str | None,
    figures: Mapping[int, Mapping[str | None, LimitedFigures]],
    groups: Sequence[Sequence[RecordedRun]],
) -> Iterator[Estimate | None]:
    """Yield each group's percentile of response times, s: the geometric mean over its runs; None if it is unknown.

    It is infinite if too many requests of a run had no answer, and 0 without failures if the limit is on failures only.
    `slo` has the limits of the operation `name` (None: of all). `figures` come from `_limited`, by the run's `id()`.
    """

    def response(run: RecordedRun) -> Figure:
        """Return the run's response time under the limit; UNKNOWN if it has none."""
        it = figures[id(run)].get(name)
        return (it and it.response) or UNKNOWN

    def finite(run: RecordedRun) -> Figure:
        """Return the run's response time under the limit; UNKNOWN if it has none or an infinite one."""
        it = response(run)
        return UNKNOWN if it.value is not None and math.isinf(it.value) else it

    # Response times vary far more near the capacity of a configuration, where the SLO decides, than below it.
    for runs, estimate in zip(groups, estimates(finite, groups, unequal=True), strict=True):
        endless = [it for run in runs if (it := response(run)).value is not None and math.isinf(it.value)]
        if endless:
            # Too many requests of a run had no answer: no time bounds the percentile.
            yield Estimate(math.inf, min(it.low for it in endless), math.inf)
        elif estimate is None and slo.of == "failures" and any(figures[id(run)].get(name) for run in runs):
            yield Estimate(0.0, 0.0, 0.0)  # Without failures the limit on their response times is met.
        else:
            yield estimate


def _failed_share(known: Sequence[tuple[LimitedFigures, int | None]]) -> Estimate | None:
    """Return the largest share of failed requests of an operation with its interval, or None without any request.

    The share and both ends are maxima over the operations. The ends are one-sided 95 % limits; the lower one leaves out
    failures that the generator may have caused. `known` pairs each run's figures with its session.
    """
    by_operation: dict[str, list[tuple[Failures, int | None]]] = {}
    for figures, session in known:
        for failures in figures.failures:
            by_operation.setdefault(failures.operation, []).append((failures, session))
    shares = []
    for entries in by_operation.values():
        sessions = [session for _, session in entries]
        share = mean_share([(it.failed, it.due) for it, _ in entries], sessions, ONE_SIDED)
        # The load generator may have caused some of the failures.
        low = mean_share([(it.low, it.due) for it, _ in entries], sessions, ONE_SIDED).low
        shares.append((share.value, low, share.high))
    return Estimate(*map(max, zip(*shares, strict=True))) if shares else None


def costs_of(folder: RecordedExperiment, prices: Prices) -> list[Cost]:
    """Return the cost of each treatment that has a rate in the first measured phase, with the SLO's limits.

    The rate is that of the experiment's `objective`. Treatments are in order of their first run.
    """
    groups: dict[str, list[RecordedRun]] = {}
    for run in folder.counted:
        groups.setdefault(run.treatment_key, []).append(run)
    measured = [[run for run in runs if folder.counts(run)] for runs in groups.values()]
    phase, default = folder.description["measure"][0], int(folder.description["store"].get("nodes") or 1)
    unit = rate_of(folder.description)
    rates = estimates(Measure(phase, unit.name).figure, measured)
    limits = limits_at(prices.slo, phase, measured)
    return [
        replace(
            cost(prices, used[0].treatment, used[0].nodes or default, rate, counted=unit.counted),
            limits=of_slo,
            failed=any(run.requests_failed for run in runs),
        )
        for runs, used, rate, of_slo in zip(groups.values(), measured, rates, limits, strict=True)
        if rate is not None
    ]


#: Factors of the load besides parameters of the workload.
_LOADS = ("rate", "users")


def _names_in(value: Any, names: Collection[str]) -> set[str]:
    """Return which of the names of factors an expression such as `${20000 * nodes}` uses; empty for other values."""
    if not (isinstance(value, str) and value.startswith("${")):
        return set()
    return {*names}.intersection(re.findall(r"[A-Za-z_][\w.]*", value))


def by_load(description: Mapping[str, Any], costs: Sequence[Cost]) -> list[tuple[dict[str, Any], list[Cost]]]:
    """Return the costs by load and data, because only configurations for the same load and data are comparable.

    Each group has the levels of its load factors and its costs; groups and costs keep their order. Load factors are
    rate, users, nodes with weak scaling (where data grow with them), parameters of the workload, and factors that a
    rate or parameter depends on. In settings experiments, parameters in `factors` are choices, and only those in `at`
    belong to the load.
    """
    chosen = set(description["factors"]) - set(description.get("at") or ()) if description["kind"] == "settings" else ()
    loads = {
        name
        for name in description["factors"]
        if name in _LOADS
        or (name.startswith("with.") and name not in chosen)
        or (name == "nodes" and description.get("scaling") == "weak")
    }
    given = {"rate": description.get("rate")}
    given |= {f"with.{name}": value for name, value in (description.get("with") or {}).items()}
    # A parameter that follows a chosen setting belongs to the choice.
    tuned = {name for name in chosen if name.startswith(("store.settings.", "with.", "collections."))}
    for name in given.keys() - description["factors"].keys():
        loads |= _names_in(given[name], description["factors"]) - (set() if name == "rate" else tuned)
    loads = loads.union(*(of["treatment"] for of in description.get("capacities", ())))
    groups: dict[str, tuple[dict[str, Any], list[Cost]]] = {}
    for entry in costs:
        named = loads.union(*(_names_in(entry.treatment.get(name), entry.treatment) for name in loads))
        levels = {name: level for name, level in entry.treatment.items() if name in named}
        groups.setdefault(repr(sorted(levels.items())), (levels, []))[1].append(entry)
    return list(groups.values())


@dataclass(frozen=True)
class CheapestWithin:
    """The treatment with the lowest cost per million that is certainly within the SLO, and its rivals."""

    slo: Slo | None
    cost: Cost | None
    #: Within the SLO, with a cost that does not differ significantly.
    alike: tuple[Cost, ...]
    #: Perhaps as cheap, and perhaps within the SLO.
    open: tuple[Cost, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the SLO as text and the treatments for JSON; null without an SLO, and without a cheapest one."""
        return {
            "slo": self.slo and str(self.slo),
            "cheapest": self.cost and dict(self.cost.treatment),
            "perhaps_cheaper": [dict(entry.treatment) for entry in self.alike],
            "undecided": [dict(entry.treatment) for entry in self.open],
        }


def cheapest_within(costs: Sequence[Cost], slo: Slo | None) -> CheapestWithin:
    """Return the treatment with the lowest cost per million among those certainly within each limit, and its rivals.

    Treatments with a `standing` of `yes` are certainly within; failures of the store make it `no`. The cost is None if
    there are none. Rivals are the others with a lower end of at most the upper end of that cost (any cost if it is
    None), by cost: first those certainly within, and separately those with an unknown standing. `slo` is only stored.
    """
    ordered = sorted(costs, key=lambda entry: entry.million.value)
    certain = [entry for entry in ordered if entry.standing == "yes"]
    best = certain[0] if certain else None
    limit = best.million.high if best else math.inf
    rivals = [entry for entry in ordered if entry is not best and entry.million.low <= limit]
    return CheapestWithin(
        slo,
        best,
        tuple(entry for entry in rivals if entry.standing == "yes"),
        tuple(entry for entry in rivals if entry.standing == "unknown"),
    )


@dataclass(frozen=True)
class Cheapest:
    """The cheapest treatment that sustains a demand (requests/s), and cheaper ones that may sustain it."""

    demand: float
    cost: Cost | None
    #: Others that sustain the demand at the same price.
    alike: tuple[Cost, ...]
    #: The demand is within their interval.
    open: tuple[Cost, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the demand and the treatments for JSON; `cheapest` is null if no treatment certainly sustains it."""
        return {
            "demand": self.demand,
            "cheapest": self.cost and dict(self.cost.treatment),
            "equally_cheap": [dict(entry.treatment) for entry in self.alike],
            "undecided": [dict(entry.treatment) for entry in self.open],
        }


def cheapest(costs: Sequence[Cost], demand: float) -> Cheapest:
    """Return the treatment with the lowest monthly price among those with a throughput of `demand` at least.

    `demand` is in the unit of the costs' rates, 1/s; the low end of the interval has to reach it. The cost is None if
    none does. Of equal prices, the highest throughput is first, and the others are in `alike`. `open` has the cheaper
    treatments (all, if the cost is None) with `demand` inside their interval, by price.
    """
    certain = [entry for entry in costs if entry.rate.low >= demand]
    certain.sort(key=lambda entry: (entry.month, -entry.rate.value))
    best = certain[0] if certain else None
    alike = tuple(entry for entry in certain[1:] if best and math.isclose(entry.month, best.month))
    limit = best.month if best else math.inf
    unsure = [entry for entry in costs if entry.rate.low < demand <= entry.rate.high and entry.month < limit]
    return Cheapest(demand, best, alike, tuple(sorted(unsure, key=lambda entry: entry.month)))
