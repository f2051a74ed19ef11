"""Published figures in reports: changes next to measured changes, for every kind that has them."""

import io
import json
import math
from dataclasses import replace

import pytest
from capacity_folder import write_capacity
from pages import Page
from rich.console import Console

from elastic_folder import ASKED, write_elastic
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import read_experiment
from loadframe.analyze.published import PublishedFigure, _place, beside
from loadframe.report.kinds import read_report
from loadframe.report.published import published_section
from simulated import Truth, write_experiment, write_variants

QUIET = Truth(noise=0.0)


def figure(measure="throughput", levels=(), change=None, value=None, against=(), phase="range_100", series="A"):
    return PublishedFigure(measure, dict(levels), phase, series, value, change, dict(against), "page 3")


def published(*figures):
    return {"file": "paper.csv", "figures": [one.as_dict() for one in figures]}


@pytest.fixture
def scale(tmp_path):
    def scale(*figures, **changed):
        known = published(*figures)
        return write_experiment(tmp_path / "e", QUIET, nodes=(1, 2), clients=(4, 8), published=known, **changed)

    return scale


def test_a_change_is_measured_against_the_levels_that_it_names(scale):
    path = scale(figure(levels={"nodes": 2, "clients": 4}, change=0.26, against={"nodes": 1}))
    (row,) = beside(read_experiment(path))
    (result,) = row.measured
    true = QUIET.throughput(2, 4) / QUIET.throughput(1, 4) - 1
    assert result.change.value == pytest.approx(true, rel=0.02)
    assert result.change.low <= result.change.value <= result.change.high
    assert (result.runs, result.others) == (2, {})


def test_the_reference_can_be_another_phase_of_the_same_runs(scale):
    at = {"nodes": 2, "clients": 4}
    path = scale(figure(levels=at, phase="busy", change=-0.4, against={"phase": "range_100"}), measure=["busy"])
    for file in path.glob("runs/*/summary.json"):
        summary = json.loads(file.read_text())
        operations = summary["phases"][0]["operations"]
        slower = {name: {**known, "throughput": 0.5 * known["throughput"]} for name, known in operations.items()}
        busy = {**summary["phases"][0], "name": "busy", "operations": slower}
        figures = summary["verdict"]["figures"]
        figures += [{"phase": "busy", "figure": "throughput", "state": "good"}]
        file.write_text(json.dumps({**summary, "phases": [*summary["phases"], busy]}))
    (result,) = beside(read_experiment(path))[0].measured
    assert result.change.value == pytest.approx(-0.5)
    assert "phase range_100" in Page(read_report(path).page).text


def test_without_clients_each_size_is_taken_at_those_with_the_highest_throughput(scale):
    path = scale(figure(levels={"nodes": 2}, change=0.26, against={"nodes": 1}))
    (result,) = beside(read_experiment(path))[0].measured
    assert result.mean.value == pytest.approx(max(QUIET.throughput(2, clients) for clients in (4, 8)), rel=0.02)


def test_unmeasured_values_are_shown_as_published_only(scale):
    path = scale(
        figure(levels={"nodes": 8}, change=-0.04, against={"nodes": 4}, series="Couchbase"),
        figure("mean", {"nodes": 2}, 0.5, against={"nodes": 1}, series="Couchbase"),
        figure(levels={"nodes": 2}, change=0.26, against={"nodes": 1}, phase="other"),
    )
    rows = beside(read_experiment(path))
    assert [len(row.measured) for row in rows] == [0, 1, 0]
    report = read_report(path)
    page = Page(report.page)
    assert "Published and measured" in page.headings
    assert "Couchbase" in page.text
    assert "-4.0 %" in page.text
    assert page.plots["published-0"]
    assert [row["source"] for row in report.document["published"]] == ["page 3"] * 3
    assert "Published and measured" in shown(path)
    json.dumps(report.document, allow_nan=False)


def shown(path):
    console = Console(file=io.StringIO(), width=200)
    read_report(path).show(console)
    return console.file.getvalue()


def test_the_terminal_names_a_common_reference_once(scale):
    default = {"nodes": 1, "clients": 4}
    text = shown(
        scale(
            figure(levels={"nodes": 2, "clients": 4}, change=0.26, against=default),
            figure(levels={"nodes": 1, "clients": 8}, change=0.1, against=default),
            figure(levels=default, change=0.0, against=default),
        )
    )
    assert "Published and measured, changes against nodes 1, clients 4:" in text
    assert text.count("against nodes 1, clients 4") == 1
    rows = [line for line in text.splitlines() if line.startswith("throughput of range_100  A")]
    assert [row.split("  ")[2].strip() for row in rows] == ["nodes 2", "clients 8", "nodes 1, clients 4"]


