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

from loadframe.analyze.capacity.answers import Capacity
from loadframe.analyze.capacity.search import Kind
from loadframe.analyze.estimate import Estimate
from loadframe.base.errors import BadInput
from loadframe.base.units import format_count, format_nodes

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
class Demand:
    """Nodes that a load (1/s) needs: `nodes`, and the interval from `least` to `most` (None if unbounded)."""

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
    rates = {
        # An upper bound sustains no rate for certain.
        capacity.nodes: replace(capacity.rate, value=0.0) if capacity.kind is Kind.UPPER_BOUND else capacity.rate
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
    largest = max(rates, default=0)
    bands = _bands(rates, fitted, largest)
    nodes = _first(rate, {number: band.value for number, band in bands.items()})
    # The bracket of one search is not an interval, so it does not bound the number of nodes.
    bracketed = {capacity.nodes: capacity.bracket for capacity in capacities if capacity.bracket}
    bracketed |= {
        capacity.nodes: (0.0, ends[capacity.nodes])
        for capacity in capacities
        if capacity.nodes in ends and len(capacity.conclusive) == 1
    }
    undecided = min((number for number, (low, high) in bracketed.items() if low < rate < high), default=None)
    least = _first(rate, {number: band.high for number, band in bands.items() if number not in bracketed})
    most = _first(rate, {number: band.low for number, band in bands.items() if number not in bracketed})
    single = any(len(capacity.conclusive) == 1 for capacity in capacities)
    # Fewer nodes than a cluster that is too small are too few as well.
    short = max((number for number in bands if nodes is not None and number < nodes), default=0)
    untested = tuple(range(short + 1, nodes or 0))
    if untested and least is not None:
        least = min(least, untested[0])
    reach = max(bands, default=0)
    beyond = (reach if nodes is None else nodes) > largest
    if nodes is not None:
        doubts = []
    elif doubts:
        least = None
    return Demand(
        rate=rate,
        words=words,
        nodes=nodes,
        least=least,
        most=most,
        measured=nodes in rates,
        extrapolated=beyond,
        reach=reach,
        single=single,
        undecided=undecided,
        sizes=len(rates),
        untested=untested,
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


def _bands(rates: Mapping[int, Estimate], fitted: "ScalabilityFit | None", largest: int) -> dict[int, Estimate]:
    """Return number of nodes -> capacity: measured (`rates`), or from the curve where nothing was measured.

    The curve covers 1 to twice the `largest` measured number, where its interval has an upper end. Without a fit, only
    measured capacities count.
    """
    by_nodes = dict(rates)
    if fitted is None:
        return by_nodes
    sizes = np.arange(1, _REACH * largest + 1, dtype=float)
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
        todo = "; ".join([*remedies, "then repeat the searches"])
        return (
            f"It is open how many nodes sustain {load}: {which}, but {'; '.join(causes)}. {todo[0].upper()}{todo[1:]}."
        )
    perhaps = answer.undecided or answer.least
    if perhaps:
        why = f"capacity: {known[perhaps]}" if perhaps in known else "the intervals allow it"
        if answer.undecided:
            why = "its only search did not decide this load"
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


def _not_measured(untested: Sequence[int]) -> str:
    """Write that these successive numbers of nodes were not measured. Name only the first and last of many."""
    few = len(untested) < _LISTED
    numbers = format_nodes(*untested) if few else f"{untested[0]} to {format_nodes(untested[-1])}"
    return f"{numbers} {'was' if tuple(untested) == (1,) else 'were'} not measured"


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
    count = format_nodes(answer.nodes)
    basis = f", since {_not_measured(answer.untested)}" if answer.untested else " by the 95 % intervals"
    if answer.single:
        sure = "only an indication, since one search at a number of nodes does not give an interval"
        if answer.undecided is not None and answer.undecided < answer.nodes:
            sure += f", and {format_nodes(answer.undecided)} may suffice: the search there did not decide this load"
        if answer.untested:
            sure += f", and {_not_measured(answer.untested)}"
    elif answer.least == answer.nodes == answer.most:
        sure = "the 95 % intervals allow no other number"
    elif answer.most is None:
        sure = f"{answer.least} or more{basis}"
    else:
        sure = f"between {answer.least} and {answer.most}{basis}"
    if answer.measured:
        ground = f"{count} {'was' if answer.nodes == 1 else 'were'} measured"
    elif answer.extrapolated:
        ground = f"EXTRAPOLATED from at most {largest} nodes: measure there before you rely on it"
    else:
        ground = "from the curve between measured numbers of nodes"
    return f"{load} need{'s' * (not answer.words)} {count}; {sure}; {ground}."
