"""Number of nodes for a load: at measured sizes, between them, beyond them, and unknown."""

import pytest
from capacity_searches import BOUNDS, searched

from loadframe.analyze.capacity import Bounds, capacities_of
from loadframe.analyze.capacity.demands import curve, demand, sentence


def capacity(nodes, *truths, bounds=BOUNDS):
    """Return the capacity of a number of nodes, from one search for each of these true capacities."""
    values = [
        searched(truth, bounds=bounds, treatment={"nodes": nodes}, block=block) for block, truth in enumerate(truths)
    ]
    return capacities_of([values], 1)[0]


#: By Amdahl's law, 100 requests/s of one node and a serial share of 5 %; three searches each, which hardly scatter.
FINE = Bounds(start=100, least=1, most=1e6, precision=0.02)
AMDAHL = [
    capacity(n, *(100 * n / (1 + 0.05 * (n - 1)) * (1 + noise) for noise in (-0.01, 0.0, 0.01)), bounds=FINE)
    for n in (1, 2, 3, 4, 6, 8)
]
FITTED, _ = curve(AMDAHL)


def said(rate, capacities=AMDAHL, fitted=FITTED, words=""):
    answer = demand(rate, words, capacities, fitted)
    return answer, sentence(answer, max(capacity.nodes for capacity in capacities))


def test_a_load_that_a_measured_number_of_nodes_sustains():
    answer, words = said(180.0)
    assert (answer.nodes, answer.least, answer.most) == (2, 2, 2)
    assert words == "180 requests/s needs 2 nodes; the 95 % intervals allow no other number; 2 nodes were measured."


def test_a_load_at_the_edge_of_an_interval_may_need_one_node_more():
    _, words = said(AMDAHL[1].rate.value, words="1,000 users")
    assert "need 2 nodes; between 2 and 3 by the 95 % intervals; 2 nodes were measured." in words
    assert words.startswith("1,000 users (191 requests/s) need")


def test_between_measured_numbers_the_curve_answers():
    answer, words = said(410.0)
    assert (answer.nodes, answer.measured, answer.extrapolated) == (5, False, False)
    assert words.endswith("from the curve between measured numbers of nodes.")


def test_an_answer_beyond_the_measured_range_is_marked_as_extrapolated():
    truth = next(n for n in range(9, 17) if 100 * n / (1 + 0.05 * (n - 1)) >= 700)
    answer, words = said(700.0)
    assert answer.extrapolated
    assert answer.least <= truth <= answer.most
    assert "EXTRAPOLATED from at most 8 nodes: measure there before you rely on it" in words


def test_curves_end_at_twice_the_measured_range():
    answer, words = said(1900.0)
    assert (answer.nodes, answer.reach) == (None, 16)
    assert words.startswith("No number of nodes up to 16 sustains 1,900 requests/s, EXTRAPOLATED from at most 8")


def test_without_a_curve_there_is_no_answer_beyond_the_measured_range():
    two = AMDAHL[:2]
    fitted, why = curve(two)
    assert fitted is None
    assert why
    _, words = said(500.0, two, fitted)
    assert words == (
        "No measured cluster, up to 2 nodes, sustains 500 requests/s. Measure larger clusters, and three sizes or more"
        " for a prediction (factors: {nodes: [1, 2, 4]}; on a cluster of your own with store.scale_command, or add"
        " nodes and repeat the search with another --output)."
    )


@pytest.mark.parametrize(
    ("sizes", "least", "gap"),
    [
        ((1, 2), None, None),
        ((1, 3), 2, "2 nodes were not measured"),
        ((3,), 1, "1 and 2 nodes were not measured"),
        ((2,), 1, "1 node was not measured"),
        ((1, 8), 2, "2 to 7 nodes were not measured"),
    ],
)
def test_numbers_of_nodes_that_were_not_measured_are_not_excluded(sizes, least, gap):
    """Without a curve, 150 requests/s may need fewer nodes than the smallest measured number that sustains them."""
    largest = sizes[-1]
    for truths in ((100.0, 101.0, 102.0), (100.0,)):
        capacities = [capacity(n, *(n * truth for truth in truths)) for n in sizes]
        answer, words = said(150.0, capacities, None)
        assert answer.nodes == largest
        if gap is None:
            assert answer.untested == ()
            assert "not measured" not in words
        else:
            assert gap in words
            assert "allow no other number" not in words
            assert answer.least == (least if len(truths) > 1 else None)


