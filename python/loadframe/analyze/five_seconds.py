"""Throughput as publications give it: least, quartiles, mean and greatest of samples of 5 s; YCSB's minimum and p95."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: s of a sample.
SAMPLE = 5
_TARGET = "target:"


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


def five_seconds(run: Run, phase: PhaseSummary, rate: Rate = THROUGHPUT) -> Spread | None:
    """Return the spread of a measured window's requests or documents; None where it has no 5 s."""
    begin, end = phase.whole_seconds.start, phase.whole_seconds.stop
    series = run.series
    within = pc.and_(pc.greater_equal(series["second"], begin), pc.less(series["second"], end))
    single = pc.is_in(series["operation"], pa.array(list(phase.single), pa.string()))
    rows = series.filter(pc.and_(pc.and_(within, single), pc.equal(series["phase"], phase.name)))
    samples = (end - begin) // SAMPLE
    if samples < 1:
        return None
    second = rows["second"].to_numpy() - begin
    rates = np.bincount(second // SAMPLE, weights=rows[rate.column].to_numpy(), minlength=samples)[:samples] / SAMPLE
    return _spread(rates)


def five_seconds_by_node(run: Run, phase: PhaseSummary) -> dict[str, Spread]:
    """Return the spread of the requests that each node or router served, by its address; empty with a single one.

    Every attempt is a request there, also one that failed. A publication that counts for each of its load programs, one
    on each router, has such figures.
    """
    begin, end = phase.whole_seconds.start, phase.whole_seconds.stop
    samples = (end - begin) // SAMPLE
    table = run.telemetry
    rows = table.filter(pc.and_(pc.equal(table["metric"], "requests"), pc.starts_with(table["source"], _TARGET)))
    counts: dict[str, Any] = {}
    # A row is about the second that begins with it.
    for source, time, value in zip(
        rows["source"].to_pylist(), rows["time"].to_pylist(), rows["value"].to_pylist(), strict=True
    ):
        second = round(time - phase.start) - begin
        if 0 <= second < samples * SAMPLE:
            counts.setdefault(source.removeprefix(_TARGET), np.zeros(samples))[second // SAMPLE] += value
    return {host: _spread(totals / SAMPLE) for host, totals in sorted(counts.items())} if len(counts) > 1 else {}


def _spread(rates: Any) -> Spread:
    q1, middle, q3 = (float(value) for value in np.quantile(rates, (0.25, 0.5, 0.75)))
    return Spread(len(rates), float(rates.min()), q1, middle, float(rates.mean()), q3, float(rates.max()))


def least_and_p95(run: Run, phase: PhaseSummary, operation: str) -> tuple[float, float] | None:
    """Return the least response time and the 95th percentile of an operation's successes, s; None without any."""
    tag = f"{phase.name}/{operation}/response"
    if tag not in run.histograms.tags():
        return None
    histogram = run.histograms.total(tag)
    least, p95 = histogram.quantile(0.0), histogram.quantile(0.95)
    return None if least is None or p95 is None else (least, p95)
