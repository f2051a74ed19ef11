"""Drawing of figures as SVG."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import Any

from loadframe.base.untrusted import printable
from loadframe.report.plot.figure import (
    GRID,
    INK,
    MUTED,
    SMALL,
    Axis,
    Band,
    Figure,
    LineStyle,
    Mark,
    Panel,
    Scale,
    Trace,
    scale,
    ticks,
)

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TEXT, _SMALL = 13, 12
#: Size of a title that is longer than its axis.
_LEAST_TEXT = 10
#: Distance of two lines of one text.
_LINE = 14
#: Maximum width of the labels of a y axis, as a share of the figure.
_LABELS = 0.32
#: Widths in ems of a letter (mean of wide fonts) and of a digit.
_LETTER = 0.56
_GAP = 18
_RIGHT, _BOTTOM = 14, 46
_LEGEND_ROW, _SWATCH = 20, 30
#: Length in pixels of the dash for a single value between two gaps.
_DASH = 4.0
_DASHES = {"solid": "", "dash": "7 4", "dot": "2 3"}
_SLANT = 35
#: Points of the outline of each symbol, for a diameter of 2.
_OUTLINES: dict[str, Sequence[tuple[float, float]]] = {
    "square": ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    "diamond": ((0, -1.15), (1.15, 0), (0, 1.15), (-1.15, 0)),
    "triangle-up": ((0, -1.1), (1.05, 0.8), (-1.05, 0.8)),
    "triangle-down": ((0, 1.1), (1.05, -0.8), (-1.05, -0.8)),
    "triangle-left": ((-1.1, 0), (0.8, 1.05), (0.8, -1.05)),
    "triangle-right": ((1.1, 0), (-0.8, 1.05), (-0.8, -1.05)),
    "star": tuple(
        (radius * math.sin(math.pi * i / 5), -radius * math.cos(math.pi * i / 5))
        for i, radius in enumerate((1.25, 0.5) * 5)
    ),
    "plus": (
        (-0.4, -1.15), (0.4, -1.15), (0.4, -0.4), (1.15, -0.4), (1.15, 0.4), (0.4, 0.4),
        (0.4, 1.15), (-0.4, 1.15), (-0.4, 0.4), (-1.15, 0.4), (-1.15, -0.4), (-0.4, -0.4),
    ),
    "bar": ((-0.4, -1.2), (0.4, -1.2), (0.4, 1.2), (-0.4, 1.2)),
    "pentagon": tuple((math.sin(2 * math.pi * i / 5), -math.cos(2 * math.pi * i / 5)) for i in range(5)),
    "hexagon": tuple((math.cos(math.pi * i / 3), math.sin(math.pi * i / 3)) for i in range(6)),
}  # fmt: skip


@dataclass(frozen=True)
class _Frame:
    """Layout of a figure: the x scale, a y scale for each panel, and the top of the first panel in pixels."""

    x: Scale
    y: Sequence[Scale]
    top: float


def draw(figure: Figure, font: str = _FONT) -> str:
    """Return the figure as an SVG element, which is higher than `figure.height` if texts need more lines.

    `font` is a CSS font-family.
    """
    figure = _fitted(figure)
    frame = _frame(figure)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {figure.width} {figure.height}" role="img"'
        f' aria-label="{_escape(figure.caption or figure.name)}" font-family="{_escape(font)}" font-size="{_SMALL}"'
        f' fill="{INK}">',
        *_behind(figure, frame),
        *_x_axis(figure, frame),
        *(part for index, panel in enumerate(figure.panels) for part in _panel(figure, frame, index, panel)),
        *_legend(figure),
        *_labels(figure, frame),
        "</svg>",
    ]
    return "".join(parts)


def data(figure: Figure) -> str:
    """Return the data for the page's pointer script, as JSON in which `<` is escaped for a script element.

    `narrow` has the axes of the copy of the figure for narrow screens, which small figures lack. ValueError for a
    number that is not finite.
    """
    document = {
        **_axes(figure),
        "follow": figure.follow,
        **({} if figure.width <= SMALL else {"narrow": _axes(narrow(figure))}),
        "labels": [label.text for label in figure.labels],
        "rules": [rule.at for rule in figure.rules],
        "traces": [_trace_data(trace) for trace in figure.traces],
    }  # fmt: skip
    return json.dumps(_printable(document), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def narrow(figure: Figure) -> Figure:
    """Return the copy of a figure for narrow screens: at most 360 pixels wide, its name followed by `-narrow`."""
    return replace(figure.narrowed(SMALL), name=f"{figure.name}-narrow")


def _axes(figure: Figure) -> dict[str, Any]:
    """Return size (pixels), x axis and panels of a figure for the pointer script."""
    figure = _fitted(figure)
    frame = _frame(figure)
    panels = [{"title": panel.y.title, **_placed(y)} for panel, y in zip(figure.panels, frame.y, strict=True)]
    x = {"title": figure.x.title, **_placed(frame.x)}
    return {"width": figure.width, "height": figure.height, "x": x, "panels": panels}


def _fitted(figure: Figure) -> Figure:
    """Return the figure with the height that further rows of its legend and longer texts below it need."""
    rows = max(len(_legend_rows(figure)) - 1, 0)
    return replace(figure, height=figure.height + round(_LEGEND_ROW * rows + _bottom(figure) - _BOTTOM))


def _escape(words: str) -> str:
    """Escape text for an element or attribute, and remove control characters and direction marks."""
    return escape(printable(words))


def _printable(value: Any) -> Any:
    """Return a copy of `value` with control characters and direction marks removed from all strings inside it.

    Keys of dictionaries stay; tuples become lists.
    """
    match value:
        case str():
            return printable(value)
        case dict():
            return {key: _printable(below) for key, below in value.items()}
        case list() | tuple():
            return [_printable(below) for below in value]
        case _:
            return value


def _trace_data(trace: Trace) -> dict[str, Any]:
    """Return name, color and points of a trace for the pointer script."""
    color = (trace.mark or trace.line or LineStyle(INK)).color
    told: dict[str, Any] = {"name": trace.name, "group": trace.group or trace.name, "color": color}
    told |= {"panel": trace.panel, "x": list(trace.x), "y": list(trace.y)}
    if trace.texts:
        told["texts"] = list(trace.texts)
    if not trace.hover:
        told["hover"] = False
    return told


def _placed(over: Scale) -> dict[str, Any]:
    """Return a scale for the pointer script: the pixels and values of its ends, and its categories if it has any.

    On a logarithmic scale, the values are decimal logarithms.
    """
    edges = [round(edge, 2) for edge in (over.start, over.end)]
    placed: dict[str, Any] = {"pixels": edges, "values": [over.low, over.high], "log": over.log}
    return {**placed, "categories": list(over.categories)} if over.categories else placed


def _frame(figure: Figure) -> _Frame:
    """Return the layout: panels below the legend and the labels, and right of the widest tick."""
    top = 8.0 + _LEGEND_ROW * len(_legend_rows(figure)) + _label_height(figure)
    height = figure.height - _bottom(figure) - top - _GAP * (len(figure.panels) - 1)
    total = sum(panel.height for panel in figure.panels)
    y_scales = []
    edge = top
    for index, panel in enumerate(figure.panels):
        end = edge + height * panel.height / total
        y_scales.append(scale(panel.y, _y_values(figure, index), end, edge))
        edge = end + _GAP
    widest = max(
        (
            _width(line)
            for panel, y in zip(figure.panels, y_scales, strict=True)
            for _, label in _y_ticks(panel.y, y)
            for line in _lines(label, _label_room(figure))
        ),
        default=0.0,
    )
    left = 12 + widest + (22 if any(panel.y.title for panel in figure.panels) else 0)
    return _Frame(scale(figure.x, _x_values(figure), left, figure.width - _RIGHT), y_scales, top)


def _label_room(figure: Figure) -> float:
    """Return the width for the labels of the y axes, pixels; longer labels get several lines."""
    return _LABELS * figure.width


def _slants_categories(figure: Figure) -> bool:
    """Return whether the names of categories on the x axis are too wide to stand side by side, and must be slanted.

    False for other axes.
    """
    if figure.x.kind != "category":
        return False
    categories = scale(figure.x, _x_values(figure), 0, 1).categories
    room = (figure.width - 80) / max(len(categories), 1)
    return any(_width(name) + 8 > room for name in categories)


def _bottom(figure: Figure) -> float:
    """Return the height of the texts below the panels, pixels: ticks, labels and title of the x axis."""
    bottom: float = _BOTTOM + _LINE * (len(_lines(figure.x.title, figure.width - 90, _TEXT)) - 1)
    if _slants_categories(figure):
        categories = scale(figure.x, _x_values(figure), 0, 1).categories
        bottom += max(_width(name) for name in categories) * math.sin(math.radians(_SLANT))
    return float(round(bottom))


def _x_values(figure: Figure) -> Iterator[float | str | None]:
    """Yield the x of all points of the traces and bands of a figure. Gaps are None."""
    for trace in figure.traces:
        yield from trace.x
    for band in figure.bands:
        yield from band.x


def _y_values(figure: Figure, panel: int) -> Iterator[float | None]:
    """Yield the y of all traces, error bars and bands in a panel, and of rules in the first panel."""
    for trace in figure.traces:
        if trace.panel == panel:
            yield from (*trace.y, *trace.low, *trace.high)
    for band in figure.bands:
        if band.panel == panel:
            yield from (*band.low, *band.high)
    if panel == 0:
        yield from (rule.at for rule in figure.rules if rule.over == "y")


def _y_ticks(axis: Axis, y: Scale) -> list[tuple[float | str, str]]:
    """Return the ticks (value, label) of a y axis, about 38 pixels apart, unless the axis gives its ticks."""
    return ticks(axis, y, max(2, round((y.start - y.end) / 38)))


def _behind(figure: Figure, frame: _Frame) -> Iterator[str]:
    """Yield the SVG elements behind all panels: shaded ranges, and rules at an x."""
    bottom = frame.y[-1].start
    for shade in figure.shades:
        start, end = (frame.x.pixel(edge) for edge in (shade.start, shade.end))
        if start is not None and end is not None:
            yield (
                f'<rect x="{_n(start)}" y="{_n(frame.top)}" width="{_n(end - start)}" height="{_n(bottom - frame.top)}"'
                ' fill="#f0f0f0"/>'
            )
    for rule in figure.rules:
        place = frame.x.pixel(rule.at) if rule.over == "x" else None
        if place is not None:
            yield _straight(place, frame.top, place, bottom, rule.color, dash=_DASHES[rule.dash])


def _panel(figure: Figure, frame: _Frame, index: int, panel: Panel) -> Iterator[str]:
    """Yield the SVG elements of the panel number `index`: y axis with grid, rules at a y, bands and traces."""
    y, left, right = frame.y[index], frame.x.start, frame.x.end
    for value, label in _y_ticks(panel.y, y):
        place = y.pixel(value)
        if place is not None:
            if panel.y.grid:
                yield _straight(left, place, right, place, GRID)
            lines = _lines(label, _label_room(figure))
            above = (len(lines) - 1) * _LINE / 2
            for number, line in enumerate(lines):
                yield _text(left - 6, place + 4 - above + _LINE * number, line, anchor="end")
    if panel.y.title:
        middle = (y.start + y.end) / 2
        # A title that is longer than its panel gets the smallest text that still can be read.
        small = _width(panel.y.title, _TEXT) > y.start - y.end + _GAP
        size = _LEAST_TEXT if small else _TEXT
        yield _text(13, middle, panel.y.title, anchor="middle", turn=(-90, 13, middle), size=size)
    yield _straight(left, y.end, left, y.start, MUTED)
    if index == 0:
        for rule in figure.rules:
            place = y.pixel(rule.at) if rule.over == "y" else None
            if place is not None:
                yield _straight(left, place, right, place, rule.color, dash=_DASHES[rule.dash])
    clip = f"{figure.name}-{index}"
    yield (
        f'<clipPath id="{_escape(clip)}"><rect x="{_n(left - 7)}" y="{_n(y.end - 7)}" width="{_n(right - left + 14)}"'
        f' height="{_n(y.start - y.end + 14)}"/></clipPath><g clip-path="url(#{_escape(clip)})">'
    )
    yield from (_area(band, frame) for band in figure.bands if band.panel == index)
    yield from (_trace(trace, frame) for trace in figure.traces if trace.panel == index)
    yield "</g>"


def _x_axis(figure: Figure, frame: _Frame) -> Iterator[str]:
    """Yield the SVG elements of the x axis: line, ticks, labels, title, and grid lines in all panels."""
    bottom, left, right = frame.y[-1].start, frame.x.start, frame.x.end
    yield _straight(left, bottom, right, bottom, MUTED)
    slants = _slants_categories(figure)
    taken = -math.inf
    for value, label in ticks(figure.x, frame.x, max(2, round((right - left) / 80))):
        place = frame.x.pixel(value)
        if place is not None:
            yield _straight(place, bottom, place, bottom + 5, MUTED)
            if slants:
                yield _text(place + 4, bottom + 16, label, anchor="end", turn=(-_SLANT, place + 4, bottom + 16))
            elif place - _width(label) / 2 > taken:
                # Given ticks may be closer than their labels.
                yield _text(place, bottom + 18, label, anchor="middle")
                taken = place + _width(label) / 2 + 4
            if figure.x.grid and not frame.x.categories:
                yield from (_straight(place, y.end, place, y.start, GRID) for y in frame.y)
    lines = _lines(figure.x.title, figure.width - 90, _TEXT)
    y = figure.height - 8 - _LINE * (len(lines) - 1)
    for number, line in enumerate(lines):
        yield _text((left + right) / 2, y + _LINE * number, line, anchor="middle", size=_TEXT)


def _area(band: Band, frame: _Frame) -> str:
    """Return the SVG polygon of a band; points with a gap or without a pixel are left out."""
    y = frame.y[band.panel]
    edges = []
    for x, low, high in zip(band.x, band.low, band.high, strict=True):
        if x is not None and low is not None and high is not None:
            place, bottom, top = frame.x.pixel(x), y.pixel(low), y.pixel(high)
            if place is not None and bottom is not None and top is not None:
                edges.append((place, bottom, top))
    lower = [f"{_n(x)},{_n(low)}" for x, low, _ in edges]
    upper = [f"{_n(x)},{_n(high)}" for x, _, high in reversed(edges)]
    group = _escape(band.group)
    return f'<polygon data-group="{group}" points="{" ".join(lower + upper)}" fill="{band.color}" fill-opacity=".14"/>'


def _trace(trace: Trace, frame: _Frame) -> str:
    """Return the SVG group of a trace: its line, marks and error bars. Error bars need marks."""
    y = frame.y[trace.panel]
    places = [
        (None if at is None else frame.x.pixel(at), None if value is None else y.pixel(value))
        for at, value in zip(trace.x, trace.y, strict=True)
    ]
    parts = [f'<g data-group="{_escape(trace.group or trace.name)}">']
    if trace.line:
        parts.append(_path(places, trace.line))
    if trace.low and trace.mark:
        parts += _bars(trace, places, y, trace.mark, hidden=False)
    if trace.mark:
        parts += [_mark(*place, trace.mark) for place in places if None not in place]
    if trace.low and trace.mark:
        parts += _bars(trace, places, y, trace.mark, hidden=True)
    return "".join([*parts, "</g>"])


def _path(places: Iterable[tuple[float | None, float | None]], line: LineStyle) -> str:
    """Return the SVG path of a line through places (x, y) in pixels, with a gap at None.

    A single place between two gaps becomes a short dash.
    """
    steps: list[str] = []
    drawing = False
    points = [*places, (None, None)]
    for (x, y), after in pairwise(points):
        if x is None or y is None:
            drawing = False
            continue
        if not drawing and None in after:
            # Draw a dash for a single value between two gaps.
            steps.append(f"M{_n(x - _DASH / 2)} {_n(y)}h{_n(_DASH)}")
        elif drawing and line.steps:
            steps.append(f"H{_n(x)}V{_n(y)}")
        else:
            steps.append(f"{'L' if drawing else 'M'}{_n(x)} {_n(y)}")
        drawing = True
    dash = f' stroke-dasharray="{_DASHES[line.dash]}"' if _DASHES[line.dash] else ""
    return (
        f'<path d="{"".join(steps)}" fill="none" stroke="{line.color}" stroke-width="{line.width:g}"'
        f' stroke-linejoin="round"{dash}/>'
    )


def _bars(
    trace: Trace, places: Iterable[tuple[float | None, float | None]], y: Scale, mark: Mark, *, hidden: bool
) -> Iterator[str]:  # fmt: skip
    """Yield the SVG lines of error bars: with `hidden`, those with an end that a mark would hide, else all others.

    `places` are the pixels of the marks, None for a gap; `y` converts the ends to pixels. Hidden bars contrast with
    marks.
    """
    for (x, at), low, high in zip(places, trace.low, trace.high, strict=True):
        if x is None or at is None or low is None or high is None:
            continue
        # A logarithmic axis has no place for an end of 0: the bar then reaches the axis, without a cap.
        caps = [y.pixel(end) for end in (low, high)]
        ends = [y.start if place is None else place for place in caps]
        if ends[0] == ends[1]:
            continue
        if (min(abs(ends[0] - at), abs(ends[1] - at)) < mark.size / 2) == hidden:
            color = INK if hidden else mark.color
            yield _straight(x, ends[0], x, ends[1], color, width=1.5)
            yield from (_straight(x - 4, place, x + 4, place, color, width=1.5) for place in caps if place is not None)


def _mark(x: float | None, y: float | None, mark: Mark) -> str:
    """Return the SVG element of a symbol with its center at (x, y) in pixels. A coordinate of None counts as 0."""
    x, y, radius = x or 0.0, y or 0.0, mark.size / 2
    if mark.symbol == "x":
        ends = f"M{_n(x - radius)} {_n(y - radius)}L{_n(x + radius)} {_n(y + radius)}"
        other = f"M{_n(x - radius)} {_n(y + radius)}L{_n(x + radius)} {_n(y - radius)}"
        return f'<path d="{ends}{other}" stroke="{mark.color}" stroke-width="2" fill="none"/>'
    paint = f'fill="white" stroke="{mark.color}" stroke-width="1.7"' if mark.hollow else (
        f'fill="{mark.color}" stroke="white" stroke-width=".8"')  # fmt: skip
    if mark.opacity < 1:
        paint += f' fill-opacity="{mark.opacity:g}"'
    if mark.symbol == "circle":
        return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{radius:g}" {paint}/>'
    points = " ".join(f"{_n(x + radius * dx)},{_n(y + radius * dy)}" for dx, dy in _OUTLINES[mark.symbol])
    return f'<polygon points="{points}" {paint}/>'


def _legend_rows(figure: Figure) -> list[list[Trace]]:
    """Return the traces of the legend, the first of each name, in rows that fit the width of the figure.

    Traces without a name, a legend or a value are left out.
    """
    named: dict[str, Trace] = {}
    for trace in figure.traces:
        if trace.legend and trace.name and any(value is not None for value in trace.y):
            named.setdefault(trace.name, trace)
    rows: list[list[Trace]] = []
    room = 0.0
    for trace in named.values():
        wanted = _legend_width(figure, trace)
        if not rows or wanted > room:
            rows.append([])
            room = figure.width - 2.0 * _RIGHT
        rows[-1].append(trace)
        room -= wanted
    return rows


def _legend_width(figure: Figure, trace: Trace) -> float:
    """Return the width of a trace's entry in the legend, pixels."""
    return _SWATCH + _width(_legend_name(figure, trace)) + 18