def test_lower_bounds_make_no_curve():
    held = capacity(4, 5000.0, 5000.0, bounds=Bounds(start=100, least=1, most=300))
    fitted, why = curve([*AMDAHL[:3], held])
    assert fitted is None
    assert why.startswith("the capacity at 4 nodes lies outside the tried rates")
    answer, words = said(340.0, [*AMDAHL[:3], held], fitted)
    assert answer.nodes is None
    assert words == (
        "Inconclusive: the searches do not show whether 4 nodes (the intervals allow it) can sustain 340 requests/s."
        " Raise search: most."
    )


@pytest.mark.parametrize(
    ("truths", "bounds", "remedy"),
    [
        ((95.0, 100.0, 105.0), BOUNDS, "Add repetitions, or lengthen the trials (duration)."),
        ((5000.0, 5000.0), Bounds(start=50, least=1, most=90), "Raise search: most."),
        # One search passed all rates up to 90, another one found 60.
        ((5000.0, 60.0), Bounds(start=50, least=1, most=90), "Add repetitions, or lengthen the trials (duration)."),
        (
            (60.0, 100.0, 105.0),
            Bounds(start=100, least=90, most=1e6),
            "Find out why a search found no rate, and add repetitions.",
        ),
    ],
)
def test_an_interval_that_holds_the_load_is_named_with_what_decides(truths, bounds, remedy):
    one = capacity(1, *truths, bounds=bounds)
    load = min(1.02 * one.rate.value, one.rate.high) // 1
    answer = demand(load, "", [one], None)
    assert (answer.nodes, answer.least) == (None, 1)
    words = sentence(answer, 1, known={1: "100 [90, 110] requests/s"})
    assert words == (
        "Inconclusive: the searches do not show whether 1 node (capacity: 100 [90, 110] requests/s) can sustain"
        f" {load:.0f} requests/s. {remedy}"
    )


def test_a_number_of_nodes_that_sustained_nothing_is_not_filled_from_the_curve():
    bounds = Bounds(start=100, least=50, most=1e6)
    same = [capacity(n, 87.3, 90.0, 92.7, bounds=bounds) for n in (2, 4, 6, 8)]
    for truths in ((1.0, 1.0, 1.0), (1.0,)):
        capacities = [capacity(1, *truths, bounds=bounds), *same]
        fitted, why = curve(capacities)
        assert fitted is None
        assert why.startswith("the capacity at 1 node lies outside the tried rates")
        answer, words = said(80.0, capacities, fitted)
        assert (answer.nodes, answer.least, answer.measured) == (2, 2, True), words
        below, words = said(40.0, capacities, fitted)
        assert below.nodes == 2
        assert "1 node may suffice" in words or below.least == 1


def test_a_grid_that_the_searches_share_leaves_the_curve_open():
    # Capacities that double are found on a grid that doubles: every search agrees, and the curve fits exactly.
    exact = [capacity(n, *[103.0 * n] * 3) for n in (1, 2, 4, 8)]
    assert len({capacity.rates for capacity in exact[:1]}) == 1
    fitted, _ = curve(exact)
    low, high = fitted.best_model.band([16.0])
    assert high[0] / low[0] > 1.02
    for measured in exact:
        assert measured.rate.low <= 103 * measured.nodes <= measured.rate.high
    answer, words = said(exact[1].rate.value, exact, fitted)
    assert answer.most > answer.nodes, words


def test_one_search_at_each_number_of_nodes_claims_no_interval():
    single = [capacity(n, 103.0 * n) for n in (1, 2, 4, 8)]
    fitted, _ = curve(single)
    answer, words = said(150.0, single, fitted)
    assert (answer.nodes, answer.single) == (2, True)
    assert "since one search at a number of nodes does not give an interval" in words
    low, high = fitted.best_model.band([4.0])
    assert high[0] / low[0] > 1.01


