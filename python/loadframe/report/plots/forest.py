"""Forest plot: effects as ratios with their intervals, a row for each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadframe.analyze.estimate import Estimate
from loadframe.report.plot import (
    COLORS,
    INK,
    SYMBOLS,
    Axis,
    Figure,
    LineStyle,
    Mark,
    Panel,
    Rule,
    Trace,
    numbers,
)

#: Ratios that span more than this factor get a logarithmic axis.
_WIDE = 4.0
#: Largest factor by which intervals extend the axis beyond the ratios; longer intervals are cut.
_BEYOND = 10.0
#: The same for inconclusive intervals, beyond the ratios and the conclusive intervals.
_BEYOND_INCONCLUSIVE = 2.0
#: Symbols of arrows, and their distance from the edge as a share of the axis.
_LEFT, _RIGHT, _INSIDE = "triangle-left", "triangle-right", 0.01
#: Half of the height of the line across a known end without a mark, in rows.
_CAP = 0.15
#: Characters that a line of a label holds on a narrow screen, and pixels of a line.
_LETTERS, _LINE = 14, 14


@dataclass(frozen=True)
class Effect:
    """A row: its label, its ratio with the interval, the text for the pointer, and the outcome that styles it.

    If any effect `is_conclusive`, the long intervals of the others are cut earlier.
    """

    label: str
    ratio: Estimate
    text: str
    outcome: str
    is_conclusive: bool = True


def forest(
    effects: Sequence[Effect],
    name: str,
    title: str,
    caption: str,
    *,
    logarithmic: bool = False,
    marks: Mapping[str, Mark] | None = None,
) -> Figure | None:
    """Draw effects as marks with intervals, and a line at 1, or return None without a positive ratio or known end.

    The axis is logarithmic with `logarithmic`, or if the ratios and intervals span more than a factor of 4. A filled
    arrow at the edge stands for a distant end of an interval, a dotted line with a hollow arrow for an unknown end.
    `marks` has the mark of each outcome; without it, outcomes get colors and symbols in order of appearance. `name` is
    the plot's identifier, `title` the title of the axis. A ratio that is not a number has a line from its known end
    without a mark, or is left out without an interval. Other ratios that are not positive and finite are left out.
    """
    shown = [effect for effect in effects if 0 < effect.ratio.value < math.inf or _is_unknown(effect)]
    values = [1.0, *(at for effect in shown if not math.isnan(at := _start(effect)))]
    if len(values) == 1:
        return None
    low, high = min(values), max(values)
    conclusive = [effect for effect in shown if effect.is_conclusive]
    others = [effect for effect in shown if not effect.is_conclusive]
    low, high = _extended(low, high, conclusive, _BEYOND)
    low, high = _extended(low, high, others, _BEYOND_INCONCLUSIVE if conclusive else _BEYOND)
    logarithmic = logarithmic or high > _WIDE * low
    margin = max(0.05 * (high - low), 0.01)
    edge = max((high / low) ** 0.05, 1.01)
    limits = (low / edge, high * edge) if logarithmic else (max(low - margin, 0), high + margin)
    outcomes = list(dict.fromkeys(effect.outcome for effect in shown))
    traces: list[Trace] = []
    for index, outcome in enumerate(outcomes):
        mark = marks[outcome] if marks else Mark(COLORS[index % len(COLORS)], SYMBOLS[index % len(SYMBOLS)], 9)
        rows = [(-float(row), effect) for row, effect in enumerate(shown) if effect.outcome == outcome]
        marked = [(y, effect) for y, effect in rows if not math.isnan(effect.ratio.value)]
        if marked:
            traces.append(
                Trace(
                    numbers([effect.ratio.value for _, effect in marked]),
                    numbers([y for y, _ in marked]),
                    outcome,
                    mark=mark,
                    texts=[effect.text for _, effect in marked],
                )
            )
        # Over the marks, which would hide short intervals.
        traces += _intervals(rows, limits, mark.color, outcome, logarithmic=logarithmic)
    ticks = [(-float(row), effect.label) for row, effect in enumerate(shown)]
    lines = max(math.ceil(len(effect.label) / _LETTERS) for effect in shown)
    return Figure(
        name,
        Axis(f"{title}{' (log scale)' if logarithmic else ''}", "log" if logarithmic else "linear", range=limits),
        [Panel(Axis("", range=(0.6 - len(shown), 0.6), ticks=ticks, grid=False))],
        traces,
        caption + _arrows_text(traces),
        rules=[Rule(1)],
        height=90 + len(shown) * max(_LINE * lines + 8, 26),
    )


def _extended(low: float, high: float, effects: Sequence[Effect], factor: float) -> tuple[float, float]:
    """Extend the range from `low` to `high` by the ends of intervals that are beyond it by at most `factor`."""
    ends = [end for effect in effects for end in (effect.ratio.low, effect.ratio.high)]
    within = [end for end in ends if low / factor <= end <= high * factor]
    return min([low, *within]), max([high, *within])


def _is_unknown(effect: Effect) -> bool:
    """Return whether an effect has an interval, but a ratio that is not a number."""
    return math.isnan(effect.ratio.value) and effect.ratio.low < effect.ratio.high


def _start(effect: Effect) -> float:
    """Return where the parts of an interval meet: at the ratio, or without one at a known end; else not a number."""
    if not math.isnan(effect.ratio.value):
        return effect.ratio.value
    return next((end for end in (effect.ratio.low, effect.ratio.high) if 0 < end < math.inf), math.nan)


def _intervals(
    rows: Sequence[tuple[float, Effect]], limits: tuple[float, float], color: str, outcome: str, *, logarithmic: bool
) -> Iterator[Trace]:
    """Yield the intervals of an outcome: known parts, parts to unknown ends, known ends, arrows at the axis' edges.

    `rows` are the y and effect of each row, and `limits` the ends of the axis, which is `logarithmic` or linear. A low
    end of 0 or less and an infinite high end are unknown. `color` is the color of arrows.
    """
    known: list[tuple[float, float, float]] = []
    unknown: list[tuple[float, float, float]] = []
    caps: list[tuple[float, float]] = []
    arrows: dict[tuple[str, bool], list[tuple[float, Effect]]] = {}
    for y, effect in rows:
        value, low, high = _start(effect), effect.ratio.low, effect.ratio.high
        if not low < high:
            continue
        if math.isnan(value):
            value = 1.0
        elif math.isnan(effect.ratio.value):
            caps.append((y, value))
        for left, end, edge in ((True, low, limits[0]), (False, high, limits[1])):
            is_unknown = end <= 0 if left else math.isinf(end)
            beyond = end < edge if left else end > edge
            if is_unknown:
                unknown.append((y, edge, value))
            if is_unknown or beyond:
                arrows.setdefault((_LEFT if left else _RIGHT, is_unknown), []).append((y, effect))
        ends = (value if low <= 0 else max(low, limits[0]), value if math.isinf(high) else min(high, limits[1]))
        if ends[0] < ends[1]:
            known.append((y, *ends))
    for parts, line in ((known, LineStyle(INK, 1.5)), (unknown, LineStyle(INK, 1.5, "dot"))):
        if parts:
            xs = [x for _, *pair in parts for x in (*sorted(pair), None)]
            ys = [at for y, *_ in parts for at in (y, y, None)]
            yield Trace(xs, ys, line=line, group=outcome, legend=False, hover=False)
    if caps:
        xs = [x for _, at in caps for x in (at, at, None)]
        ys = [end for y, _ in caps for end in (y - _CAP, y + _CAP, None)]
        yield Trace(xs, ys, line=LineStyle(INK, 1.5), group=outcome, legend=False, hover=False)
    for (symbol, is_unknown), ended in arrows.items():
        inside = _INSIDE if symbol == _LEFT else 1 - _INSIDE
        low, high = limits
        at = low * (high / low) ** inside if logarithmic else low + inside * (high - low)
        yield Trace(
            numbers([at] * len(ended)),
            numbers([y for y, _ in ended]),
            mark=Mark(color, symbol, 9, hollow=is_unknown),
            texts=[effect.text for _, effect in ended],
            group=outcome,
            legend=False,
        )


def _arrows_text(traces: Sequence[Trace]) -> str:
    """Return sentences that explain the arrows among the traces, each with a space before it; empty without arrows."""
    kinds = {trace.mark.hollow for trace in traces if trace.mark and trace.mark.symbol in (_LEFT, _RIGHT)}
    words = " A filled arrow: the interval ends beyond the axis." if False in kinds else ""
    return words + (" A dotted line with a hollow arrow: this end of the interval is unknown." if True in kinds else "")
