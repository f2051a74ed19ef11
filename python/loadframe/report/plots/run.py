"""Plots of one run over time: throughput, response times, and intermittent activities of the store."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    SMALL,
    Axis,
    Dash,
    Figure,
    Label,
    LineStyle,
    Mark,
    Panel,
    Rule,
    Shade,
    Trace,
    numbers,
    spread,
)

#: Activities in more than this share of seconds are not drawn; the number of drawn activities.
_MOST, _ROWS = 0.5, 6
#: Heights in pixels: a row of activities, their margin, a panel of height 1.
_ROW, _AROUND, _PANEL = 18, 26, 190


@dataclass(frozen=True)
class ActivityPanel:
    """The panel of store activities; empty if no intermittent activity was observed."""

    panels: Sequence[Panel] = ()
    traces: Sequence[Trace] = ()
    height: int = 0
    words: str = ""


def store_activity(run: Run, panel: int) -> ActivityPanel:
    """Return the panel of store activities in the measured phases, as panel number `panel` (from 0).

    It has at most six activities, of those in at most half of the seconds of a phase.
    """
    stretches: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for phase in run.summary.measured:
        for series in activity_series(run, phase.begin, int(phase.duration)):
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
            LineStyle(COLORS[3], 6),
            panel=panel,
            legend=False,
            hover=False,
        )
        for place, (words, bars) in zip(places, rows, strict=True)
    ]
    height = _ROW * len(rows) + _AROUND
    words = " Bottom: bars mark seconds of measured phases with more of the store's activity than average."
    return ActivityPanel([Panel(axis, height / _PANEL)], traces, height, words)


#: A legend lists at most this many operations.
_LEGEND_OPERATIONS = 3
#: Names of nodes in a legend; series with at most this traffic, B/s, are not drawn.
_NAMED, _TRACE_OF_TRAFFIC = 6, 1e3
#: Above this number of phases, their names are slanted.
_LEVEL_NAMES = 4


#: Lines with fewer points have marks, because they would hardly be visible.
_FEW_POINTS = 4


def marked(traces: Iterable[Trace]) -> list[Trace]:
    """Return the traces, with marks at the points of lines that have at most three."""
    return [
        replace(trace, mark=Mark(trace.line.color, size=5))
        if trace.line and trace.hover and sum(value is not None for value in trace.y) < _FEW_POINTS
        else trace
        for trace in traces
    ]


def run_axis(run: Run, traces: Iterable[Trace]) -> Axis:
    """Return the x axis of a plot of a whole run: from its start to the end of its last phase, or the last point."""
    last = [float(at) for trace in traces for at in trace.x if at is not None]
    ends = [phase.start + phase.warmup + phase.duration for phase in run.summary.phases]
    return Axis("seconds since the run began", range=(0.0, max(0.0, *last, *ends) or 1.0))


def phase_over_time(
    run: Run, phase: PhaseSummary, operation: str | None, name: str, caption: str, rate: Rate = THROUGHPUT
) -> Figure:
    """Draw one phase: requests or documents per second (`rate`) above, p50 and p99 of `operation` in ms below.

    The x axis has s since the phase began, with warm-up. `name` is the plot's identifier.
    """
    rows = _phase_rows(run, phase)
    seconds, counts = _per_second(_single(rows, phase), rate)
    line, mark = LineStyle(COLORS[0]), Mark(COLORS[0], size=5)
    end = phase.warmup + phase.duration
    return Figure(
        name,
        Axis("s since the phase began", range=(0, max(end, 1))),
        [Panel(Axis(rate.unit, from_zero=True)), Panel(Axis("ms", from_zero=True))],
        [
            Trace(numbers(seconds + 0.5), numbers(counts), rate.unit, line, mark, legend=False),
            *marked(_percentiles(rows.filter(pc.equal(rows["operation"], operation)), 0.5, 1)),
        ],
        caption,
        shades=[Shade(0, phase.warmup)] if phase.warmup else [],
        follow=True,
        width=440,
        height=330,
    )


def run_over_time(run: Run, name: str, dips: Sequence[DipsOfPhase] = ()) -> Figure:
    """Draw a whole run, phases side by side, over s since the run began.

    Panels from the top: requests per second, documents per second if counted, percentiles of each operation (ms),
    activities of the store if observed. A dotted line marks the start of each dip. `name` is the plot's identifier.
    """
    traces: list[Trace] = []
    phases = run.summary.phases
    operations = list(dict.fromkeys(operation for phase in phases for operation in phase.operations))
    # Legend entries of several operations need distinct colors that the upper panels do not use.
    colors = dict(zip(operations, COLORS[1::2], strict=False)) if 1 < len(operations) <= _LEGEND_OPERATIONS else {}
    rates = [rate for rate in RATES.values() if rate is THROUGHPUT or any(map(rate.of, phases))]
    for index, phase in enumerate(phases):
        rows, start = _phase_rows(run, phase), phase.start
        line = LineStyle(COLORS[index % 2 * 2], 1.6)
        for panel, rate in enumerate(rates):
            seconds, counts = _per_second(_single(rows, phase), rate)
            x = numbers(seconds + start + 0.5)
            traces.append(Trace(x, numbers(counts), phase.name, line, panel=panel, legend=False))
        if any(operation.retries for operation in phase.single.values()):
            seconds, attempts = _attempts(_single(rows, phase))
            x = numbers(seconds + start + 0.5)
            traces.append(
                Trace(x, numbers(attempts), "attempts, with retries", LineStyle(COLORS[3], dash="dot"), panel=0)
            )
        for operation in phase.operations:
            of_operation = rows.filter(pc.equal(rows["operation"], operation))
            traces += _percentiles(of_operation, start + 0.5, len(rates), operation, colors.get(operation))
    if len(operations) <= 1:
        traces = [replace(trace, name=trace.group or trace.name) for trace in traces]
    elif not colors:
        traces = _with_short_legend(traces)
    traces = marked(traces)
    activity = store_activity(run, len(rates) + 1)
    many = len(phases) > _LEVEL_NAMES
    return Figure(
        name,
        run_axis(run, [*traces, *activity.traces]),
        [
            *(Panel(spread(Axis(rate.unit), _values(traces, panel))) for panel, rate in enumerate(rates)),
            Panel(spread(Axis("response time, ms"), _values(traces, len(rates)))),
            *activity.panels,
        ],
        [*traces, *activity.traces],
        f"Above: successful requests per second{' and their documents' * (len(rates) > 1)}. Below: p50 and p99 of their"
        " response times."
        " Vertical lines separate the phases; warm-up is shaded. Axes are logarithmic if phases differ widely."
        + (" Dotted lines mark recurring dips." if dips else "")
        + activity.words,
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
        height=(560 if many else 460) + 120 * (len(rates) - 1) + activity.height,
    )


def _with_short_legend(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces with one legend entry for each percentile (a trace's group) instead of one for each operation.

    It has further traces for these entries, which repeat the last trace of each percentile.
    """
    entries = {trace.group: trace for trace in traces if trace.group and any(value is not None for value in trace.y)}
    silent = [replace(trace, legend=trace.legend and not trace.group) for trace in traces]
    named = [replace(trace, name=f"{group} of each operation", hover=False) for group, trace in entries.items()]
    return [*silent, *named]


