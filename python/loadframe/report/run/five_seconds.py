"""A run's throughput in samples of 5 s as a table, so that published ones can be set beside it."""

from loadframe.analyze.five_seconds import SAMPLE, five_seconds, least_and_p95
from loadframe.record import Run
from loadframe.report.labels import seconds_text
from loadframe.report.tables import Cell, Table
from loadframe.units import format_count

_COLUMNS = {"successes": "requests/s", "documents": "documents/s"}


def samples_table(run: Run) -> Table | None:
    """Return least, quartiles, mean and greatest of each measured phase; None where no window has 5 s."""
    rows = []
    for phase in run.summary.measured:
        for column, unit in _COLUMNS.items():
            spread = five_seconds(run, phase, column)
            if spread and spread.most:
                figures = (spread.least, spread.q1, spread.median, spread.mean, spread.q3, spread.most)
                cells = [Cell(format_count(figure)) for figure in figures]
                rows.append([Cell(phase.name), Cell(unit), Cell(format_count(spread.samples)), *cells])
    if not rows:
        return None
    known = [(phase, name, least_and_p95(run, phase, name)) for phase in run.summary.measured for name in phase.single]
    times = "; ".join(
        f"{phase.name} {name}: {seconds_text(pair[0])}, {seconds_text(pair[1])}" for phase, name, pair in known if pair
    )
    note = f"Samples of {SAMPLE} s of the measured window, per second." + (
        f" Least response time, and p95: {times}." if times else ""
    )
    columns = ("phase", "of", "samples", "least", "q1", "median", "mean", "q3", "greatest")
    return Table(columns, rows, names=2, note=note)
