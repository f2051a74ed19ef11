"""Plots of a capacity experiment: every trial's response time against its rate, and capacity against nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loadframe.analyze.capacity import Capacities, Capacity, Outcome
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.report.capacity_words import subject_text
from loadframe.report.figures import COLORS, INK, MUTED, Figure, axis, band, layout, log_axis, numbers
from loadframe.report.fit_words import tells
from loadframe.report.labels import treatment_text

_MARKS = {Outcome.PASSED: ("circle", COLORS[2]), Outcome.FAILED: ("x", COLORS[1]), Outcome.INVALID: ("diamond", MUTED)}


def trials_plot(capacity: Capacity, found: Capacities, name: str) -> Figure:
    """Draw each trial of a treatment: rate, response time, and how it was judged."""
    attempts = [each for search in capacity.searches for each in search.attempts]
    traces: list[dict[str, Any]] = []
    for outcome, (symbol, color) in _MARKS.items():
        shown = [each for each in attempts if each.judgement.outcome is outcome and each.judgement.response]
        if shown:
            traces.append(
                {
                    "x": numbers([each.rate for each in shown]),
                    "y": numbers([1e3 * (each.judgement.response or 0) for each in shown]),
                    "text": [each.run for each in shown],
                    "mode": "markers",
                    "name": outcome.value,
                    "marker": {"symbol": symbol, "color": color, "size": 9},
                    "hovertemplate": "%{text}<br>%{x:,.0f}/s: %{y:.3g} ms<extra></extra>",
                }
            )
    limit = 1e3 * found.slo.response
    times = [value for trace in traces for value in trace["y"]]
    rates = [value for trace in traces for value in trace["x"]]
    words = subject_text(found.slo)
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit, "y1": limit}
    return Figure(
        name,
        traces,
        layout(
            "requests/s",
            f"{words}, ms",
            xaxis=log_axis("offered rate, requests/s (logarithmic)", rates),
            yaxis=log_axis(f"{words}, response time, ms (logarithmic)", [*times, limit]),
            shapes=[{**line, "line": {"color": INK, "width": 1, "dash": "dot"}}],
        ),
        f"Each mark is a trial of {treatment_text(capacity.treatment) or 'the store'}. The dotted line is the SLO's"
        " limit; a trial below it may still fail, by errors, by load that was not achieved, or by a growing backlog.",
    )


def capacity_plot(capacities: Sequence[Capacity], fitted: ScalabilityFit | None, name: str) -> Figure:
    """Draw capacity against nodes, with the fitted curve and its band where the data allow one."""
    known = [each for each in capacities if each.rate]
    traces: list[dict[str, Any]] = []
    if fitted and tells(fitted):
        sizes = np.linspace(min(each.nodes for each in known), fitted.largest, 100)
        low, high = fitted.best_model.band(sizes)
        traces += band(sizes, low, high, COLORS[0], "fit")
        curve = numbers(fitted.best_model.predicted(sizes))
        style = {"color": COLORS[0], "width": 2}
        traces.append({"x": numbers(sizes), "y": curve, "mode": "lines", "name": "fit", "line": style})
    rates = [each.rate for each in known if each.rate]
    bars = [_bar(each, rate) for each, rate in zip(known, rates, strict=True)]
    traces.append(
        {
            "x": [each.nodes for each in known],
            "y": numbers([rate.value for rate in rates]),
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": numbers([high - rate.value for (_, high), rate in zip(bars, rates, strict=True)]),
                "arrayminus": numbers([rate.value - low for (low, _), rate in zip(bars, rates, strict=True)]),
            },
            "mode": "markers",
            "name": "capacity",
            "marker": {"color": COLORS[0], "size": 9},
            "hovertemplate": "%{x} nodes: %{y:,.0f}/s<extra></extra>",
        }
    )
    return Figure(
        name,
        traces,
        layout("nodes", "requests/s", xaxis=axis("nodes", dtick=1), yaxis=axis("requests/s", rangemode="tozero")),
        "Each mark is a capacity, and its bar the 95 % interval over repeated searches. Where there is one search, the"
        " mark is the highest rate that was held, and the bar reaches to the rate that failed, which is not an"
        " interval.",
    )


def _bar(capacity: Capacity, rate: Estimate) -> tuple[float, float]:
    """Return the ends of a capacity's bar; an end that is open is not drawn."""
    low, high = capacity.bracket or (rate.low or rate.value, rate.high)
    return low, high if np.isfinite(high) else rate.value