def test_a_load_that_one_search_did_not_decide_may_need_fewer_nodes():
    single = [capacity(n, 103.0 * n) for n in (1, 2)]
    passed, failed = single[0].bracket
    fitted, _ = curve(single)
    for load, open_at in ((0.9 * passed, None), ((passed + failed) / 2, 1), (1.1 * failed, None)):
        answer, words = said(load, single, fitted)
        assert answer.undecided == open_at
        assert ("1 node may suffice: the search there did not decide this load" in words) == (open_at is not None)
    # The same holds where no number of nodes is known to suffice.
    for nodes in (1, 2, 8):
        several = [capacity(n, 103.0 * n) for n in (1, 2, 4, 8) if n <= nodes]
        load = sum(several[-1].bracket) / 2
        answer, words = said(load, several, None)
        assert (answer.nodes, answer.undecided) == (None, nodes)
        assert words.startswith("Inconclusive: the searches do not show whether ")
        assert "(its only search did not decide this load) can sustain" in words


@pytest.mark.parametrize("rate", [50.0, 250.0, 600.0])
def test_more_load_never_needs_fewer_nodes(rate):
    fewer, more = (demand(load, "", AMDAHL, FITTED).nodes for load in (rate, 1.2 * rate))
    assert fewer <= more


def test_block_effects_widen_the_interval_of_the_curves_level():
    # Nights differ by 10 %, and nothing else: each search of a night is off by the same factor.
    nights = (0.9, 1.0, 1.1)
    told = [capacity(n, *(100.0 * n * night for night in nights), bounds=FINE) for n in (1, 2, 4, 8)]
    alike = [capacity(n, *(100.0 * n for _ in nights), bounds=FINE) for n in (1, 2, 4, 8)]
    widths = []
    for capacities in (told, alike):
        fitted, _ = curve(capacities)
        low, high = fitted.best_model.band([4.0])
        widths.append(float(high[0] / low[0]))
    assert widths[0] > 1.4, "the mean of three nights is known to t(0.975, 2) times 6 % either way"
    assert widths[1] < 1.1


def test_one_measured_size_is_named_as_not_enough():
    for size, start in ((1, "1 node is not enough for"), (3, "3 nodes are not enough for")):
        _, words = said(9_000.0, [capacity(size, 100.0, 101.0, 102.0)], None)
        assert words.startswith(f"{start} 9,000 requests/s. Measure larger clusters")


@pytest.mark.parametrize(
    ("code", "why", "remedy"),
    [
        ("less_on_more_nodes", "larger clusters sustained less than smaller ones", "Find the cause (see the warnings)"),
        ("fresh_node", "new nodes were still cold, so the figures may be too low", "Load them for 5 minutes first"),
    ],
)
def test_doubtful_capacities_are_not_extrapolated(code, why, remedy):
    for load in (700.0, 1900.0):
        answer = demand(load, "", AMDAHL, FITTED, [code])
        words = sentence(answer, 8)
        assert (answer.nodes, answer.least, answer.extrapolated) == (None, None, False)
        assert words.startswith(
            f"It is open how many nodes sustain {load:,.0f} requests/s: no measured cluster did, but"
        )
        assert f"but {why}. {remedy}" in words
    # Between measured sizes the next measured one is known to suffice.
    answer = demand(410.0, "", AMDAHL, FITTED, [code])
    assert (answer.nodes, answer.measured) == (6, True)
    assert sentence(answer, 8).endswith("; between 5 and 6, since 5 nodes were not measured; 6 nodes were measured.")


def test_an_inconclusive_curve_is_not_extrapolated():
    falling = [capacity(1, 150.0), capacity(2, 18.0), capacity(3, 18.0)]
    fitted, _ = curve(falling)
    assert not fitted.best_model.settled
    answer, words = said(300.0, falling, fitted)
    assert (answer.nodes, answer.extrapolated) == (None, False)
    assert "EXTRAPOLATED" not in words
    assert "the data do not show how throughput grows with more nodes. Measure larger clusters" in words