def _values(traces: Iterable[Trace], panel: int) -> list[float | None]:
    """Return the y of all points of the traces in a panel, given by its number; a gap is None."""
    return [value for trace in traces if trace.panel == panel for value in trace.y]


def _phase_rows(run: Run, phase: PhaseSummary) -> pa.Table:
    """Return the rows of a phase's operations, without parts of operations, in its whole seconds.

    A last second that is cut short would look like a dip; a phase shorter than a second keeps it.
    """
    series = run.series
    end = max(phase.whole_seconds.stop, 1)
    of_phase = pc.and_(pc.equal(series["phase"], phase.name), pc.less(series["second"], end))
    return series.filter(
        pc.and_(of_phase, pc.is_in(series["operation"], pa.array(list(phase.operations), pa.string())))
    )


def _single(rows: pa.Table, phase: PhaseSummary) -> pa.Table:
    """Return the rows of single operations of `phase`, without operations that aggregate others."""
    return rows.filter(pc.is_in(rows["operation"], pa.array(list(phase.single), pa.string())))


def _per_second(rows: pa.Table, rate: Rate = THROUGHPUT) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the seconds (0, 1, ...) of a phase up to the last one, and the rate's count in each.

    Counts are summed over operations and segments; a second without rows has 0. Two empty arrays without rows.
    """
    second = rows["second"].to_numpy()
    if not len(second):
        return np.array([]), np.array([])
    counts = np.bincount(second, weights=rows[rate.column].to_numpy())
    return np.arange(len(counts), dtype=float), counts


def _attempts(rows: pa.Table) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the seconds (0, 1, ...) of a phase and the attempts in each.

    Attempts are finished requests, also failed ones, and retries.
    """
    second = rows["second"].to_numpy()
    counts = np.bincount(second, weights=rows["requests"].to_numpy() + rows["retries"].to_numpy())
    return np.arange(len(counts), dtype=float), counts


