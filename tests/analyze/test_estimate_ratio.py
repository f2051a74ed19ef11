"""The ratio of two groups of runs: analysed according to the layout of the runs, with nominal coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from loadframe.analyze.compare.estimate_ratio import Observation, estimate_ratio

NOISE = 0.03


def in_blocks(random, blocks, *, spread, loss=0.0, session=0):
    """Return one run of both groups in each block."""
    shared = spread * random.standard_normal(blocks)
    return [
        Observation(math.exp(shared[block] + NOISE * random.standard_normal()) * factor, group, block, session)
        for block in range(blocks)
        for group, factor in (("old", 1.0), ("new", 1 - loss))
    ]


def in_nights(random, nights, runs, *, spread, loss=0.0, group="old"):
    """Return the runs of some nights that have this group only."""
    result = []
    for night in range(nights):
        level = spread * random.standard_normal() + math.log(1 - loss)
        result += [
            Observation(math.exp(level + NOISE * random.standard_normal()), group, None, (group, night))
            for _ in range(runs)
        ]
    return result


def test_where_blocks_differ_it_is_the_paired_t_test():
    random = np.random.default_rng(1)
    runs = in_blocks(random, 8, spread=0.5, loss=0.1)
    result = estimate_ratio(runs, "old", "new")
    old, new = ([math.log(run.value) for run in runs if run.group == group] for group in ("old", "new"))
    paired = stats.ttest_rel(new, old)
    assert result.design == "paired"
    assert result.freedom == pytest.approx(7, abs=0.1)
    assert result.log_ratio / result.standard_error == pytest.approx(paired.statistic, rel=0.01)
    assert result.p == pytest.approx(paired.pvalue, rel=0.05)


def test_without_blocks_it_is_students_t_test():
    random = np.random.default_rng(2)
    runs = [Observation(math.exp(value), index % 2) for index, value in enumerate(random.normal(0, 0.1, 11))]
    result = estimate_ratio(runs, 0, 1)
    expected = stats.ttest_ind(*([math.log(run.value) for run in runs if run.group == group] for group in (1, 0)))
    interval = expected.confidence_interval()
    assert (result.design, result.freedom, result.caution) == ("unpaired", 9, 1)
    assert result.p == pytest.approx(expected.pvalue)
    assert (result.ratio.low, result.ratio.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_many_runs_against_few_are_not_taken_to_have_one_noise():
    random = np.random.default_rng(4)
    sides = random.normal(0, 0.03, 20), random.normal(0, 0.06, 3)
    runs = [Observation(math.exp(value), side) for side, values in enumerate(sides) for value in values]
    assert estimate_ratio(runs, 0, 1).p == pytest.approx(stats.ttest_ind(*sides, equal_var=False).pvalue)
    claims = []
    for _ in range(300):
        runs = [Observation(math.exp(random.normal(0, 0.03)), 0) for _ in range(20)]
        runs += [Observation(math.exp(random.normal(0, 0.06)), 1) for _ in range(3)]
        claims.append(estimate_ratio(runs, 0, 1).p < 0.05)
    assert np.mean(claims) <= 0.09


def test_a_loss_of_a_tenth_in_blocks_that_differ_by_a_tenth_is_detected():
    """An unpaired test detects 15 % of these."""
    random = np.random.default_rng(3)
    claimed = [estimate_ratio(in_blocks(random, 6, spread=0.1, loss=0.1), "old", "new").p < 0.05 for _ in range(200)]
    assert np.mean(claimed) >= 0.97


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("blocks", [2, 4, 10])
def test_the_interval_covers_the_truth_with_any_block_effects(blocks, spread):
    random = np.random.default_rng(blocks)
    result = [estimate_ratio(in_blocks(random, blocks, spread=spread, loss=0.1), "old", "new") for _ in range(300)]
    assert 0.91 <= np.mean([estimate.ratio.low <= 0.9 <= estimate.ratio.high for estimate in result]) <= 0.98


def test_runs_that_are_missing_from_blocks_leave_the_rest_comparable():
    random = np.random.default_rng(5)
    covered = []
    for _ in range(300):
        runs = in_blocks(random, 6, spread=0.1, loss=0.1)
        del runs[int(random.integers(12))]
        del runs[int(random.integers(11))]
        result = estimate_ratio(runs, "old", "new")
        covered.append(result.ratio.low <= 0.9 <= result.ratio.high)
    assert result.design == "blocks"
    assert 0.92 <= np.mean(covered) <= 0.98


def test_further_groups_help_to_tell_the_noise():
    random = np.random.default_rng(6)
    runs = in_blocks(random, 4, spread=0.1)
    more = [
        Observation(run.value * math.exp(NOISE * random.standard_normal()), f"{run.group} {index}", run.block, 0)
        for index in range(3)
        for run in runs
    ]
    assert estimate_ratio([*runs, *more], "old", "new").freedom > 2 * estimate_ratio(runs, "old", "new").freedom


@pytest.mark.parametrize(("nights", "runs"), [((20, 1), (3, 3)), ((20, 1), (3, 1)), ((3, 3), (3, 3)), ((6, 2), (2, 8))])
def test_differences_between_nights_are_not_a_regression(nights, runs):
    random = np.random.default_rng(7)
    claims = []
    for _ in range(300):
        observations = in_nights(random, nights[0], runs[0], spread=0.05)
        observations += in_nights(random, nights[1], runs[1], spread=0.05, group="new")
        result = estimate_ratio(observations, "old", "new")
        claims.append(result.p < 0.05)
    assert result.design == "sessions"
    assert result.sessions == nights
    assert 0.02 <= np.mean(claims) <= 0.08


def test_a_night_of_one_run_is_as_uncertain_as_that_run():
    """Means of ten runs a night scatter less than one run does, where nights do not differ."""
    random = np.random.default_rng(8)
    claims = [
        estimate_ratio(
            in_nights(random, 8, 10, spread=0) + in_nights(random, 1, 1, spread=0, group="new"), "old", "new"
        ).p
        < 0.05
        for _ in range(300)
    ]
    assert np.mean(claims) <= 0.08


def test_nights_that_have_both_are_compared_within():
    random = np.random.default_rng(9)
    runs = [run for night in range(3) for run in in_blocks(random, 2, spread=0, loss=0.1, session=night)]
    scaled = [Observation(run.value * (1 + run.session), run.group, run.block, run.session) for run in runs]
    for observations in (scaled, [Observation(run.value, run.group, None, run.session) for run in scaled]):
        result = estimate_ratio(observations, "old", "new")
        assert result.design == ("paired" if observations is scaled else "unpaired")
        assert 0.85 < result.ratio.low < result.ratio.high < 1
        assert result.sessions == (3, 3)
        assert result.knows_sessions


def test_one_night_against_one_says_that_it_cannot_know_nights():
    random = np.random.default_rng(10)
    runs = in_nights(random, 1, 4, spread=0.05) + in_nights(random, 1, 4, spread=0.05, group="new")
    result = estimate_ratio(runs, "old", "new")
    assert result.design == "one session each"
    assert not result.knows_sessions
    assert result.freedom == 6


def test_one_run_against_one_bounds_nothing():
    result = estimate_ratio([Observation(100, "old"), Observation(80, "new")], "old", "new")
    assert (result.ratio.low, result.ratio.value, result.ratio.high) == (0, pytest.approx(0.8), math.inf)
    assert result.p == 1


def test_equal_runs_leave_no_doubt():
    runs = [Observation(value, group, block) for block in range(3) for group, value in (("old", 100.0), ("new", 80.0))]
    result = estimate_ratio(runs, "old", "new")
    assert result.ratio.low == result.ratio.high == pytest.approx(0.8)
    assert result.p == 0
    same = estimate_ratio([Observation(100, group) for group in ("old", "new") * 2], "old", "new")
    assert (same.ratio.value, same.p) == (pytest.approx(1), 1)


def test_non_positive_values_and_empty_sides_are_refused():
    with pytest.raises(ValueError, match="'new' has no observation"):
        estimate_ratio([Observation(1, "old")], "old", "new")
    with pytest.raises(ValueError, match="must be positive"):
        estimate_ratio([Observation(1, "old"), Observation(0, "new")], "old", "new")