def test_the_terminal_names_the_reference_of_each_figure_if_they_differ(scale):
    text = shown(
        scale(
            figure(levels={"nodes": 2, "clients": 4}, change=0.26, against={"nodes": 1}),
            figure(levels={"nodes": 1, "clients": 8}, change=0.1, against={"clients": 4}),
        )
    )
    assert "nodes 2, clients 4 against nodes 1" in text
    assert "nodes 1, clients 8 against clients 4" in text


def test_published_quartiles_are_bars_around_the_published_change(scale):
    known = figure(levels={"nodes": 2}, value=150.0, change=0.5, against={"nodes": 1})
    path = scale(
        replace(known, spread={"q1": 120.0, "q3": 160.0}), figure(levels={"nodes": 1}, value=100.0, change=0.0)
    )
    page = Page(read_report(path).page)
    assert "q1 120 requests/s, q3 160 requests/s" in page.text
    (plot,) = published_section(beside(read_experiment(path))).figures
    # Relative to the reference of 100: 120 is +20 %, 160 is +60 %.
    assert (plot.traces[0].low, plot.traces[0].high) == ([pytest.approx(20.0), None], [pytest.approx(60.0), None])


@pytest.mark.parametrize(
    ("factors", "place", "words"),
    [
        ((0.9, 1.1), "within", "within q1 to q3"),
        ((1.5, 2.0), "below", "below q1"),
        ((0.2, 0.5), "above", "above q3"),
    ],
)
def test_measured_values_and_changes_are_placed_beside_published_quartiles(scale, factors, place, words):
    """The published quartiles are multiples of the true value, and with the same reference of its change."""
    value, reference = QUIET.throughput(2, 4), QUIET.throughput(1, 4)
    known = figure(levels={"nodes": 2, "clients": 4}, value=value, change=value / reference - 1, against={"nodes": 1})
    path = scale(replace(known, spread={"q1": factors[0] * value, "q3": factors[1] * value}))
    (result,) = beside(read_experiment(path))[0].measured
    assert (result.place, result.change_place) == (place, place)
    assert result.as_dict()["quartiles"] == place
    report = read_report(path)
    console = Console(file=io.StringIO(), width=300)
    report.show(console)
    assert Page(report.page).text.count(words) == console.file.getvalue().count(words) == 2


@pytest.mark.parametrize("measured", [Estimate(95.0, 85.0, 105.0), Estimate(95.0, 0.0, math.inf)])
def test_a_value_whose_interval_reaches_the_quartiles_is_not_called_below_them(measured):
    assert _place(measured, 100.0, 110.0) == "open"


def test_response_times_fall_by_as_much_as_they_do(scale):
    path = scale(figure("mean", {"nodes": 2, "clients": 8}, -0.35, against={"nodes": 1}))
    (result,) = beside(read_experiment(path))[0].measured
    true = QUIET.throughput(1, 8) / QUIET.throughput(2, 8) - 1
    assert result.change.value == pytest.approx(true, abs=0.03)


def test_factors_that_the_publication_does_not_name_are_kept_apart(scale):
    path = scale(figure(levels={"clients": 8}, change=0.5, against={"clients": 4}))
    (row,) = beside(read_experiment(path))
    assert [result.others for result in row.measured] == [{"nodes": 1}, {"nodes": 2}]


def test_variants_are_levels_too(tmp_path):
    path = write_variants(tmp_path / "e", {"old": QUIET, "new": Truth(noise=0.0, lam=150.0)}, repetitions=2)
    file = path / "experiment.json"
    known = published(figure(levels={"variant": "new", "clients": 8}, change=0.4, against={"variant": "old"}))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"published": known}))
    (result,) = beside(read_experiment(path))[0].measured
    assert result.change.value == pytest.approx(0.5, abs=0.03)
    assert "Published and measured" in Page(read_report(path).page).headings


def test_instants_of_an_elastic_run_are_those_of_its_events(tmp_path):
    path = write_elastic(tmp_path / "e")
    file = path / "experiment.json"
    known = published(figure("trigger_fired", value=110.0, phase=""), figure("node_requested", value=120.0, phase=""))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"published": known}))
    rows = beside(read_experiment(path))
    for row in rows:
        (result,) = row.measured
        assert result.mean.value == pytest.approx(ASKED)
        assert (result.runs, result.others["transition"]) == (2, "grow")
    page = Page(read_report(path).page)
    assert page.plots["published-instants"]
    assert "trigger fired" in page.text
    assert "1 min 50 s" in page.text


