"""Plots of curves: throughput against nodes, clients or any numeric factor, response time, residuals."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.analyze.scale.curves import CurveOver, LineOver, PointOver
from loadframe.analyze.scale.sweep import Curve, PhaseCurves, Point, Treatment
from loadframe.base.units import format_count, format_nodes, short_names
from loadframe.report.fit import NAMES, is_conclusive
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import measured_text, rate_text, seconds_estimate
from loadframe.report.plot import (
    COLORS,
    INK,
    MUTED,
    SYMBOLS,
    Axis,
    Band,
    Figure,
    LineStyle,
    Mark,
    Panel,
    Rule,
    Trace,
    bar_ends,
    half_bars_text,
    level_ticks,
    logarithmic,
    numbers,
    spread,
)
from loadframe.report.tables import Cell, Table, count_cell, estimate_cell, time_cells, with_small


def over_factor_section(curves: Sequence[CurveOver]) -> Table:
    """Return a table of all points of the curves, with a plot of each curve. `curves` must not be empty."""
    rows = [
        [
            Cell(curve.phase),
            Cell(_name(curve.factor), str(point.level)),
            Cell(treatment_text(line.others)),
            count_cell(point.runs, _failed_text(point)),
            estimate_cell("–" if point.rate is None else measured_text(point.rate), point.rate),
            estimate_cell(seconds_estimate(point.response), point.response, "s"),
        ]
        for curve in curves
        for line in curve.lines
        for point in line.points
    ]
    note = (
        "Means over runs with 95 % intervals, with one relative variance pooled over all treatments of a phase; a p50"
        " that varies more has its own variance. Other sections pool over one curve or use the runs of one group, so"
        " their intervals of the same figures differ."
        f" p50: median response time of {_operations(curves)}. Lines connect points; they are not fits."
    )
    columns = ("phase", "over", "at", "runs", curves[0].rate.unit, "p50")
    figures = [_figure(curve, f"over-{number}") for number, curve in enumerate(curves)]
    caption = "Throughput and response times over numeric factors"
    return Table(columns, rows, names=3, note=note, figures=figures, caption=caption)


def _failed_text(point: PointOver) -> str:
    """Write the number of failed runs and how many of them the figures include, `2 failed, 1 of them included`.

    Empty without failed runs.
    """
    included = f", {point.included} of them included" if point.included else ""
    return f"{point.failed} failed{included}" if point.failed else ""


def _operations(curves: Sequence[CurveOver]) -> str:
    """Write the operations of the curves' response times, joined by commas; of several, each with its phase."""
    by_phase = dict.fromkeys((curve.phase, curve.operation) for curve in curves)
    named = [f"{operation} in {phase}" if len(by_phase) > 1 else str(operation) for phase, operation in by_phase]
    return ", ".join(named)


def _figure(curve: CurveOver, name: str) -> Figure:
    """Draw throughput (1/s) over a factor, or for an open loop p50 (ms).

    It has a line for each treatment of the other factors. `name` is the plot's identifier.
    """
    traces = list(_traces(curve))
    levels = curve.levels
    values = [value for trace in traces for value in (*trace.y, *trace.low, *trace.high)]
    title = _name(curve.factor) + (f", {levels.unit}" if levels.unit else "")
    logarithmic = levels.spacing == "log"
    whole = all(float(at).is_integer() for at in levels.numbers.values())
    at_levels = [(at, format_count(at)) for at in levels.numbers.values()] if logarithmic else None
    ticks = at_levels or level_ticks(levels.numbers.values())
    x = Axis(f"{title} (log scale)" if logarithmic else title, levels.spacing, whole=whole, ticks=ticks)
    y_title = f"p50 of {curve.operation}, ms" if curve.opened else curve.rate.unit
    y = spread(Axis(y_title), values)
    if y.kind == "log":
        y = replace(y, title=f"{y_title} (log scale)")
    offered = " Open loop: throughput equals the offered rate." if curve.opened else ""
    shown = [value for line in curve.lines for point in line.points if (value := _plotted_value(curve, point))]
    return Figure(
        name,
        x,
        [Panel(y)],
        traces,
        f"{curve.phase} over {_name(curve.factor)}: each mark is a mean over runs, with its 95 % interval if runs were"
        f" repeated. Lines connect the levels of one treatment.{offered}{half_bars_text(shown)}",
        height=440,
    )