def _legend_name(figure: Figure, trace: Trace) -> str:
    """Return the name of a trace, cut with an ellipsis to the width of the figure."""
    return _shortened(trace.name, int((figure.width - 2 * _RIGHT - _SWATCH) / (_LETTER * _SMALL)))


def _legend(figure: Figure) -> Iterator[str]:
    """Yield the SVG elements of the legend above the panels: a sample of line and mark, and the name, of each trace."""
    for number, row in enumerate(_legend_rows(figure)):
        x, y = float(_RIGHT), 14.0 + _LEGEND_ROW * number
        for trace in row:
            yield f'<g class="key" data-key="{_escape(trace.group or trace.name)}">'
            if trace.line:
                yield _path([(x, y), (x + 24, y)], LineStyle(trace.line.color, trace.line.width, trace.line.dash))
            if trace.mark:
                yield _mark(x + 12, y, trace.mark)
            yield _text(x + _SWATCH, y + 4, _legend_name(figure, trace))
            yield "</g>"
            x += _legend_width(figure, trace)


def _label_height(figure: Figure) -> float:
    """Return the height of the labels above the first panel, pixels; 0 without labels."""
    if not figure.labels:
        return 0.0
    longest = max(_width(label.text) for label in figure.labels)
    return 12 + (longest * math.sin(math.radians(_SLANT)) if _slants_labels(figure) else 10)


