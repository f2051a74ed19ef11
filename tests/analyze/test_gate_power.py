"""Rejection rates of a gate: false positives without a regression, and power with one."""

import math

import numpy as np
import pytest
from benchmarks.simulate_gate import Scenario, bound_outcomes, outcomes
from scipy import stats

from loadframe.analyze.estimate import geometric_mean, holm, mean_share
from loadframe.analyze.gate.power import Graph, detectable, power, runs_needed


@pytest.mark.parametrize("members", [[1, 1, 1], [3], [3, 3, 1], [6, 2]])
def test_the_shares_of_the_level_add_up_to_it(members):
    assert Graph(members).weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("watched", [[[0], [], []], [[0, 2], [1], [0]], [[0, 1, 2], [0, 1, 2], []]])
def test_watched_members_leave_the_level_as_it_is(watched):
    graph = Graph([3, 3, 1], watched)
    assert graph.weights.sum() == pytest.approx(1)
    assert graph.weights[1] == pytest.approx(0.9 / 3 / len(watched[0]))


@pytest.mark.trial
def test_one_of_ten_operations_that_got_worse_is_found_more_often_if_it_is_watched():
    """Without --watch the gate stops for it in about 35 % of cases; --watch adds no false stops."""
    scenario = Scenario(operations=10, runs=5, noise=0.05, blocks=0.1, worse=0.2, worsened=1)
    stopped = {watch: outcomes(scenario, trials=40, seed=28, watch=watch)["regression"] for watch in ((), ("o0",))}
    assert stopped[()] < 0.6 * 40
    assert stopped[("o0",)] > stopped[()] + 4
    nothing = Scenario(operations=10, runs=5, noise=0.05, blocks=0.1)
    assert outcomes(nothing, trials=40, seed=29, watch=("o0",))["regression"] <= 5


def test_without_families_it_is_holms_procedure():
    ps = [0.001, 0.04, 0.02, 0.6]
    assert Graph([1, 1, 1, 1]).adjust(ps) == pytest.approx(holm(ps))


def test_a_joint_check_that_rejects_hands_its_share_to_its_members():
    graph = Graph([2])
    assert graph.weights.tolist() == [0.5, 0.25, 0.25]
    alone = graph.adjust([1.0, 0.015, 0.5])[1]
    helped = graph.adjust([0.001, 0.015, 0.5])[1]
    assert (alone, helped) == pytest.approx((0.06, 0.03))


def test_false_rejections_are_at_most_as_frequent_as_the_level():
    """Only the first member, and so its joint hypothesis, got worse: 1,500 simulations of 11 correlated tests."""
    random = np.random.default_rng(1)
    graph = Graph([3, 3, 2])
    false = 0
    for _ in range(1500):
        z = math.sqrt(0.5) * random.standard_normal() + math.sqrt(0.5) * random.standard_normal(11)
        z[[0, 1]] += 4.0
        adjusted = graph.adjust(stats.norm.sf(z).tolist())
        false += any(p < 0.05 for index, p in enumerate(adjusted) if index not in (0, 1))
    assert false / 1500 < 0.065


@pytest.mark.parametrize(("freedom", "level"), [(4, 0.05), (8, 0.01), (18, 0.002)])
def test_power_is_that_of_the_noncentral_t_distribution(freedom, level):
    error = 0.03
    exact = stats.nct.sf(stats.t.isf(level, freedom), freedom, math.log1p(0.1) / error)
    assert power(0.1, error, freedom, level) == pytest.approx(exact, abs=0.003)


def test_effects_found_in_four_of_five_cases_have_a_power_of_80_percent():
    for higher in (True, False):
        result = detectable(0.03, 8, 0.01, 0.05, higher_is_better=higher)
        assert power(result, 0.03, 8, 0.01, 0.05, higher_is_better=higher) == pytest.approx(0.8, abs=1e-3)
    assert detectable(math.inf, 0, 0.05) == math.inf
    assert detectable(1e-6, 8, 0.05, least=0.05) == pytest.approx(0.05, abs=1e-3)