def _traces(curve: CurveOver) -> Iterator[Trace]:
    """Yield a line with error bars (known ends of 95 % intervals) for each treatment of the other factors.

    Its y are throughputs, 1/s, or for an open loop p50 in ms. Points without that figure are left out.
    """
    factor = 1e3 if curve.opened else 1.0
    for index, line in enumerate(curve.lines):
        known = [(point, estimate) for point in line.points if (estimate := _plotted_value(curve, point)) is not None]
        color = COLORS[index % len(COLORS)]
        yield Trace(
            [point.at for point, _ in known],
            numbers([factor * one.value for _, one in known]),
            treatment_text(line.others) or curve.phase,
            LineStyle(color, 1.4),
            Mark(color, SYMBOLS[index % len(SYMBOLS)]),
            **bar_ends([one for _, one in known], factor),
            texts=[_hover_text(curve, line, point) for point, _ in known],
        )


def _plotted_value(curve: CurveOver, point: PointOver) -> Estimate | None:
    """Return the estimate to plot: p50 of an open loop (s), otherwise the throughput (1/s); None if unknown."""
    return point.response if curve.opened else point.rate


def _hover_text(curve: CurveOver, line: LineOver, point: PointOver) -> str:
    """Return the text of a point for the pointer: the line's treatment if any, level, throughput and p50."""
    others = treatment_text(line.others)
    rate = "–" if point.rate is None else f"{measured_text(point.rate)} {curve.rate.unit}"
    at = f"{_name(curve.factor)} {point.level}"
    return f"{others}\n{at}: {rate}, p50 {seconds_estimate(point.response)}".strip()


def _name(factor: str) -> str:
    """Write the short name of a factor, with spaces for underscores."""
    return short_names([factor])[factor].replace("_", " ")


_STEPS = 80
#: Upper limit of drawn bands, as a multiple of the largest throughput in the plot.
_HIGHEST = 2.0
_ENOUGH_SIZES = 6


def side_by_side(curves: Sequence[PhaseCurves], name: str) -> Table | None:
    """Return one table and plot of all levels of the other factors, such as several stores.

    Return None for fewer than two levels, or if one has no valid run. The plot is over clients if their number varies
    (on the most nodes), else over nodes. `name` is the plot's identifier.
    """
    if len(curves) < 2 or not all(of_level.treatments for of_level in curves):
        return None
    over = "clients" if len({at.clients for of_level in curves for at in of_level.treatments}) > 1 else "nodes"
    traces, rows = [], []
    for index, of_level in enumerate(curves):
        label, color = treatment_text(of_level.others), _color(index)
        shown = [at for at in of_level.treatments if (at.clients if over == "clients" else at.nodes) is not None]
        if over == "clients" and of_level.best:
            shown = [at for at in shown if at.nodes == of_level.best[-1].nodes]
        rates = [at.throughput for at in shown]
        traces.append(
            Trace(
                [at.clients if over == "clients" else at.nodes for at in shown],
                numbers([rate.value for rate in rates]),
                label,
                LineStyle(color, 1.4),
                Mark(color, SYMBOLS[index % len(SYMBOLS)]),
                **bar_ends(rates),
            )
        )
        rows += [
            [
                Cell(label),
                Cell("" if at.nodes is None else format_count(at.nodes)),
                Cell("" if at.clients is None else format_count(at.clients)),
                estimate_cell(measured_text(at.throughput, at.stretch), at.throughput),
                *(with_small(cell, of_level.operation or "") for cell in time_cells(at)),
            ]
            for at in of_level.treatments
        ]
    unit = curves[0].rate.unit
    y = spread(Axis(unit), [value for trace in traces for value in trace.y])
    figure = Figure(
        name,
        _size_axis(over, [at for trace in traces for at in trace.x]),
        [Panel(replace(y, title=f"{unit} (log scale)") if y.kind == "log" else y)],
        traces,
        f"{curves[0].phase}: means over runs with 95 % intervals. Lines connect points; they are not fits."
        f"{half_bars_text(at.throughput for of_level in curves for at in of_level.treatments)}",
        title=f"{curves[0].phase} side by side",
    )
    columns = ("level", "nodes", "clients", unit, "p50", "p99")
    return Table(columns, rows, figures=[figure], caption=f"Throughput and response times of {curves[0].phase}")