def _slants_labels(figure: Figure) -> bool:
    """Return whether the labels above the first panel are slanted: on request, or if they would not fit in a row."""
    if figure.slanted:
        return True
    x = scale(figure.x, _x_values(figure), 80, figure.width - _RIGHT)
    ends = sorted(
        (place - _width(label.text) / 2, place + _width(label.text) / 2)
        for label in figure.labels
        if (place := x.pixel(label.at)) is not None
    )
    return any(end > start for (_, end), (start, _) in pairwise(ends)) or any(end > figure.width for _, end in ends)


def _labels(figure: Figure, frame: _Frame) -> Iterator[str]:
    """Yield the SVG texts of the labels above the first panel; slanted labels that would overlap are left out."""
    y = frame.top - 6
    slants = _slants_labels(figure)
    taken = -math.inf
    for label in sorted(figure.labels, key=lambda label: label.at):
        x = frame.x.pixel(label.at)
        if x is not None and slants:
            if x < taken:
                # No room: the pointer shows its name.
                continue
            taken = x + _SMALL / math.sin(math.radians(_SLANT))
            # Text that would exceed the figure is right-aligned instead.
            fits = x + _width(label.text) * math.cos(math.radians(_SLANT)) <= figure.width
            turn = -_SLANT if fits else _SLANT
            yield _text(x, y, label.text, anchor="start" if fits else "end", turn=(turn, x, y), color=MUTED)
        elif x is not None:
            yield _text(x, y, label.text, anchor="middle", color=MUTED)


