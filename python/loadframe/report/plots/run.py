"""Plots of one run over time: throughput, response times, activities of the store.

An activity that goes on most of the time says nothing there, and is left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.dips import DipsOfPhase, activity_series
from loadframe.analyze.rates import RATES, THROUGHPUT, Rate
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

#: More of the seconds than these is most of the time; more rows than these are not drawn.
_MOST, _ROWS = 0.5, 6
#: Pixels of a row, of what is around them, and of a panel of height 1.
_ROW, _AROUND, _PANEL = 18, 26, 190


@dataclass(frozen=True)
class ActivityPanel:
    """The panel, if there is one: empty where nothing was watched that comes and goes."""

    panels: Sequence[Panel] = ()
    traces: Sequence[Trace] = ()
    height: int = 0
    words: str = ""


def store_activity(run: Run, panel: int) -> ActivityPanel:
    """Return the panel of that number (from 0) of what the store did in the measured phases of a run."""
    stretches: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for phase in run.summary.measured:
        for series in activity_series(run, phase, int(phase.duration)):
            if series.busy.mean() <= _MOST:
                stretches[series.words] += [(phase.begin + begin, phase.begin + end) for begin, end in series.stretches]
    rows = list(stretches.items())[:_ROWS]
    if not rows:
        return ActivityPanel()
    places = [float(-number) for number in range(len(rows))]
    axis = Axis("", range=(0.4 - len(rows), 0.6), ticks=[*zip(places, stretches, strict=False)])
    traces = [
        Trace(
            [edge for begin, end in bars for edge in (begin, end, None)],
            [at for _ in bars for at in (place, place, None)],
            words,
            Line(COLORS[3], 6),
            panel=panel,
            legend=False,
            hover=False,
        )
        for place, (words, bars) in zip(places, rows, strict=True)
    ]
    height = _ROW * len(rows) + _AROUND
    words = " At the bottom, bars mark seconds of measured phases in which the store did more of that than on average."
    return ActivityPanel([Panel(axis, height / _PANEL)], traces, height, words)


#: More phases than these have slanted names.
_LEVEL_NAMES = 4


def phase_over_time(
    run: Run, phase: PhaseSummary, operation: str | None, name: str, caption: str, rate: Rate = THROUGHPUT
) -> Figure:
    """Draw one phase: requests or documents per second above, median and 99th percentile of `operation` below."""
    rows = _phase_rows(run, phase)
    seconds, counts = _per_second(_single(rows, phase), rate)
    line, mark = Line(COLORS[0]), Mark(COLORS[0], size=5)
    end = phase.warmup + phase.duration
    return Figure(
        name,
        Axis("s since the phase began", range=(0, max(end, 1))),
        [Panel(Axis(rate.unit, from_zero=True)), Panel(Axis("ms", from_zero=True))],
        [
            Trace(numbers(seconds + 0.5), numbers(counts), rate.unit, line, mark, legend=False),
            *_percentiles(rows.filter(pc.equal(rows["operation"], operation)), 0.5, 1),
        ],
        caption,
        shades=[Shade(0, phase.warmup)] if phase.warmup else [],
        follow=True,
        width=440,
        height=330,
    )


def run_over_time(run: Run, name: str, dips: Sequence[DipsOfPhase] = ()) -> Figure:
    """Draw a whole run: requests per second above, percentiles of each operation below, phases side by side.

    Where documents were counted, those per second lie between. A dotted line marks the beginning of each of `dips`.
    At the bottom stands when the store did what it does now and then.
    """
    traces: list[Trace] = []
    phases = run.summary.phases
    shown: set[str] = set()
    rates = [rate for rate in RATES.values() if rate is THROUGHPUT or any(map(rate.of, phases))]
    for index, phase in enumerate(phases):
        rows, start = _phase_rows(run, phase), phase.start
        line = Line(COLORS[index % 2 * 2], 1.6)
        for panel, rate in enumerate(rates):
            seconds, counts = _per_second(_single(rows, phase), rate)
            x = numbers(seconds + start + 0.5)
            traces.append(Trace(x, numbers(counts), phase.name, line, panel=panel, legend=False))
        for operation in phase.operations:
            of_operation = rows.filter(pc.equal(rows["operation"], operation))
            traces += _percentiles(of_operation, start + 0.5, len(rates), operation)
            shown.add(operation)
    if len(shown) <= 1:
        traces = [replace(trace, name=trace.group or trace.name) for trace in traces]
    did = store_activity(run, len(rates) + 1)
    many = len(phases) > _LEVEL_NAMES
    return Figure(
        name,
        Axis("seconds since the run began", from_zero=True),
        [
            *(Panel(spread(Axis(rate.unit), _values(traces, panel))) for panel, rate in enumerate(rates)),
            Panel(spread(Axis("response time, ms"), _values(traces, len(rates)))),
            *did.panels,
        ],
        [*traces, *did.traces],
        f"Above, requests answered well in each second{' and their documents' * (len(rates) > 1)}; below, median and"
        " 99th percentile of their response times."
        " Vertical lines separate the phases; warm-up is shaded. An axis is logarithmic where phases differ widely."
        + (" Dotted lines mark dips that come again." if dips else "")
        + did.words,
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
        height=(560 if many else 460) + 120 * (len(rates) - 1) + did.height,
    )


def _values(traces: Iterable[Trace], panel: int) -> list[float | None]:
    return [value for trace in traces if trace.panel == panel for value in trace.y]


def _phase_rows(run: Run, phase: PhaseSummary) -> pa.Table:
    """Return the rows of a phase's operations up to its last whole second; what is answered later empties the pipe.

    A second that the end cuts short would look like a dip. A phase shorter than a second keeps it. The parts of
    operations are left out.
    """
    series = run.series
    end = max(phase.whole_seconds.stop, 1)
    of_phase = pc.and_(pc.equal(series["phase"], phase.name), pc.less(series["second"], end))
    return series.filter(pc.and_(of_phase, pc.is_in(series["operation"], pa.array(list(phase.operations)))))


def _single(rows: pa.Table, phase: PhaseSummary) -> pa.Table:
    """Return the rows without those of operations that stand for several others."""
    return rows.filter(pc.is_in(rows["operation"], pa.array(list(phase.single))))


def _per_second(rows: pa.Table, rate: Rate = THROUGHPUT) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return whole seconds and how much was done in each, all operations and segments together."""
    second = rows["second"].to_numpy()
    if not len(second):
        return np.array([]), np.array([])
    counts = np.bincount(second, weights=rows[rate.column].to_numpy())
    return np.arange(len(counts), dtype=float), counts


def _percentiles(rows: pa.Table, shift: float, panel: int, operation: str = "") -> list[Trace]:
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
            Trace(x, numbers(values), f"{label} of {operation}" if operation else label, line, panel=panel, group=label)
        )
    return traces
