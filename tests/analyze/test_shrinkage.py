"""Shrinkage: values without anything in common stay, equal ones meet, and the best of many is not the luckiest."""

import itertools

import numpy as np
import pytest

from loadframe.analyze.estimate import shrink
from loadframe.analyze.settings.ranking import rank


def test_values_that_differ_by_much_more_than_their_noise_stay_as_they_are():
    values = np.array([0.0, 1.0, 2.0, 3.0, 5.0])
    assert shrink(values, np.full(5, 1e-6)).values == pytest.approx(values, abs=1e-4)


def test_values_that_differ_by_less_than_their_noise_meet_at_their_mean():
    values = np.array([0.9, 1.0, 1.1, 0.95, 1.05])
    drawn = shrink(values, np.full(5, 1.0))
    assert drawn.values == pytest.approx(np.ones(5), abs=0.03)
    assert drawn.errors.max() < 0.7, "the mean of five is known better than each of them"


def test_effects_of_known_columns_are_not_shrunk():
    column = np.array([0.0, 0, 0, 0, 1, 1, 1, 1])
    values = 2 * column + np.array([0.1, -0.1, 0.05, -0.05, 0.1, -0.1, 0.05, -0.05])
    drawn = shrink(values, np.full(8, 0.5), np.column_stack([np.ones(8), column]))
    assert drawn.values == pytest.approx(2 * column, abs=0.05)


def test_one_value_has_nothing_in_common():
    drawn = shrink(np.array([3.0]), np.array([0.25]))
    assert (drawn.values[0], drawn.errors[0]) == (3.0, 0.5)


@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_the_first_of_32_combinations_has_no_apparent_gain(effect):
    rows = np.array(list(itertools.product((0, 1), repeat=5)))
    truth = effect * rows[:, 0]
    effects = None if not effect else 2.0 * rows[:, :1] - 1
    random = np.random.default_rng(1)
    numbers = np.tile(np.arange(32), 3)
    gains, apparent, covered, better = [], [], [], []
    for _ in range(100):
        night = np.repeat(0.05 * random.standard_normal(3), 32)
        logs = truth[numbers] + night + 0.05 * random.standard_normal(96)
        first = rank(numbers.tolist(), np.repeat([1, 2, 3], 32).tolist(), logs, higher=True, effects=effects)[0]
        expected = float(np.exp(truth[first.combination]))
        gains.append(first.ratio.value / expected - 1)
        apparent.append(first.measured / expected - 1)
        covered.append(first.ratio.low <= expected <= first.ratio.high)
        better.append(first.better is not None and first.better > 0.975)
    assert np.mean(apparent) > 0.03
    # The remaining bias comes from noise in the default, the reference of the ratio.
    assert abs(np.mean(gains)) < 0.4 * np.mean(apparent)
    assert np.mean(covered) >= 0.89
    if not effect:
        assert np.mean(better) <= 0.08


def test_without_repetitions_the_ratio_is_the_measured_one():
    [first, default] = rank([0, 1], [1, 1], np.log([100.0, 110.0]), higher=True)
    assert first.ratio.value == pytest.approx(1.1) == first.measured
    assert first.better is None
    assert not first.ratio.is_finite
    assert default.combination == 0
