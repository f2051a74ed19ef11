"""One elastic run on one time axis: load, throughput, response times, failures, data that move, CPUs, and events."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from loadframe.analyze.elasticity import Course, Group
from loadframe.analyze.elasticity.course import BALANCED, FIRED, JOINED, KILLED, LEAVING, LEFT, REQUESTED
from loadframe.analyze.elasticity.provisioning import level_at
from loadframe.analyze.experiment import RecordedRun
from loadframe.report.figures import COLORS, INK, MUTED, Figure, axis, layout, numbers, spread_axis

#: Events that are drawn, with the words that stand at their line.
_SHOWN = {
    REQUESTED: "requested",
    JOINED: "joined",
    BALANCED: "balanced",
    LEAVING: "leaving",
    LEFT: "left",
    KILLED: "killed",
    "node paused": "paused",
    "node resumed": "resumed",
    "link cut": "cut off",
    "link restored": "back",
    "settings changed": "settings",
    "change failed": "failed",
}
_GAP = 0.03
_HEIGHTS = {"load": 0.11, "throughput": 0.24, "response": 0.22, "failures": 0.11, "data": 0.12, "cpu": 0.16}


def run_plot(group: Group, name: str) -> Figure | None:
    """Draw the group's example, and the throughput of its control run behind it; None without a run.

    Where no run may be used it is an invalid one, which its note says.
    """
    run = group.example
    if run is None or run.run is None:
        return None
    course = group.courses[run.id]
    lanes = _Lanes([lane for lane in _HEIGHTS if lane != "data" or course.left or course.missing])
    traces = [*_load(run, course), *_throughput(group, course), *_response(course), *_failures(course)]
    traces += [*_data(course), *_cpu(run)]
    parts: dict[str, Any] = {"xaxis": axis("seconds since the measured window began", anchor=lanes.last)}
    titles = {
        "load": _load_title(run),
        "throughput": "requests/s",
        "response": "response, ms",
        "failures": "failed/s",
        "data": course.unit or "pieces",
        "cpu": "cores",
    }
    for lane in lanes.names:
        values = [y for trace in traces if trace["lane"] == lane for y in trace["y"]]
        domain = lanes.domain(lane)
        if lane == "response":
            parts[lanes.key(lane)] = spread_axis(titles[lane], values, domain=domain)
        else:
            parts[lanes.key(lane)] = axis(titles[lane], domain=domain, rangemode="tozero")
    marks, lines = _marks(course)
    for trace in traces:
        trace["yaxis"] = lanes.axis(trace.pop("lane"))
    return Figure(
        name,
        traces,
        layout(
            "s",
            "",
            **parts,
            annotations=marks,
            shapes=lines,
            hovermode="x",
            margin={"l": 76, "r": 12, "t": 110, "b": 48},
            legend={"orientation": "h", "x": 0, "y": -0.06, "yanchor": "top", "xanchor": "left"},
        ),
        "INVALID: see above why. " * (not group.runs)
        + f"Run {run.id}, second by second. Dotted lines are what was done to the cluster."
        + " Grey: the control run, moved so that both were to change at the same instant." * bool(group.control),
        height=900,
    )


class _Lanes:
    """The plots above each other, from the top down."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        total = sum(_HEIGHTS[name] for name in names) + _GAP * (len(names) - 1)
        self._domains, top = {}, 1.0
        for name in names:
            height = _HEIGHTS[name] / total
            self._domains[name] = [max(top - height, 0.0), top]
            top -= height + _GAP / total

    def domain(self, name: str) -> list[float]:
        return self._domains[name]

    def axis(self, name: str) -> str:
        number = self.names.index(name) + 1
        return "y" if number == 1 else f"y{number}"

    def key(self, name: str) -> str:
        return self.axis(name).replace("y", "yaxis")

    @property
    def last(self) -> str:
        return self.axis(self.names[-1])


def _line(lane: str, x: Any, y: Any, label: str, color: str, **more: Any) -> dict[str, Any]:
    return {
        "lane": lane,
        "x": numbers(x),
        "y": numbers(y),
        "mode": "lines",
        "name": label,
        "line": {"color": color, "width": 1.6, **more.pop("line", {})},
        "hovertemplate": f"{label} %{{y:,.4~g}}<extra></extra>",
        **more,
    }


def _streams(run: RecordedRun) -> tuple[Any, float]:
    phase = next(phase for phase in run.run.summary["phases"] if not phase["prepares"]) if run.run else {}
    return phase.get("streams", []), phase.get("warmup", 0.0)


