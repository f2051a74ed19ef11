"""Rank tests against counted-out and published answers, and against SciPy's."""

import itertools

import numpy as np
import pytest
from scipy import stats

from loadframe.analyze.comparison.ranks import cliffs_delta, holm, least_p, rank_test, runs_needed


def test_three_against_three_can_never_be_significant_at_a_tenth():
    assert rank_test([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)
    assert least_p(3, 3) == pytest.approx(0.1)
    assert least_p(5, 5) == pytest.approx(2 / 252)


@pytest.mark.parametrize(("level", "tests", "runs"), [(0.1, 1, 4), (0.05, 1, 4), (0.05, 3, 5), (0.01, 1, 5)])
def test_it_is_said_how_many_runs_a_level_takes(level, tests, runs):
    assert runs_needed(level, tests) == runs
    assert least_p(runs, runs) * tests < level <= least_p(runs - 1, runs - 1) * tests


def test_the_exact_test_agrees_with_scipy():
    random = np.random.default_rng(1)
    for n, m in itertools.product((1, 2, 5, 9, 20), repeat=2):
        first, second = random.normal(size=n), random.normal(0.7, size=m)
        expected = stats.mannwhitneyu(first, second, method="exact").pvalue
        assert rank_test(first, second) == pytest.approx(expected)


def test_ties_are_counted_out_too():
    first, second = [1, 2, 2, 3], [2, 3, 3, 4, 5]
    everything = np.array(first + second)
    ranks = stats.rankdata(everything)
    seen = ranks[:4].sum()
    below = [ranks[list(chosen)].sum() <= seen for chosen in itertools.combinations(range(9), 4)]
    assert rank_test(first, second) == pytest.approx(2 * np.mean(below))


def test_ties_on_one_side_do_not_reach_below_what_so_few_runs_can():
    assert rank_test([1, 2, 3, 4], [5, 6, 6, 7, 8, 9]) == pytest.approx(least_p(4, 6))
    assert rank_test([5, 6, 6, 7, 8, 9], [1, 2, 3, 4]) == pytest.approx(least_p(4, 6))


def test_many_runs_are_judged_by_the_normal_distribution():
    random = np.random.default_rng(2)
    first, second = random.integers(0, 30, 40), random.integers(4, 34, 45)
    expected = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert rank_test(first, second) == pytest.approx(expected)


def test_equal_values_are_no_difference():
    assert rank_test([5] * 4, [5] * 4) == 1
    assert rank_test([5] * 40, [5] * 40) == 1
    assert rank_test([], [1]) == 1


def test_cliffs_delta_counts_pairs():
    assert cliffs_delta([1, 2, 3], [4, 5, 6]) == 1
    assert cliffs_delta([4, 5, 6], [1, 2, 3]) == -1
    assert cliffs_delta([1, 2], [1, 2]) == 0
    # The example of R's package effsize has -0.25 for the first against the second.
    assert cliffs_delta([10, 10, 20, 20, 20, 30, 30, 30, 40, 50], [10, 20, 30, 40, 40, 50]) == pytest.approx(0.25)


def test_holm_adjusts_as_published():
    # The usual example: 0.01, 0.04, 0.03, 0.005 become 0.03, 0.06, 0.06, 0.02.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def test_no_more_false_claims_than_the_level_says():
    random = np.random.default_rng(3)
    claims = [rank_test(random.normal(size=6), random.normal(size=6)) < 0.05 for _ in range(1000)]
    assert np.mean(claims) <= 0.06
