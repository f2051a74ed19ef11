"""Changes in a history of runs: where they are, and that there is none where nothing changed."""

import numpy as np
import pytest
from scipy import stats

from loadframe.analyze.history import change_points
from loadframe.analyze.history.change_points import _best_split, _t_test

#: The example series that Hunter is tested with: one fall, at the eleventh value.
HUNTER = [1.02, 0.95, 0.99, 1.00, 1.12, 1.00, 1.01, 0.98, 1.01, 0.96, 0.50, 0.51, 0.48, 0.48, 0.55, 0.50, 0.49, 0.51]


def test_the_published_example_has_its_one_change():
    (point,) = change_points([*HUNTER, 0.50, 0.49], p=0.0001)
    assert point.index == 10
    assert point.change == pytest.approx(-0.5, abs=0.01)
    assert point.p < 0.0001


def test_the_split_is_where_the_energy_distance_is_greatest():
    random = np.random.default_rng(4)
    values = np.concatenate([random.normal(1, 0.1, 7), random.normal(2, 0.1, 9)])

    def energy(at):
        left, right = values[:at], values[at:]
        n, m = len(left), len(right)
        between = np.abs(left[:, None] - right).sum() * 2 / (n * m)
        within = [np.abs(side[:, None] - side).sum() / (len(side) * (len(side) - 1)) for side in (left, right)]
        return (between - sum(within)) * n * m / (n + m)

    assert _best_split(values) == max(range(3, 14), key=energy) == 7


def test_the_test_is_students():
    first, second = np.array([1.00, 1.02, 1.05, 0.95, 0.98]), np.array([0.80, 0.82, 0.85, 0.79, 0.77])
    assert _t_test(first, second) == pytest.approx(stats.ttest_ind(first, second).pvalue)
    assert _t_test(first, first) == pytest.approx(1)
    assert _t_test(np.ones(3), np.ones(4)) == 1
    assert _t_test(np.ones(3), np.full(4, 2.0)) == 0


def test_several_changes_are_found_and_the_last_level_is_the_newest():
    random = np.random.default_rng(5)
    levels = [1000] * 20 + [800] * 15 + [1100] * 12
    found = change_points(np.array(levels) * (1 + 0.02 * random.standard_normal(len(levels))))
    assert [point.index for point in found] == [20, 35]
    assert [round(point.change, 1) for point in found] == [-0.2, 0.4]


def test_small_changes_are_of_no_interest():
    random = np.random.default_rng(6)
    levels = np.array([1000] * 30 + [970] * 30) * (1 + 0.005 * random.standard_normal(60))
    assert change_points(levels) == ()
    assert [point.index for point in change_points(levels, least=0.02)] == [30]


def test_one_odd_run_is_no_change():
    random = np.random.default_rng(7)
    values = 1000 * (1 + 0.01 * random.standard_normal(20))
    values[10] = 600
    assert change_points(values) == ()


def test_short_and_empty_histories_have_none():
    assert change_points([]) == ()
    assert change_points([1, 1, 2, 2, 2]) == ()


def test_a_history_without_changes_seldom_has_one():
    random = np.random.default_rng(8)
    false = [bool(change_points(1000 * (1 + 0.05 * random.standard_normal(30)), least=0)) for _ in range(300)]
    assert np.mean(false) <= 0.03


def test_a_fall_by_a_fifth_is_found_soon():
    random = np.random.default_rng(9)
    found = []
    for _ in range(100):
        levels = np.array([1000] * 25 + [800] * 5) * (1 + 0.05 * random.standard_normal(30))
        found.append([point.index for point in change_points(levels)] == [25])
    assert np.mean(found) >= 0.9
