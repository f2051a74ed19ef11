"""Number of nodes for a load: at measured sizes, between them, beyond them, and unknown."""

import pytest
from capacity_searches import BOUNDS, searched

from loadframe.analyze.capacity import Bounds, Judgement, Kind, Next, Outcome, capacities_of
from loadframe.analyze.capacity.answers import Attempt, Search
from loadframe.analyze.capacity.demands import curve, demand, sentence
from loadframe.analyze.capacity.search import Answer


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
    assert words == (
        "180 requests/s needs 2 nodes; the 95 % intervals allow no other number; 2 nodes were measured, with a proven"
        " reserve below 5 %."
    )
    _, words = said(170.0)
    assert words.endswith("; 2 nodes were measured.")


def test_a_load_within_the_interval_of_a_size_needs_the_next_size_that_surely_sustains_it():
    answer = demand(AMDAHL[1].rate.value, "1,000 users", AMDAHL, FITTED)
    assert (answer.nodes, answer.least, answer.most) == (3, 2, 3)
    assert AMDAHL[1].sustained == AMDAHL[1].rate.low < answer.rate <= AMDAHL[2].sustained
    assert sentence(answer, 8, known={2: "191 [186, 195] requests/s"}) == (
        "1,000 users (191 requests/s) need 3 nodes; 2 nodes may suffice (capacity: 191 [186, 195] requests/s; within"
        f" 5 % of this load {answer.perhaps.passed} of {answer.perhaps.trials} trials passed); 3 nodes were measured."
    )
    assert 0 < answer.perhaps.passed < answer.perhaps.trials
    # Without a larger size the answer is open.
    answer = demand(AMDAHL[1].rate.value, "", AMDAHL[:2], None)
    assert (answer.nodes, answer.least, answer.most) == (None, 2, None)


def mixed(nodes, outcomes):
    """Return the capacity by one search, from the outcomes at each rate, in this order."""
    attempts = [
        Attempt(f"t{rate}-{index}", rate, Judgement(outcome, (), None, None, None, None))
        for rate, several in outcomes.items()
        for index, outcome in enumerate(several)
    ]
    return capacities_of([[Search(1, {"nodes": nodes}, tuple(attempts), Answer(Kind.BRACKETED, 300.0, 315.0))]], 1)[0]


def test_a_rate_at_which_trials_failed_is_not_sure_by_one_search():
    passed, failed = Outcome.PASSED, Outcome.FAILED
    # Two failures precede a pass, so the search did not count them.
    tried = {280.0: [passed], 300.0: [failed, failed, passed, passed, failed, passed, passed], 340.0: [failed, failed]}
    one, two = mixed(1, tried), capacity(2, 1000.0)
    assert (one.sustained, one.near(300.0)) == (280.0, (4, 7))
    answer, words = said(300.0, [one, two], None)
    assert (answer.nodes, answer.undecided) == (2, 1)
    assert "needs 2 nodes;" in words
    assert (
        "1 node may suffice (the search there did not decide this load; within 5 % of this load 4 of 7 trials" in words
    )
    answer, words = said(270.0, [one, two], None)
    assert answer.nodes == 1
    assert words.endswith("1 node was measured, with a proven reserve below 5 %.")
    clean, _ = said(300.0, [mixed(1, tried | {300.0: [passed] * 3}), two], None)
    assert (clean.nodes, clean.undecided) == (1, None)
    # Failures at the only rate that passed leave lower loads decided.
    assert mixed(1, {300.0: tried[300.0], 315.0: [failed, failed]}).sustained == 240.0


@pytest.mark.parametrize(("load", "nodes"), [(80.0, 2), (150.0, 2), (250.0, 3)])
def test_fewer_nodes_than_measured_are_not_answered_by_the_curve(load, nodes):
    sizes = AMDAHL[1:]
    fitted, _ = curve(sizes)
    answer, words = said(load, sizes, fitted)
    assert (answer.nodes, answer.untested) == (nodes, (1,) if nodes == 2 else ())
    assert words.startswith(f"2 nodes sustain {load:.0f} requests/s; fewer were not measured, and may") == (nodes == 2)


def test_searches_without_a_result_are_not_called_unmeasured():
    started = Search(1, {"nodes": 1}, (), Next(100.0, 1, "ramp"))
    without = capacities_of([[started]], 1)
    answer, words = said(150.0, [*without, AMDAHL[1]], None)
    assert (answer.untested, answer.unfinished) == ((1,), (1,))
    assert words.startswith(
        "2 nodes sustain 150 requests/s; fewer may suffice: the searches at 1 node have no result; 2 nodes were"
    )


