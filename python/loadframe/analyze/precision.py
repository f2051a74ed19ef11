"""Precision of an experiment's treatments so far: the widest interval decides whether repetitions go on."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.analyze.scale.treatments import main_operation, pooled_noise


def widest_interval(runs: Sequence[RecordedRun], phases: Iterable[str], rate: Rate = THROUGHPUT) -> float:
    """Return the largest relative half-width of a treatment's 95 % interval.

    Infinite until every treatment has a valid run and one of them is repeated.
    """
    return max((_widest(runs, phase, rate) for phase in phases), default=math.inf)


def _widest(runs: Sequence[RecordedRun], phase: str, rate: Rate) -> float:
    measure = _measure(runs, phase, rate)
    groups: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        value = measure.of(run)
        groups[json.dumps(dict(run.treatment), sort_keys=True)] += [value] if value else []
    if not all(groups.values()):
        return math.inf
    noise = pooled_noise(groups.values())
    return max((noise.half_width(len(values)) for values in groups.values()), default=math.inf)


def _measure(runs: Sequence[RecordedRun], phase: str, rate: Rate) -> Measure:
    if any(stream.is_open for run in runs for stream in run.streams(phase)):
        return Measure(phase, "p50", main_operation(runs, phase))
    return Measure(phase, rate.name)
