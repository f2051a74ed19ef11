"""Plots: scales and ticks of axes, and the handling of missing, out-of-range or hostile values."""

import json
import math
import re
import xml.etree.ElementTree as ET

import pytest

from loadframe.analyze.estimate import Estimate
from loadframe.report.plot import (
    Axis,
    Band,
    Figure,
    Label,
    LineStyle,
    Mark,
    Panel,
    Rule,
    Trace,
    bar_ends,
    half_bars_text,
    level_ticks,
    logarithmic,
    spread,
)
from loadframe.report.plot.draw import data, draw, narrow
from loadframe.report.plot.figure import scale, ticks

NAMESPACE = "{http://www.w3.org/2000/svg}"


def figure(*traces, x=None, y=None, **parts):
    return Figure("f", x or Axis("x"), [Panel(y or Axis("y"))], traces, "A caption.", **parts)


def drawn(of):
    return ET.fromstring(draw(of))


def shapes(of, tag):
    return list(drawn(of).iter(NAMESPACE + tag))


@pytest.mark.parametrize(
    ("axis", "values", "labels"),
    [
        (Axis("a", from_zero=True), (3, 970), ["0", "200", "400", "600", "800", "1,000"]),
        (Axis("a"), (-2, 2), ["−2", "−1", "0", "1", "2"]),
        (Axis("a", whole=True), (1, 3), ["1", "2", "3"]),
        (Axis("a", "log"), (2, 900), ["2", "5", "10", "20", "50", "100", "200", "500", "1,000"]),
        (Axis("a", "log"), (23, 28), ["20", "22.5", "25", "27.5", "30", "32.5"]),
        (Axis("a", "log", whole=True), (1, 3), ["1", "2", "3"]),
        (Axis("a", "log"), (1e-3, 1e7), ["0.001", "0.1", "10", "1,000", "100,000", "10,000,000"]),
        (Axis("a", "category"), ("low", "high", "low"), ["low", "high"]),
        (Axis("a", range=(0, 1), ticks=[(0.5, "half"), (2, "two")]), (), ["half"]),
    ],
    ids=["from-zero", "negative", "whole", "log", "narrow-log", "whole-log", "wide-log", "category", "given"],
)
def test_ticks_are_round_and_lie_on_the_axis(axis, values, labels):
    over = scale(axis, values, 0, 400)
    assert [label for _, label in ticks(axis, over, 6)] == labels
    assert all(0 <= over.pixel(value) <= 400 for value, _ in ticks(axis, over, 6))


@pytest.mark.parametrize(
    ("levels", "labels"),
    [
        ((1, 2, 3), ["0", "1", "2", "3"]),
        ((1, 2), ["0", "1", "2"]),
        ((16, 4, 64, 64), ["0", "4", "16", "64"]),
        ((0.5, 1.5), ["0", "0.5", "1.5"]),
        (range(1, 500, 50), ["0", "100", "200", "300", "400"]),
    ],
)
def test_an_axis_has_ticks_at_few_measured_levels(levels, labels):
    axis = Axis("a", from_zero=True, ticks=level_ticks(levels))
    assert [label for _, label in ticks(axis, scale(axis, levels, 0, 400), 5)] == labels


def test_each_value_lies_on_the_axis_that_was_made_for_it():
    for axis in (Axis("a"), Axis("a", from_zero=True), Axis("a", "log")):
        for values in ((5,), (1, 1000), (0.002, 0.003)):
            over = scale(axis, values, 300, 10)
            assert all(10 <= over.pixel(value) <= 300 for value in values)


def test_logarithmic_axes_omit_zero():
    assert scale(Axis("a", "log"), (1, 10), 0, 100).pixel(0) is None
    assert len(shapes(figure(Trace([1, 2, 3], [0, 1, 10], mark=Mark("red")), y=Axis("y", "log")), "circle")) == 2


def test_an_error_bar_with_an_end_of_zero_reaches_a_logarithmic_axis():
    red = Mark("red", size=2)
    trace = Trace([1, 2], [5, 50], mark=red, low=[0, 40], high=[10, 60])
    bars = [line for line in shapes(figure(trace, y=Axis("y", "log")), "line") if line.get("stroke") == "red"]
    upright = [line for line in bars if line.get("x1") == line.get("x2")]
    assert (len(upright), len(bars)) == (2, 5), "both marks have a bar; the end of 0 has no cap"
    assert float(upright[0].get("y1")) > float(upright[1].get("y1")) > float(upright[1].get("y2"))


