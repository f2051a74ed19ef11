"""The interval of a ratio of medians covers the truth as often as it says."""

import math

import numpy as np
import pytest

from loadframe.analyze.comparison import ratio
from loadframe.analyze.comparison.ratio import ratio_of_medians


def test_the_ratio_is_the_seconds_median_over_the_firsts():
    found = ratio_of_medians([90, 100, 130], [110, 120, 125])
    assert found.value == pytest.approx(1.2)
    assert found.low < 1.2 < found.high


def test_one_run_bounds_nothing():
    found = ratio_of_medians([100], [80, 81, 82])
    assert (found.low, found.value, found.high) == (0, pytest.approx(0.81), math.inf)


def test_equal_runs_leave_no_doubt():
    found = ratio_of_medians([100] * 4, [80] * 4)
    assert found.low == found.value == found.high == pytest.approx(0.8)


def test_the_seed_decides_the_interval():
    first, second = [100, 101, 99, 104], [80, 83, 79, 81]
    assert ratio_of_medians(first, second, seed=7) == ratio_of_medians(first, second, seed=7)


@pytest.mark.parametrize("runs", [4, 5, 8, 12])
def test_the_interval_covers_the_truth_in_93_of_100_cases(runs, monkeypatch):
    monkeypatch.setattr(ratio, "_DRAWS", 600)
    random = np.random.default_rng(runs)
    covered = []
    for trial in range(300):
        first, second = (middle * np.exp(0.05 * random.standard_t(4, runs)) for middle in (1.0, 0.9))
        found = ratio_of_medians(first, second, seed=trial)
        covered.append(found.low <= 0.9 <= found.high)
    assert np.mean(covered) >= 0.93


def test_many_runs_are_drawn_in_pieces(monkeypatch):
    random = np.random.default_rng(5)
    first, second = random.normal(100, 3, 60), random.normal(90, 3, 60)
    whole = ratio_of_medians(first, second, seed=1)
    monkeypatch.setattr(ratio, "_CHUNK", 5000)
    assert ratio_of_medians(first, second, seed=1).value == whole.value
    assert ratio_of_medians(first, second, seed=1).low == pytest.approx(whole.low, rel=0.01)
