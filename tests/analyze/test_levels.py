"""Levels of a factor as numbers: plain ones, with a unit, with several units; and how an axis for them is spaced."""

import pytest

from loadframe.analyze.levels import numeric_levels


@pytest.mark.parametrize(
    ("levels", "numbers", "unit"),
    [
        ([10, 100, 1000], [10, 100, 1000], ""),
        (["0s", "20ms", "1s"], [0, 0.02, 1], "s"),
        (["30s", "1m"], [30, 60], "s"),
        (["512m", "1g"], [2**29, 2**30], "B"),
        (["512m", "256m"], [256, 512], "m"),
        (["0%", "10%"], [0, 10], "%"),
        ([0, "20ms", "50ms"], [0, 20, 50], "ms"),
    ],
)
def test_levels_are_numbers_of_one_unit_in_ascending_order(levels, numbers, unit):
    known = numeric_levels(levels)
    assert list(known.numbers.values()) == pytest.approx(numbers)
    assert known.unit == unit


@pytest.mark.parametrize(
    "levels", [[True, False], ["a", "b"], ["1", "b"], [1], [None, 1], ["1s", "1g", "1%"], [1, "1"]]
)
def test_other_levels_have_no_axis(levels):
    assert numeric_levels(levels) is None


@pytest.mark.parametrize(
    ("levels", "spacing"),
    [
        ([10, 100, 1000, 10000], "log"),
        ([1, 2, 4, 8, 16], "log"),
        ([1, 2, 3, 4], "linear"),
        ([0, 20, 50, 100, 1000], "linear"),
        ([10, 20, 30, 40, 50, 60, 70, 80, 90, 100], "linear"),
    ],
)
def test_an_axis_is_logarithmic_where_levels_grow_by_factors(levels, spacing):
    assert numeric_levels(levels).spacing == spacing
    assert numeric_levels(levels, "linear").spacing == "linear"
