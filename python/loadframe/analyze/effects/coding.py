"""Columns of a linear model for factors with levels, and which terms a design can tell apart."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Term = tuple[int, ...]

#: Interactions of more factors are left to the error, where there is one.
MOST_FACTORS = 3

#: Less of an interaction than this in an estimated term is of no account.
_NO_PART = 0.05


def columns_of(rows: npt.NDArray[np.int64], levels: Sequence[int], term: Term, *, balanced: bool) -> Array:
    """Return the columns of a term: of one factor a column for each level but the default, of several their products.

    If `balanced`, columns sum to zero over the levels (the default is -1, so that two levels are -1 and +1), and a main
    effect is the mean over the other factors; else they are 0 and 1, and it is the effect of the level alone.
    """
    product = np.ones((len(rows), 1))
    for index in term:
        main = [
            np.where(rows[:, index] == level, 1.0, np.where(rows[:, index] == 0, -1.0, 0.0) if balanced else 0.0)
            for level in range(1, levels[index])
        ]
        product = np.column_stack([left * right for left in product.T for right in main])
    return product


def estimable_terms(rows: npt.NDArray[np.int64], levels: Sequence[int], *, balanced: bool) -> list[Term]:
    """Return main effects, and interactions of two and of three factors as far as all of that size can be told apart.

    A fraction whose interactions are mixed with each other gives main effects only.
    """
    factors = [index for index in range(len(levels)) if levels[index] > 1]
    terms: list[Term] = [(index,) for index in factors]
    distinct = np.unique(rows, axis=0)
    for size in range(2, min(MOST_FACTORS, len(factors)) + 1):
        further = [*terms, *itertools.combinations(factors, size)]
        parts = [columns_of(distinct, levels, term, balanced=balanced) for term in further]
        matrix = np.column_stack([np.ones(len(distinct)), *parts])
        if matrix.shape[1] > len(distinct) or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
            break
        terms = further
    return terms


@dataclass(frozen=True)
class Alias:
    """An interaction that a design mixes into an estimated term, and the part of it that appears there, from 0 to 1."""

    term: Term
    part: float


def aliases(
    rows: npt.NDArray[np.int64], levels: Sequence[int], terms: Sequence[Term]
) -> Mapping[Term, tuple[Alias, ...]]:
    """Return for each estimated term the interactions of two and of three factors that it may be mistaken for.

    The alias matrix (X'X)^-1 X'Z of Box and Wilson, "On the experimental attainment of optimum conditions" (Journal of
    the Royal Statistical Society B 13, 1951): X holds the columns of the estimated terms, Z those of the others. For
    factors of two levels at most, coded -1 and +1.
    """
    distinct = np.unique(rows, axis=0)
    factors = [index for index in range(len(levels)) if levels[index] > 1]
    others = [
        term
        for size in range(2, min(MOST_FACTORS, len(factors)) + 1)
        for term in itertools.combinations(factors, size)
        if term not in terms
    ]
    if not others or not terms or any(number > 2 for number in levels):
        return {}
    known, rest = (
        np.column_stack([columns_of(distinct, levels, term, balanced=True) for term in group])
        for group in (terms, others)
    )
    matrix = np.linalg.lstsq(np.column_stack([np.ones(len(distinct)), known]), rest, rcond=None)[0][1:]
    return {
        term: tuple(
            Alias(other, float(part)) for other, part in zip(others, np.abs(row), strict=True) if part > _NO_PART
        )
        for term, row in zip(terms, matrix, strict=True)
    }


def numbered(labels: Sequence[object]) -> npt.NDArray[np.int64]:
    """Return a number for each label, counted from 0 by its first appearance."""
    numbers = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels], dtype=np.int64)
