"""The leading sentences of a comparison."""

import math
from copy import copy
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import pytest
from pages import Page

from loadframe.analyze.compare import compare, read_groups
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.report.compare_words import (
    advice,
    inconclusive_text,
    lead,
    limited_text,
    open_reason,
    open_reasons,
    ratio_text,
)
from loadframe.report.kinds.compare import comparison_page, contrasts_table, print_comparison, throughput_plot
from loadframe.report.plot import Axis
from simulated import Truth, write_run


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    root = tmp_path_factory.mktemp("versions")
    for seed, (name, lam) in enumerate({"old": 100, "slow": 80}.items()):
        for number in range(4):
            write_run(root / name, f"r{number}", Truth(lam=lam, seconds=2), seed=100 * seed + number)
    return compare(read_groups([str(root / "old"), str(root / "slow")]), ["throughput", "p50", "p99", "max"])


def test_measures_that_are_decided_are_named_although_the_first_is_open(compared):
    first, *others = compared.contrasts
    assert {other.outcome for other in others} == {"worse"}
    undecided = replace(compared, contrasts=(replace(first, outcome="inconclusive"), *others))
    one, other = lead(undecided)
    assert one.count("inconclusive for a difference") == 1
    assert other == "slow is worse than old in phase range_100 p50; phase range_100 p99 and phase range_100 max."


def test_each_phase_has_a_sentence_with_figures_and_advice_stands_apart(compared):
    first, p50, *_ = compared.contrasts
    open_ = replace(first, outcome="inconclusive")
    other = replace(first, measure=replace(first.measure, phase="b"))
    shown = replace(compared, contrasts=(open_, p50, other))
    a, b, rest = lead(shown)
    assert a.startswith("phase range_100 throughput: slow ") and a.endswith(").")
    assert b.startswith("phase b throughput: slow ") and "; slow is worse than old (ratio " in b
    assert rest == "slow is worse than old in phase range_100 p50."
    (reason,) = advice(shown)
    assert reason == f"inconclusive (range_100 throughput): {open_reason(open_, shown.least)}"
    page = comparison_page(shown)
    box = page[page.index('class="answer"') : page.index("<h2>Measures")]
    visible = box[: box.index("<details")] if "<details" in box else box
    assert all(escape(words) in visible for words in (a, b, reason))


def test_phases_of_ycsb_have_the_names_of_its_workloads(compared):
    first = compared.contrasts[0]
    contrast = replace(first, measure=replace(first.measure, phase="a"))
    assert lead(replace(compared, contrasts=(contrast,)))[0].startswith("phase a throughput: ")
    groups = tuple(replace(group, runs=tuple(map(_of_ycsb, group.runs))) for group in compared.groups)
    assert lead(replace(compared, groups=groups, contrasts=(contrast,)))[0].startswith("YCSB A throughput: ")


def _of_ycsb(run):
    recorded = copy(run.run)
    recorded.manifest = replace(recorded.manifest, workload=replace(recorded.manifest.workload, name="ycsb"))
    return replace(run, run=recorded)


@pytest.mark.parametrize("outcome", ["worse", "better"])
def test_the_answer_names_both_sides_of_a_difference(compared, outcome):
    shown = replace(compared, contrasts=(replace(compared.contrasts[0], outcome=outcome),))
    (words,) = lead(shown)
    assert f"; slow is {outcome} than old (ratio " in words


def test_runs_of_two_folders_with_the_same_names_are_named_by_their_folder(compared):
    page = comparison_page(compared)
    for name in [f"{label}/r{number}" for label in ("old", "slow") for number in range(4)]:
        assert f">{name}<" in page, name
    assert ">r0<" not in page


def test_better_and_worse_measures_stand_in_one_sentence_and_open_ones_in_none(compared):
    first, p50, p99, most = compared.contrasts
    mixed = replace(
        compared, contrasts=(first, p50, replace(p99, outcome="better"), replace(most, outcome="inconclusive"))
    )
    assert lead(mixed)[-1] == "slow is worse than old in phase range_100 p50, and better in phase range_100 p99."
    open_ = replace(compared, contrasts=tuple(replace(c, outcome="inconclusive") for c in compared.contrasts))
    assert len(lead(open_)) == 1


def test_each_group_has_a_mean_with_an_interval_that_agrees_with_the_ratio(compared):
    for contrast in compared.contrasts:
        before, after = contrast.means
        assert after.value / before.value == pytest.approx(contrast.ratio.value, rel=1e-6)
        assert before.low < before.value < before.high
    table = contrasts_table(compared)
    assert table.columns[:4] == ("measure", "result", "old", "slow")
    assert all(cell.small.startswith("[") for row in table.rows for cell in row[2:4])


