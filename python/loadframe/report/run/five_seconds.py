"""A run's throughput in samples of 5 s as a table, so that published ones can be set beside it."""

from loadframe.analyze.five_seconds import SAMPLE, Spread, five_seconds, five_seconds_by_node, least_and_p95
from loadframe.analyze.rates import RATES, THROUGHPUT
from loadframe.record import Run
from loadframe.report.labels import seconds_text
from loadframe.report.tables import Cell, Table
from loadframe.units import format_count

#: Of more nodes than these the page has the first; the JSON document has all.
_HOSTS = 20


def samples_table(run: Run) -> Table | None:
    """Return least, quartiles, mean and most of each measured phase, and of each node; None where no window has 5 s."""
    rows = []
    for phase in run.summary.measured:
        for rate in RATES.values():
            spread = five_seconds(run, phase, rate)
            if spread and spread.most:
                rows.append([Cell(phase.name), Cell(rate.unit), *_cells(spread)])
        for host, spread in list(five_seconds_by_node(run, phase).items())[:_HOSTS]:
            rows.append([Cell(phase.name), Cell(THROUGHPUT.unit, f"served by {host}"), *_cells(spread)])
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


def _cells(spread: Spread) -> list[Cell]:
    figures = (spread.least, spread.q1, spread.median, spread.mean, spread.q3, spread.most)
    return [Cell(format_count(spread.samples)), *(Cell(format_count(figure)) for figure in figures)]
