"""Changes in a history of sessions: where they are, and that there is none where nothing changed."""

import numpy as np
import pytest
from benchmarks.simulate_history import changes_of_history

from loadframe.analyze.history import _statistics, change_points, fewest_sessions

#: The example series that Hunter is tested with: one fall, at the eleventh value.
HUNTER = [1.02, 0.95, 0.99, 1.00, 1.12, 1.00, 1.01, 0.98, 1.01, 0.96, 0.50, 0.51, 0.48, 0.48, 0.55, 0.50, 0.49, 0.51]


def wandering(random, sessions, correlation, spread):
    """Return a first-order autoregression of this spread about 1000."""
    innovations = random.standard_normal(sessions + 50)
    for index in range(1, len(innovations)):
        innovations[index] += correlation * innovations[index - 1]
    return 1000 * np.exp(spread * np.sqrt(1 - correlation**2) * innovations[50:])


def test_the_published_example_has_its_one_change():
    (point,) = change_points([*HUNTER, 0.50, 0.49])
    assert point.index == 10
    assert point.change == pytest.approx(-0.5, abs=0.01)
    assert point.p < 0.01


def test_the_split_is_where_the_t_statistic_is_greatest():
    random = np.random.default_rng(4)
    values = np.concatenate([random.normal(1, 0.1, 7), random.normal(2, 0.1, 9)])

    def between(at):
        left, right = values[:at], values[at:]
        squares = sum(len(side) * (side.mean() - values.mean()) ** 2 for side in (left, right))
        return squares / ((values - values.mean()) ** 2).sum()

    statistics = _statistics(values[None, :])[0]
    assert statistics == pytest.approx([between(at) for at in range(3, 14)])
    assert 3 + np.argmax(statistics) == 7


def test_several_changes_are_found_and_the_last_level_is_the_newest():
    random = np.random.default_rng(5)
    levels = [1000] * 20 + [800] * 15 + [1100] * 12
    result = change_points(np.array(levels) * (1 + 0.02 * random.standard_normal(len(levels))))
    assert [point.index for point in result] == [20, 35]
    assert [round(point.change, 1) for point in result] == [-0.2, 0.4]


def test_small_changes_are_of_no_interest():
    random = np.random.default_rng(6)
    levels = np.array([1000] * 30 + [970] * 30) * (1 + 0.005 * random.standard_normal(60))
    assert change_points(levels) == ()
    assert [point.index for point in change_points(levels, least=0.02)] == [30]


def test_one_odd_session_is_not_a_change():
    random = np.random.default_rng(7)
    values = 1000 * (1 + 0.01 * random.standard_normal(20))
    values[10] = 600
    assert change_points(values) == ()


def test_short_empty_and_constant_histories_have_none():
    assert change_points([]) == ()
    assert change_points([1, 1, 2, 2, 2]) == ()
    assert change_points([5] * 20) == ()


def test_it_is_known_how_many_sessions_a_change_takes():
    assert fewest_sessions(0.05) == 8
    random = np.random.default_rng(10)
    sessions = np.concatenate([random.normal(1000, 1, 4), random.normal(500, 1, 4)])
    assert change_points(sessions) != ()
    assert change_points(sessions[1:7], level=0.05) == ()


@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.06), (0.3, 0.09), (0.5, 0.13)])
def test_a_history_without_changes_seldom_has_one_even_where_sessions_hang_together(correlation, most):
    """Plain permutation takes a correlation of 0.5 for changes in 40 of 100 histories of 30 sessions."""
    random = np.random.default_rng(8)
    false = [bool(change_points(wandering(random, 30, correlation, 0.05), least=0)) for _ in range(120)]
    assert np.mean(false) <= most


@pytest.mark.slow
def test_three_measures_of_sessions_that_depend_on_each_other_seldom_show_a_change():
    """20 sessions, correlation 0.5: rounded up by 1.2 standard errors, 9 % of these histories show a change."""
    random = np.random.default_rng(1)
    false = [changes_of_history(random, 20, 0.5, 0.05, 0.0) for _ in range(200)]
    assert np.mean(false) <= 0.07


def test_a_fall_by_a_fifth_is_found_soon():
    random = np.random.default_rng(9)
    result = []
    for _ in range(60):
        levels = np.array([1000] * 25 + [800] * 5) * (1 + 0.05 * random.standard_normal(30))
        result.append([point.index for point in change_points(levels)])
    assert np.mean([indices == [25] for indices in result]) >= 0.85