def _straight(x1: float, y1: float, x2: float, y2: float, color: str, *, width: float = 1, dash: str = "") -> str:
    """Return the SVG element of a straight line between two points in pixels; `dash` is its stroke-dasharray."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
    return f'<line {ends} stroke="{color}" stroke-width="{width:g}"{dashes}/>'


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    turn: tuple[float, float, float] | None = None,
    color: str = "",
    size: int = _SMALL,
) -> str:
    """Return the SVG element of a text, escaped here, at a point in pixels.

    `anchor` is start, middle or end. `turn` is an angle in degrees, clockwise, and the center of the rotation in
    pixels. `size` is in pixels; an empty `color` selects the color of the figure.
    """
    more = f' text-anchor="{anchor}"' if anchor != "start" else ""
    if turn:
        more += f' transform="rotate({turn[0]:g} {_n(turn[1])} {_n(turn[2])})"'
    if color:
        more += f' fill="{color}"'
    if size != _SMALL:
        more += f' font-size="{size}"'
    return f'<text x="{_n(x)}" y="{_n(y)}"{more}>{_escape(words)}</text>'


def _width(words: str, size: int = _SMALL) -> float:
    """Estimate the width, in pixels, of a text in a font of `size` pixels."""
    return _LETTER * size * len(words)


def _lines(words: str, room: float, size: int = _SMALL) -> list[str]:
    """Break a text into lines of at most `room` pixels in a font of `size` pixels; longer words are shortened.

    Return one empty line for an empty text.
    """
    most = max(int(room / (_LETTER * size)), 4)
    return [_shortened(line, most) for line in wrap(words, most, break_long_words=False)] or [""]


def _shortened(words: str, most: int) -> str:
    """Return a text, cut to `most` characters. The last character of a cut text is an ellipsis."""
    return words if len(words) <= most else f"{words[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def _n(value: float) -> str:
    """Return a coordinate in pixels as text with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
