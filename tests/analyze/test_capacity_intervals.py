"""Intervals from several capacity searches: coverage and bias with known truth; one search claims no interval."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from capacity_searches import BOUNDS, searched

from loadframe.analyze.capacity import Bounds, Capacities, Kind, Outcome, Slo, capacities_of, curve, demand
from loadframe.analyze.capacity.answers import warnings
from loadframe.report import capacity_words
from loadframe.report.plots.capacity import capacity_plot


def experiments(number, *, searches, noise, block=0.0, cold=0, seconds=None, seed=1):
    """Yield the truth (1/s) and the capacity of simulated experiments; searches of one differ by `block`.

    The first `cold` trials of an experiment run on a cold store.
    """
    random = np.random.default_rng(seed)
    for _ in range(number):
        truth = float(np.exp(random.uniform(np.log(300), np.log(3000))))
        values = [
            searched(
                truth * np.exp(block * random.standard_normal()),
                noise=noise,
                cold=0 if search else cold,
                random=random,
                block=search,
                seconds=seconds,
            )
            for search in range(searches)
        ]
        [capacity] = capacities_of([values], 1)
        yield truth, capacity


@pytest.mark.parametrize(
    ("searches", "noise", "block", "cold"), [(2, 0.05, 0.0, 0), (3, 0.02, 0.1, 0), (5, 0.1, 0.05, 0), (3, 0.05, 0.0, 4)]
)
def test_the_interval_holds_the_truth_and_the_estimate_is_not_biased(searches, noise, block, cold):
    result = list(experiments(60, searches=searches, noise=noise, block=block, cold=cold))
    covered = np.mean([capacity.rate.low <= truth <= capacity.rate.high for truth, capacity in result])
    assert covered >= 0.88, "95 % of 60, less two standard errors and a half"
    errors = np.array([math.log(capacity.rate.value / truth) for truth, capacity in result])
    assert abs(errors.mean()) < 3 * errors.std() / math.sqrt(len(errors)) + 0.005
    # The rates that held are lower: an answer has to pass three times.
    held = np.array([math.log(capacity.searches[0].answer.rate / truth) for truth, capacity in result])
    assert held.mean() < errors.mean()


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_random_arrivals_in_short_trials_neither_bias_nor_widen_the_capacity(noise):
    """Half a second at 300 to 3,000/s: trials of some 150 to 1,500 requests."""
    result = list(experiments(100, searches=3, noise=noise, seconds=0.5))
    covered = np.mean([capacity.rate.low <= truth <= capacity.rate.high for truth, capacity in result])
    assert covered >= 0.89, "95 % of 100, less two standard errors and a half"
    errors = np.array([math.log(capacity.rate.value / truth) for truth, capacity in result])
    assert abs(errors.mean()) < 3 * errors.std() / math.sqrt(len(errors)) + 0.005

    def nominal(capacity):
        attempts = [[replace(it, offered=None) for it in made.attempts] for made in capacity.searches]
        made = [replace(made, attempts=tuple(it)) for made, it in zip(capacity.searches, attempts, strict=True)]
        return capacities_of([made], 1)[0]

    before = np.array([math.log(nominal(capacity).rate.value / truth) for truth, capacity in result])
    assert errors.std() < 0.8 * before.std(), "the offered rates hold more about the capacity than the nominal ones"


@pytest.mark.parametrize(
    ("seconds", "codes"), [(0.5, ["few_requests", "offered_rate"]), (1.3, ["offered_rate"]), (10.0, [])]
)
def test_trials_of_few_requests_are_a_warning_with_the_duration_that_suffices(seconds, codes):
    [capacity] = capacities_of([[searched(1000, seconds=seconds)]], 1)
    folder = SimpleNamespace(description={}, runs=())
    findings = warnings(Capacities(folder, Slo(response=0.1), BOUNDS, (capacity,)))
    assert [finding.code for finding in findings] == codes
    for finding in findings:
        (needed,) = re.findall(r"duration: (\d) s or longer", finding.remedy)
        [longer] = capacities_of([[searched(1000, seconds=float(needed))]], 1)
        again = warnings(Capacities(folder, Slo(response=0.1), BOUNDS, (longer,)))
        assert finding.code not in [it.code for it in again]


def test_searches_that_agree_on_a_grid_do_not_have_an_interval_of_width_zero():
    for truth, capacity in experiments(20, searches=3, noise=0.0):
        answer = capacity.searches[0].answer
        assert all(search.answer == answer for search in capacity.searches)
        assert capacity.rate.low <= answer.rate * (1 + 1e-9)
        assert capacity.rate.high >= answer.above * (1 - 1e-9)
        assert answer.rate <= truth < answer.above


def test_one_search_has_a_bracket_and_not_an_interval():
    [(_, capacity)] = experiments(1, searches=1, noise=0.02)
    answer = capacity.searches[0].answer
    assert not capacity.rate.is_finite
    assert capacity.rate.value == answer.rate
    assert capacity.bracket == (answer.rate, answer.above)
    said = capacity_words.sentence(capacity)
    assert "by one search: a bracket, not an interval" in said
    [limit] = capacity_words.limits(Capacities(None, Slo(response=0.1), BOUNDS, (capacity,)))[1:]
    assert limit.startswith("One search gives a bracket")


def test_two_searches_say_that_they_are_few():
    [(_, capacity)] = experiments(1, searches=2, noise=0.02)
    assert capacity.bracket is None
    assert capacity.rate.is_finite
    assert any(
        "Two searches give a wide interval" in line
        for line in capacity_words.limits(Capacities(None, Slo(1.0), BOUNDS, (capacity,)))
    )


def test_a_search_below_which_nothing_was_tried_is_not_left_out_of_the_capacity():
    low, high = Bounds(start=100, least=80, most=1e6), BOUNDS
    values = [searched(70, bounds=low), searched(90, bounds=high), searched(100, bounds=high)]
    assert [capacity.answer.kind for capacity in values] == [Kind.NONE, Kind.BRACKETED, Kind.BRACKETED]
    [capacity] = capacities_of([values], 1)
    assert capacity.kind is Kind.UPPER_BOUND
    assert capacity.rate.low == 0, "one of three searches tried no lower rate"
    assert capacity.rate.value == capacity.rate.high >= max(value.answer.above for value in values)
    assert capacity_words.rate_text(capacity).startswith("at most ")
    assert "1 of 3 searches found no rate that meets the SLO" in capacity_words.sentence(capacity)


def test_an_upper_bound_is_rarely_below_the_capacity():
    """Searches differ by 10 %, and none goes below 90 % of the capacity."""
    random, bounds = np.random.default_rng(1), Bounds(start=100, least=90, most=1e6)
    held = []
    for _ in range(100):
        truths = 100 * np.exp(0.1 * random.standard_normal(2))
        [capacity] = capacities_of([[searched(it, noise=0.05, random=random, bounds=bounds) for it in truths]], 1)
        if capacity.kind is Kind.UPPER_BOUND:
            held.append(capacity.rate.high >= 100)
    assert len(held) > 15
    assert np.mean(held) >= 0.9


def test_an_upper_bound_sustains_no_demand_and_has_no_curve():
    values = [searched(70, bounds=Bounds(start=100, least=80, most=1e6)), searched(90), searched(100)]
    [capacity] = capacities_of([values], 1)
    answer = demand(60.0, "", [capacity], None)
    assert (answer.nodes, answer.least) == (None, 1), "the searches do not decide"
    assert curve([capacity])[0] is None


def test_without_a_lower_and_an_upper_end_there_is_no_capacity():
    bounds = Bounds(start=100, least=80, most=200)
    [capacity] = capacities_of([[searched(70, bounds=bounds), searched(300, bounds=bounds)]], 1)
    assert (capacity.kind, capacity.rate) == (Kind.UPPER_BOUND, None)
    assert "no answer (1 of 2 searches found no rate" in capacity_words.sentence(capacity)


def test_searches_that_held_all_they_may_try_leave_the_upper_end_open():
    bounds = Bounds(start=100, least=1, most=400)
    [capacity] = capacities_of([[searched(1000, bounds=bounds) for _ in range(3)]], 1)
    assert (capacity.kind, capacity.rate.high) == (Kind.AT_MOST, math.inf)
    assert 300 < capacity.rate.low <= capacity.rate.value == pytest.approx(400)


def test_bounds_of_several_searches_are_marked_at_the_end_that_the_text_states():
    bounds = Bounds(start=100, least=80, most=400)
    held = [searched(truth, bounds=bounds) for truth in (1000, 1000, 200)]
    missed = [searched(truth, bounds=bounds) for truth in (70, 150, 200)]
    for searches, label in ((held, "at least"), (missed, "at most")):
        [capacity] = capacities_of([searches], 1)
        (trace,) = capacity_plot([capacity], None, "capacity").traces
        assert trace.name == label
        assert f"{label} {trace.y[0]:,.0f}" == capacity_words.rate_text(capacity)
        assert (trace.low, trace.high) == (trace.y, trace.y), "a bound has no bar"


def test_an_accident_far_from_the_capacity_hardly_moves_it():
    values = [searched(1000, noise=0.02, random=np.random.default_rng(seed)) for seed in range(3)]
    [before] = capacities_of([values], 1)
    trials = values[0].attempts
    first = trials[0]
    failed = type(first)("x", first.rate, type(first.judgement)(Outcome.FAILED, ("hiccup",), None, None, None, None))
    spoilt = type(values[0])(1, {}, (failed, *trials), values[0].end)
    [after] = capacities_of([[spoilt, *values[1:]]], 1)
    assert after.rate.value == pytest.approx(before.rate.value, rel=0.005)