def test_a_figure_without_an_interval_names_the_load_generator_as_the_reason(compared, capsys):
    first, *others = compared.contrasts
    bounds = Stretch(0.0, math.inf)
    limited = replace(
        first,
        outcome="inconclusive",
        means=(first.means[0], Estimate(first.means[1].value, 0.0, math.inf)),
        bounds=(EXACT, bounds),
        estimate=first.estimate.widened(bounds),
    )
    shown = replace(compared, contrasts=(limited, *others))
    cells = {column: cell.small for column, cell in zip(*_first_row(shown), strict=True)}
    assert cells["slow"] == cells["ratio"] == "[generator limit]"
    assert cells["old"].startswith("[5")
    print_comparison(shown)
    assert capsys.readouterr().out.count("[generator limit]") >= 2
    assert "[generator limit]" in comparison_page(shown)


def test_means_of_survivors_have_a_label_and_a_ratio_open_on_both_sides_a_hint(compared, capsys):
    first, *others = compared.contrasts
    hidden = replace(first, outcome="inconclusive", failed=(1, 0), missing=(1, 0))
    shown = replace(compared, contrasts=(hidden, *others))
    cells = {column: cell.small for column, cell in zip(*_first_row(shown), strict=True)}
    assert cells["old"].endswith("] without failures")
    assert cells["slow"].endswith("]")
    assert "requests/s without failures, " in lead(shown)[0]
    assert throughput_plot(shown, "t").traces[0].texts[0].endswith("requests/s without failures")
    assert "Figures without failures are of" in contrasts_table(shown).note
    both = replace(hidden, failed=(1, 2), missing=(1, 2))
    shown = replace(compared, contrasts=(both, *others))
    cells = dict(zip(*_first_row(shown), strict=True))
    assert cells["ratio"].small == "[store failures]"
    assert (cells["ratio"].number.low, cells["ratio"].number.high) == (None, None)
    print_comparison(shown)
    printed = capsys.readouterr().out
    assert "[store failures]" in printed and "without failures" in printed
    assert "[store failures]" in comparison_page(shown)
    assert "without failures" not in contrasts_table(compared).note
    (row, *_) = shown.as_dict()["contrasts"]
    assert (row["of_survivors"], row["failed_without_value"]) == ([True, True], [1, 2])


def test_an_end_that_the_load_generator_leaves_open_is_unknown_and_not_zero(compared, capsys):
    _, first, *others = compared.contrasts
    assert first.measure.kind == "p50"
    bounds = Stretch(0.0, 1.0)
    old, new = first.means
    limited = replace(
        first,
        means=(old, replace(new, low=0.0)),
        bounds=(EXACT, bounds),
        estimate=first.estimate.widened(bounds),
    )
    shown = replace(compared, contrasts=(limited, *others))
    cells = {column: cell.small for column, cell in zip(*_first_row(shown), strict=True)}
    for column in ("slow", "ratio"):
        assert cells[column].startswith("[unknown, "), cells
    print_comparison(shown)
    assert "[0" not in capsys.readouterr().out
    assert "[0" not in Page(comparison_page(shown)).text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Estimate(1234.0, 300.0, 9000.0), "1,234 [300, 9,000]"),
        (Estimate(1234.0, 0.0, math.inf), "1,234"),
        (Estimate(1.1, 0.0, 3.0), "1.1 [unknown, 3.0]"),
        (Estimate(1.1, 1e-4, 3e4), "1.1 [unknown, unknown]"),
    ],
)
def test_a_large_ratio_has_no_exponent_and_no_ratio_has_the_low_end_zero(compared, ratio, text):
    contrast = compared.contrasts[0]
    for kind in ("throughput", "errors"):
        measure = replace(contrast.measure, kind=kind)
        shown = replace(contrast, measure=measure, estimate=replace(contrast.estimate, ratio=ratio))
        assert ratio_text(shown) == text


def test_absurd_ends_of_means_are_unknown(compared):
    _, first, *others = compared.contrasts
    old, new = first.means
    wide = replace(first, means=(replace(old, low=1e-9 * old.value), Estimate(new.value, 1e-9, 1e9)))
    cells = {
        column: cell.small
        for column, cell in zip(*_first_row(replace(compared, contrasts=(wide, *others))), strict=True)
    }
    assert cells["old"].startswith("[unknown, ")
    assert cells["slow"] == "[unknown, unknown]"


def _first_row(comparison):
    table = contrasts_table(comparison)
    return table.columns, table.rows[0]


