"""Every combination of levels, and those that differ from the default in a few factors only."""

import itertools
from collections.abc import Sequence


def full(levels: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every combination, given how many levels each factor has."""
    return list(itertools.product(*(range(number) for number in levels)))


def changes(levels: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Return the default and every combination that differs from it in at most `most` factors, fewest changes first.

    With 1, 2 and 3 these are all single settings, pairs and triples.
    """
    rows = []
    for number in range(min(most, len(levels)) + 1):
        for chosen in itertools.combinations(range(len(levels)), number):
            for others in itertools.product(*(range(1, levels[index]) for index in chosen)):
                row = [0] * len(levels)
                for index, level in zip(chosen, others, strict=True):
                    row[index] = level
                rows.append(tuple(row))
    return rows
