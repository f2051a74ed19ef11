"""What the store did now and then, on the time axis of a run: a row for each activity, a bar for each stretch of it.

An activity that goes on most of the time says nothing there, and is left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from loadframe.analyze.dips import doings
from loadframe.record import Run
from loadframe.report.plot import COLORS, Axis, Line, Panel, Trace

#: More of the seconds than these is most of the time; more rows than these are not drawn.
_MOST, _ROWS = 0.5, 6
#: Pixels of a row, of what is around them, and of a panel of height 1.
_ROW, _AROUND, _PANEL = 18, 26, 190


@dataclass(frozen=True)
class ActivityPanel:
    """The panel, if there is one: empty where nothing was watched that comes and goes."""

    panels: Sequence[Panel] = ()
    traces: Sequence[Trace] = ()
    height: int = 0
    words: str = ""


def store_activity(run: Run, panel: int) -> ActivityPanel:
    """Return the panel of that number (from 0) of what the store did in the measured phases of a run."""
    stretches: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for phase in run.summary.measured:
        for doing in doings(run, phase, int(phase.duration)):
            if doing.busy.mean() <= _MOST:
                stretches[doing.words] += [(phase.begin + begin, phase.begin + end) for begin, end in doing.stretches]
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
            Line(COLORS[3], 6),
            panel=panel,
            legend=False,
            hover=False,
        )
        for place, (words, bars) in zip(places, rows, strict=True)
    ]
    height = _ROW * len(rows) + _AROUND
    words = " At the bottom, bars mark seconds of measured phases in which the store did more of that than on average."
    return ActivityPanel([Panel(axis, height / _PANEL)], traces, height, words)