def _load_title(run: RecordedRun) -> str:
    streams, _ = _streams(run)
    return "offered/s" if any("open" in stream["pacing"] for stream in streams) else "clients"


def _load(run: RecordedRun, course: Course) -> Iterator[dict[str, Any]]:
    streams, warmup = _streams(run)
    opens = [each["pacing"]["open"]["rate"] for each in streams if "open" in each["pacing"]]
    closed = [each["pacing"]["closed"]["clients"] for each in streams if "closed" in each["pacing"]]
    offered = np.sum([level_at(level, course.times + warmup) for level in opens or closed], axis=0)
    if not opens:
        held = min((event.time for event in course.events if event.kind == "clients held"), default=None)
        if held is not None:
            offered = np.where(course.times > held, np.floor(np.interp(held, course.times, offered)), offered)
    yield _line("load", course.times, offered, "load", INK, line={"shape": "hv"}, showlegend=False)


def _throughput(group: Group, course: Course) -> Iterator[dict[str, Any]]:
    control = group.control
    if control:
        other = group.courses[control.id]
        begins = [min((e.time for e in each.events if e.kind == FIRED), default=None) for each in (course, other)]
        shift = begins[0] - begins[1] if begins[0] is not None and begins[1] is not None else 0.0
        yield _line("throughput", other.times + shift, other.successes, "control run", "#b5b5b5")
    yield _line("throughput", course.times, course.successes, "throughput", COLORS[0])


def _response(course: Course) -> Iterator[dict[str, Any]]:
    yield _line("response", course.times, 1e3 * course.response_p50, "p50", COLORS[2])
    yield _line("response", course.times, 1e3 * course.response_p99, "p99", COLORS[1])


def _failures(course: Course) -> Iterator[dict[str, Any]]:
    yield _line("failures", course.times, course.failures, "failed", COLORS[3], showlegend=False)


def _data(course: Course) -> Iterator[dict[str, Any]]:
    for samples, label, color in (
        (course.left, f"{course.unit or 'pieces'} left to move", COLORS[4]),
        (course.missing, "copies missing", COLORS[6]),
    ):
        if samples:
            yield _line("data", [t for t, _ in samples], [v for _, v in samples], label, color, line={"shape": "hv"})


def _cpu(run: RecordedRun) -> Iterator[dict[str, Any]]:
    if run.run is None:
        return
    streams = run.run.telemetry
    phase = next(phase for phase in run.run.summary["phases"] if not phase["prepares"])
    zero = phase["start"] + phase["warmup"]
    rows = streams.filter(
        pc.and_(pc.equal(streams["metric"], "process.cpu"), pc.starts_with(streams["source"], "node:"))
    )
    table = rows.sort_by("time").to_pylist()
    for index, source in enumerate(sorted({row["source"] for row in table})):
        own = [(row["time"] - zero, row["value"]) for row in table if row["source"] == source]
        color, dash = COLORS[index % len(COLORS)], ("solid", "dash", "dot")[index // len(COLORS) % 3]
        label = f"CPU of {source.removeprefix('node:')}"
        yield _line("cpu", [t for t, _ in own], [v for _, v in own], label, color, line={"dash": dash, "width": 1.3})


def _marks(course: Course) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the events' words and lines; events that nearly coincide share their words."""
    told: list[tuple[float, str]] = []
    names: tuple[str, ...] = ()
    for event in sorted(course.events, key=lambda each: each.time):
        if event.kind in _SHOWN and course.start <= event.time <= course.end:
            words = " ".join([*event.nodes, _SHOWN[event.kind]])
            if told and event.time - told[-1][0] < (course.end - course.start) / 60:
                shared = _SHOWN[event.kind] if event.nodes == names else words
                told[-1] = (told[-1][0], f"{told[-1][1]}, {shared}")
            else:
                told.append((event.time, words))
            names = event.nodes
    marks = [
        {
            "x": time,
            "y": 1.0,
            "xref": "x",
            "yref": "paper",
            "xanchor": "left",
            "yanchor": "bottom",
            "text": words,
            "showarrow": False,
            "textangle": -35,
            "font": {"size": 11, "color": MUTED},
        }
        for time, words in told
    ]
    edge = {"type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    lines = [{**edge, "x0": t, "x1": t, "line": {"color": MUTED, "width": 1, "dash": "dot"}} for t, _ in told]
    return marks, lines
