"""Latency buckets in reports: of one run, and of an experiment by treatment."""

from collections.abc import Sequence

from loadframe.analyze.bands import BandsAt, band_names, bands_of
from loadframe.base.units import format_count, format_share
from loadframe.record import Run
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import percent_text
from loadframe.report.tables import Cell, Table, split
from loadframe.report.terminal_table import TerminalTable

#: The column of requests without a response time.
_FAILED = "failed"
_SHARES = (
    "Shares of all requests of the measured window. Dropped requests, and those unanswered at its end, count as failed."
)


def run_bands(run: Run, bounds: Sequence[float]) -> Table:
    """Return the table of shares and counts per bucket, a row for each phase and operation."""
    rows = [
        [
            Cell(phase),
            Cell(name),
            *(
                Cell(format_share(share, 1), format_count(count))
                for share, count in zip(bands.shares, (*bands.counts, bands.failed), strict=True)
            ),
        ]
        for phase, operations in bands_of(run, bounds).items()
        for name, bands in operations.items()
    ]
    note = f"{_SHARES} The number of requests stands below each share."
    return Table(("phase", "operation", *band_names(bounds), _FAILED), rows, names=2, note=note)


def run_bands_on_terminal(run: Run, bounds: Sequence[float]) -> TerminalTable:
    """Return the shares of `run_bands` for the terminal, without counts."""
    table = TerminalTable(("share of requests", *band_names(bounds), _FAILED))
    several = len(run.summary.phases) > 1
    for phase, operations in bands_of(run, bounds).items():
        for name, bands in operations.items():
            table.add(f"{phase}: {name}" if several else name, *(format_share(share, 1) for share in bands.shares))
    return table


def experiment_bands(rows: Sequence[BandsAt], bounds: Sequence[float]) -> Table:
    """Return the shares by phase, operation and treatment."""
    cells = [
        [
            Cell(row.phase),
            Cell(row.operation),
            Cell(treatment_text(row.treatment)),
            Cell(format_count(row.runs)),
            Cell(format_count(row.requests)),
            *(split(percent_text(share)) for share in row.shares),
        ]
        for row in _ordered(rows)
    ]
    note = (
        f"{_SHARES} Means over runs, all with the same weight. 95 % intervals by Student's t, at least as wide as the"
        " number of requests requires. A share without an interval comes from one run."
    )
    columns = ("phase", "operation", "treatment", "runs", "requests", *band_names(bounds), _FAILED)
    return Table(columns, cells, names=3, note=note)


def experiment_bands_on_terminal(rows: Sequence[BandsAt], bounds: Sequence[float]) -> TerminalTable:
    """Return the shares of `experiment_bands` for the terminal."""
    several = len({row.phase for row in rows}) > 1
    table = TerminalTable(
        ("operation", "treatment", "runs", *band_names(bounds), _FAILED), names=2, title="Share of requests by band:"
    )
    for row in _ordered(rows):
        shares = (percent_text(share).replace(" [", "\n[", 1) for share in row.shares)
        name = f"{row.phase}: {row.operation}" if several else row.operation
        table.add(name, treatment_text(row.treatment), format_count(row.runs), *shares)
    return table


def _ordered(rows: Sequence[BandsAt]) -> list[BandsAt]:
    """Return rows sorted by phase and operation, so that treatments of one operation are adjacent."""
    places = {key: place for place, key in enumerate(dict.fromkeys((row.phase, row.operation) for row in rows))}
    return sorted(rows, key=lambda row: places[row.phase, row.operation])
