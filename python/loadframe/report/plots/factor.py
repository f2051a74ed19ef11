"""Plots and table of curves over a numeric factor."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scale.factor_curves import CurveOver, LineOver, PointOver
from loadframe.base.units import format_count
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text, seconds_estimate
from loadframe.report.plot import COLORS, SYMBOLS, Axis, Figure, Line, Mark, Panel, Trace, numbers, spread
from loadframe.report.tables import Cell, Table, split


def over_factor_section(curves: Sequence[CurveOver]) -> Table:
    """Return a table of all points, with a plot of each curve."""
    rows = [
        [
            Cell(curve.phase),
            Cell(_name(curve.factor), str(point.level)),
            Cell(treatment_text(line.others)),
            Cell(format_count(point.runs), f"{point.failed} failed" if point.failed else ""),
            Cell("–") if point.rate is None else split(measured_text(point.rate)),
            split(seconds_estimate(point.response)),
        ]
        for curve in curves
        for line in curve.lines
        for point in line.points
    ]
    note = (
        "Means over runs with 95 % intervals, with one relative variance pooled over all treatments of a phase. p50:"
        " median response time of the phase's main operation. Lines connect points; they are not fits."
    )
    columns = ("phase", "over", "at", "runs", curves[0].rate.unit, "p50")
    figures = [_figure(curve, f"over-{number}") for number, curve in enumerate(curves)]
    return Table(columns, rows, names=3, note=note, figures=figures)


def _figure(curve: CurveOver, name: str) -> Figure:
    """Draw throughput over a factor (for an open loop p50), with a line for each treatment of the other factors."""
    traces = list(_traces(curve))
    levels = curve.levels
    values = [value for trace in traces for value in (*trace.y, *trace.low, *trace.high)]
    title = _name(curve.factor) + (f", {levels.unit}" if levels.unit else "")
    logarithmic = levels.spacing == "log"
    x = Axis(f"{title} (log scale)" if logarithmic else title, levels.spacing)
    if logarithmic:
        ticks = [(at, format_count(at)) for at in levels.numbers.values()]
        x = replace(x, ticks=ticks)
    y_title = f"p50 of {curve.operation}, ms" if curve.opened else curve.rate.unit
    y = spread(Axis(y_title), values)
    if y.kind == "log":
        y = replace(y, title=f"{y_title} (log scale)")
    offered = " Open loop: throughput equals the offered rate." if curve.opened else ""
    return Figure(
        name,
        x,
        [Panel(y)],
        traces,
        f"{curve.phase} over {_name(curve.factor)}: each mark is a mean over runs, with its 95 % interval if runs were"
        f" repeated. Lines connect the levels of one treatment.{offered}",
        height=440,
    )


def _traces(curve: CurveOver) -> Iterator[Trace]:
    factor = 1e3 if curve.opened else 1.0
    for index, line in enumerate(curve.lines):
        known = [(point, estimate) for point in line.points if (estimate := _drawn(curve, point)) is not None]
        color = COLORS[index % len(COLORS)]
        bounds = [(one.low, one.high) if one.is_finite else (one.value, one.value) for _, one in known]
        yield Trace(
            [point.at for point, _ in known],
            numbers([factor * one.value for _, one in known]),
            treatment_text(line.others) or curve.phase,
            Line(color, 1.4),
            Mark(color, SYMBOLS[index % len(SYMBOLS)]),
            low=numbers([factor * low for low, _ in bounds]),
            high=numbers([factor * high for _, high in bounds]),
            texts=[_hover_text(curve, line, point) for point, _ in known],
        )


def _drawn(curve: CurveOver, point: PointOver) -> Estimate | None:
    return point.response if curve.opened else point.rate


def _hover_text(curve: CurveOver, line: LineOver, point: PointOver) -> str:
    others = treatment_text(line.others)
    rate = "–" if point.rate is None else f"{measured_text(point.rate)} {curve.rate.unit}"
    at = f"{_name(curve.factor)} {point.level}"
    return f"{others}\n{at}: {rate}, p50 {seconds_estimate(point.response)}".strip()


def _name(factor: str) -> str:
    return factor.rsplit(".", 1)[-1].replace("_", " ")