def _percentiles(
    rows: pa.Table, shift: float, panel: int, operation: str = "", color: str | None = None
) -> list[Trace]:
    """Return traces of p50 and p99 of one operation by second, ms.

    `rows` are the operation's seconds in one phase; `shift` is added to these. A second with two segments has the
    percentile of the larger one, a second without answers is a gap. Without `color`, the two differ in color.
    """
    rows = rows.filter(pc.is_valid(rows["response_p50"])).sort_by([("second", "ascending"), ("successes", "ascending")])
    second = rows["second"].to_numpy()
    last = np.append(second[1:] != second[:-1], True) if len(second) else np.array([], dtype=bool)
    # A second without answers is a gap: a line across it would hide an outage.
    whole = np.arange(second[0], second[-1] + 1) if len(second) else second
    traces = []
    for column, label, line in (
        ("response_p50", "p50", LineStyle(color or COLORS[2])),
        ("response_p99", "p99", LineStyle(color or COLORS[1], dash="dash")),
    ):
        values = np.full(len(whole), np.nan)
        values[second[last] - whole[:1]] = 1e3 * rows[column].to_numpy()[last]
        x = numbers(whole.astype(float) + shift)
        traces.append(
            Trace(x, numbers(values), f"{label} of {operation}" if operation else label, line, panel=panel, group=label)
        )
    return traces


