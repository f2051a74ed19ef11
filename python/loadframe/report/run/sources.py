"""Events from outside on the page of a run: what came of each source, and how fast, second by second."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary
from loadframe.report.labels import seconds_text
from loadframe.report.plot import COLORS, GRID, Axis, Figure, Line, Panel, Rule, Trace, numbers
from loadframe.report.tables import Cell, Table
from loadframe.units import format_count

_CAPTION = (
    "Events in each second: those that were accepted, and those that the store acknowledged. Below, how many wait"
    " between the two. Vertical lines separate the phases."
)


def sources_table(phases: Sequence[PhaseSummary]) -> Table | None:
    """Return what came of each source of events in each phase; None where no phase has any."""
    rows = []
    for phase in phases:
        for name, source in phase.sources.items():
            took = phase.warmup + phase.duration
            reasons = ", ".join(f"{format_count(n)} {reason}" for reason, n in source.dead_letters.items() if n)
            rows.append(
                [
                    Cell(phase.name),
                    Cell(name, source.address or ""),
                    Cell(format_count(source.lines)),
                    Cell(format_count(source.accepted)),
                    Cell(format_count(source.indexed)),
                    Cell(format_count(round(source.indexed / took)) if took else "–"),
                    Cell(format_count(source.dead), reasons),
                    Cell(format_count(source.left_over), tone="invalid" if source.left_over else ""),
                    Cell(seconds_text(took)),
                ]
            )
    if not rows:
        return None
    columns = ("phase", "source", "lines", "accepted", "indexed", "indexed/s", "dead letters", "left over", "in")
    return Table(
        columns,
        rows,
        names=2,
        note="Of the whole phase, its warm-up included. Lines are accepted events and dead letters; an event that the"
        " store refused is accepted, and a dead letter as well. Each event counts once, however often it was sent.",
    )


def sources_over_time(run: Run, name: str) -> Figure | None:
    """Draw events accepted and indexed per second, and those that wait; None where nothing was sampled."""
    rows = run.telemetry.filter(pc.starts_with(run.telemetry["source"], "source:")).sort_by("time")
    if not rows.num_rows:
        return None
    traces = []
    for source in pc.unique(rows["source"]).to_pylist():
        of_it = rows.filter(pc.equal(rows["source"], source))
        label = source.partition(":")[2]
        traces += [
            _trace(of_it, "accepted", f"{label} accepted", Line(COLORS[0]), 0),
            _trace(of_it, "indexed", f"{label} indexed", Line(COLORS[1], dash="dash"), 0),
            _trace(of_it, "waiting", f"{label} waiting", Line(COLORS[2]), 1),
        ]
    return Figure(
        name,
        Axis("seconds since the run began", from_zero=True),
        [Panel(Axis("events/s", from_zero=True)), Panel(Axis("events waiting", from_zero=True))],
        traces,
        _CAPTION,
        rules=[Rule(phase.start, color=GRID) for phase in run.summary.phases],
        follow=True,
        height=400,
    )


def _trace(rows: pa.Table, metric: str, name: str, line: Line, panel: int) -> Trace:
    sampled = rows.filter(pc.equal(rows["metric"], metric))
    return Trace(numbers(sampled["time"].to_numpy()), numbers(sampled["value"].to_numpy()), name, line, panel=panel)
