"""Tables of the CPU use of each process of the store or application."""

from collections.abc import Mapping, Sequence

from loadframe.analyze.processes import ALL, Used, UsedAt
from loadframe.base.units import format_count, format_duration, format_share
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.numbers import measured_text, seconds_estimate
from loadframe.report.tables import Cell, Table, split
from loadframe.report.terminal_table import TerminalTable

_CORES = "cores"
_COST = "CPU per request"
_NOTE = "Mean use of each process in the measured window. CPU per request: CPU time per successful request."


def run_cpu(by_phase: Mapping[str, Mapping[str, Used]]) -> Table | None:
    """Return the CPU use of each process in each phase of a run; None if no process was observed."""
    if not by_phase:
        return None
    rows, partly = [], False
    for phase, processes in by_phase.items():
        whole = sum(used.cores for name, used in processes.items() if name != ALL)
        for name, used in processes.items():
            partly |= not used.whole
            rows.append(
                [
                    Cell(phase),
                    Cell(name, tone="muted" if name == ALL else ""),
                    Cell(format_count(used.cores), "" if used.whole else f"over {format_duration(used.watched)}"),
                    Cell(format_share(used.cores / whole) if whole and name != ALL and used.whole else ""),
                    Cell(seconds_text(used.per_request)),
                ]
            )
    note = f"{_NOTE}{' “over” gives the observed time if it is shorter than the window.' if partly else ''}"
    return Table(("phase", "process", _CORES, "share", _COST), rows, names=2, note=note)


def run_cpu_on_terminal(by_phase: Mapping[str, Mapping[str, Used]]) -> TerminalTable:
    """Return the figures of `run_cpu` for the terminal."""
    several = len(by_phase) > 1
    table = TerminalTable(("process", _CORES, _COST))
    for phase, processes in by_phase.items():
        for name, used in processes.items():
            over = "" if used.whole else f" over {format_duration(used.watched)}"
            table.add(
                f"{phase}: {name}" if several else name,
                f"{format_count(used.cores)}{over}",
                seconds_text(used.per_request),
            )
    return table


def experiment_cpu(rows: Sequence[UsedAt]) -> Table | None:
    """Return the CPU use of each process at each treatment; None if no process was observed."""
    if not rows:
        return None
    cells = [
        [
            Cell(row.phase),
            Cell(treatment_text(row.treatment)),
            Cell(row.process, tone="muted" if row.process == ALL else ""),
            Cell(format_count(row.runs)),
            split(measured_text(row.cores)),
            split(seconds_estimate(row.per_request)),
        ]
        for row in rows
    ]
    note = f"{_NOTE} Means over runs, with 95 % intervals by Student's t if runs were repeated."
    return Table(("phase", "treatment", "process", "runs", _CORES, _COST), cells, names=3, note=note)


def experiment_cpu_on_terminal(rows: Sequence[UsedAt]) -> TerminalTable:
    """Return the figures of `experiment_cpu` for the terminal."""
    several = len({row.phase for row in rows}) > 1
    table = TerminalTable(("process", "treatment", _CORES, _COST), names=2, title="CPU of each process:")
    for row in rows:
        figures = (measured_text(row.cores), seconds_estimate(row.per_request))
        name = f"{row.phase}: {row.process}" if several else row.process
        table.add(name, treatment_text(row.treatment), *(figure.replace(" [", "\n[", 1) for figure in figures))
    return table
