"""Columns of a linear model for factors with levels, and which terms a design can tell apart."""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Term = tuple[int, ...]

#: Interactions of more factors are left to the error, where there is one.
MOST_FACTORS = 3


def columns_of(rows: npt.NDArray[np.int64], levels: Sequence[int], term: Term, *, balanced: bool) -> Array:
    """Return the columns of a term: of one factor a column for each level but the default, of several their products.

    If `balanced`, columns sum to zero over the levels (the default is -1, so that two levels are -1 and +1), and a main
    effect is the mean over the other factors; else they are 0 and 1, and it is the effect of the level alone.
    """
    product = np.ones((len(rows), 1))
    for index in term:
        own = [
            np.where(rows[:, index] == level, 1.0, np.where(rows[:, index] == 0, -1.0, 0.0) if balanced else 0.0)
            for level in range(1, levels[index])
        ]
        product = np.column_stack([left * right for left in product.T for right in own])
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


def names_of(term: Term, names: Sequence[str]) -> str:
    """Return a term's name: `heap`, `heap × shards`."""
    return " × ".join(names[index] for index in term)


def numbered(labels: Sequence[object]) -> npt.NDArray[np.int64]:
    """Return a number for each label, counted from 0 by its first appearance."""
    numbers = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels], dtype=np.int64)
