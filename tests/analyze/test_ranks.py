"""Cliff's delta and Holm's adjustment against published answers."""

import pytest

from loadframe.analyze.estimate import cliffs_delta, holm


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
