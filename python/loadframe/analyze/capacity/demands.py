"""Number of nodes that a load needs: from measured capacities, and from the curve through them.

The capacity of r resources is the largest load that they sustain; the demand of a load is the fewest resources that
sustain it (Henning and Hasselbring, Theodolite).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from loadframe.analyze.capacity.answers import NEAR, Capacity
from loadframe.analyze.capacity.search import Kind
from loadframe.analyze.estimate import Estimate
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_count, format_nodes, format_share

if TYPE_CHECKING:
    from loadframe.analyze.scalability import ScalabilityFit

#: The curve is used up to this multiple of the largest measured number of nodes.
_REACH = 2
#: By the code of a warning: why measured capacities show neither that more nodes sustain more, nor how much, and the
#: remedy.
_DOUBTS = {
    "less_on_more_nodes": ("larger clusters sustained less than smaller ones", "find the cause (see the warnings)"),
    "fresh_node": (
        "new nodes were still cold, so the figures may be too low",
        "load them for 5 minutes first (see the warnings)",
    ),
}
#: A sentence names fewer numbers of nodes than this one by one.
_LISTED = 4
#: Remedies for a load above all rates of a cluster's searches, by the kind of its capacity.
_BEYOND = {Kind.AT_MOST: "Raise search: most", Kind.LOWER_BOUND: "Give the load generator more cores"}
_INCONCLUSIVE = ("the data do not show how throughput grows with more nodes", "measure larger clusters or more often")


@dataclass(frozen=True)
class Margin:
    """Evidence on a load at a measured number of nodes."""

    nodes: int
    passed: int  #: trials that passed at rates up to 5 % from the load
    trials: int  #: valid trials at these rates
    reserve: float  #: the rate that the nodes sustain, divided by the load, minus 1; negative if it is not shown


@dataclass(frozen=True)
class Demand:
    """Nodes that a load (1/s) needs: `nodes`, and the interval from `least` to `most` (None if unbounded).

    `nodes` is the smallest number whose capacity has a low end of the load or more (`Capacity.sustained`).
    """

    rate: float
    words: str
    nodes: int | None
    least: int | None
    most: int | None
    measured: bool  #: the number of nodes was measured; else it comes from the curve
    extrapolated: bool  #: the curve beyond the largest measured number of nodes was used
    reach: int  #: the largest number of nodes with a known capacity, measured or from the curve
    #: Whether some number of nodes has only one search, which does not give an interval.
    single: bool
    #: The smallest number of nodes whose only search neither passed nor failed at this load; None if all decided.
    undecided: int | None
    sizes: int = 0  #: how many numbers of nodes have a known capacity
    #: Smaller numbers of nodes that may suffice too, because neither a measurement nor the curve gives their capacity.
    untested: tuple[int, ...] = ()
    #: The sizes in `untested` with searches that are without a result yet; the others were not measured.
    unfinished: tuple[int, ...] = ()
    #: The smallest measured number of nodes that may suffice, if its trials do not show that it does.
    perhaps: Margin | None = None
    #: Evidence at `nodes`, if measured.
    margin: Margin | None = None
    #: Remedy if measurements of `least` nodes leave the question open; else empty.
    remedy: str = ""
    #: Why the data leave the question open, and the remedies; empty if measurements answer it.
    doubts: tuple[tuple[str, str], ...] = ()


def curve(capacities: Sequence[Capacity], seed: int = 0) -> "tuple[ScalabilityFit | None, str | None]":
    """Return (fit of capacity over nodes, None), or (None, the reason) if a fit is impossible.

    It is impossible if a conclusive search did not bracket its capacity, and if `fit` refuses the data. Each conclusive
    search is one observation; `seed` seeds the resampling. Searches try the same rates, so they share an error that
    their differences do not show; it widens the intervals.
    """
    # Imported here because it takes a second, and the search for rates imports this module.
    from loadframe.analyze.scalability import fit

    unbracketed = [
        capacity
        for capacity in capacities
        if capacity.conclusive and {answer.kind for answer in capacity.conclusive} != {Kind.BRACKETED}
    ]
    if unbracketed:
        listed = format_nodes(*(capacity.nodes for capacity in unbracketed))
        what = f"the capacity at {listed} lies outside the tried rates"
        return None, f"{what}, so a curve through it would bend without cause"
    pairs = [(float(capacity.nodes), rate) for capacity in capacities if capacity.rate for rate in capacity.rates]
    blocks = [
        search.block for capacity in capacities if capacity.rate for search in capacity.searches if search.is_conclusive
    ]
    try:
        return fit(pairs, over="nodes", seed=seed, resolution=_resolution(capacities), blocks=blocks), None
    except BadInput as error:
        return None, error.what


def _resolution(capacities: Sequence[Capacity]) -> float:
    """Return the relative error that searches share and their differences do not show.

    It is the root of the mean squared error of the capacities, less the mean variance that the differences between
    searches show. It is at least the fit's default resolution.
    """
    from loadframe.analyze.scalability.observations import RESOLUTION

    known = [capacity for capacity in capacities if capacity.rate]
    error = fmean([rate.error**2 for rate in known] or [0.0])
    shown = [
        float(np.log(capacity.rates).var(ddof=1)) / len(capacity.rates) for capacity in known if len(capacity.rates) > 1
    ]
    return max(math.sqrt(max(error - fmean(shown or [0.0]), 0.0)), RESOLUTION)


def demand(
    rate: float,
    words: str,
    capacities: Sequence[Capacity],
    fitted: "ScalabilityFit | None",
    codes: Collection[str] = (),
) -> Demand:
    """Return the number of nodes that sustain a rate (1/s), by measured capacities and the fitted curve.

    `words` is the load in words, for sentences. `codes` are the codes of the warnings about the capacities. With
    `less_on_more_nodes`, `fresh_node`, or a fit whose lambda is too uncertain (`settled`), the curve is not used, and
    only measured numbers of nodes can be the answer.
    """
    doubts = [doubt for code, doubt in _DOUBTS.items() if code in codes]
    if fitted is not None and not fitted.best_model.settled:
        doubts.append(_INCONCLUSIVE)
    if doubts:
        fitted = None
    # An upper bound sustains no rate for certain.
    rates = {
        capacity.nodes: replace(capacity.rate, value=capacity.sustained, low=capacity.sustained)
        for capacity in capacities
        if capacity.rate
    }
    # Sizes that sustained no tried rate: the load may need more nodes than the curve would say.
    ends = {
        capacity.nodes: max(answer.above or math.inf for answer in capacity.conclusive)
        for capacity in capacities
        if capacity.conclusive and not capacity.rate
    }
    rates |= {nodes: Estimate(0.0, 0.0, end) for nodes, end in ends.items() if rates}
    # The bracket of one search is not an interval, so it does not bound the number of nodes.
    bracketed = {
        capacity.nodes: (capacity.sustained, capacity.bracket[1]) for capacity in capacities if capacity.bracket
    }
    bracketed |= {
        capacity.nodes: (0.0, ends[capacity.nodes])
        for capacity in capacities
        if capacity.nodes in ends and len(capacity.conclusive) == 1
    }
    largest = max(rates, default=0)
    bands = _bands(rates, fitted)
    nodes = _first(rate, {number: band.low for number, band in bands.items()})
    single = {capacity.nodes for capacity in capacities if len(capacity.conclusive) == 1}
    undecided = min((number for number, (low, high) in bracketed.items() if low < rate < high), default=None)
    # A high end can be a rate at which all trials failed.
    maybe = {number for number, band in bands.items() if band.high > rate or band.low >= rate}
    least = min(maybe - bracketed.keys(), default=None)
    if least is not None and any(number < least and high > rate for number, (_, high) in bracketed.items()):
        least = None
    most = _first(rate, {number: band.low for number, band in bands.items() if number not in single})
    # Fewer nodes than a cluster that is too small are too few as well.
    short = max(
        (
            number
            for number, band in bands.items()
            if nodes is not None and number < nodes and bracketed.get(number, (0.0, band.high))[1] <= rate
        ),
        default=0,
    )
    untested = tuple(number for number in range(short + 1, nodes or 0) if number not in bands)
    if untested and least is not None:
        least = min(least, untested[0])
    reach = max(bands, default=0)
    beyond = (reach if nodes is None else nodes) > largest
    if nodes is not None:
        doubts = []
    elif doubts:
        least = None
    margins = {
        capacity.nodes: Margin(capacity.nodes, *capacity.near(rate), capacity.sustained / rate - 1)
        for capacity in capacities
        if capacity.nodes in rates
    }
    smaller = [
        number
        for number in margins
        if (nodes is None or number < nodes) and bracketed.get(number, (0.0, bands[number].high))[1] > rate
    ]
    return Demand(
        rate=rate,
        words=words,
        nodes=nodes,
        least=least,
        most=most,
        measured=nodes in rates,
        extrapolated=beyond,
        reach=reach,
        single=bool(single),
        undecided=undecided,
        sizes=len(rates),
        untested=untested,
        unfinished=tuple(number for number in untested if any(capacity.nodes == number for capacity in capacities)),
        perhaps=margins[min(smaller)] if smaller else None,
        margin=margins.get(nodes or 0),
        remedy=next((_remedy(capacity, rate) for capacity in capacities if capacity.nodes == least), ""),
        doubts=tuple(doubts),
    )


def _remedy(capacity: Capacity, rate: float) -> str:
    """Return a remedy for a capacity that leaves a `rate` open, by its kind.

    It is to lower `search: least` if no rate passed. It is to raise `most` or to strengthen the generator if the search
    ended there below `rate`. Otherwise it is more repetitions.
    """
    if capacity.kind is Kind.NONE:
        return "Lower search: least"
    if capacity.kind is Kind.UPPER_BOUND:
        return "Find out why a search found no rate, and add repetitions"
    if capacity.kind in _BEYOND and rate > max(answer.rate or 0.0 for answer in capacity.conclusive):
        return _BEYOND[capacity.kind]
    return "Add repetitions, or lengthen the trials (duration)"


def _bands(rates: Mapping[int, Estimate], fitted: "ScalabilityFit | None") -> dict[int, Estimate]:
    """Return number of nodes -> capacity: measured (`rates`), or from the curve where nothing was measured.

    The curve covers the smallest to twice the largest measured number, where its interval has an upper end: below,
    replication and coordination may differ. Without a fit, only measured capacities count.
    """
    by_nodes = dict(rates)
    if fitted is None:
        return by_nodes
    sizes = np.arange(min(rates, default=1), _REACH * max(rates, default=0) + 1, dtype=float)
    low, high = fitted.best_model.band(sizes)
    for number, value, below, above in zip(sizes, fitted.best_model.predicted(sizes), low, high, strict=True):
        if int(number) not in by_nodes and math.isfinite(above):
            by_nodes[int(number)] = Estimate(float(value), float(below), float(above))
    return by_nodes


def _first(rate: float, known: Mapping[int, float]) -> int | None:
    """Return the smallest number of nodes whose capacity in `known` is at least `rate`; None if all are lower."""
    return min((number for number, capacity in known.items() if capacity >= rate), default=None)


def _none_known(answer: Demand, largest: int, load: str, known: Mapping[int, str]) -> str:
    """Return the sentence of a load, `load` in words, that no number of nodes is known to sustain.

    `largest` is the largest measured number of nodes, and `known` maps measured numbers to their capacity in words.
    """
    if answer.doubts:
        causes, remedies = zip(*answer.doubts, strict=True)
        which = "the measured cluster did not" if answer.sizes == 1 else "no measured cluster did"
        if answer.perhaps and answer.perhaps.passed:
            which = _may(answer, answer.perhaps, known)
        todo = "; ".join([*remedies, "then repeat the searches"])
        return (
            f"It is open how many nodes sustain {load}: {which}, but {'; '.join(causes)}. {todo[0].upper()}{todo[1:]}."
        )
    perhaps = answer.undecided or answer.least
    if perhaps:
        why = f"capacity: {known[perhaps]}" if perhaps in known else "the intervals allow it"
        if answer.undecided:
            why = "its only search did not decide this load"
        if answer.perhaps and answer.perhaps.nodes == perhaps:
            why += _near(answer.perhaps)
        none = f"Inconclusive: the searches do not show whether {format_nodes(perhaps)} ({why}) can sustain {load}"
    elif answer.sizes == 1:
        none = f"{format_nodes(largest)} {'is' if largest == 1 else 'are'} not enough for {load}"
    elif answer.reach <= largest:
        none = f"No measured cluster, up to {format_nodes(largest)}, sustains {load}"
    else:
        none = f"No number of nodes up to {answer.reach} sustains {load}"
    if answer.undecided:
        return f"{none}. Add repetitions."
    if answer.remedy:
        return f"{none}. {answer.remedy}."
    if answer.reach <= largest:
        return (
            f"{none}. Measure larger clusters, and three sizes or more for a prediction (factors: {{nodes: [1, 2, 4]}};"
            " on a cluster of your own with store.scale_command, or add nodes and repeat the search with another"
            " --output)."
        )
    return f"{none}, EXTRAPOLATED from at most {largest}. Further extrapolation is unreliable."


def _near(margin: Margin) -> str:
    """Write the share of passed trials near the load as a clause, if some failed: `; near this load 4 of 7 ...`."""
    if margin.passed == margin.trials:
        return ""
    return f"; within {format_share(NEAR)} of this load {margin.passed} of {counted(margin.trials, 'trial')} passed"


def _may(answer: Demand, perhaps: Margin, known: Mapping[int, str]) -> str:
    """Write that the nodes of `perhaps` may suffice, and why; `known` maps numbers of nodes to capacities in words."""
    why = f"capacity: {known[perhaps.nodes]}" if perhaps.nodes in known else "the intervals allow it"
    if answer.undecided == perhaps.nodes:
        why = "the search there did not decide this load"
    return f"{format_nodes(perhaps.nodes)} may suffice ({why}{_near(perhaps)})"


def _fewer(answer: Demand) -> str:
    """Write that fewer nodes may suffice, because some numbers were not measured or their searches have no result."""
    unmeasured = [number for number in answer.untested if number not in answer.unfinished]
    if unmeasured == list(range(1, answer.nodes or 0)):
        return "fewer were not measured, and may suffice"
    reasons = [f"{_listed(unmeasured)} {'was' if unmeasured == [1] else 'were'} not measured"] if unmeasured else []
    if answer.unfinished:
        reasons.append(f"the searches at {_listed(answer.unfinished)} have no result")
    return f"fewer may suffice: {', and '.join(reasons)}"


def _listed(numbers: Sequence[int]) -> str:
    """Write ascending numbers of nodes; of many only the first and the last: `2 to 7 nodes`."""
    return format_nodes(*numbers) if len(numbers) < _LISTED else f"{numbers[0]} to {format_nodes(numbers[-1])}"


def sentence(answer: Demand, largest: int, unit: str = "requests/s", known: Mapping[int, str] | None = None) -> str:
    """Return the answer as a sentence with its basis; `largest` is the largest measured number of nodes, 0 if none.

    `unit` is the unit of the load. `known` maps measured numbers of nodes to their capacity in words.
    """
    load = f"{answer.words} ({format_count(answer.rate)} {unit})" if answer.words else ""
    load = load or f"{format_count(answer.rate)} {unit}"
    if not largest:
        return f"The data do not show how many nodes sustain {load}."
    if answer.nodes is None:
        return _none_known(answer, largest, load, known or {})
    known = known or {}
    count = format_nodes(answer.nodes)
    claims = [
        f"{count} sustain{'s' * (answer.nodes == 1)} {load}"
        if answer.untested
        else f"{load} need{'s' * (not answer.words and unit != 'users')} {count}"
    ]
    if answer.untested:
        claims.append(_fewer(answer))
    if answer.single:
        claims.append("only an indication, since one search at a number of nodes does not give an interval")
    elif answer.perhaps is None and not answer.untested:
        between = answer.least == answer.nodes == answer.most
        allowed = "allow no other number" if between else f"allow {answer.least} to {answer.most}"
        claims.append(f"the 95 % intervals {allowed}")
    if answer.perhaps:
        claims.append(_may(answer, answer.perhaps, known))
    if answer.measured:
        claims.append(f"{count} {'was' if answer.nodes == 1 else 'were'} measured{_reserve(answer, known)}")
    elif answer.extrapolated:
        claims.append(f"EXTRAPOLATED from at most {largest} nodes: measure there before you rely on it")
    else:
        claims.append("from the curve between measured numbers of nodes")
    return f"{'; '.join(claims)}."


def _reserve(answer: Demand, known: Mapping[int, str]) -> str:
    """Write that the measured nodes have hardly a reserve, and their capacity, or that trials near the load failed.

    Empty if they sustain 5 % more and no trial near the load failed.
    """
    margin = answer.margin
    if margin is None:
        return ""
    if margin.reserve >= NEAR:
        return _near(margin)
    capacity = f" (capacity: {known[margin.nodes]}{_near(margin)})" if margin.nodes in known else _near(margin)
    return f", with a proven reserve below {format_share(NEAR)}{capacity}"