def test_between_measured_numbers_the_curve_answers():
    answer, words = said(400.0)
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
        ((3,), 1, "fewer were not measured, and may suffice"),
        ((2,), 1, "fewer were not measured, and may suffice"),
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
    passed, trials = one.near(load)
    near = f"; within 5 % of this load {passed} of {trials} trials passed" if passed < trials else ""
    assert words == (
        f"Inconclusive: the searches do not show whether 1 node (capacity: 100 [90, 110] requests/s{near}) can sustain"
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
    assert answer.least < answer.nodes, words


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
        assert ("1 node may suffice (the search there did not decide this load;" in words) == (open_at is not None)
    # The same holds where no number of nodes is known to suffice.
    for nodes in (1, 2, 8):
        several = [capacity(n, 103.0 * n) for n in (1, 2, 4, 8) if n <= nodes]
        load = sum(several[-1].bracket) / 2
        answer, words = said(load, several, None)
        assert (answer.nodes, answer.undecided) == (None, nodes)
        assert words.startswith("Inconclusive: the searches do not show whether ")
        assert "(its only search did not decide this load; within 5 % of this load 3 of 5 trials passed)" in words


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
    assert sentence(answer, 8) == (
        "6 nodes sustain 410 requests/s; fewer may suffice: 5 nodes were not measured; 6 nodes were measured."
    )


def test_an_inconclusive_curve_is_not_extrapolated():
    falling = [capacity(1, 150.0), capacity(2, 18.0), capacity(3, 18.0)]
    fitted, _ = curve(falling)
    assert not fitted.best_model.settled
    answer, words = said(300.0, falling, fitted)
    assert (answer.nodes, answer.extrapolated) == (None, False)
    assert "EXTRAPOLATED" not in words
    assert "the data do not show how throughput grows with more nodes. Measure larger clusters" in words


def test_the_interval_of_nodes_never_excludes_the_answer():
    """A single search at a number of nodes gives no interval, so this number is not excluded by several at others."""
    several = [capacity(1, 100.0), capacity(2, 198.0, 200.0, 202.0)]
    passed, failed = several[0].bracket
    for load, ends in ((90.0, (1, None, 2)), ((passed + failed) / 2, (2, None, 2)), (150.0, (2, 2, 2))):
        answer = demand(load, "", several, None)
        assert (answer.nodes, answer.least, answer.most) == ends


def test_the_rates_at_which_all_trials_agree_decide():
    bounds = Bounds(start=100, least=50, most=400)
    none, all_passed = capacity(1, 1.0, 1.0, bounds=bounds), capacity(2, 1e4, 1e4, bounds=bounds)
    assert (none.kind, all_passed.kind) == (Kind.NONE, Kind.AT_MOST)
    # Both searches at 1 node failed at 50/s, and both at 2 nodes passed at 400/s.
    for load in (50.0, 400.0):
        answer, words = said(load, [none, all_passed], None)
        assert (answer.nodes, answer.least, answer.most) == (2, 2, 2)
        assert "allow no other number" in words
    assert all_passed.rate.value == all_passed.rate.low == 400.0
    # Both searches passed at the rate below the true capacity, and failed at the one above it.
    for start in (77.0, 90.0, 100.0, 300.0):
        passed = Answer(Kind.BRACKETED, start, 1.5 * start)
        trials = [(start, Outcome.PASSED)] * 3 + [(1.5 * start, Outcome.FAILED)] * 2
        attempts = tuple(Attempt("t", rate, Judgement(outcome, (), *[None] * 4)) for rate, outcome in trials)
        (agreed,) = capacities_of([[Search(block, {"nodes": 1}, attempts, passed) for block in range(3)]], 1)
        assert (agreed.rate.low, agreed.rate.high) == (start, 1.5 * start)
        assert demand(start, "", [agreed], None).nodes == 1
        assert (answer := demand(1.5 * start, "", [agreed], None)).nodes is None
        assert sentence(answer, 1).startswith("1 node is not enough")


def test_failed_trials_near_the_load_are_named_beside_a_reserve():
    passed, failed = Outcome.PASSED, Outcome.FAILED
    tried = {100.0: [failed, passed], 200.0: [passed] * 3, 210.0: [failed, failed]}
    _, words = said(100.0, [mixed(1, tried)], None)
    assert words.endswith("1 node was measured; within 5 % of this load 1 of 2 trials passed.")
    _, words = said(150.0, [mixed(1, tried)], None)
    assert words.endswith("1 node was measured.")


def test_a_measured_cluster_that_passed_some_trials_at_the_load_is_not_said_to_have_failed():
    answer = demand(AMDAHL[-1].rate.value, "", AMDAHL, FITTED, ["fresh_node"])
    assert answer.perhaps.passed > 0
    assert sentence(answer, 8).startswith(
        f"It is open how many nodes sustain {answer.rate:.0f} requests/s: 8 nodes may suffice (the intervals allow it;"
    )


def test_a_number_of_users_is_plural():
    answer = demand(90.0, "", [capacity(1, 100.0)], None)
    assert sentence(answer, 1, "users").startswith("90 users need 1 node;")
