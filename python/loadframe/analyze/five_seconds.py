"""Throughput as publications give it: least, quartiles, mean and greatest of samples of 5 s; YCSB's minimum and p95."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: s of a sample.
SAMPLE = 5


@dataclass(frozen=True)
class Spread:
    """What samples of 5 s came to, 1/s; `samples` is how many there are, the last one left out where it is cut."""

    samples: int
    least: float
    q1: float
    median: float
    mean: float
    q3: float
    most: float

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return vars(self)


def five_seconds(run: Run, phase: PhaseSummary, column: str = "successes") -> Spread | None:
    """Return the spread of a measured window's `successes` or `documents`; None where it has no 5 s."""
    begin, end = int(np.ceil(phase.warmup)), int(phase.warmup + phase.duration)
    series = run.series
    within = pc.and_(pc.greater_equal(series["second"], begin), pc.less(series["second"], end))
    single = pc.is_in(series["operation"], pa.array(list(phase.single), pa.string()))
    rows = series.filter(pc.and_(pc.and_(within, single), pc.equal(series["phase"], phase.name)))
    samples = (end - begin) // SAMPLE
    if samples < 1:
        return None
    second = rows["second"].to_numpy() - begin
    rates = np.bincount(second // SAMPLE, weights=rows[column].to_numpy(), minlength=samples)[:samples] / SAMPLE
    q1, middle, q3 = (float(value) for value in np.quantile(rates, (0.25, 0.5, 0.75)))
    return Spread(samples, float(rates.min()), q1, middle, float(rates.mean()), q3, float(rates.max()))


def least_and_p95(run: Run, phase: PhaseSummary, operation: str) -> tuple[float, float] | None:
    """Return the least response time and the 95th percentile of an operation's successes, s; None without any."""
    tag = f"{phase.name}/{operation}/response"
    if tag not in run.histograms.tags():
        return None
    histogram = run.histograms.total(tag)
    least, p95 = histogram.quantile(0.0), histogram.quantile(0.95)
    return None if least is None or p95 is None else (least, p95)