def throughput_over_nodes(curves: PhaseCurves, name: str) -> Figure | None:
    """Draw throughput at the best clients against nodes, with the fitted curve, its band, and linear growth.

    Return None without a curve over nodes. `name` is the plot's identifier.
    """
    curve = curves.over_nodes
    if curve is None:
        return None
    first = curves.speedups[0].treatment
    largest = max(treatment.nodes or 0 for treatment in curve.treatments)
    top = max(point.throughput for treatment in curve.treatments for point in treatment.points)
    sizes = np.array([first.nodes or 1, largest], dtype=float)
    linear = Trace(
        numbers(sizes),
        numbers(first.throughput.value / (first.nodes or 1) * sizes),
        "linear growth",
        LineStyle(MUTED, 1.5, "dot"),
        hover=False,
    )
    unit = curves.rate.unit
    lines, bands = _fitted(curve.fit, unit, COLORS[0], "fit", "fit", top)
    best = {(treatment.nodes, treatment.clients) for treatment in curves.best}
    return Figure(
        name,
        _size_axis("nodes", [treatment.nodes for treatment in curve.treatments]),
        [Panel(Axis(unit, from_zero=True))],
        [
            linear,
            *lines,
            _runs(_points(curve), _nodes, "nodes", unit, COLORS[0], SYMBOLS[0], "runs"),
            _quoted(curves.sized, unit),
            *_unusable(
                [point for point in curves.points if (point.nodes, point.clients) in best], _nodes, "nodes", unit
            ),
        ],
        "Each dot is a run, at the number of clients whose throughput has the highest lower confidence bound. Diamonds:"
        " quoted throughput with its interval, corrected for the selection of the best. "
        f"{_how_to_read(curve.fit)} Dotted line: linear growth from {format_nodes(first.nodes or 1)}."
        f"{half_bars_text(treatment.throughput for treatment in curves.sized)}",
        bands,
    )


def throughput_over_clients(curves: PhaseCurves, name: str) -> Figure | None:
    """Draw throughput against clients, with a curve for each number of nodes, or None without such curves.

    `name` is the plot's identifier.
    """
    if not curves.over_clients:
        return None
    traces: list[Trace] = []
    bands: list[Band] = []
    unit = curves.rate.unit
    top = max(point.throughput for curve in curves.over_clients for point in _points(curve))
    for index, curve in enumerate(curves.over_clients):
        color, symbol, label = _color(index), SYMBOLS[index % len(SYMBOLS)], _label(curve)
        lines, areas = _fitted(curve.fit, unit, color, label, None, top)
        traces += [*lines, _runs(_points(curve), _clients, "clients", unit, color, symbol, label)]
        bands += areas
    fits = (curve.fit for curve in curves.over_clients if curve.fit and is_conclusive(curve.fit))
    return Figure(
        name,
        _size_axis("clients", [at.clients for curve in curves.over_clients for at in curve.treatments]),
        [Panel(Axis(unit, from_zero=True))],
        [*traces, *_unusable(curves.points, _clients, "clients", unit)],
        "Each mark is a run in a closed loop: a client sends its next request after its last answer. "
        f"{_how_to_read(next(fits, None))}",
        bands,
        height=440,
    )


