"""How many nodes a load needs: from the capacities that were measured, and beyond them from the curve, with a warning.

Capacity of r resources is the largest load that they sustain, demand of a load the least resources that sustain it
(Henning and Hasselbring, Theodolite).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

#: No curve is followed beyond this many times the largest number of nodes that was measured.
_REACH = 2


@dataclass(frozen=True)
class Demand:
    """What a load (1/s) needs: `nodes`, from `least` to `most` as far as the data say (None where they do not)."""

    rate: float
    words: str
    nodes: int | None
    least: int | None
    most: int | None
    measured: bool  #: that many nodes were measured; else it is read off the curve
    extrapolated: bool  #: beyond the most nodes that were measured
    reach: int  #: the most nodes of which anything is known, measured or by the curve
    #: Whether some number of nodes has one search only, whose bracket is not an interval.
    single: bool


def curve(capacities: Sequence[Capacity], seed: int = 0) -> "tuple[ScalabilityFit | None, str | None]":
    """Fit capacity over nodes, each search one observation; None with the reason where that cannot be.

    What searches do not show by their differences, since they try the same rates, widens the curve's intervals.
    """
    # What searches for rates takes its words from here, and the fit a second to import.
    from loadframe.analyze.scalability import fit

    bounded = [
        capacity for capacity in capacities if capacity.rate and {a.kind for a in capacity.telling} != {Kind.BRACKETED}
    ]
    if bounded:
        listed = ", ".join(str(capacity.nodes) for capacity in bounded)
        what = f"the capacity at {listed} nodes lies beyond the rates that were tried"
        return None, f"{what}, and a curve through it would bend for no reason"
    pairs = [(float(capacity.nodes), rate) for capacity in capacities if capacity.rate for rate in capacity.rates]
    blocks = [search.block for capacity in capacities if capacity.rate for search in capacity.searches if search.tells]
    try:
        return fit(pairs, over="nodes", seed=seed, resolution=_resolution(capacities), blocks=blocks), None
    except BadInput as error:
        return None, error.what


def _resolution(capacities: Sequence[Capacity]) -> float:
    """Return the relative error that searches share, beyond the one that their differences show."""
    from loadframe.analyze.scalability.observations import RESOLUTION

    known = [capacity for capacity in capacities if capacity.rate]
    error = fmean([rate.error**2 for rate in known] or [0.0])
    shown = [
        float(np.log(capacity.rates).var(ddof=1)) / len(capacity.rates) for capacity in known if len(capacity.rates) > 1
    ]
    return max(math.sqrt(max(error - fmean(shown or [0.0]), 0.0)), RESOLUTION)


def demand(rate: float, words: str, capacities: Sequence[Capacity], fitted: "ScalabilityFit | None") -> Demand:
    """Return how many nodes sustain a rate (1/s)."""
    rates = {capacity.nodes: capacity.rate for capacity in capacities if capacity.rate}
    largest = max(rates, default=0)
    bands = _bands(rates, fitted, largest)
    nodes = _first(rate, {number: band.value for number, band in bands.items()})
    # The bracket of one search is not an interval, so it says nothing of how few or how many may do.
    single = {capacity.nodes for capacity in capacities if capacity.bracket}
    least = _first(rate, {number: band.high for number, band in bands.items() if number not in single})
    most = _first(rate, {number: band.low for number, band in bands.items() if number not in single})
    beyond = nodes is None or nodes > largest
    return Demand(rate, words, nodes, least, most, nodes in rates, beyond, max(bands, default=0), bool(single))


def _bands(rates: Mapping[int, Estimate], fitted: "ScalabilityFit | None", largest: int) -> dict[int, Estimate]:
    """Return the capacity of each number of nodes that something is known of: measured, else from the curve."""
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
    return min((number for number, capacity in known.items() if capacity >= rate), default=None)


def sentence(answer: Demand, largest: int, unit: str = "requests/s") -> str:
    """Return the answer in words, with what it rests on; a load is in that unit."""
    load = f"{answer.words} ({format_count(answer.rate)} {unit})" if answer.words else ""
    load = load or f"{format_count(answer.rate)} {unit}"
    if not largest:
        return f"Nothing is known of how many nodes sustain {load}."
    if answer.nodes is None and answer.reach <= largest:
        allowed = f" (though the intervals allow it of {format_nodes(answer.least)})" if answer.least else ""
        return (
            f"No number of nodes that was measured sustains {load}{allowed}, and there is no curve that goes beyond"
            " them."
        )
    if answer.nodes is None:
        return (
            f"No number of nodes sustains {load} up to {answer.reach}, EXTRAPOLATED from at most {largest}: further"
            " than that no curve can be trusted."
        )
    count = format_nodes(answer.nodes)
    if answer.single:
        sure = "not more than an indication, since one search at a number of nodes has no interval"
    elif answer.least == answer.nodes == answer.most:
        sure = "the 95 % intervals allow no other number"
    else:
        most = "more than can be said" if answer.most is None else str(answer.most)
        sure = f"between {answer.least} and {most} by the intervals"
    if answer.measured:
        ground = "measured"
    elif answer.extrapolated:
        ground = f"EXTRAPOLATED from at most {largest} nodes: measure there before you rely on it"
    else:
        ground = "between numbers of nodes that were measured, from the curve"
    return f"{load} need{'s' * (not answer.words)} {count}; {sure}; {ground}."
