"""Recurring dips in throughput: their period and depth, and the store's activities during them."""

from loadframe.analyze.dips.activities import ActivitySeries, activity_series
from loadframe.analyze.dips.periods import Dips, periodic_dips
from loadframe.analyze.dips.phases import DipsOfPhase, dips_of, irregular_dips

__all__ = ["ActivitySeries", "Dips", "DipsOfPhase", "activity_series", "dips_of", "irregular_dips", "periodic_dips"]
