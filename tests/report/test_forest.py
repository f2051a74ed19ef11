"""Forest plots of effects, intervals of interactions, logarithmic ratios, and whole numbers on integer axes."""

import math
import re
import tarfile
from pathlib import Path

import pytest

import loadframe
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.settings.analysis import read_settings
from loadframe.report.kinds import read_report
from loadframe.report.kinds.compare import RESULT_MARKS
from loadframe.report.plot import COLORS, INK, SYMBOLS, Axis, Figure, Mark, Panel, Trace
from loadframe.report.plot.draw import draw
from loadframe.report.plot.figure import scale, ticks
from loadframe.report.plots.forest import Effect, forest
from simulated import Truth, write_experiment, write_run

FOLDERS = Path(__file__).parent.parent / "data" / "older_folders"


def effect(low, value, high, outcome="significant"):
    return Effect(f"effect {value}", Estimate(value, low, high), "text", outcome)


def drawn(*effects, **options):
    return forest(effects, "f", "ratio", "caption", **options)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    root = tmp_path_factory.mktemp("recorded")
    for kind in ("settings", "compare"):
        with tarfile.open(FOLDERS / f"{kind}.tar.xz") as members:
            members.extractall(root)
    return root


def figures(folder):
    return {figure.name: figure for figure in read_report(folder).page.figures}


def test_the_axis_is_logarithmic_if_the_ratios_span_more_than_4():
    assert drawn(effect(0.6, 1.2, 2.0)).x.kind == "linear"
    assert drawn(effect(0.6, 1.2, 2.5)).x.kind == "log"
    assert drawn(effect(0.6, 1.2, 2.0), logarithmic=True).x.kind == "log"


def test_the_line_at_1_is_within_the_axis():
    for figure in (drawn(effect(2.0, 2.1, 2.2)), drawn(effect(0.1, 0.2, 0.3), logarithmic=True)):
        (rule,) = figure.rules
        assert (rule.at, rule.over, rule.color) == (1, "x", INK)
        assert figure.x.range[0] < 1 < figure.x.range[1]


def test_each_effect_has_a_row_with_its_interval():
    figure = drawn(effect(0.8, 0.9, 1.1, "not significant"), effect(1.2, 1.3, 1.5))
    assert [label for _, label in figure.panels[0].y.ticks] == ["effect 0.9", "effect 1.3"]
    bars = {trace.group: (list(trace.x), list(trace.y)) for trace in figure.traces if trace.line}
    assert bars == {
        "not significant": ([0.8, 1.1, None], [0.0, 0.0, None]),
        "significant": ([1.2, 1.5, None], [-1.0, -1.0, None]),
    }


def parts(figure):
    """Return the known and unknown parts of intervals, and the marks of each symbol as (y, hollow)."""
    lines = {"solid": [], "dot": []}
    marks = {}
    for trace in figure.traces:
        if trace.line:
            x, y = list(trace.x), list(trace.y)
            lines[trace.line.dash] += [(y[at], x[at], x[at + 1]) for at in range(0, len(x), 3)]
        elif trace.mark.symbol in ("triangle-left", "triangle-right"):
            marks.setdefault(trace.mark.symbol, []).extend((at, trace.mark.hollow) for at in trace.y)
    return lines["solid"], lines["dot"], marks


def test_ends_beyond_the_axis_and_unknown_ends_have_different_arrows():
    figure = drawn(effect(0.8, 1.2, math.inf), effect(1e-9, 1.1, 1.3), effect(0.9, 1.0, 1.1))
    low, high = figure.x.range
    known, unknown, arrows = parts(figure)
    assert known == [(0.0, 0.8, 1.2), (-1.0, low, 1.3), (-2.0, 0.9, 1.1)]
    assert unknown == [(0.0, 1.2, high)]
    assert arrows == {"triangle-right": [(0.0, True)], "triangle-left": [(-1.0, False)]}
    assert "filled arrow: the interval ends beyond the axis" in figure.caption
    assert "hollow arrow: this end of the interval is unknown" in figure.caption
    assert draw(figure).startswith("<svg")
    assert all(low <= x <= high for trace in figure.traces for x in trace.x if x is not None)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_an_unknown_interval_is_dotted_to_both_edges(logarithmic):
    figure = drawn(effect(0.0, 1.2, math.inf), logarithmic=logarithmic)
    low, high = figure.x.range
    known, unknown, arrows = parts(figure)
    assert (known, unknown) == ([], [(0.0, low, 1.2), (0.0, 1.2, high)])
    assert arrows == {"triangle-left": [(0.0, True)], "triangle-right": [(0.0, True)]}
    assert drawn() is None


