"""The search for a capacity: the next trial, the basis of its answer, and its distance from the truth."""

import itertools
import random

import numpy as np
import pytest

from loadframe.analyze.capacity import Answer, Bounds, Kind, Next, Outcome, Slo, Trial, fewest, search
from loadframe.analyze.capacity.criteria import broken, growth
from loadframe.simulate import autoregressive
from loadframe.store.sim.model import SimModel
from virtual_arrivals import arriving

PASSED, FAILED, INVALID = Outcome.PASSED, Outcome.FAILED, Outcome.INVALID
BOUNDS = Bounds(start=100, least=10, most=10_000, factor=2, precision=0.05)


def carried_out(judge, bounds=BOUNDS, most=80):
    """Search with a judge of (rate, number of the trial); return the answer and the trials."""
    trials: list[Trial] = []
    while isinstance(step := search(bounds, trials), Next):
        assert step.number == 1 + sum(trial.rate == step.rate for trial in trials), "trials are named by their number"
        trials.append(Trial(step.rate, judge(step.rate, step.number)))
        assert len(trials) < most, "the search does not end"
    return step, trials


def below(limit):
    return lambda rate, _: PASSED if rate <= limit else FAILED


@pytest.mark.parametrize("capacity", [10, 33, 100, 101, 777, 9_999])
def test_a_sharp_capacity_is_bracketed_within_the_precision(capacity):
    answer, _ = carried_out(below(capacity))
    assert answer.kind is Kind.BRACKETED
    assert answer.rate <= capacity < answer.above
    assert answer.above / answer.rate <= 1.05 + 1e-9


@pytest.mark.parametrize("capacity", [1, 2, 7, 60, 61, 1234])
@pytest.mark.parametrize("factor", [1.1, 2])
def test_users_are_whole_and_bracketed_by_neighbours_or_within_the_precision(capacity, factor):
    users = Bounds(start=8, least=1, most=10_000, factor=factor, precision=0.05, over="users")
    answer, trials = carried_out(below(capacity), users, most=200)
    assert all(trial.rate == int(trial.rate) for trial in trials)
    assert answer.rate <= capacity < answer.above
    assert answer.above - answer.rate == 1 or answer.above / answer.rate <= 1.05 + 1e-9
    assert carried_out(below(0), users)[0].kind is Kind.NONE


def test_basis_of_the_answer_and_its_bound():
    answer, trials = carried_out(below(777))
    outcomes = {rate: [trial.outcome for trial in trials if trial.rate == rate] for rate in (answer.rate, answer.above)}
    assert outcomes[answer.rate].count(PASSED) == 3, "two of three, and once again"
    assert outcomes[answer.above] == [FAILED] * 3, "twice, and once after the answer has passed"


def test_the_ramp_goes_up_by_its_factor_and_then_halves_in_proportion():
    _, trials = carried_out(below(500))
    assert [trial.rate for trial in trials[:6]] == [100, 200, 400, 800, 800, 565.7]


def test_one_failure_by_chance_changes_nothing():
    def judge(rate, number):
        return FAILED if (rate, number) == (200, 1) else below(777)(rate, number)

    answer, _ = carried_out(judge)
    assert answer.rate <= 777 < answer.above


@pytest.mark.parametrize("cold", [1, 2, 4, 6])
@pytest.mark.parametrize("capacity", [60, 333, 777, 5_000])
def test_failures_of_a_cold_store_do_not_lower_the_answer(capacity, cold):
    made = itertools.count()

    def judge(rate, _):
        return below(capacity / 8 if next(made) < cold else capacity)(rate, _)

    answer, _ = carried_out(judge)
    assert answer.kind is Kind.BRACKETED
    assert answer.rate <= capacity < answer.above <= answer.rate * 1.05 + 1e-9


def test_failures_after_a_pass_count():
    # 800 is sustained by chance in one of three trials.
    answer, _ = carried_out(lambda rate, number: PASSED if rate <= 500 or (rate, number % 3) == (800, 0) else FAILED)
    assert answer.rate <= 500 < answer.above < 800


def test_an_answer_that_does_not_hold_is_a_rate_that_failed():
    # The first look at 800 is a lucky one.
    def judge(rate, number):
        return PASSED if (rate, number) == (800, 1) else below(500)(rate, number)

    answer, _ = carried_out(judge)
    assert answer.rate <= 500 < answer.above <= 800


def test_an_slo_that_every_rate_misses_is_unanswered():
    answer, trials = carried_out(lambda rate, number: FAILED)
    assert (answer.kind, answer.rate, answer.above) == (Kind.NONE, None, 10)
    assert [trial.rate for trial in trials[::2]] == [100, 50, 25, 12.5, 10]


def test_a_store_that_holds_the_greatest_rate_is_not_pressed_further():
    answer, _ = carried_out(lambda rate, number: PASSED)
    assert (answer.kind, answer.rate, answer.above) == (Kind.AT_MOST, 10_000, None)


def test_where_the_generator_is_the_limit_the_answer_is_a_lower_bound():
    answer, _ = carried_out(lambda rate, _: PASSED if rate <= 600 else INVALID)
    assert answer.kind is Kind.LOWER_BOUND
    assert answer.rate <= 600 < answer.above


