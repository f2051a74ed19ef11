"""Tables of first and repeated executions of requests, and of the age of answers."""

from collections.abc import Sequence

from loadframe.analyze.executions import ExecutionsAt
from loadframe.base.units import format_count
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text, seconds_estimate
from loadframe.report.tables import Cell, Table, split
from loadframe.report.terminal_table import TerminalTable

TITLE = "First and repeated executions"
_NOTE = (
    "First and repeated executions of a request in its phase; requests with equal values count as the same request."
    " Geometric means over runs of each run's mean response time, and of their ratio. Age: median age of the newest"
    " event that an answer is certain to contain. 95 % intervals by Student's t if runs were repeated."
)


def experiment_executions(rows: Sequence[ExecutionsAt]) -> Table | None:
    """Return a row for each phase, operation and treatment; None without rows."""
    if not rows:
        return None
    cells = [
        [
            Cell(row.phase),
            Cell(row.operation),
            Cell(treatment_text(row.treatment)),
            Cell(format_count(row.runs)),
            Cell(format_count(row.first)),
            split(seconds_estimate(row.first_mean)),
            Cell(format_count(row.again)),
            split(seconds_estimate(row.again_mean)),
            split("–" if row.ratio is None else measured_text(row.ratio)),
            split(seconds_estimate(row.age)),
        ]
        for row in rows
    ]
    columns = ("phase", "operation", "treatment", "runs", "first", "mean", "repeated", "mean", "ratio", "age")
    return Table(columns, cells, names=3, note=_NOTE)


def experiment_executions_on_terminal(rows: Sequence[ExecutionsAt]) -> TerminalTable:
    """Return the means of `experiment_executions` for the terminal."""
    columns = ("operation", "treatment", "first", "repeated", "ratio", "age")
    table = TerminalTable(columns, names=2, title=f"{TITLE}, mean response times:")
    several = len({row.phase for row in rows}) > 1
    for row in rows:
        estimates = [seconds_estimate(estimate) for estimate in (row.first_mean, row.again_mean)]
        ratio = "–" if row.ratio is None else measured_text(row.ratio)
        cells = (text.replace(" [", "\n[", 1) for text in (*estimates, ratio, seconds_estimate(row.age)))
        table.add(f"{row.phase}: {row.operation}" if several else row.operation, treatment_text(row.treatment), *cells)
    return table
