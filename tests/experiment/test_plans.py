"""Designs of settings experiments: their numbers of runs and their orthogonality, as published."""

import itertools

import pytest

from loadframe.experiment.design.plans import changes, fraction, full, plackett_burman, resolution_of


def balanced(rows, size):
    """Return whether all level combinations are equally frequent in every set of `size` columns."""
    for columns in itertools.combinations(zip(*rows, strict=True), size):
        seen = list(zip(*columns, strict=True))
        counts = {levels: seen.count(levels) for levels in itertools.product((0, 1), repeat=size)}
        if len(set(counts.values())) != 1:
            return False
    return True


def test_the_full_factorial_has_every_combination():
    rows = full([2, 3, 2])
    assert len(rows) == len(set(rows)) == 12
    assert rows[0] == (0, 0, 0)


def test_singles_pairs_and_triples_differ_from_the_default_in_so_many_settings():
    assert changes([2, 2, 2, 2], 1) == [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    assert len(changes([2, 2, 2, 2], 2)) == 1 + 4 + 6
    assert len(changes([2, 2, 2, 2], 3)) == 1 + 4 + 6 + 4
    assert len(changes([3, 2], 2)) == 1 + 3 + 2
    assert sorted(changes([2, 2, 2], 3)) == full([2, 2, 2])


@pytest.mark.parametrize(
    ("factors", "resolution", "runs"),
    # Box, Hunter and Hunter, "Statistics for Experimenters", table of two-level fractional factorials.
    [(3, 3, 4), (5, 3, 8), (7, 3, 8), (8, 3, 16), (15, 3, 16), (4, 4, 8), (6, 4, 16), (8, 4, 16), (5, 5, 16),
     (6, 5, 32), (8, 5, 64), (3, 5, 8)],
)  # fmt: skip
def test_fractions_are_as_small_as_the_textbooks_and_of_the_resolution_that_is_stated(factors, resolution, runs):
    rows = fraction(factors, resolution)
    assert len(rows) == len(set(rows)) == runs
    assert resolution_of(rows) >= min(resolution, factors + 1)
    assert balanced(rows, min(resolution - 1, factors))
    assert rows[0] == (0,) * factors


def test_the_resolution_is_that_of_the_smallest_word():
    assert resolution_of(full([2, 2, 2])) == 4
    assert resolution_of([(a, b, a ^ b) for a, b in full([2, 2])]) == 3
    assert resolution_of([(a, b, c, a ^ b ^ c) for a, b, c in full([2, 2, 2])]) == 4


@pytest.mark.parametrize(
    ("factors", "runs"), [(2, 4), (3, 4), (7, 8), (8, 12), (11, 12), (15, 16), (19, 20), (23, 24), (31, 32), (35, 40)]
)
def test_screening_designs_have_the_published_sizes_and_orthogonal_columns(factors, runs):
    rows = plackett_burman(factors)
    assert len(rows) == len(set(rows)) == runs
    assert balanced(rows, 2)
    assert rows[-1] == (0,) * factors


def test_twelve_runs_are_plackett_and_burmans_row_turned_round():
    generator = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)
    turns = {generator[shift:] + generator[:shift] for shift in range(11)}
    backwards = {turn[::-1] for turn in turns}
    rows = set(plackett_burman(11)[:-1])
    assert rows in (turns, backwards)
