"""Figures in the form of publications: rates in samples of 5 and 10 s, YCSB's minimum and p95, and request time."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.record import Run
from loadframe.record.schema import SAMPLES_FILE
from loadframe.record.schema.summary import PhaseSummary

#: Length of a sample, s, and the lengths that publications use.
SAMPLE = 5
LENGTHS = (5, 10)
_TARGET = "target:"


@dataclass(frozen=True)
class Spread:
    """Distribution of the samples, 1/s; `samples` is their number, without an incomplete last one.

    `deviation` is their standard deviation; None for a single sample.
    """

    samples: int
    least: float
    q1: float
    median: float
    mean: float
    q3: float
    most: float
    deviation: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, rates in 1/s; the result is the object's own dict, so it must not be changed."""
        return vars(self)


def rate_samples(run: Run, phase: PhaseSummary, rate: Rate = THROUGHPUT, seconds: int = SAMPLE) -> Spread | None:
    """Return the distribution of a phase's rate over samples of `seconds` s; None if its window is shorter than one.

    Samples are successive parts of the whole seconds of the measured window, an incomplete last one is dropped.
    """
    begin, end = phase.whole_seconds.start, phase.whole_seconds.stop
    series = run.series
    within = pc.and_(pc.greater_equal(series["second"], begin), pc.less(series["second"], end))
    single = pc.is_in(series["operation"], pa.array(list(phase.single), pa.string()))
    rows = series.filter(pc.and_(pc.and_(within, single), pc.equal(series["phase"], phase.name)))
    samples = (end - begin) // seconds
    if samples < 1:
        return None
    second = rows["second"].to_numpy() - begin
    rates = np.bincount(second // seconds, weights=rows[rate.column].to_numpy(), minlength=samples)[:samples] / seconds
    return _spread(rates)


def rate_samples_by_node(run: Run, phase: PhaseSummary, rate: Rate = THROUGHPUT) -> dict[str, Spread]:
    """Return the distribution of a phase's rate over samples of 5 s by address of node; empty for one node.

    Every attempt counts as a request, including failed ones. Publications with one load program per router count
    documents. Older runs lack documents by node.
    """
    begin, end = phase.whole_seconds.start, phase.whole_seconds.stop
    samples = (end - begin) // SAMPLE
    table = run.telemetry
    rows = table.filter(pc.and_(pc.equal(table["metric"], rate.counted), pc.starts_with(table["source"], _TARGET)))
    counts: dict[str, Any] = {}
    # A row covers the second that it starts.
    for source, time, value in zip(
        rows["source"].to_pylist(), rows["time"].to_pylist(), rows["value"].to_pylist(), strict=True
    ):
        second = round(time - phase.start) - begin
        if 0 <= second < samples * SAMPLE:
            counts.setdefault(source.removeprefix(_TARGET), np.zeros(samples))[second // SAMPLE] += value
    return {host: _spread(totals / SAMPLE) for host, totals in sorted(counts.items())} if len(counts) > 1 else {}


def _spread(rates: Any) -> Spread:
    """Return the distribution of an array of at least one sample, 1/s."""
    q1, middle, q3 = (float(value) for value in np.quantile(rates, (0.25, 0.5, 0.75)))
    deviation = float(rates.std(ddof=1)) if len(rates) > 1 else None
    return Spread(len(rates), float(rates.min()), q1, middle, float(rates.mean()), q3, float(rates.max()), deviation)


def least_and_p95(run: Run, phase: PhaseSummary, operation: str) -> tuple[float, float] | None:
    """Return minimum and 95th percentile of an operation's successful response times, s, or None without any."""
    tag = f"{phase.name}/{operation}/response"
    if tag not in run.histograms.tags():
        return None
    histogram = run.histograms.total(tag)
    least, p95 = histogram.quantile(0.0), histogram.quantile(0.95)
    return None if least is None or p95 is None else (least, p95)


@dataclass(frozen=True)
class RequestTime:
    """Time of a phase's requests, s.

    Publications of MPI programs give `wall` as wall time and `summed` as CPU time. A rank of such a program sends one
    request at a time, as a client of a closed loop does.

    `exact`: `wall` is the maximum over clients of their summed request times. Otherwise the run did not record single
    requests, and `wall` is the length of the measured window, which pauses and the generator make longer. `summed` is
    then None if requests failed: the recorded times of failures include their wait in the generator.
    """

    wall: float
    summed: float | None
    exact: bool

    def as_dict(self) -> dict[str, float | bool | None]:
        """Return the times for JSON, s; an unknown sum is null."""
        return dict(vars(self))


def request_time(run: Run, phase: PhaseSummary) -> RequestTime:
    """Return the request time in a phase's measured window: the largest sum of a client, and the sum of all clients.

    Without recorded single requests, the first is the duration of the phase, and the second follows from the histograms
    of successes, None if requests failed.
    """
    if (run.path / SAMPLES_FILE).exists():
        clients: dict[tuple[int, str, int], float] = defaultdict(float)
        for piece in run.samples():
            rows = piece.filter(pc.and_(pc.equal(piece["phase"], phase.name), pc.equal(piece["segment"], "measure")))
            keys = zip(*(rows[name].to_pylist() for name in ("rank", "stream", "client")), strict=True)
            for key, time in zip(keys, pc.subtract(rows["done"], rows["sent"]).to_pylist(), strict=True):
                clients[key] += time
        if clients:
            return RequestTime(max(clients.values()), sum(clients.values()), exact=True)
    known = run.histograms.tags()
    if any(f"{phase.name}/{name}/failure" in known for name in phase.single):
        return RequestTime(phase.duration, None, exact=False)
    tags = [tag for name in phase.single if (tag := f"{phase.name}/{name}/service") in known]
    totals = [run.histograms.total(tag) for tag in tags]
    return RequestTime(phase.duration, sum(total.count * (total.mean or 0.0) for total in totals), exact=False)
