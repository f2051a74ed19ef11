"""The page of a scale experiment: self-contained, with its exclusions and its limits of knowledge."""

import io
import json
from dataclasses import replace

import pytest
from pages import Page
from rich.console import Console

from loadframe.analyze.scale.sweep import read_sweep
from loadframe.report.kinds.scale import print_sweep, sweep_page
from loadframe.report.numbers import measured_text
from loadframe.report.scale_words import lead, over_clients
from simulated import Truth, write_experiment

BAD = {"invalid": ["b1-nodes2-clients4"], "failed": ["b2-nodes3-clients16"]}


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return sweep_page(read_sweep(write_experiment(tmp_path_factory.mktemp("page") / "e", **BAD)))


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.mark.slow
def test_nothing_is_loaded_from_anywhere(page, html):
    assert page.loads == []
    style = html[html.index("<style>") : html.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


def test_the_sections_come_in_the_order_in_which_one_asks(page):
    wanted = [
        "How does throughput grow with the nodes of the cluster and with its clients?",
        "Throughput against nodes",
        "Throughput against clients",
        "Response time against clients",
        "Percentiles over time",
        "Runs and verdicts",
        "Fits",
        "Warnings",
        "Setup",
    ]
    assert [heading for heading in page.headings if heading in wanted] == wanted


def test_the_answer_has_intervals_and_says_what_three_node_counts_cannot(page):
    answer = page.text[: page.text.index("Throughput against nodes")]
    assert "Throughput grew from" in answer
    assert answer.count("[") >= 4
    assert "makes no claim beyond 3 nodes" in answer
    assert "34 of 36 runs are used; left out: 1 invalid, 1 failed." in answer


def test_runs_that_are_left_out_are_named_with_their_reason(page):
    section = page.text[page.text.index("2 runs left out") : page.text.index("36 runs in order")]
    assert "b1-nodes2-clients4 invalid 1 of 2 copies is out of service" in section
    assert "b2-nodes3-clients16 failed node 1 did not come up within 120 s" in section


def test_each_reason_for_leaving_runs_out_has_a_remedy(page):
    section = page.text[page.text.index("Problems of runs") : page.text.index("2 runs left out")]
    assert "1 run: 1 of 2 copies is out of service. Repair the cluster" in section
    assert "1 run: node 1 did not come up within 120 s. Fix the cause" in section


def test_unjudged_measures_are_named(page):
    assert "Not checked in 35 runs: steadiness of phase range_100: 5 s is too short" in page.text


def test_curves_stop_at_twice_the_measured_range(page):
    assert largest_x(page.plots["c0-nodes"]) <= 3
    assert largest_x(page.plots["c0-clients"]) <= 64


def test_the_answer_of_a_single_size_appears_once(tmp_path):
    text = Page(sweep_page(read_sweep(write_experiment(tmp_path / "e", nodes=(1,))))).text
    assert text.count("Throughput peaks at") == 1


@pytest.mark.slow
def test_curves_that_cannot_be_fitted_for_the_same_reason_share_a_sentence(tmp_path):
    folder = write_experiment(tmp_path / "e", clients=(1, 4))
    (curves,) = read_sweep(folder).curves
    ((name, words),) = over_clients(curves)
    assert name == "1, 2 and 3 nodes"
    assert words.startswith("Not fitted: only 2 distinct sizes (clients)")


@pytest.mark.slow
def test_a_curve_over_many_sizes_ends_at_twice_the_largest(tmp_path):
    path = write_experiment(tmp_path / "e", nodes=(1, 2, 3, 4, 6, 8), clients=(8, 16), repetitions=1)
    plots = Page(sweep_page(read_sweep(path))).plots
    assert largest_x(plots["c0-nodes"]) == 16


def largest_x(plot):
    return max(x for trace in plot["traces"] for x in trace["x"] if x is not None)


def test_invalid_runs_are_drawn_apart_from_the_others(page):
    traces = {trace["name"]: trace for trace in page.plots["c0-clients"]["traces"] if "texts" in trace}
    (invalid,) = traces["invalid, left out"]["texts"]
    assert invalid.startswith("b1-nodes2-clients4\n4 clients: ")
    assert invalid not in traces["2 nodes"]["texts"]


def test_each_plot_has_titled_axes(page):
    assert len(page.plots) >= 10
    for plot in page.plots.values():
        assert all(axis["title"] for axis in (plot["x"], *plot["panels"]))


def test_each_plot_is_drawn_in_the_page_itself(page):
    assert page.drawings.keys() == page.plots.keys()
    for name, plot in page.plots.items():
        points = sum(value is not None for trace in plot["traces"] if "texts" in trace for value in trace["y"])
        assert page.drawings[name] > min(points, 10), name


def test_a_report_of_36_runs_is_small(html):
    assert len(html.encode()) < 400_000


def test_the_answer_is_two_sentences_and_the_exclusions_before_unfolding(page):
    answer = " ".join(" ".join(page.unfolded).split())
    answer = answer[answer.index("and with its clients?") : answer.index("Throughput against nodes")]
    assert "Throughput grew from" in answer
    assert "makes no claim beyond 3 nodes" in answer
    assert "34 of 36 runs are used" in answer
    assert "coherency" not in answer
    assert "coherency" in page.text
    assert len(answer) < 600


def test_each_fit_has_its_table_and_its_residuals(page):
    for title in (
        "Over nodes, each at its best number of clients",
        "Over clients at 1 node",
        "Over clients at 3 nodes",
    ):
        assert title in page.headings
    assert [name for name in page.plots if "residuals" in name] == [f"c0-residuals-{i}" for i in range(4)]


def test_the_setup_names_machine_store_workload_and_seed(page):
    setup = page.text[page.text.rindex("Setup") :]
    machine = ["Example CPU 3.0 GHz", "16 logical CPUs", "Linux 6.1"]
    store = ["opensearch 3.8.0", "each 0.5 CPUs and 1 GiB"]
    load = ["documents 30000", "factor nodes", "1, 2, 3", "experiment: simulated"]
    assert [words for words in machine + store + load if words not in setup] == []


def test_an_experiment_without_a_valid_run_claims_nothing(tmp_path):
    names = [f"b1-nodes{n}-clients{c}" for n in (1, 2, 3) for c in (1, 2)]
    path = write_experiment(tmp_path / "e", clients=(1, 2), repetitions=1, invalid=names)
    page = Page(sweep_page(read_sweep(path)))
    assert "No answer: no run of range_100 is valid." in page.text
    assert "0 of 6 runs are used; left out: 6 invalid." in page.text
    assert "Throughput against nodes" not in page.headings


def test_an_experiment_that_has_hardly_begun_is_reported(tmp_path):
    names = [f"b1-nodes{n}-clients{c}" for n in (1, 2) for c in (1, 2)]
    path = write_experiment(tmp_path / "e", nodes=(1, 2), clients=(1, 2), repetitions=1, missing=names[1:])
    page = Page(sweep_page(read_sweep(path)))
    assert "1 of 4 runs is used; left out: 3 not made." in page.text
    assert "The highest mean throughput was" in page.text


def test_words_of_the_experiment_cannot_become_markup(tmp_path):
    path = write_experiment(tmp_path / "e", clients=(1, 2), nodes=(1,), repetitions=1)
    file = path / "experiment.json"
    file.write_text(file.read_text().replace("How does", "<script>alert(1)</script>"))
    assert "<script>alert" not in sweep_page(read_sweep(path))


def test_two_stores_share_a_plot_and_a_table(tmp_path):
    sweep = read_sweep(write_experiment(tmp_path / "e", nodes=(1,), clients=(1, 2, 4)))
    (curves,) = sweep.curves
    stores = [replace(curves, others={"store.kind": kind}) for kind in ("redis", "sim")]
    page = sweep_page(replace(sweep, curves=tuple(stores), tiers=sweep.tiers * 2))
    shown = Page(page)
    plot = shown.plots["beside-0"]
    assert [trace["name"] for trace in plot["traces"]] == ["kind redis", "kind sim"]
    assert [trace["x"] for trace in plot["traces"]] == [[1, 2, 4]] * 2
    (table,) = [table for title, table in page.tables if title.endswith("side by side")]
    assert [row[0].text for row in table.rows] == ["kind redis"] * 3 + ["kind sim"] * 3
    assert {row[4].small for row in table.rows} == {curves.operation}


def test_the_highest_throughput_without_a_fit_is_that_of_the_table(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(sigma=0.9, kappa=0, noise=0.05), nodes=(1,), clients=(4, 8))
    (curves,) = read_sweep(path).curves
    best = max(curves.treatments, key=lambda at: at.throughput.value)
    page = Page(sweep_page(read_sweep(path)))
    figure = measured_text(best.throughput)
    assert lead(curves) == f"The highest mean throughput was {figure} requests/s with {best.clients} clients."
    assert page.text.count(figure.partition(" [")[0]) >= 2, "in the answer and in the table"


@pytest.mark.parametrize("nodes", [(1,), (1, 2)])
def test_response_times_name_their_operation_if_there_are_several(tmp_path, nodes):
    path = write_experiment(tmp_path / "e", nodes=nodes, clients=(1, 2), repetitions=1)
    words = "p50 and p99 are response times of range_100"
    assert words not in Page(sweep_page(read_sweep(path))).text
    for file in path.glob("runs/*/summary.json"):
        summary = json.loads(file.read_text())
        (phase,) = summary["phases"]
        rare = phase["operations"]["range_100"] | {"successes": 1}
        phase["operations"]["rare"] = rare
        file.write_text(json.dumps(summary))
    sweep = read_sweep(path)
    assert words in Page(sweep_page(sweep)).text
    console = Console(file=io.StringIO(), width=200)
    print_sweep(sweep, console)
    assert words in console.file.getvalue()


def test_a_single_store_has_no_plot_side_by_side(page):
    assert "beside-0" not in page.plots
