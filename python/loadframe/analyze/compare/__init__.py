"""Comparison of two or more groups of runs: ratios, their uncertainty, and warnings."""

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
from loadframe.analyze.compare.groups import (
    Group,
    read_groups,
    read_runs,
    read_treatments,
    split_by_treatment,
    uses_robust_estimate,
)
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
    "compare",
    "compare_variants",
    "read_groups",
    "read_runs",
    "read_treatments",
    "read_variants",
    "split_by_treatment",
    "uses_robust_estimate",
]
