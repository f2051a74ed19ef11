"""Capacity: the highest rate, or the most users, that a store sustains within an SLO; how many nodes a load needs."""

from loadframe.analyze.capacity.answers import (
    RATE,
    USERS,
    Attempt,
    Capacities,
    Capacity,
    ErrorsOpen,
    Search,
    capacities_in,
    capacities_of,
    judge_run,
    read_capacities,
    without_rate,
)
from loadframe.analyze.capacity.criteria import PERCENTILES, Judgement, Slo, judge
from loadframe.analyze.capacity.demands import Demand, curve, demand
from loadframe.analyze.capacity.search import Answer, Bounds, Kind, Next, Outcome, Trial, fewest, search

__all__ = [
    "PERCENTILES",
    "RATE",
    "USERS",
    "Answer",
    "Attempt",
    "Bounds",
    "Capacities",
    "Capacity",
    "Demand",
    "ErrorsOpen",
    "Judgement",
    "Kind",
    "Next",
    "Outcome",
    "Search",
    "Slo",
    "Trial",
    "capacities_in",
    "capacities_of",
    "curve",
    "demand",
    "fewest",
    "judge",
    "judge_run",
    "read_capacities",
    "search",
    "without_rate",
]
