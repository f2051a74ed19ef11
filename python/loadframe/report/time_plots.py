"""Plots of one run over time: throughput and percentiles, second by second."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.record import Run
from loadframe.report.figures import COLORS, GRID, MUTED, Figure, axis, layout, numbers, spread_axis

_UPPER, _LOWER = [0.56, 1.0], [0.0, 0.44]


def phase_over_time(run: Run, phase: Mapping[str, Any], operation: str | None, name: str, caption: str) -> Figure:
    """Draw one phase: successes per second above, median and 99th percentile of `operation` below."""
    rows = _phase_rows(run, phase)
    seconds, successes = _per_second(rows)
    traces = [
        {
            "x": numbers(seconds + 0.5),
            "y": numbers(successes),
            "mode": "lines+markers",
            "marker": {"size": 5},
            "line": {"color": COLORS[0], "width": 1.8},
            "showlegend": False,
            "hovertemplate": "second %{x:.0f}<br>%{y:,.4~g} requests/s<extra></extra>",
        },
        *_percentiles(rows.filter(pc.equal(rows["operation"], operation)), lambda second: second + 0.5, legend=True),
    ]
    end = phase["warmup"] + phase["duration"]
    return Figure(
        name,
        traces,
        layout(
            "s",
            "requests/s",
            xaxis=axis("s since the phase began", anchor="y2", range=[0, max(end, 1)]),
            yaxis=axis("requests/s", domain=_UPPER, rangemode="tozero"),
            yaxis2=axis("ms", domain=_LOWER, rangemode="tozero"),
            shapes=[_shade(0, phase["warmup"])] if phase["warmup"] else [],
            margin={"l": 64, "r": 12, "t": 12, "b": 48},
            legend={"orientation": "h", "x": 1, "y": 0.44, "yanchor": "bottom", "xanchor": "right"},
        ),
        caption,
        height=360,
    )


def run_over_time(run: Run, name: str) -> Figure:
    """Draw a whole run: successes per second above, percentiles of each operation below, phases side by side."""
    traces: list[dict[str, Any]] = []
    marks, shades = [], []
    shown: set[str] = set()
    for index, phase in enumerate(run.summary.get("phases", [])):
        rows, start = _phase_rows(run, phase), phase["start"]
        seconds, successes = _per_second(rows)
        end = start + phase["warmup"] + phase["duration"]
        color = COLORS[index % 2 * 2]
        traces.append(
            {
                "x": numbers(seconds + start + 0.5),
                "y": numbers(successes),
                "mode": "lines",
                "line": {"color": color, "width": 1.6},
                "showlegend": False,
                "name": phase["name"],
                "hovertemplate": f"{phase['name']}<br>%{{y:,.4~g}} requests/s<extra></extra>",
            }
        )
        for operation in phase["operations"]:
            own = rows.filter(pc.equal(rows["operation"], operation))
            traces += _percentiles(own, lambda second, at=start: second + at + 0.5, legend=not shown)
            shown.add(operation)
        marks.append(
            {
                "x": (start + end) / 2,
                "y": 1.0,
                "xref": "x",
                "yref": "paper",
                "yanchor": "bottom",
                "text": phase["name"],
                "showarrow": False,
                "textangle": -60 if len(run.summary["phases"]) > 4 else 0,
                "font": {"size": 11, "color": MUTED},
            }
        )
        if phase["warmup"]:
            shades.append(_shade(start, start + phase["warmup"]))
        shades.append(_line(start))
    return Figure(
        name,
        traces,
        layout(
            "s",
            "requests/s",
            xaxis=axis("seconds since the run began", anchor="y2", rangemode="tozero"),
            yaxis=spread_axis("requests/s", _values(traces, "y"), domain=_UPPER),
            yaxis2=spread_axis("response time, ms", _values(traces, "y2"), domain=_LOWER),
            annotations=marks,
            shapes=shades,
            margin={"l": 72, "r": 12, "t": 150 if len(marks) > 4 else 30, "b": 48},
            legend={"orientation": "h", "x": 1, "y": 0.44, "yanchor": "bottom", "xanchor": "right"},
        ),
        "Above, requests answered well in each second; below, median and 99th percentile of their response times."
        " Vertical lines part the phases, shaded is warm-up. An axis is logarithmic where the phases differ widely.",
        height=560 if len(marks) > 4 else 460,
    )


def _values(traces: list[dict[str, Any]], axis_name: str) -> list[float | None]:
    return [value for trace in traces if trace.get("yaxis", "y") == axis_name for value in trace["y"]]


def _phase_rows(run: Run, phase: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a phase's operations up to its end; what is answered later only empties the pipe.

    The parts of operations are left out.
    """
    series = run.series
    end = phase["warmup"] + phase["duration"]
    of_phase = pc.and_(pc.equal(series["phase"], phase["name"]), pc.less(series["second"], end))
    return series.filter(pc.and_(of_phase, pc.is_in(series["operation"], pa.array(list(phase["operations"])))))


def _per_second(rows: pa.Table) -> tuple[Any, Any]:
    """Return whole seconds and the successes done in each, all operations and segments together."""
    second = rows["second"].to_numpy()
    if not len(second):
        return np.array([]), np.array([])
    counts = np.bincount(second, weights=rows["successes"].to_numpy())
    return np.arange(len(counts), dtype=float), counts


def _percentiles(rows: pa.Table, place: Any, *, legend: bool) -> list[dict[str, Any]]:
    """Return p50 and p99 of one operation by second; where warm-up and measurement meet, the larger segment's."""
    rows = rows.filter(pc.is_valid(rows["response_p50"])).sort_by([("second", "ascending"), ("successes", "ascending")])
    second = rows["second"].to_numpy()
    last = np.append(second[1:] != second[:-1], True) if len(second) else np.array([], dtype=bool)
    traces = []
    for column, label, color, dash in (
        ("response_p50", "p50", COLORS[2], "solid"),
        ("response_p99", "p99", COLORS[1], "dash"),
    ):
        traces.append(
            {
                "x": numbers(place(second[last].astype(float))),
                "y": numbers(1e3 * rows[column].to_numpy()[last]),
                "yaxis": "y2",
                "mode": "lines",
                "name": label,
                "legendgroup": label,
                "showlegend": legend,
                "line": {"color": color, "dash": dash, "width": 1.8},
                "hovertemplate": f"{label} %{{y:.3g}} ms<extra></extra>",
            }
        )
    return traces


def _shade(start: float, end: float) -> dict[str, Any]:
    edges = {"type": "rect", "xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1}
    return {**edges, "fillcolor": "rgba(0,0,0,0.06)", "line": {"width": 0}, "layer": "below"}


def _line(at: float) -> dict[str, Any]:
    edges = {"type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1}
    return {**edges, "line": {"color": GRID, "width": 1}, "layer": "below"}