#: Metrics of a machine's network traffic by their names in plots; a node with a separate link has the last two.
_TRAFFIC = {"loopback.bytes": "loopback", "network.received": "received", "network.sent": "sent"}
_HALVES = {"process.cpu_user": "user", "process.cpu_system": "system"}
_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")
#: Times, s, and values of a metric.
_Series = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def resources_over_time(run: Run, name: str, points: int | None = None, *, small: bool = False) -> Figure | None:
    """Draw the CPU of each node (cores) above, the network traffic of nodes and machines (MB/s) below.

    Return None without samples of CPU. CPU is drawn in user mode and in the kernel if the run recorded both, and in
    total for many nodes or a `small` figure, which has a short caption. Traffic that never exceeds 1 kB/s is not drawn.
    The x axis has s since the run began. `name` is the plot's identifier. A figure with more than `points` points shows
    means of windows, which its caption names; each line keeps at least eight.
    """
    cpu = _samples(run, {"process.cpu": ""})
    traffic = {
        label: series for label, series in _samples(run, _TRAFFIC).items() if series[1].max() > _TRACE_OF_TRAFFIC
    }
    if not cpu:
        return None
    halves = _samples(run, _HALVES)
    split = len(halves) == len(_HALVES) * len(cpu) <= _NAMED and not small
    if split:
        cpu = halves
    means = ""
    if points is not None and (window := _window([*cpu.values(), *traffic.values()], points)):
        cpu, traffic = ({label: _means(*it, window) for label, it in series.items()} for series in (cpu, traffic))
        means = f" Means of {window} s."
    # Panels share the legend, so their series differ in color.
    groups = ((cpu, 0, 1.0, 0), (traffic, 1, 1e-6, len(cpu)))
    traces = [
        Trace(
            numbers(times),
            numbers(values * factor),
            label,
            LineStyle(COLORS[number % len(COLORS)], 1.4, _DASHES[number // len(COLORS) % len(_DASHES)]),
            panel=panel,
            # Many nodes would fill the plot with names; the pointer shows them.
            legend=len(series) <= _NAMED,
        )
        for series, panel, factor, first in groups
        for number, (label, (times, values)) in enumerate(series.items(), first)
    ]
    traces = marked(traces)
    phases = run.summary.phases
    return Figure(
        name,
        run_axis(run, traces),
        [Panel(Axis("cores", from_zero=True)), *([Panel(Axis("MB/s", from_zero=True))] if traffic else [])],
        traces,
        means.strip()
        if small
        else f"Above: CPU of each node{', in user mode and in the kernel' if split else ''}."
        + (" Below: network traffic; on one machine, nodes and generator use loopback." if traffic else "")
        + f" Vertical lines separate the phases; warm-up is shaded.{means}",
        rules=[Rule(phase.start, color=GRID) for phase in phases],
        shades=[Shade(phase.start, phase.start + phase.warmup) for phase in phases if phase.warmup],
        follow=True,
        width=SMALL if small else Figure.width,
        height=(250 if traffic else 170) if small else 360 if traffic else 240,
    )


def _window(series: Sequence[_Series], points: int) -> int | None:
    """Return the length of the windows, s, that reduce series to `points` points; None if they have no more.

    The number of windows is at least eight.
    """
    if sum(len(times) for times, _ in series) <= points:
        return None
    begin, end = (
        pick(edge) for pick, edge in ((min, [it[0][0] for it in series]), (max, [it[0][-1] for it in series]))
    )
    return math.ceil((end - begin) / max(points // len(series), 8)) or None


def _means(times: npt.NDArray[Any], values: npt.NDArray[Any], window: int) -> _Series:
    """Return the middle of each window of `window` seconds with samples, and the mean of its values.

    Means have four significant digits.
    """
    at, place, counts = np.unique(times // window, return_inverse=True, return_counts=True)
    means = np.bincount(place, weights=values) / counts
    return (at + 0.5) * window, np.array([float(f"{mean:.4g}") for mean in means])


def _samples(run: Run, metrics: Mapping[str, str]) -> dict[str, _Series]:
    """Return label -> (times, values) of metrics of nodes and machines, sorted by label.

    Times are in s since the run began, ascending. `metrics` maps recorded metrics to their names in labels; a label is
    the node or machine and this name. Only nodes, the generator's machine (`host`) and others (`machine:NAME`) count.
    """
    telemetry = run.telemetry
    known = telemetry.filter(pc.is_in(telemetry["metric"], pa.array(list(metrics), pa.string()))).sort_by("time")
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    machines = len(pc.unique(telemetry["machine"]).drop_null())
    for row in known.to_pylist():
        kind, _, name = row["source"].partition(":")
        if kind in ("node", "host", "machine"):
            machine = name or (row["machine"] if machines > 1 else None)
            place = name if kind == "node" else f"machine {machine}" if machine else "machine"
            points[f"{place} {metrics[row['metric']]}".strip()].append((row["time"], row["value"]))
    return {
        label: (np.array([time for time, _ in of_label]), np.array([value for _, value in of_label]))
        for label, of_label in sorted(points.items())
    }


#: Percentiles of a curve: dense towards the tail.
_PERCENTS = (*range(2, 90, 4), *(90, 92, 94, 95, 96, 97, 98, 98.5, 99, 99.5, 99.7, 99.8, 99.9, 99.95, 99.99, 99.999))
#: Smallest number of requests beyond a drawn percentile.
_BEYOND = 10


def response_by_percentile(run: Run, name: str, operations: Sequence[str] | None = None) -> Figure:
    """Draw response times by percentile for each operation of the measured phases: the shape of the tail.

    `operations` selects operations, None all. `name` is the plot's identifier.
    """
    return Figure(
        name,
        # One in this many requests is slower.
        Axis("percentile", "log", ticks=[(2.0, "p50"), *((10.0**n, _percentile_name(n)) for n in range(1, 6))]),
        [Panel(Axis("response time, ms (log scale)", "log"))],
        list(_curves(run, operations)),
        "Response times of the successes in the measured windows, by percentile. Each curve ends where fewer"
        f" than {_BEYOND} requests are slower.",
    )


def _curves(run: Run, operations: Sequence[str] | None) -> Iterator[Trace]:
    """Yield a curve for each operation of the measured phases, or of all phases if none is measured.

    x is 100 / (100 - percentile), y the response time, ms. `operations` selects operations, None all. Operations
    without response times are skipped.
    """
    phases = run.summary.measured or run.summary.phases
    known = [(phase.name, name) for phase in phases for name in phase.single]
    tags = set(run.histograms.tags())
    chosen = [pair for pair in known if operations is None or pair[1] in operations]
    shown = [pair for pair in chosen if f"{pair[0]}/{pair[1]}/response" in tags]
    for index, (phase, operation) in enumerate(shown):
        histogram = run.histograms.total(f"{phase}/{operation}/response")
        percents = [p for p in _PERCENTS if histogram.count * (1 - p / 100) >= _BEYOND]
        label = operation if len({phase for phase, _ in shown}) == 1 else f"{phase}: {operation}"
        yield Trace(
            numbers([100 / (100 - percent) for percent in percents]),
            numbers([1e3 * (histogram.quantile(percent / 100) or 0.0) for percent in percents]),
            label,
            LineStyle(COLORS[index % len(COLORS)]),
        )


def _percentile_name(nines: int) -> str:
    """Return the name of the percentile with this many nines: 1 is p90, 3 is p99.9."""
    return f"p{100 - 100 / 10**nines:g}"
