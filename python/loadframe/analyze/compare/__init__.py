"""Two or more groups of runs against each other: how much better or worse, how sure that is, and what to doubt."""

from loadframe.analyze.compare.contrasts import (
    LEAST,
    LEVEL,
    SESSION_SPREAD,
    Comparison,
    Contrast,
    compare,
    compare_variants,
    read_variants,
)
from loadframe.analyze.compare.groups import Group, asks_robust, read_groups, read_runs, split_by_treatment
from loadframe.analyze.compare.measures import KINDS, USUAL, Measure

__all__ = [
    "KINDS",
    "LEAST",
    "LEVEL",
    "SESSION_SPREAD",
    "USUAL",
    "Comparison",
    "Contrast",
    "Group",
    "Measure",
    "asks_robust",
    "compare",
    "compare_variants",
    "read_groups",
    "read_runs",
    "read_variants",
    "split_by_treatment",
]