def test_long_inconclusive_intervals_do_not_stretch_the_axis_of_conclusive_ones():
    p50, p99 = effect(1.15, 1.28, 1.43), Effect("p99", Estimate(3.3, 0.141, 54.9), "text", "open", is_conclusive=False)
    low, high = drawn(p50, p99, logarithmic=True).x.range
    assert 0.9 < low < 1 and 3.3 < high < 4
    _, _, arrows = parts(drawn(p50, p99, logarithmic=True))
    assert arrows == {"triangle-left": [(-1.0, False)], "triangle-right": [(-1.0, False)]}
    # Without conclusive effects, the inconclusive ones set the axis.
    low, high = drawn(p99, logarithmic=True).x.range
    assert low < 0.141
    near = drawn(p50, Effect("p99", Estimate(1.3, 0.8, 1.9), "text", "open", is_conclusive=False))
    assert near.x.range[0] < 0.8 and parts(near)[2] == {}


def test_intervals_within_the_axis_have_no_arrow():
    figure = drawn(effect(0.8, 0.9, 1.1), effect(1.2, 1.3, 1.5))
    assert parts(figure)[1:] == ([], {})
    assert figure.caption == "caption"


def test_settings_reports_draw_the_ratios_of_the_table(recorded):
    (result,) = read_settings(recorded / "settings").results
    figure = figures(recorded / "settings")["s0-e0"]
    marks = sorted(x for trace in figure.traces if trace.mark for x in trace.x)
    assert marks == pytest.approx(sorted(it.ratio.value for it in result.responses[0].model.contrasts), rel=1e-5)


def test_interactions_have_intervals_about_their_means(recorded):
    figure = figures(recorded / "settings")["s0-i0"]
    assert [trace.name for trace in figure.traces] == ["nodes 1", "nodes 2"]
    assert [list(trace.x) for trace in figure.traces] == [["2", "4"]] * 2
    for trace in figure.traces:
        assert len(trace.low) == len(trace.high) == len(trace.y) == 2
        assert all(low < y < high for low, y, high in zip(trace.low, trace.y, trace.high, strict=True))


def test_ratios_of_comparisons_are_logarithmic(recorded):
    drawn = figures(recorded / "compare")
    assert [drawn[name].x.kind for name in ("effects", "runs")] == ["log", "log"]
    assert [label for _, label in drawn["effects"].panels[0].y.ticks] == ["c throughput", "c read p50", "c read p99"]


def test_marks_of_results_are_not_those_of_groups(recorded):
    shown = figures(recorded / "compare")
    results = [trace.mark for trace in shown["effects"].traces if trace.mark]
    groups = [trace.mark for trace in shown["runs"].traces if trace.mark]
    assert {mark.color for mark in groups} <= set(COLORS)
    for mark in (*results, *RESULT_MARKS.values()):
        assert mark.color not in COLORS
        assert mark.symbol not in SYMBOLS
        assert contrast_to_white(mark.color) >= 3
    for drawn in ({mark.symbol for mark in RESULT_MARKS.values()}, {mark.color for mark in RESULT_MARKS.values()}):
        assert len(drawn) == len(RESULT_MARKS)
    assert draw(shown["effects"]).startswith("<svg")


def contrast_to_white(color):
    """The contrast ratio of WCAG 2."""
    shares = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 1.05 / (0.05 + sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True)))


