"""Fractional two-level factorials of a stated resolution.

A fraction of 2^b runs gives each of k factors a column over the b basic ones: the exclusive or of some of them. Its
resolution R is the size of the smallest set of columns whose exclusive or is nothing: then no effect of s factors is
mixed with one of fewer than R - s. (Box and Hunter, "The 2^(k-p) fractional factorial designs", Technometrics 3, 1961.)
Columns are taken greedily in lexicographic order, which makes a lexicographic code. With exclusive or for the sign, the
run with every factor at its default is in every fraction.
"""

import itertools
from collections.abc import Sequence


def fraction(factors: int, resolution: int) -> list[tuple[int, ...]]:
    """Return the smallest fraction of at least that resolution (3 to 5), or the full factorial."""
    basic = 1
    while True:
        columns = _columns(factors, basic, resolution)
        if columns is not None:
            return [tuple((column & run).bit_count() % 2 for column in columns) for run in range(2**basic)]
        basic += 1


def resolution_of(rows: Sequence[Sequence[int]]) -> int:
    """Return the resolution of a two-level design: the least number of columns whose exclusive or is constant.

    One more than the number of factors if there are no such columns: the full factorial has no aliases.
    """
    columns = list(zip(*rows, strict=True))
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(columns, size):
            if len({sum(values) % 2 for values in zip(*chosen, strict=True)}) == 1:
                return size
    return len(columns) + 1


def _columns(factors: int, basic: int, resolution: int) -> list[int] | None:
    """Return a column for each factor, as bits over the basic ones; None if so few cannot carry them."""
    basis: list[int] = [1 << bit for bit in range(min(basic, factors))]
    reached = {0} | _sums(basis, resolution - 2)
    for column in range(1, 2**basic):
        if len(basis) == factors:
            break
        if column not in reached and column not in basis:
            basis.append(column)
            reached = {0} | _sums(basis, resolution - 2)
    return basis if len(basis) == factors else None


def _sums(columns: Sequence[int], most: int) -> set[int]:
    """Return the exclusive or of every set of at most `most` columns."""
    sums = set()
    for size in range(1, most + 1):
        for chosen in itertools.combinations(columns, size):
            total = 0
            for column in chosen:
                total ^= column
            sums.add(total)
    return sums