def test_three_operations_that_all_got_worse_by_a_fifth_are_stopped_with_five_runs_a_side():
    result = outcomes(Scenario(operations=3, runs=5, noise=0.05, blocks=0.1, worse=0.2), trials=12, seed=2)
    assert result["regression"] == 12


def test_unchanged_versions_pass():
    result = outcomes(Scenario(operations=3, runs=5, noise=0.05, blocks=0.1), trials=20, seed=3)
    assert result["regression"] <= 2


def test_a_bound_that_is_broken_by_5_percent_does_not_pass():
    result = bound_outcomes(truth=1.05, runs=4, noise=0.1, trials=400, seed=4)
    assert result["passed"] / 400 <= 0.03
    held = bound_outcomes(truth=0.7, runs=4, noise=0.1, trials=100, seed=5)
    assert held["passed"] > 90
    assert held["regression"] == 0


def test_a_mean_over_sessions_has_sessions_for_units():
    of_runs = geometric_mean([1.0, 1.1, 2.0, 2.2], [0, 0, 0, 0])
    of_sessions = geometric_mean([1.0, 1.1, 2.0, 2.2], [0, 0, 1, 1])
    assert of_runs.value == pytest.approx(of_sessions.value)
    assert of_sessions.high > 2 * of_runs.high
    assert not geometric_mean([1.0], [0]).is_finite


def test_no_failure_in_few_requests_excludes_little():
    few, many = mean_share([(0, 30)] * 3, [0, 0, 0]), mean_share([(0, 30_000)] * 3, [0, 0, 0])
    assert (few.value, many.value) == (0, 0)
    assert few.high == pytest.approx(1 - 0.025 ** (1 / 90))
    assert many.high < 0.0001


def test_a_run_with_few_requests_leaves_the_mean_share_uncertain():
    """Six equal weights: the run of 5 requests alone gives the mean a variance of 1 / (36 * 5)."""
    share = mean_share([(0, 5)] + [(0, 10_000)] * 5, [0] * 6)
    assert share.high == pytest.approx(1 - 0.025 ** (1 / 180), rel=0.01)
    assert mean_share([(0, 5)] + [(0, 10_000)] * 5, [0, 0, 0, 1, 1, 1]).high == pytest.approx(share.high)
    assert mean_share([(0, 0), (1, 30), (2, 30)], [0] * 3) == mean_share([(1, 30), (2, 30)], [0] * 2)
    assert not mean_share([(0, 0), (0, 0)], [0] * 2).is_finite


@pytest.mark.parametrize("noise", [0.03, 0.1, 0.2])
def test_the_needed_runs_find_a_worsening_in_four_of_five_simulated_cases(noise):
    """The number follows from five and eight runs, and one run fewer would not do. The t tests are independent code."""
    sides, level, worse = (5, 8), 0.0125, 0.2
    error, freedom = noise * math.sqrt(1 / 5 + 1 / 8), 11
    needed = runs_needed(worse, error, freedom, level, 0.05, sides, most=50)
    random = np.random.default_rng(7)

    def power_of(runs):
        old = noise * random.standard_normal((4000, runs))
        new = math.log1p(worse) + noise * random.standard_normal((4000, runs))
        significant = stats.ttest_ind(new, old, axis=1, alternative="greater").pvalue < level
        return (significant & (new.mean(axis=1) - old.mean(axis=1) >= math.log1p(0.05))).mean()

    assert power_of(needed) >= 0.78
    assert needed == 2 or power_of(needed - 1) < 0.82


def test_more_runs_than_the_maximum_are_not_recommended():
    assert runs_needed(0.05, 0.5, 8, 0.01, 0.05, (5, 5), most=50) is None
    assert runs_needed(0.2, math.inf, 0, 0.01, 0.05, (1, 1), most=50) is None