@pytest.mark.slow
def test_axes_of_whole_levels_have_only_whole_ticks(tmp_path):
    levels = [1, 2]
    design = [
        {"run": f"b{block}-shards{level}", "block": block, "treatment": {"with.shards": level}}
        for block in (1, 2)
        for level in levels
    ]
    path = write_experiment(
        tmp_path / "e", missing=[entry["run"] for entry in design], design=design, factors={"with.shards": levels}
    )
    for seed, entry in enumerate(design):
        labels = {"treatment": entry["treatment"], "block": entry["block"], "repetition": entry["block"]}
        write_run(path / "runs", entry["run"], Truth(seconds=2), seed=seed, **labels)
    axis = figures(path)["over-0"].x
    shown = [label for _, label in ticks(axis, scale(axis, levels, 0, 700), 9)]
    assert shown == ["1", "2"]


def test_the_library_has_the_plots_of_effects(recorded):
    assert {"throughput", "effects", "runs"} <= set(loadframe.open(recorded / "compare").plot)
    plots = loadframe.open(recorded / "settings").plot
    assert {"effects", "effects 2", "effects 3", "interaction"} <= set(plots)
    assert "<svg" in plots["effects"]._repr_html_()


def test_short_intervals_are_drawn_over_the_marks_that_would_hide_them():
    traces = drawn(effect(0.999, 1.0, 1.001), effect(0.5, 1.4, 1.9)).traces
    assert [bool(trace.mark) for trace in traces] == [True, False]
    bars = Figure("f", Axis("x"), [Panel(Axis("y"))], [
        Trace([0, 1], [10, 20], "runs", mark=Mark("#0072B2"), low=[9.9, 1], high=[25, 39]),
    ], "caption")  # fmt: skip
    (drawing,) = re.findall(r'data-group="runs">(.*?)</g>', draw(bars))
    first, *_, last = re.findall(r'<line[^>]*stroke="(#\w+)"|<(circle)', drawing)
    assert (first[0], last[0]) == ("#0072B2", INK)


def test_an_unknown_effect_has_a_dotted_line_over_the_whole_axis_and_no_mark():
    figure = drawn(effect(0.8, 0.9, 1.1), effect(0.0, math.nan, math.inf))
    assert [label for _, label in figure.panels[0].y.ticks] == ["effect 0.9", "effect nan"]
    assert [(list(trace.x), list(trace.y)) for trace in figure.traces if trace.legend] == [([0.9], [0.0])]
    (line,) = [trace for trace in figure.traces if trace.line and trace.line.dash == "dot"]
    ends = [at for at in line.x if at is not None]
    assert (min(ends), max(ends)) == figure.x.range
    assert set(line.y) == {-1.0, None}
    assert "nan" not in draw(figure).lower().replace("effect nan", "")
    assert drawn(effect(0.0, math.nan, math.inf)) is None


@pytest.mark.parametrize(
    ("low", "high", "end", "edge", "arrow"),
    [(0.0, 1.3, 1.3, 0, "triangle-left"), (0.7, math.inf, 0.7, 1, "triangle-right")],
)
@pytest.mark.parametrize("beside", [(), (effect(0.8, 0.9, 1.1),)])
def test_an_effect_with_one_known_end_has_a_dotted_line_from_it_and_no_mark(low, high, end, edge, arrow, beside):
    figure = drawn(*beside, effect(low, math.nan, high))
    y = -float(len(beside))
    assert [at for trace in figure.traces if trace.legend for at in trace.y] == [0.0] * len(beside)
    known, unknown, arrows = parts(figure)
    assert unknown == [(y, *sorted([end, figure.x.range[edge]]))]
    assert arrows == {arrow: [(y, True)]}
    # A short line across the known end.
    assert (y - 0.15, end, end) in known
    assert figure.x.range[0] < end < figure.x.range[1]


def test_outcomes_of_unknown_effects_only_are_not_in_the_legend():
    figure = drawn(effect(0.8, 0.9, 1.1), effect(0.0, math.nan, math.inf, "not significant"))
    assert [trace.name for trace in figure.traces if trace.legend] == ["significant"]
    assert {trace.group for trace in figure.traces if trace.line} == {"significant", "not significant"}


def test_effects_without_a_ratio_and_an_interval_do_not_have_a_row():
    figure = drawn(effect(0.8, 0.9, 1.1), effect(math.nan, math.nan, math.nan))
    assert [label for _, label in figure.panels[0].y.ticks] == ["effect 0.9"]
