"""First executions of a request, later ones, and how old answers were, as reports on experiments show them."""

from collections.abc import Sequence

from loadframe.analyze.executions import ExecutionsAt
from loadframe.base.units import format_count
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text, seconds_estimate
from loadframe.report.tables import Cell, Table, split
from loadframe.report.terminal_table import TerminalTable

TITLE = "First executions and later ones"
_NOTE = (
    "The first execution of each request in its phase, and later ones; two executions are of the same request if all"
    " values that it carries are the same. Geometric means over runs of each run's mean response time, and of the ratio"
    " of the two. Age is how old the newest event was that an answer was certain to show, at the median; the answer may"
    " show newer ones. 95 % intervals by Student's t where there are several runs."
)


def experiment_executions(rows: Sequence[ExecutionsAt]) -> Table | None:
    """Return them by phase, operation and treatment; None where nothing is told apart."""
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
    columns = ("phase", "operation", "treatment", "runs", "first", "their mean", "later", "their mean", "ratio", "age")
    return Table(columns, cells, names=3, note=_NOTE)


def experiment_executions_on_terminal(rows: Sequence[ExecutionsAt]) -> TerminalTable:
    """Return the same for the terminal."""
    columns = ("operation", "treatment", "first", "later", "ratio", "age")
    table = TerminalTable(columns, names=2, title=f"{TITLE}, mean response times:")
    several = len({row.phase for row in rows}) > 1
    for row in rows:
        estimates = [seconds_estimate(estimate) for estimate in (row.first_mean, row.again_mean)]
        ratio = "–" if row.ratio is None else measured_text(row.ratio)
        cells = (text.replace(" [", "\n[", 1) for text in (*estimates, ratio, seconds_estimate(row.age)))
        table.add(f"{row.phase}: {row.operation}" if several else row.operation, treatment_text(row.treatment), *cells)
    return table
