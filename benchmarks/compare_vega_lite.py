"""Draw two plots of a report with own SVG and with Vega-Lite: `python -m benchmarks.compare_vega_lite`.

Prints sizes in bytes, and writes a PNG of each to lab/reports. The numbers are made up.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import vl_convert

from loadframe.report.plot import COLORS, Axis, Band, Figure, LineStyle, Panel, Trace
from loadframe.report.plot.draw import data, draw, narrow

REPORTS = Path(__file__).parents[1] / "lab" / "reports"
VERSION = "5.21"


def compare(name: str, titles: tuple[str, str], x: Sequence[float], y: Sequence[float], share: float) -> None:
    """Draw a curve with a band of this share around it."""
    low, high = [(1 - share) * value for value in y], [(1 + share) * value for value in y]
    trace = Trace(x, y, "mean", LineStyle(COLORS[0]))
    panels, band = [Panel(Axis(titles[1], from_zero=True))], Band(x, low, high, COLORS[0], "mean")
    figure = Figure(name, Axis(titles[0]), panels, [trace], "", [band], width=623)
    drawn = draw(figure)
    rows = [dict(zip(("x", "y", "low", "high"), row, strict=True)) for row in zip(x, y, low, high, strict=True)]
    across = {"field": "x", "type": "quantitative", "title": titles[0]}
    up = {"type": "quantitative", "title": titles[1]}
    area = {"x": across, "y": {"field": "low", **up}, "y2": {"field": "high"}}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 540,
        "height": 320,
        "data": {"values": rows},
        "layer": [
            {"mark": {"type": "area", "color": COLORS[0], "opacity": 0.14}, "encoding": area},
            {"mark": {"type": "line", "color": COLORS[0]}, "encoding": {"x": across, "y": {"field": "y", **up}}},
        ],
    }
    vega = vl_convert.vegalite_to_svg(spec, vl_version=VERSION)
    page = vl_convert.vegalite_to_html(spec, vl_version=VERSION, bundle=True)
    in_report = len(drawn) + len(draw(narrow(figure))) + len(data(figure))
    print(f"{name}: own SVG {len(drawn)}, Vega-Lite SVG {len(vega)}; with values {in_report} and {len(page)}")
    sized = drawn.replace("<svg ", f'<svg width="{figure.width}" height="{figure.height}" ', 1)
    for tool, svg in (("own", sized), ("vega", vega)):
        (REPORTS / f"{name}-{tool}.png").write_bytes(vl_convert.svg_to_png(svg, scale=1))


def main() -> None:
    """Draw the throughput over time and the speed-up."""
    seconds, nodes = [float(second) for second in range(60)], [1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
    rates = [round(950 + 40 * math.sin(second / 5), 1) for second in seconds]
    compare("over-time", ("seconds", "requests/s"), seconds, rates, 0.06)
    compare("speed-up", ("nodes", "speed-up"), nodes, [round(n / (1 + 0.1 * (n - 1)), 2) for n in nodes], 0.06)


if __name__ == "__main__":
    main()