def test_a_failed_rate_bounds_the_answer_though_rates_below_it_are_invalid():
    answer, _ = carried_out(lambda rate, _: PASSED if rate <= 100 else FAILED if rate >= 200 else INVALID)
    assert (answer.kind, answer.rate, answer.above) == (Kind.BRACKETED, 100, 200)


def test_a_generator_that_can_do_nothing_leaves_the_capacity_unknown():
    answer, _ = carried_out(lambda rate, number: INVALID)
    assert answer.kind is Kind.UNKNOWN


def test_an_invalid_trial_by_chance_is_made_again():
    answer, _ = carried_out(lambda rate, number: INVALID if number == 1 else below(777)(rate, number))
    assert answer.kind is Kind.BRACKETED
    assert answer.rate <= 777 < answer.above


@pytest.mark.parametrize("seed", range(20))
def test_the_search_ends_for_all_trial_outcomes(seed):
    source = random.Random(seed)
    answer, _ = carried_out(lambda rate, number: source.choice([PASSED, FAILED, INVALID]), most=400)
    assert isinstance(answer, Answer)


def test_a_stopped_search_resumes_after_its_last_trial():
    answer, trials = carried_out(below(777))
    for made in range(len(trials)):
        assert search(BOUNDS, trials[:made]).rate == trials[made].rate
    assert search(BOUNDS, trials) == answer


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_known_capacity_of_a_queue_is_found_within_five_percent(nodes):
    model, slo = SimModel(service=0.01, sigma=0.05), Slo(response=0.1)
    seeds = itertools.count(1)

    def judge(rate, _):
        load = arriving(model, nodes, rate, duration=600, warmup=5, seed=next(seeds))
        p99 = float(np.quantile(load.responses, 0.99))
        figures = (p99, load.errors, load.achieved, growth(load.backlog().tolist()))
        return FAILED if list(broken(slo, rate, *figures)) else PASSED

    answer, _ = carried_out(judge, Bounds(start=10, least=1, most=1e4, precision=0.03))
    assert answer.rate == pytest.approx(model.capacity(nodes, 0.1), rel=0.05)


def test_each_criterion_that_is_broken_is_named():
    slo = Slo(response=0.1)
    assert list(broken(slo, 100, 0.1, 0.0, 0.99, 0.0)) == []
    said = list(broken(slo, 100, 0.2, 0.02, 0.9, 3.0))
    assert said == [
        "p99 was 200 ms, more than 100 ms",
        "2.00 % of the requests failed, at least 1 %",
        "90.0 % of the load was achieved, less than 99 %",
        "requests in flight grew by 3 per second",
    ]
    assert next(broken(slo, 100, None, 1.0, 1.0, 0.0)) == "no request succeeded"


def test_a_backlog_that_only_scatters_does_not_grow():
    source = np.random.default_rng(1)
    grows = sum(growth(source.poisson(5, 60).tolist()) > 0 for _ in range(200))
    assert grows <= 20, "at most one in twenty, and some room"
    assert growth([1, 1, 1, 1, 1, 1]) == 0
    assert growth((np.arange(60) * 2 + source.poisson(5, 60)).tolist()) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("seconds", [20, 60, 300])
def test_one_in_twenty_correlated_backlogs_without_growth_counts_as_growing(seconds):
    series = autoregressive(np.random.default_rng(1), (1000, seconds), 0.8)
    assert 0.03 < np.mean([growth(levels) > 0 for levels in series]) < 0.08


def test_the_backlog_of_an_overloaded_store_grows_also_in_short_and_curved_windows():
    source = np.random.default_rng(2)
    walks = np.cumsum(1 + source.standard_normal((1000, 30)), axis=1)
    assert np.mean([growth(levels) > 0 for levels in walks]) > 0.9
    assert growth((np.arange(60.0) ** 2).tolist()) > 0


def test_a_rate_that_passed_and_failed_is_not_that_of_a_cold_store():
    made = [(40, FAILED), (40, FAILED), (20, FAILED), (20, PASSED), (28.28, FAILED), (28.28, FAILED), (20, FAILED),
            (10, PASSED), (14.14, PASSED), (14.14, PASSED), (14.14, PASSED)]  # fmt: skip
    bounds = Bounds(start=40, least=1, most=100, precision=0.5)
    assert search(bounds, [Trial(*trial) for trial in made]) == Answer(Kind.BRACKETED, 14.14, 20)


@pytest.mark.parametrize("truth", [5.0, 150.0, 3000.0, 1e9])
def test_the_fewest_further_trials_reach_zero_only_at_the_end(truth):
    bounds = Bounds(start=20, least=1, most=1e4, precision=0.1)
    trials: list[Trial] = []
    left = []
    while isinstance(step := search(bounds, trials), Next):
        left.append(fewest(bounds, trials))
        trials.append(Trial(step.rate, Outcome.PASSED if step.rate <= truth else Outcome.FAILED))
    assert all(1 <= count <= len(trials) - done for done, count in enumerate(left))
    assert (left[-1], fewest(bounds, trials)) == (1, 0)
