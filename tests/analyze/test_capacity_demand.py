"""How many nodes a load needs: from measurements, between them, beyond them, and where nothing can be said."""

import pytest

from loadframe.analyze.capacity.answers import Capacity, Search
from loadframe.analyze.capacity.demand import curve, demand, sentence
from loadframe.analyze.capacity.search import Answer, Kind
from loadframe.analyze.estimate import Estimate


def capacity(nodes, *rates, kind=Kind.BRACKETED):
    """What so many nodes sustain by one search or several, each known to 2 %."""
    searches = tuple(
        Search(block, {"nodes": nodes}, (), Answer(kind, rate, 1.02 * rate)) for block, rate in enumerate(rates, 1)
    )
    mean = sum(rates) / len(rates)
    return Capacity({"nodes": nodes}, nodes, searches, Estimate(mean, 0.98 * mean, 1.02 * mean), kind)


#: By Amdahl's law, 100 requests/s of one node and a serial share of 5 %; three searches each, which hardly scatter.
AMDAHL = [
    capacity(n, *(100 * n / (1 + 0.05 * (n - 1)) * (1 + noise) for noise in (-0.002, 0.0, 0.002)))
    for n in (1, 2, 3, 4, 6, 8)
]
FITTED, _ = curve(AMDAHL)


def said(rate, capacities=AMDAHL, fitted=FITTED, words=""):
    answer = demand(rate, words, capacities, fitted)
    return answer, sentence(answer, max(each.nodes for each in capacities))


def test_a_load_that_a_measured_number_of_nodes_sustains():
    answer, words = said(180.0)
    assert (answer.nodes, answer.least, answer.most) == (2, 2, 2)
    assert words == "180 requests/s needs 2 nodes; the intervals allow no other number; measured."


def test_a_load_at_the_edge_of_an_interval_may_need_one_node_more():
    _, words = said(AMDAHL[1].rate.value, words="1,000 users")
    assert "need 2 nodes; between 2 and 3 by the intervals; measured." in words
    assert words.startswith("1,000 users (190 requests/s) need")


def test_between_numbers_that_were_measured_the_curve_tells():
    answer, words = said(410.0)
    assert (answer.nodes, answer.measured, answer.extrapolated) == (5, False, False)
    assert words.endswith("between numbers of nodes that were measured, from the curve.")


def test_beyond_what_was_measured_the_answer_says_that_it_extrapolates():
    truth = next(n for n in range(9, 17) if 100 * n / (1 + 0.05 * (n - 1)) >= 700)
    answer, words = said(700.0)
    assert answer.extrapolated
    assert answer.least <= truth <= answer.most
    assert "EXTRAPOLATED from at most 8 nodes: measure there before you rely on it" in words


def test_no_curve_is_followed_beyond_twice_what_was_measured():
    answer, words = said(1900.0)
    assert (answer.nodes, answer.reach) == (None, 16)
    assert words.startswith("No number of nodes sustains 1,900 requests/s up to 16, EXTRAPOLATED from at most 8")


def test_without_a_curve_nothing_is_said_beyond_what_was_measured():
    two = AMDAHL[:2]
    fitted, why = curve(two)
    assert fitted is None
    assert why
    _, words = said(500.0, two, fitted)
    expected = (
        "No number of nodes that was measured sustains 500 requests/s, and there is no curve that goes beyond them."
    )
    assert words == expected


def test_lower_bounds_make_no_curve():
    fitted, why = curve([*AMDAHL[:3], capacity(4, 300.0, kind=Kind.LOWER_BOUND)])
    assert fitted is None
    assert why.startswith("the capacity at 4 nodes is a lower bound")


@pytest.mark.parametrize("rate", [50.0, 250.0, 600.0])
def test_more_load_never_needs_fewer_nodes(rate):
    fewer, more = (demand(load, "", AMDAHL, FITTED).nodes for load in (rate, 1.2 * rate))
    assert fewer <= more