def test_values_that_differ_by_more_than_a_decade_get_a_logarithmic_axis():
    assert spread(Axis("y"), [1, None, 11]).kind == "log"
    assert spread(Axis("y"), [2, 11]) == Axis("y", from_zero=True)
    assert logarithmic("y", [None, 0]).kind == "linear"


def test_a_line_is_interrupted_where_a_value_is_missing():
    (path,) = shapes(figure(Trace([1, 2, 3, 4, 5], [1, 2, None, 2, 1], line=LineStyle("red"))), "path")
    assert re.sub(r"[^A-Z]", "", path.get("d")) == "MLML"


def test_a_value_between_two_gaps_is_a_dash():
    (path,) = shapes(figure(Trace([1, 2, 3, 4, 5], [1, None, 2, None, 1], line=LineStyle("red"))), "path")
    assert re.sub(r"[^A-Za-z]", "", path.get("d")) == "MhMhMh"


def test_a_stepped_line_holds_its_value_until_the_next_point():
    (path,) = shapes(figure(Trace([1, 2, 3], [1, 2, 1], line=LineStyle("red", steps=True))), "path")
    assert re.sub(r"[^A-Z]", "", path.get("d")) == "MHVHV"


def test_an_error_bar_reaches_from_its_low_to_its_high_end():
    of = figure(Trace([1], [5], mark=Mark("red"), low=[0], high=[10]), y=Axis("y", range=(0, 10)))
    frame = json.loads(data(of))["panels"][0]["pixels"]
    (bar,) = [line for line in shapes(of, "line") if line.get("stroke") == "red" and line.get("x1") == line.get("x2")]
    assert [float(bar.get("y1")), float(bar.get("y2"))] == pytest.approx(frame, abs=0.06)


def test_bands_omit_non_finite_values():
    of = figure(Trace([1, 3], [1, 3], line=LineStyle("red")), bands=[Band([1, 2, 3], [0, None, 1], [2, 3, 4], "red")])
    (area,) = shapes(of, "polygon")
    assert len(area.get("points").split()) == 4


def test_words_cannot_become_markup():
    bad = "</script><b>&\"'"
    of = figure(Trace([1], [1], bad, mark=Mark("red"), texts=[bad]), labels=[Label(1, bad)], x=Axis(bad), y=Axis(bad))
    assert bad in [text.text for text in shapes(of, "text")]
    assert "<" not in data(of)
    assert json.loads(data(of))["traces"][0]["texts"] == [bad]


def test_a_plot_without_a_value_is_still_drawn():
    assert shapes(figure(Trace([], [], line=LineStyle("red")), rules=[Rule(0, over="y")]), "line")


def test_long_labels_get_several_lines_and_labels_that_would_overlap_are_slanted():
    names = [f"a long name of an operation {number}" for number in range(3)]
    of = figure(
        Trace([1, 2, 3], [0, 1, 2], mark=Mark("red")),
        y=Axis("y", range=(-1, 3), ticks=list(enumerate(names))),
        labels=[Label(1, "first phase"), Label(1.2, "second phase")],
    )
    narrowed = narrow(of)
    texts = [text.text for text in shapes(narrowed, "text")]
    assert names[0] not in texts
    assert " ".join(texts).count("a long name") == 3
    slanted = [text for text in shapes(narrowed, "text") if text.text == "first phase"]
    assert slanted[0].get("transform")
    assert json.loads(data(of))["narrow"]["width"] == narrowed.width


def test_a_bar_keeps_its_known_end_and_has_none_at_an_unknown_one():
    closed, half, unknown = Estimate(2, 1, 3), Estimate(2, 1, math.inf), Estimate(2, 0, math.inf)
    assert bar_ends([closed, half, unknown, Estimate(2, -math.inf, math.inf)], 10) == {
        "low": [10, 10, 20, 20],
        "high": [30, 20, 20, 20],
    }
    assert half_bars_text([closed, unknown]) == ""
    assert half_bars_text([closed, half]) == " A bar on one side of a mark: its other end is unknown."
    # Texts say `unknown` for ends more than a factor 1,000 from the value, too.
    far = [Estimate(2, 1e-5, 3), Estimate(2, 1, 5000), Estimate(9.31e-3, 3.93e-13, 2.2e8)]
    assert bar_ends(far) == {"low": [2, 1, 9.31e-3], "high": [3, 2, 9.31e-3]}
    assert half_bars_text(far[:1])
    assert half_bars_text(far[2:]) == ""