def response_over_clients(curves: PhaseCurves, name: str) -> Figure | None:
    """Draw p50 and p99 of response times against clients for each number of nodes, or None without such curves.

    `name` is the plot's identifier.
    """
    if not curves.over_clients:
        return None
    traces = []
    for index, curve in enumerate(curves.over_clients):
        color, symbol, label = _color(index), SYMBOLS[index % len(SYMBOLS)], _label(curve)
        clients = [treatment.clients for treatment in curve.treatments]
        for words, values, high in (
            ("p50", [treatment.response_p50 for treatment in curve.treatments], False),
            ("p99", [treatment.response_p99 for treatment in curve.treatments], True),
        ):
            milliseconds = [None if value is None else 1e3 * value for value in values]
            texts = [
                f"{label}, {count} clients\n{words}: {'–' if value is None else f'{value:.3g}'} ms"
                for count, value in zip(clients, milliseconds, strict=True)
            ]
            line = LineStyle(color, dash="dash" if high else "solid")
            mark = Mark(color, symbol, 7, hollow=high)
            traces.append(Trace(clients, milliseconds, f"{label}, {words}", line, mark, texts=texts))
    return Figure(
        name,
        _size_axis("clients", [at.clients for curve in curves.over_clients for at in curve.treatments]),
        [Panel(logarithmic("response time, ms (log scale)", [value for trace in traces for value in trace.y]))],
        traces,
        f"Response time of {curves.operation}: solid lines show p50, dashed lines p99, both as medians over"
        " repetitions, on a logarithmic axis. If throughput does not grow, more clients only wait longer.",
        height=440,
    )


def residuals(fit: ScalabilityFit, name: str) -> Figure:
    """Draw the residuals of the best model (measured minus fitted) against size, in % of the size's mean or in 1/s.

    `name` is the plot's identifier.
    """
    sizes = [n for n, _ in fit.observations]
    factor, unit = (100.0, "%") if fit.kind == "relative" else (1.0, "1/s")
    values = [factor * residual for residual in fit.best_model.residuals]
    most = max(max(map(abs, values)) * 1.2, 1e-9)
    texts = [f"{size:g} {fit.over}\n{value:+.2f} {unit}" for size, value in zip(sizes, values, strict=True)]
    return Figure(
        name,
        _size_axis(fit.over, sizes),
        [Panel(Axis(f"residual, {unit}", range=(-most, most)))],
        [Trace(numbers(sizes), numbers(values), mark=Mark(COLORS[0], size=7, opacity=0.75), texts=texts)],
        f"Residuals of the {NAMES[fit.best]} model: measured minus fitted. A good fit scatters around zero without a"
        " pattern; an arch means that the model has the wrong shape.",
        rules=[Rule(0, over="y")],
        height=210,
    )


def _size_axis(title: str, sizes: Iterable[float | str | None]) -> Axis:
    """Return an axis of whole numbers from 0, with the ticks of `level_ticks` for the measured sizes.

    Texts are read as numbers (ValueError if one is not), None is ignored. Without sizes, and for too many, the plot
    chooses the ticks.
    """
    known = [float(size) for size in sizes if size is not None]
    return Axis(title, from_zero=True, whole=True, ticks=level_ticks(known))


