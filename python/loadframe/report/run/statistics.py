"""Statistics of a run's nodes as CSV: one line per node and sample, in the order of time."""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from loadframe.base.errors import BadInput
from loadframe.record import Run

_NODE = "node:"


@dataclass(frozen=True)
class Column:
    """One column: its title, its metric, and whether the metric is a counter, written as its increase per second."""

    title: str
    metric: str
    rate: bool = False


def statistics(run: Run, columns: Sequence[Column]) -> str:
    """Return CSV with the time of each sample, s since the run began, and the node; BadInput without samples.

    Without `columns`, it has all metrics of the nodes as they were recorded.
    A cell is empty without a published value, for the first sample of a counter, and after its reset.
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
            cells.append("" if value is None else f"{value:.6g}")
        writer.writerow([f"{time:.3f}", node, *cells])
    return text.getvalue()
