"""Plots of one run over time: throughput and percentiles, second by second."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips import DipsOfPhase
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary
from loadframe.report.plot import (
    COLORS,
    GRID,
    MUTED,
    Axis,
    Figure,
    Label,
    Line,
    Mark,
    Panel,
    Rule,
    Shade,
    Trace,
    numbers,
    spread,
)

#: More phases than these have slanted names.
_LEVEL_NAMES = 4


def phase_over_time(run: Run, phase: PhaseSummary, operation: str | None, name: str, caption: str) -> Figure:
    """Draw one phase: successes per second above, median and 99th percentile of `operation` below."""
    rows = _phase_rows(run, phase)
    seconds, successes = _per_second(_single(rows, phase))
    line, mark = Line(COLORS[0]), Mark(COLORS[0], size=5)
    end = phase.warmup + phase.duration
    return Figure(
        name,
        Axis("s since the phase began", range=(0, max(end, 1))),
        [Panel(Axis("requests/s", from_zero=True)), Panel(Axis("ms", from_zero=True))],
        [
            Trace(numbers(seconds + 0.5), numbers(successes), "requests/s", line, mark, legend=False),
            *_percentiles(rows.filter(pc.equal(rows["operation"], operation)), 0.5),
        ],
        caption,
        shades=[Shade(0, phase.warmup)] if phase.warmup else [],
        follow=True,
        width=440,
        height=330,
    )


def run_over_time(run: Run, name: str, dips: Sequence[DipsOfPhase] = ()) -> Figure:
    """Draw a whole run: successes per second above, percentiles of each operation below, phases side by side.

    A dotted line marks the beginning of each of `dips`.
    """
    traces: list[Trace] = []
    phases = run.summary.phases
    shown: set[str] = set()
    for index, phase in enumerate(phases):
        rows, start = _phase_rows(run, phase), phase.start
        seconds, successes = _per_second(_single(rows, phase))
        line = Line(COLORS[index % 2 * 2], 1.6)
        traces.append(Trace(numbers(seconds + start + 0.5), numbers(successes), phase.name, line, legend=False))
        for operation in phase.operations:
            traces += _percentiles(rows.filter(pc.equal(rows["operation"], operation)), start + 0.5, operation)
            shown.add(operation)
    if len(shown) <= 1:
        traces = [replace(trace, name=trace.group or trace.name) for trace in traces]
    many = len(phases) > _LEVEL_NAMES
    return Figure(
        name,
        Axis("seconds since the run began", from_zero=True),
        [
            Panel(spread(Axis("requests/s"), _values(traces, 0))),
            Panel(spread(Axis("response time, ms"), _values(traces, 1))),
        ],
        traces,
        "Above, requests answered well in each second; below, median and 99th percentile of their response times."
        " Vertical lines separate the phases; warm-up is shaded. An axis is logarithmic where phases differ widely."
        + (" Dotted lines mark dips that come again." if dips else ""),
        rules=[
            *(Rule(phase.start, color=GRID) for phase in phases),
            *(Rule(begin, color=MUTED, dash="dot") for at in dips for begin in at.begins),
        ],
        shades=[Shade(phase.start, phase.start + phase.warmup) for phase in phases if phase.warmup],
        labels=[
            Label(phase.start + (phase.warmup + phase.duration) / (2 if not many else 4), phase.name)
            for phase in phases
        ],
        slanted=many,
        follow=True,
        height=560 if many else 460,
    )


def _values(traces: Iterable[Trace], panel: int) -> list[float | None]:
    return [value for trace in traces if trace.panel == panel for value in trace.y]


def _phase_rows(run: Run, phase: PhaseSummary) -> pa.Table:
    """Return the rows of a phase's operations up to its end; what is answered later only empties the pipe.

    The parts of operations are left out.
    """
    series = run.series
    end = phase.warmup + phase.duration
    of_phase = pc.and_(pc.equal(series["phase"], phase.name), pc.less(series["second"], end))
    return series.filter(pc.and_(of_phase, pc.is_in(series["operation"], pa.array(list(phase.operations)))))


def _single(rows: pa.Table, phase: PhaseSummary) -> pa.Table:
    """Return the rows without those of operations that stand for several others."""
    return rows.filter(pc.is_in(rows["operation"], pa.array(list(phase.single))))


def _per_second(rows: pa.Table) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return whole seconds and the successes done in each, all operations and segments together."""
    second = rows["second"].to_numpy()
    if not len(second):
        return np.array([]), np.array([])
    counts = np.bincount(second, weights=rows["successes"].to_numpy())
    return np.arange(len(counts), dtype=float), counts


def _percentiles(rows: pa.Table, shift: float, operation: str = "") -> list[Trace]:
    """Return p50 and p99 of one operation by second; where warm-up and measurement meet, the larger segment's."""
    rows = rows.filter(pc.is_valid(rows["response_p50"])).sort_by([("second", "ascending"), ("successes", "ascending")])
    second = rows["second"].to_numpy()
    last = np.append(second[1:] != second[:-1], True) if len(second) else np.array([], dtype=bool)
    # A second in which nothing was answered is a gap: a line across it would hide an outage.
    whole = np.arange(second[0], second[-1] + 1) if len(second) else second
    traces = []
    for column, label, line in (
        ("response_p50", "p50", Line(COLORS[2])),
        ("response_p99", "p99", Line(COLORS[1], dash="dash")),
    ):
        values = np.full(len(whole), np.nan)
        values[second[last] - whole[:1]] = 1e3 * rows[column].to_numpy()[last]
        x = numbers(whole.astype(float) + shift)
        traces.append(
            Trace(x, numbers(values), f"{label} of {operation}" if operation else label, line, panel=1, group=label)
        )
    return traces
