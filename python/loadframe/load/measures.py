"""Measures of a phase for monitoring systems: counts and times in buckets, which the engine updates once a second."""

from loadframe import _engine

#: Upper bounds of the buckets, s; the last bucket has none.
BOUNDS: tuple[float, ...] = tuple(_engine.MEASURE_BOUNDS)
