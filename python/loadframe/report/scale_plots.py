"""Plots of a scale experiment: throughput against nodes and clients, response time, residuals."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from loadframe.analyze.scalability import ScalabilityFit
from loadframe.analyze.sweep import Curve, PhaseCurves, Point, Treatment
from loadframe.report.figures import COLORS, INK, MUTED, SYMBOLS, Figure, axis, band, layout, log_axis, numbers
from loadframe.report.fit_words import NAMES, tells
from loadframe.units import format_nodes

_STEPS = 160
#: A band that knows no bound is cut here, as a multiple of the largest throughput in the plot.
_HIGHEST = 2.0
_ENOUGH_SIZES = 6


def throughput_over_nodes(curves: PhaseCurves, name: str) -> Figure | None:
    """Draw throughput at the best clients against nodes, with the fitted curve, its band, and linear growth."""
    curve = curves.over_nodes
    if curve is None:
        return None
    first = curves.speedups[0].treatment
    largest = max(treatment.nodes or 0 for treatment in curve.treatments)
    top = max(point.throughput for treatment in curve.treatments for point in treatment.points)
    sizes = np.array([first.nodes or 1, largest], dtype=float)
    linear = {
        "x": numbers(sizes),
        "y": numbers(first.throughput.value / (first.nodes or 1) * sizes),
        "mode": "lines",
        "name": "linear growth",
        "line": {"color": MUTED, "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
    }
    traces = [linear, *_fitted(curve.fit, COLORS[0], "fit", "fit", top)]
    chosen = [point for treatment in curve.treatments for point in treatment.points]
    traces.append(_runs(chosen, "nodes", COLORS[0], SYMBOLS[0], "runs"))
    traces.append(_quoted(curves.best))
    best = {(treatment.nodes, treatment.clients) for treatment in curves.best}
    traces += _unusable([point for point in curves.points if (point.nodes, point.clients) in best], "nodes")
    return Figure(
        name,
        traces,
        layout("nodes", "requests/s", xaxis=_size_axis("nodes", largest),
               yaxis=axis("requests/s", rangemode="tozero")),
        "Each dot is a run, at the number of clients whose throughput has the highest lower confidence bound; a diamond"
        " is the throughput that is quoted, which leaves out what these runs owe to being chosen, with its interval. "
        f"{_how_to_read(curve.fit)} The dotted line is the throughput of {first.nodes} node"
        f"{'s' * (first.nodes != 1)}, multiplied.",
    )  # fmt: skip


def throughput_over_clients(curves: PhaseCurves, name: str) -> Figure | None:
    """Draw throughput against clients, a curve for each number of nodes."""
    if not curves.over_clients:
        return None
    traces: list[dict[str, Any]] = []
    top = max(point.throughput for curve in curves.over_clients for point in _points(curve))
    for index, curve in enumerate(curves.over_clients):
        color, symbol, label = _style(index), SYMBOLS[index % len(SYMBOLS)], _label(curve)
        traces += _fitted(curve.fit, color, label, None, top)
        traces.append(_runs(_points(curve), "clients", color, symbol, label))
    traces += _unusable(curves.points, "clients")
    return Figure(
        name,
        traces,
        layout("clients", "requests/s", xaxis=_size_axis("clients"),
               yaxis=axis("requests/s", rangemode="tozero")),
        "Each mark is a run: closed clients that send the next request when the last is answered. "
        f"{_how_to_read(next((curve.fit for curve in curves.over_clients if curve.fit and tells(curve.fit)), None))}",
        height=440,
    )  # fmt: skip


def response_over_clients(curves: PhaseCurves, name: str) -> Figure | None:
    """Draw response times against clients: median and 99th percentile for each number of nodes."""
    if not curves.over_clients:
        return None
    traces: list[dict[str, Any]] = []
    for index, curve in enumerate(curves.over_clients):
        color, symbol, label = _style(index), SYMBOLS[index % len(SYMBOLS)], _label(curve)
        clients = [treatment.clients for treatment in curve.treatments]
        for key, dash, shape in (("response_p50", "solid", symbol), ("response_p99", "dash", f"{symbol}-open")):
            words = key.rpartition("_")[2]
            values = [getattr(treatment, key) for treatment in curve.treatments]
            traces.append(
                {
                    "x": clients,
                    "y": [None if value is None else 1e3 * value for value in values],
                    "mode": "lines+markers",
                    "name": f"{label}, {words}",
                    "line": {"color": color, "dash": dash, "width": 1.8},
                    "marker": {"color": color, "symbol": shape, "size": 7},
                    "hovertemplate": f"{label}, %{{x}} clients<br>{words} %{{y:.3g}} ms<extra></extra>",
                }
            )
    return Figure(
        name,
        traces,
        layout(
            "clients",
            "response time, ms",
            xaxis=_size_axis("clients"),
            yaxis=log_axis("response time, ms (logarithmic)", [value for trace in traces for value in trace["y"]]),
        ),
        f"Response time of {curves.operation}: solid the median, dashed the 99th percentile, each the median over"
        " repetitions. The axis is logarithmic. Where throughput no longer grows, each added client only waits longer.",
        height=440,
    )


def residuals(fit: ScalabilityFit, name: str) -> Figure:
    """Draw what the best model leaves over, against size."""
    sizes = [n for n, _ in fit.observations]
    scale, unit = (100.0, "%") if fit.kind == "relative" else (1.0, "1/s")
    values = [scale * residual for residual in fit.best_model.residuals]
    most = max(max(map(abs, values)) * 1.2, 1e-9)
    trace = {
        "x": numbers(sizes),
        "y": numbers(values),
        "mode": "markers",
        "marker": {"color": COLORS[0], "size": 7, "opacity": 0.75},
        "hovertemplate": f"%{{x}} {fit.over}<br>%{{y:+.2f}} {unit}<extra></extra>",
        "showlegend": False,
    }
    zero = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0, "line": {"color": INK, "width": 1}}
    return Figure(
        name,
        [trace],
        layout(fit.over, f"residual, {unit}", shapes=[zero], xaxis=_size_axis(fit.over, fit.largest),
               yaxis=axis(f"residual, {unit}", range=[-most, most])),
        f"Residuals of the {NAMES[fit.best]} model, measured less fitted. They should scatter about zero without a"
        " pattern; an arch means that the model has the wrong shape.",
        height=210,
    )  # fmt: skip


def _size_axis(title: str, largest: float | None = None) -> dict[str, Any]:
    """Return an axis from 0, with whole numbers where there are few."""
    return axis(title, rangemode="tozero", **({"dtick": 1} if largest and largest <= 12 else {}))


def _fitted(fit: ScalabilityFit | None, color: str, group: str, name: str | None, top: float) -> list[dict[str, Any]]:
    """Return a fitted curve with its band, dashed beyond what was measured and never beyond twice of it."""
    if fit is None or not tells(fit):
        return []
    smallest = min(n for n, _ in fit.observations)
    # A superlinear curve may have a pole soon after the data, and a few sizes vouch for nothing beyond them.
    superlinear = any(p.value < 0 for key, p in fit.best_model.parameters.items() if key == "sigma")
    few = len({n for n, _ in fit.observations}) < _ENOUGH_SIZES
    reach = fit.largest * (1 if superlinear or few else 2 if fit.over == "nodes" else 1.25)
    inside, beyond = np.linspace(smallest, fit.largest, _STEPS), np.linspace(fit.largest, reach, _STEPS // 2)
    everywhere = np.concatenate([inside, beyond])
    low, high = (np.minimum(edge, _HIGHEST * top) for edge in fit.best_model.band(everywhere))
    traces = band(everywhere, low, high, color, group)
    words = f"{NAMES[fit.best]} fit" if name else NAMES[fit.best]
    for sizes, dash in ((inside, "solid"), (beyond, "dash")):
        traces.append(
            {
                "x": numbers(sizes),
                "y": numbers(fit.best_model.predicted(sizes)),
                "mode": "lines",
                "name": words,
                "legendgroup": group,
                "showlegend": bool(name) and dash == "solid",
                "line": {"color": color, "width": 2, "dash": dash},
                "hovertemplate": f"{words}<br>%{{x:.3g}} {fit.over}: %{{y:,.4~g}} requests/s<extra></extra>",
            }
        )
    return traces


def _runs(found: Sequence[Point], over: str, color: str, symbol: str, name: str) -> dict[str, Any]:
    return {
        "x": [getattr(point, over) for point in found],
        "y": numbers([point.throughput for point in found]),
        "text": [point.run for point in found],
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "marker": {"color": color, "symbol": symbol, "size": 8, "line": {"color": "white", "width": 1}},
        "hovertemplate": f"%{{text}}<br>%{{x}} {over}: %{{y:,.4~g}} requests/s<extra></extra>",
    }


def _quoted(best: Sequence[Treatment]) -> dict[str, Any]:
    """Return a trace of the throughputs that are quoted, with those intervals that are bounded."""
    rates = [each.throughput for each in best]
    ends = [(rate.low, rate.high) if rate.is_finite else (rate.value, rate.value) for rate in rates]
    return {
        "x": [each.nodes for each in best],
        "y": numbers([rate.value for rate in rates]),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": numbers([high - rate.value for (_, high), rate in zip(ends, rates, strict=True)]),
            "arrayminus": numbers([rate.value - low for (low, _), rate in zip(ends, rates, strict=True)]),
        },
        "mode": "markers",
        "name": "quoted",
        "marker": {"color": INK, "symbol": "diamond-open", "size": 10},
        "hovertemplate": "quoted<br>%{x} nodes: %{y:,.4~g} requests/s<extra></extra>",
    }


def _unusable(found: Iterable[Point], over: str) -> list[dict[str, Any]]:
    """Return a trace of the runs that no fit contains, if there are any."""
    invalid = [point for point in found if not point.usable and getattr(point, over) is not None]
    if not invalid:
        return []
    trace = _runs(invalid, over, MUTED, "x-thin-open", "invalid, left out")
    return [{**trace, "marker": {"color": MUTED, "symbol": "x-thin-open", "size": 9, "line": {"width": 2}}}]


def _points(curve: Curve) -> list[Point]:
    return [point for treatment in curve.treatments for point in treatment.points]


def _how_to_read(fit: ScalabilityFit | None) -> str:
    if fit is None or not tells(fit):
        return "No curve is drawn where the data do not allow one."
    words = "Lines are the fitted models, shaded their 95 % bands"
    if len({n for n, _ in fit.observations}) < _ENOUGH_SIZES:
        return f"{words}; they end where the measurements end."
    return f"{words}; dashed is beyond what was measured, where a curve is a guess."


def _style(index: int) -> str:
    return COLORS[index % len(COLORS)]


def _label(curve: Curve) -> str:
    return format_nodes(curve.nodes) if curve.nodes else "runs"