def test_statistics_of_samples_and_ycsbs_response_times_are_held_beside_published_ones(scale):
    path = scale(
        figure("least_5s", {"nodes": 2, "clients": 4}, value=10.0),
        figure("most_5s", {"nodes": 2, "clients": 4}, value=12.0),
        figure("documents_mean_5s", {"nodes": 2, "clients": 4}, value=11.0),
        figure("min", {"nodes": 2, "clients": 4}, value=0.001),
        figure("p95", {"nodes": 2, "clients": 4}, value=0.002),
        figure("wall_time", {"nodes": 2, "clients": 4}, value=10.0),
        figure("summed_time", {"nodes": 2, "clients": 4}, value=40.0),
    )
    least, most, documents, shortest, p95, wall, summed = (
        row.measured[0].mean.value for row in beside(read_experiment(path))
    )
    assert 0 < least <= most
    assert most == pytest.approx(QUIET.throughput(2, 4), rel=0.1)
    assert 0 < shortest < p95
    assert wall < summed
    assert documents == pytest.approx(100 * most, rel=0.1)
    page = Page(read_report(path).page).text
    assert "least of samples of 5 s" in page
    assert "11 documents/s" in page


def test_ranks_for_each_node_are_clients_and_not_levels_to_keep(tmp_path):
    path = write_experiment(tmp_path / "e", QUIET, nodes=(1,), clients=(4, 8))
    file = path / "experiment.json"
    description = json.loads(file.read_text())
    for entry in description["design"]:
        entry["treatment"] = {"ranks_per_node": entry["treatment"]["clients"]}
    known = published(figure(levels={"clients": 8}, change=0.5, against={"clients": 4}))
    file.write_text(json.dumps(description | {"published": known}))
    (one,) = beside(read_experiment(path))[0].measured
    assert one.change.value == pytest.approx(QUIET.throughput(1, 8) / QUIET.throughput(1, 4) - 1, abs=0.03)


def test_runs_that_the_store_failed_stand_beside_the_mean_of_the_others(scale):
    path = scale(figure(levels={"nodes": 2, "clients": 4}, change=0.26, against={"nodes": 1}))
    file = path / "runs" / "b1-nodes2-clients4" / "summary.json"
    file.write_text(json.dumps({"status": "failed", "failure": "node-0 ended", "fault": "store"}))
    (result,) = beside(read_experiment(path))[0].measured
    assert (result.runs, result.failed) == (1, 1)
    assert result.as_dict()["failed_runs"] == 1
    assert "1 run, 1 failed" in read_report(path).page


ONE_NODE = [(30.0, True), (60.0, False), (60.0, False), (30.0, True), (30.0, True)]
TWO_NODES = [(30.0, True), (60.0, True), (120.0, False), (120.0, False), (60.0, True), (60.0, True)]


def capacity(path, trials, *figures, searches):
    search = {"start": 30.0, "least": 1.0, "most": 120.0, "factor": 2.0, "precision": 5.0}
    return write_capacity(path, trials, searches=searches, search=search, published=published(*figures))


@pytest.mark.slow
def test_a_published_capacity_stands_beside_the_result_of_the_searches(tmp_path):
    of_both = (
        figure("capacity", {"nodes": 1}, value=500.0, phase=""),
        figure("capacity", {"nodes": 2}, value=800.0, change=0.6, against={"nodes": 1}, phase=""),
    )
    path = capacity(tmp_path / "e", {1: ONE_NODE, 2: TWO_NODES}, *of_both, searches=3)
    first, second = beside(read_experiment(path))
    (one,), (two,) = first.measured, second.measured
    assert (one.runs, one.others, one.change) == (3, {}, None)
    # A search ends between the rates that passed and failed: 30 to 60, and 60 to 120.
    assert 30 <= one.mean.low < one.mean.value < one.mean.high <= 60
    assert two.change.value == pytest.approx(1.0, abs=0.05)
    assert -1 < two.change.low < two.change.value < two.change.high
    report = read_report(path)
    page = Page(report.page)
    assert "Published and measured" in page.text
    assert "3 searches" in page.text
    assert "800 requests/s" in page.text
    assert "+60 %" in page.text
    assert "capacity, change in %" in str(report.page)
    assert [row["measured"][0]["mean"]["value"] for row in report.document["published"]] == [
        one.mean.value,
        two.mean.value,
    ]


def test_a_capacity_that_no_trial_exceeds_is_a_lower_bound_beside_the_published_one(tmp_path):
    asked = figure("capacity", {"nodes": 2}, value=800.0, change=0.6, against={"nodes": 1}, phase="")
    bounded = [(30.0, True), (60.0, True), *[(120.0, True)] * 3]
    path = capacity(tmp_path / "e", {1: ONE_NODE, 2: bounded}, asked, searches=1)
    ((two,),) = (row.measured for row in beside(read_experiment(path)))
    assert two.change is None, "the ratio of a bound is unknown"
    assert (two.mean.value, two.mean.low, two.mean.high) == (120.0, 120.0, math.inf)
