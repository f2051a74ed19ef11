"""Dips in throughput that come again: their period and depth, and what the store did in them."""

from loadframe.analyze.dips.activities import Doing, doings
from loadframe.analyze.dips.periods import Dips, periodic_dips
from loadframe.analyze.dips.phases import DipsOfPhase, dips_of, irregular_dips

__all__ = ["Dips", "DipsOfPhase", "Doing", "dips_of", "doings", "irregular_dips", "periodic_dips"]
