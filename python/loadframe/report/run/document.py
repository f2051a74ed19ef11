"""A single run for programs: its summary and intervals as JSON, and the statistics of its nodes as CSV."""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from loadframe.analyze.delayed import delayed_of
from loadframe.analyze.dips import dips_of
from loadframe.analyze.experiment import validity
from loadframe.analyze.percentiles import bands_of, percentiles_document
from loadframe.analyze.publication_figures import (
    LENGTHS,
    SAMPLE,
    least_and_p95,
    rate_samples,
    rate_samples_by_node,
    request_time,
)
from loadframe.analyze.rates import RATES, THROUGHPUT, Rate
from loadframe.analyze.telemetry import processes_of
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary


def run_document(run: Run, bands: Sequence[float] = ()) -> dict[str, Any]:
    """Return the run's path, its summary, and further keys.

    - `percentiles`: 95 % intervals by phase, operation and percentile, s.
    - `samples`: samples of 5 s of each measured phase; those of 10 s have names that end in `_10s`.
    - `cpu`: use of each process by measured phase and name, if processes were observed.
    - `cpu_partial`: measured phases without samples of some processes, so that the total is unknown, if any.
    - `cpu_missing`: measured phases with too few samples of processes, if any; times in s.
    - `dips`: recurring dips in throughput, with the store's activities, for phases that have them.
    - `delayed`: phases whose answers seem to wait for delayed acknowledgements, if any.
    - `bands`: shares of latency buckets by phase and operation, if their bounds (s) are given.
    """
    document = {"run": str(run.path), **run.raw_summary, "percentiles": percentiles_document(run)}
    if (valid := validity(run)) is not None:
        document["verdict"] = {**document["verdict"], "valid": valid}
    cpu = processes_of(run)
    if cpu.used:
        document["cpu"] = {
            phase: {name: of_process.as_dict() for name, of_process in processes.items()}
            for phase, processes in cpu.used.items()
        }
    if cpu.partial:
        document["cpu_partial"] = sorted(cpu.partial)
    if cpu.unsampled:
        document["cpu_missing"] = [gap.as_dict() for gap in cpu.unsampled]
    document["samples"] = {phase.name: _samples(run, phase) for phase in run.summary.measured}
    if dips := dips_of(run):
        document["dips"] = [at.as_dict() for at in dips]
    delayed = [at.as_dict() for at in (delayed_of(run, phase) for phase in run.summary.phases) if at]
    if delayed:
        document["delayed"] = delayed
    if bands:
        known = bands_of(run, bands)
        document["bands"] = {
            phase: {name: of_operation.as_dict() for name, of_operation in operations.items()}
            for phase, operations in known.items()
        }
    return document


def _by_node(run: Run, phase: PhaseSummary, rate: Rate) -> dict[str, Any]:
    """Return host -> distribution of a rate's 5-s samples (1/s) in a phase, for JSON; empty for a single node."""
    return {host: spread.as_dict() for host, spread in rate_samples_by_node(run, phase, rate).items()}


def _samples(run: Run, phase: PhaseSummary) -> dict[str, Any]:
    """Return a phase's distributions of samples, 1/s, in total and by node, and further figures for JSON.

    These are the request time, and the minimum and p95 of response times by operation, s. Unknown ones are left out.
    """
    together = {
        rate.counted if seconds == SAMPLE else f"{rate.counted}_{seconds}s": rate_samples(run, phase, rate, seconds)
        for seconds in LENGTHS
        for rate in RATES.values()
    }
    times = {name: least_and_p95(run, phase, name) for name in phase.single}
    return {
        **{name: spread.as_dict() for name, spread in together.items() if spread},
        "by_node": _by_node(run, phase, THROUGHPUT),
        "request_time": request_time(run, phase).as_dict(),
        "documents_by_node": _by_node(run, phase, RATES["documents"]),
        "least_and_p95": {name: list(pair) for name, pair in times.items() if pair},
    }


_NODE = "node:"


@dataclass(frozen=True)
class Column:
    """One column: its title, its metric, and whether the metric is a counter, written as its increase per second."""

    title: str
    metric: str
    rate: bool = False


def statistics(run: Run, columns: Sequence[Column]) -> str:
    """Return CSV with the time of each sample, s since the run began, and the node; BadInput without samples.

    Only sources that begin with `node:` count. Without `columns`, it has all their metrics as recorded, sorted by name.
    A column with `rate` has the increase per second: it is empty for the first sample and after a reset of the counter.
    Rows are in order of time.
    """
    table = run.telemetry
    rows = table.filter(pc.starts_with(table["source"], _NODE)).sort_by("time")
    columns = columns or [Column(metric, metric) for metric in sorted(pc.unique(rows["metric"]).to_pylist())]
    wanted = {column.metric for column in columns}
    at: dict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    for time, source, metric, value in zip(
        *(rows[name].to_pylist() for name in ("time", "source", "metric", "value")), strict=True
    ):
        if metric in wanted:
            at[time, source.removeprefix(_NODE)][metric] = value
    if not at:
        raise BadInput("the run lacks statistics of nodes", where=str(run.path), remedy="name a run on a cluster")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "node", *(column.title for column in columns)])
    before: dict[tuple[str, str], tuple[float, float]] = {}
    for (time, node), figures in at.items():
        cells = []
        for column in columns:
            value = figures.get(column.metric)
            if value is not None and column.rate:
                last = before.get((node, column.metric))
                before[node, column.metric] = (time, value)
                value = (value - last[1]) / (time - last[0]) if last and value >= last[1] else None
            # Six digits of a large counter would hide its increase.
            cells.append("" if value is None else f"{value:.{6 if column.rate else 15}g}")
        writer.writerow([f"{time:.3f}", node, *cells])
    return text.getvalue()
