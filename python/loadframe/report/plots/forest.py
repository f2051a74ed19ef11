"""Forest plot: effects as ratios with their intervals, a row for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadframe.analyze.estimate import Estimate
from loadframe.report.plot import COLORS, MUTED, SYMBOLS, Axis, Figure, LineStyle, Mark, Panel, Rule, Trace, numbers

#: Ratios that span more than this factor get a logarithmic axis.
_WIDE = 4.0
#: Largest factor by which intervals extend the axis beyond the ratios; longer intervals are cut.
_BEYOND = 10.0
#: Characters that a line of a label holds on a narrow screen, and pixels of a line.
_LETTERS, _LINE = 14, 14


@dataclass(frozen=True)
class Effect:
    """A row: its label, its ratio with the interval, the text for the pointer, and the outcome that styles it."""

    label: str
    ratio: Estimate
    text: str
    outcome: str


def forest(
    effects: Sequence[Effect], name: str, title: str, caption: str, *, logarithmic: bool = False
) -> Figure | None:
    """Draw effects as marks with intervals, and a line at 1; None without a positive ratio.

    The axis is logarithmic with `logarithmic`, or if the ratios and intervals span more than a factor of 4. An interval
    without an end, or with a distant one, reaches the edge; an unknown interval reaches both edges.
    """
    shown = [effect for effect in effects if 0 < effect.ratio.value < math.inf]
    if not shown:
        return None
    values = [1.0, *(effect.ratio.value for effect in shown)]
    least, most = min(values) / _BEYOND, max(values) * _BEYOND
    ends = [end for effect in shown for end in (effect.ratio.low, effect.ratio.high) if least <= end <= most]
    low, high = min(*values, *ends), max(*values, *ends)
    logarithmic = logarithmic or high > _WIDE * low
    margin = max(0.05 * (high - low), 0.01)
    edge = max((high / low) ** 0.05, 1.01)
    limits = (low / edge, high * edge) if logarithmic else (max(low - margin, 0), high + margin)
    outcomes = list(dict.fromkeys(effect.outcome for effect in shown))
    traces = []
    for index, outcome in enumerate(outcomes):
        color = COLORS[index % len(COLORS)]
        rows = [(-float(row), effect) for row, effect in enumerate(shown) if effect.outcome == outcome]
        bars = [(y, effect.ratio) for y, effect in rows if effect.ratio.low < effect.ratio.high]
        if bars:
            traces.append(
                Trace(
                    [x for _, ratio in bars for x in (max(ratio.low, limits[0]), min(ratio.high, limits[1]), None)],
                    [at for y, _ in bars for at in (y, y, None)],
                    line=LineStyle(color, 2),
                    group=outcome,
                    legend=False,
                    hover=False,
                )
            )
        traces.append(
            Trace(
                numbers([effect.ratio.value for _, effect in rows]),
                numbers([y for y, _ in rows]),
                outcome,
                mark=Mark(color, SYMBOLS[index % len(SYMBOLS)], 9),
                texts=[effect.text for _, effect in rows],
            )
        )
    ticks = [(-float(row), effect.label) for row, effect in enumerate(shown)]
    lines = max(math.ceil(len(effect.label) / _LETTERS) for effect in shown)
    return Figure(
        name,
        Axis(f"{title}{' (log scale)' if logarithmic else ''}", "log" if logarithmic else "linear", range=limits),
        [Panel(Axis("", range=(0.6 - len(shown), 0.6), ticks=ticks, grid=False))],
        traces,
        caption,
        rules=[Rule(1, color=MUTED)],
        height=90 + len(shown) * max(_LINE * lines + 8, 26),
    )
