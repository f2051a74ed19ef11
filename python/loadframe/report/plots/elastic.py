"""Plot of an elastic run over time: load, throughput, response times, failures, data to move, CPU, and events."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from loadframe.analyze.elastic import Course, Group
from loadframe.analyze.elastic.groups import level_at
from loadframe.analyze.experiment import RecordedRun
from loadframe.base.event_kinds import (
    BALANCED,
    CONFIGURED,
    CUT,
    FAILED,
    FIRED,
    HELD,
    JOINED,
    KILLED,
    LEAVING,
    LEFT,
    PAUSED,
    REQUESTED,
    RESTORED,
    RESUMED,
)
from loadframe.base.units import by_number
from loadframe.record import Run
from loadframe.report.plot import (
    COLORS,
    INK,
    MUTED,
    Axis,
    Dash,
    Figure,
    Label,
    LineStyle,
    Panel,
    Rule,
    Trace,
    numbers,
    spread,
)

#: Labels of the drawn kinds of events.
_SHOWN = {
    REQUESTED: "requested",
    JOINED: "joined",
    BALANCED: "balanced",
    LEAVING: "leaving",
    LEFT: "left",
    KILLED: "killed",
    PAUSED: "paused",
    RESUMED: "resumed",
    CUT: "cut off",
    RESTORED: "back",
    CONFIGURED: "settings",
    FAILED: "failed",
}
#: Panels from top to bottom, with their relative heights.
_HEIGHTS = {"load": 0.11, "throughput": 0.24, "response": 0.22, "failures": 0.11, "data": 0.12, "cpu": 0.16}
_DASHES: Sequence[Dash] = ("solid", "dash", "dot")


def run_plot(group: Group, name: str) -> Figure | None:
    """Draw the group's example run and the throughput of its control run; None if no run has the event.

    If the group has no valid run, the example is invalid, and the caption says so. Times are in s since the measured
    window began. `name` is the plot's identifier.
    """
    run = group.example
    if run is None or run.run is None:
        return None
    course = group.courses[run.id]
    lanes = [lane for lane in _HEIGHTS if lane != "data" or course.left or course.missing]
    traces = [
        replace(trace, panel=lanes.index(lane))
        for lane, drawn in (
            ("load", _load(run, course)),
            ("throughput", _throughput(group, course)),
            ("response", _response(course)),
            ("failures", _failures(course)),
            ("data", _data(course)),
            ("cpu", _cpu(run.run)),
        )
        for trace in drawn
    ]
    titles = {
        "load": _load_title(run.run),
        "throughput": course.rate.unit,
        "response": "response, ms",
        "failures": "failed/s",
        "data": course.unit or "pieces",
        "cpu": "cores",
    }
    panels = []
    for index, lane in enumerate(lanes):
        values = [value for trace in traces if trace.panel == index for value in trace.y]
        y = Axis(titles[lane], from_zero=True)
        panels.append(Panel(spread(Axis(titles[lane]), values) if lane == "response" else y, _HEIGHTS[lane]))
    marks = _marks(course)
    return Figure(
        name,
        Axis("seconds since the measured window began", range=(course.start, course.end)),
        panels,
        traces,
        "INVALID: see the reasons above. " * (not group.runs)
        + f"Run {run.id}, second by second. Dotted lines: changes of the cluster."
        + " Grey: the control run, shifted to the same time of change." * bool(group.control),
        rules=[Rule(mark.at, color=MUTED, dash="dot") for mark in marks],
        labels=marks,
        slanted=True,
        follow=True,
        height=900,
    )


def _line(x: npt.ArrayLike, y: npt.ArrayLike, label: str, line: LineStyle, *, legend: bool = True) -> Trace:
    """Return a trace that is a line called `label`, without marks; with `legend`, it has an entry in the legend."""
    return Trace(numbers(x), numbers(y), label, line, legend=legend)


def _load_title(run: Run) -> str:
    """Return the axis title of the load in the first measured phase: `accepted/s`, `offered/s` or `clients`."""
    phase = run.summary.measured[0]
    return "accepted/s" if phase.sources else "offered/s" if phase.has_open_load else "clients"


def _load(recorded: RecordedRun, course: Course) -> Iterator[Trace]:
    """Yield the load of the first measured phase over time: requests/s, else clients; or accepted events/s of sources.

    Times are in s since the measured window began. Planned rates are summed over open streams; closed streams beside
    them are left out. After the first HELD event, clients are constant.
    """
    run = recorded.run
    assert run
    phase = run.summary.measured[0]
    if phase.sources:
        yield from _accepted(run, phase.begin)
        return
    opens = [
        (stream.rate, recorded.per_arrival(phase.name, stream)) for stream in phase.streams if stream.rate is not None
    ]
    closed = [(stream.clients, 1) for stream in phase.streams if stream.clients is not None]
    levels = [number * level_at(level, course.times + phase.warmup) for level, number in opens or closed]
    offered = np.sum(levels, axis=0)
    if not opens:
        held = min((event.time for event in course.events if event.kind == HELD), default=None)
        if held is not None:
            offered = np.where(course.times > held, np.floor(np.interp(held, course.times, offered)), offered)
    yield _line(course.times, offered, "load", LineStyle(INK, 1.6, steps=True), legend=False)


def _accepted(run: Run, begin: float) -> Iterator[Trace]:
    """Yield the accepted events/s of each source over time, s since the measured window began.

    `begin` is the start of that window, s since the run began.
    """
    table = run.telemetry
    for name in run.summary.measured[0].sources:
        of_it = pc.and_(pc.equal(table["source"], f"source:{name}"), pc.equal(table["metric"], "accepted"))
        rows = table.filter(of_it).sort_by("time")
        yield _line(
            rows["time"].to_numpy() - begin, rows["value"].to_numpy(), "load", LineStyle(INK, 1.6), legend=False
        )


def _throughput(group: Group, course: Course) -> Iterator[Trace]:
    """Yield the throughput of the control run, if the group has one, and of the run.

    The control run is shifted so that its first trigger coincides with the run's; not shifted if either has no trigger.
    """
    control = group.control
    if control:
        other = group.courses[control.id]
        fired = [
            min((event.time for event in either.events if event.kind == FIRED), default=None)
            for either in (course, other)
        ]
        shift = fired[0] - fired[1] if fired[0] is not None and fired[1] is not None else 0.0
        yield _line(other.times + shift, other.throughput, "control run", LineStyle("#b5b5b5", 1.6))
    yield _line(course.times, course.throughput, "throughput", LineStyle(COLORS[0], 1.6))


def _response(course: Course) -> Iterator[Trace]:
    """Yield the traces of p50 and p99 of the response times over time, ms."""
    yield _line(course.times, 1e3 * course.response_p50, "p50", LineStyle(COLORS[2], 1.6))
    yield _line(course.times, 1e3 * course.response_p99, "p99", LineStyle(COLORS[1], 1.6))


def _failures(course: Course) -> Iterator[Trace]:
    """Yield the trace of failed requests/s over time."""
    yield _line(course.times, course.failures, "failed", LineStyle(COLORS[3], 1.6), legend=False)


def _data(course: Course) -> Iterator[Trace]:
    """Yield the data left to move and the missing replicas over time. Without samples of them, yield nothing."""
    for samples, label, color in (
        (course.left, f"{course.unit or 'pieces'} left to move", COLORS[4]),
        (course.missing, "replicas missing", COLORS[6]),
    ):
        if samples:
            times, values = zip(*samples, strict=True)
            yield _line(times, values, label, LineStyle(color, 1.6, steps=True))


def _cpu(run: Run) -> Iterator[Trace]:
    """Yield a trace of the CPU use, in cores, for each node over time, s since the measured window began.

    Only sources that begin with `node:` count.
    """
    telemetry = run.telemetry
    zero = run.summary.measured[0].begin
    rows = telemetry.filter(
        pc.and_(pc.equal(telemetry["metric"], "process.cpu"), pc.starts_with(telemetry["source"], "node:"))
    )
    table = rows.sort_by("time").to_pylist()
    for index, source in enumerate(sorted({row["source"] for row in table}, key=by_number)):
        samples = [(row["time"] - zero, row["value"]) for row in table if row["source"] == source]
        line = LineStyle(COLORS[index % len(COLORS)], 1.3, _DASHES[index // len(COLORS) % len(_DASHES)])
        times, values = zip(*samples, strict=True)
        yield _line(times, values, f"CPU of {source.removeprefix('node:')}", line)


def _marks(course: Course) -> list[Label]:
    """Return labels for the changes of the cluster, by time; changes within 1/60 of the drawn time share one."""
    labels: list[tuple[float, str]] = []
    names: tuple[str, ...] = ()
    for event in sorted(course.events, key=lambda event: event.time):
        if event.kind in _SHOWN and course.start <= event.time <= course.end:
            words = " ".join([*event.nodes, _SHOWN[event.kind]])
            if labels and event.time - labels[-1][0] < (course.end - course.start) / 60:
                shared = _SHOWN[event.kind] if event.nodes == names else words
                labels[-1] = (labels[-1][0], f"{labels[-1][1]}, {shared}")
            else:
                labels.append((event.time, words))
            names = event.nodes
    return [Label(time, words) for time, words in labels]