def test_throughput_is_drawn_for_each_group_with_its_interval(compared):
    figure = throughput_plot(compared, "throughput")
    first = compared.contrasts[0]
    assert [trace.name for trace in figure.traces] == ["old", "slow"]
    for trace, mean in zip(figure.traces, first.means, strict=True):
        drawn = [*trace.y, *trace.low, *trace.high]
        assert drawn == pytest.approx([mean.value, mean.low, mean.high], rel=1e-3)
    assert [label for _, label in figure.x.ticks] == ["phase range_100"]
    assert "throughput" in [figure.name for figure in comparison_page(compared).figures]
    assert figure.panels[0].y == Axis("requests/s", from_zero=True)
    times = replace(compared, contrasts=compared.contrasts[1:])
    assert throughput_plot(times, "throughput") is None


def test_a_wide_interval_does_not_hide_the_throughput_of_other_groups(compared):
    first = compared.contrasts[0]
    old, new = first.means
    wide = replace(first, means=(old, replace(new, high=100 * new.value)))
    figure = throughput_plot(replace(compared, contrasts=(wide, *compared.contrasts[1:])), "throughput")
    assert figure.panels[0].y == Axis("requests/s (log scale)", "log")


def test_an_inconclusive_contrast_gives_its_reason(compared):
    first = compared.contrasts[0]
    wide = replace(
        first, outcome="inconclusive", estimate=replace(first.estimate, ratio=Estimate(1.0, 0.5, 2.0), bounds=EXACT)
    )
    assert "the interval includes no difference and one of 5 % or more" in open_reason(wide, 0.05)
    single = replace(wide, second=wide.second[:1])
    assert "a single run" in open_reason(single, 0.05)
    unbounded = replace(wide.estimate, ratio=Estimate(1.0, 0.0, math.inf))
    assert "too few runs" in open_reason(replace(wide, estimate=unbounded), 0.05)
    assert "do not show all failures" in open_reason(replace(wide, failed=(0, 1), missing=(0, 1)), 0.05)
    better = replace(wide, estimate=replace(wide.estimate, ratio=Estimate(1.5, 1.2, 1.8)), failed=(0, 1))
    assert "no advantage is claimed" in open_reason(better, 0.05)
    alike = replace(wide, estimate=replace(wide.estimate, ratio=Estimate(1.0, 0.99, 1.01)), failed=(0, 1))
    assert "no advantage is claimed" in open_reason(alike, 0.05)
    # The interval is as wide without the failures, so they are not the reason.
    assert open_reason(replace(wide, failed=(0, 1)), 0.05) == open_reason(wide, 0.05)
    chance = replace(wide, estimate=replace(wide.estimate, ratio=Estimate(0.25, 0.1, 0.9)))
    assert "p, adjusted for all rows (Holm)" in open_reason(chance, 0.05)
    delayed = replace(chance, estimate=replace(chance.estimate, bounds=Stretch(0.5, 1.0), log_ratio=math.log(0.2)))
    assert "p, adjusted for all rows (Holm)" in open_reason(delayed, 0.05)
    crossing = replace(delayed, estimate=replace(delayed.estimate, ratio=Estimate(0.25, 0.1, 1.5)))
    assert "delays of the load generator" in open_reason(crossing, 0.05)
    shares = (Estimate(0.0167, 0.0, 0.1), Estimate(0.0075, 0.007, 0.008))
    above = replace(wide, estimate=replace(wide.estimate, ratio=Estimate(75.0, 1.3, 4000.0)), means=shares)
    opposite = replace(above, measure=replace(above.measure, kind="errors"))
    assert "the means and the ratio point in opposite directions" in open_reason(opposite, 0.05)
    assert "p, adjusted for all rows (Holm)" in open_reason(replace(opposite, means=shares[::-1]), 0.05)
    undecided = replace(compared, contrasts=(wide,))
    assert open_reasons(undecided) == [f"inconclusive (range_100 throughput): {open_reason(wide, 0.05)}"]
    assert open_reason(wide, 0.05) in comparison_page(undecided)
    assert "Warnings" not in Page(comparison_page(replace(undecided, warnings=()))).headings


def test_the_answer_counts_inconclusive_contrasts_and_limited_runs(compared):
    first, *others = compared.contrasts
    mixed = replace(compared, contrasts=(replace(first, outcome="inconclusive"), *others))
    assert inconclusive_text(mixed) == "1 of 4 contrasts is inconclusive."
    unfolded = " ".join(" ".join(Page(comparison_page(mixed)).unfolded).split())
    assert "1 of 4 contrasts is inconclusive." in unfolded[: unfolded.index("Runs")]
    decided = replace(compared, contrasts=tuple(others))
    assert inconclusive_text(decided) == ""
    groups = [SimpleNamespace(usable=[SimpleNamespace(bounded=it) for it in (True, False)])] * 2
    assert limited_text(SimpleNamespace(groups=groups)).startswith("The load generator limited 2 runs")
    groups = [SimpleNamespace(usable=[SimpleNamespace(bounded=False)])]
    assert limited_text(SimpleNamespace(groups=groups)) == ""