def _fitted(
    fit: ScalabilityFit | None, unit: str, color: str, group: str, name: str | None, top: float
) -> tuple[list[Trace], list[Band]]:
    """Return a fitted curve and its band, dashed beyond the measurements.

    They reach twice the largest size for nodes, 1.25 times for clients; only the largest size if the fit is superlinear
    or has few sizes. Return two empty lists without a conclusive fit. With `name`, the curve is in the legend, with the
    name of its model. `top` is the largest measured throughput: the band ends at twice its value.
    """
    if fit is None or not is_conclusive(fit):
        return [], []
    smallest = min(n for n, _ in fit.observations)
    # Do not extrapolate superlinear curves, which may have a pole close by, or fits to few sizes.
    superlinear = any(p.value < 0 for key, p in fit.best_model.parameters.items() if key == "sigma")
    few = len({n for n, _ in fit.observations}) < _ENOUGH_SIZES
    reach = fit.largest * (1 if superlinear or few else 2 if fit.over == "nodes" else 1.25)
    inside, beyond = np.linspace(smallest, fit.largest, _STEPS), np.linspace(fit.largest, reach, _STEPS // 2)
    everywhere = np.concatenate([inside, beyond])
    low, high = (np.minimum(edge, _HIGHEST * top) for edge in fit.best_model.band(everywhere))
    bands = [Band(numbers(everywhere), numbers(low), numbers(high), color, group)]
    words = f"{NAMES[fit.best]} fit" if name else NAMES[fit.best]
    lines = []
    for sizes, beyond_data in ((inside, False), (beyond, True)):
        rates = fit.best_model.predicted(sizes)
        texts = [f"{words}\n{n:.3g} {fit.over}: {rate_text(rate, unit)}" for n, rate in zip(sizes, rates, strict=True)]
        line = LineStyle(color, 2, "dash" if beyond_data else "solid")
        legend = bool(name) and not beyond_data
        lines.append(Trace(numbers(sizes), numbers(rates), words, line, texts=texts, group=group, legend=legend))
    return lines, bands


def _runs(
    points: Sequence[Point],
    size: Callable[[Point], int | None],
    over: str,
    unit: str,
    color: str,
    symbol: str,
    name: str,
) -> Trace:
    """Return a trace with a mark for each run: throughput at `size(point)`, which counts `over` such as clients.

    `unit` is the unit of throughputs, `name` the entry in the legend.
    """
    return Trace(
        [size(point) for point in points],
        numbers([point.throughput for point in points]),
        name,
        mark=Mark(color, symbol),
        texts=[f"{point.run}\n{size(point)} {over}: {rate_text(point.throughput, unit)}" for point in points],
    )


def _quoted(best: Sequence[Treatment], unit: str) -> Trace:
    """Return a trace of the quoted throughputs against nodes, with the known ends of their intervals.

    `unit` is that of throughputs.
    """
    rates = [treatment.throughput for treatment in best]
    return Trace(
        [treatment.nodes for treatment in best],
        numbers([rate.value for rate in rates]),
        "quoted, with 95 % interval",
        mark=Mark(INK, "diamond", 11, hollow=True, opacity=0),
        **bar_ends(rates),
        texts=[
            f"quoted\n{format_nodes(treatment.nodes or 0)}: {rate_text(treatment.throughput.value, unit)}"
            for treatment in best
        ],
    )


def _unusable(points: Iterable[Point], size: Callable[[Point], int | None], over: str, unit: str) -> list[Trace]:
    """Return traces of the runs that fits leave out: invalid runs, and runs without a success. Empty if there are none.

    `size` returns the size of a point, which counts `over`, such as clients; points of unknown size are left out.
    `unit` is the unit of throughputs.
    """
    known = [point for point in points if size(point) is not None]
    invalid = [point for point in known if not point.usable]
    nothing = [point for point in known if point.usable and not point.throughput]
    kinds = ((invalid, MUTED, "invalid, left out"), (nothing, INK, "nothing succeeded"))
    return [_runs(runs, size, over, unit, color, "x", name) for runs, color, name in kinds if runs]


def _nodes(point: Point) -> int | None:
    """Return the number of nodes of a point; None if unknown."""
    return point.nodes


def _clients(point: Point) -> int | None:
    """Return the number of clients of a point; None without a closed loop."""
    return point.clients


def _points(curve: Curve) -> list[Point]:
    """Return the points, one for each run, of all treatments of a curve."""
    return [point for treatment in curve.treatments for point in treatment.points]


def _how_to_read(fit: ScalabilityFit | None) -> str:
    """Return sentences that explain lines and areas, or that the data are inconclusive."""
    if fit is None or not is_conclusive(fit):
        return "No curve: the data are inconclusive."
    words = "Lines: fitted models. Shaded areas: their 95 % bands"
    if len({n for n, _ in fit.observations}) < _ENOUGH_SIZES:
        return f"{words}; they end where the measurements end."
    return f"{words}; the dashed part extrapolates beyond the measurements."


def _color(index: int) -> str:
    """Return the color of curve number `index`; colors repeat."""
    return COLORS[index % len(COLORS)]


def _label(curve: Curve) -> str:
    """Write the number of nodes of a curve, such as `2 nodes`; `runs` if it is unknown."""
    return format_nodes(curve.nodes) if curve.nodes else "runs"
