"""The report of a capacity experiment: page, terminal and JSON."""

import io
import json

import pytest
from capacity_folder import write_capacity
from pages import Page
from rich.console import Console

import loadframe
from loadframe.analyze.telemetry import UPTIME
from loadframe.record import Run
from loadframe.report.kinds import read_report
from simulated import add_samples

NEED = "40 requests/s needs 1 node; only an indication, since one search at a number of nodes does not give an interval"


def printed(report):
    console = Console(file=io.StringIO(), width=200)
    report.show(console)
    return console.file.getvalue()


def test_the_answers_to_the_demands_come_first_and_unfolded(tmp_path):
    trials = {nodes: [(60.0, True)] * 3 for nodes in (1, 2)}
    report = read_report(write_capacity(tmp_path / "e", trials, demands=[40.0, 50.0, 55.0]))
    unfolded = " ".join(" ".join(Page(report.page).unfolded).split())
    answer = unfolded[: unfolded.index("Trials")]
    assert NEED in answer
    for row in ("nodes 1 at least 60 at least", "nodes 2 at least 60 at least"):
        assert row in answer
    assert "55 requests/s needs 1 node" in answer
    assert report.page.answer[0].startswith(NEED)
    told = printed(report)
    assert told.index(NEED) < told.index("treatment")
    assert told.count(NEED) == 1
    keys = list(report.document)
    assert keys.index("demands") < keys.index("capacities")
    assert report.document["demands"][0]["sentence"].startswith(NEED)
    assert report.document["demands"][0]["single_search"]


def test_each_search_shows_the_last_trial_that_passed_and_the_first_that_failed_above(tmp_path):
    trials = {1: [(40.0, True), (60.0, False), (60.0, False), (40.0, True), (40.0, True)]}
    report = read_report(write_capacity(tmp_path / "e", trials, searches=2, demands=[50.0]))
    unfolded = " ".join(" ".join(Page(report.page).unfolded).split())
    _, _, rest = unfolded.partition("The last trial that passed, and the first above it that did not, of each search:")
    for block in (1, 2):
        passed, failed = f"b{block}-nodes1-t4", f"b{block}-nodes1-t1"
        assert rest.index(f"{block} {passed} passed 40") < rest.index(f"{block} {failed} failed p99 was")
        assert report.document["capacities"][0]["searches"][block - 1]["deciding"] == [passed, failed]
    assert "1 to 60 requests/s, starting at 40" in Page(report.page).text
    assert "50 requests/s" in Page(report.page).text


def test_a_lower_bound_by_several_searches_leaves_the_number_of_nodes_open(tmp_path):
    trials = {nodes: [(60.0, True)] * 3 for nodes in (1, 2)}
    report = read_report(write_capacity(tmp_path / "e", trials, searches=2, demands=[40.0]))
    (entry,) = report.document["demands"]
    assert not entry["single_search"]
    assert "unknown number" not in entry["sentence"]


def everywhere(path):
    """Return the first answer to a demand: in the terminal, the page, the report's JSON and the library."""
    report, library = read_report(path), loadframe.capacity(path)
    document = json.loads(json.dumps(report.document["demands"][0]))
    assert json.loads(json.dumps(library.as_dict()["demands"][0])) == document
    words = document["sentence"]
    for text in (printed(report), str(library), " ".join(report.page.answer)):
        assert " ".join(words.split()) in " ".join(text.split())
    return document


def test_fewer_nodes_than_those_measured_are_named_as_not_measured(tmp_path):
    trials = {nodes: [(60.0, True)] * 3 for nodes in (2, 3)}
    answer = everywhere(write_capacity(tmp_path / "e", trials, searches=2, demands=[40.0]))
    assert answer["sentence"].startswith("2 nodes sustain 40 requests/s; fewer were not measured, and may suffice;")
    assert (answer["nodes"], answer["least"], answer["untested"], answer["unfinished"]) == (2, 1, [1], [])


def test_a_load_at_which_trials_failed_needs_more_nodes_or_is_open(tmp_path):
    mixed = [(60.0, False), (60.0, False), (60.0, True), (60.0, True), (60.0, True)]
    for name, trials, nodes in (("both", {1: mixed, 2: [(60.0, True)] * 3}, 2), ("one", {1: mixed}, None)):
        answer = everywhere(write_capacity(tmp_path / name, trials, demands=[60.0]))
        assert answer["nodes"] == nodes
        assert answer["perhaps"] == {"nodes": 1, "passed": 3, "trials": 5, "reserve": pytest.approx(-0.2)}
        assert "1 node" in answer["sentence"]
        assert "within 5 % of this load 3 of 5 trials passed" in answer["sentence"]


def beside_few_requests(report):
    """Return the warnings except `few_requests`: the made-up trials take only 5 s."""
    return [warning for warning in report.document["warnings"] if warning["code"] != "few_requests"]


SLOW = [(30.0, False), (30.0, False), (10.0, True), (10.0, True), (10.0, True)]


@pytest.mark.parametrize(
    ("warmup", "prepare", "short"),
    [(5.0, ["load"], True), (5.0, ["load", "range_100"], False), (60.0, ["load"], False)],
)
def test_more_nodes_with_less_capacity_are_a_warning(tmp_path, warmup, prepare, short):
    trials = {1: [(60.0, True)] * 3, 2: SLOW}
    path = write_capacity(tmp_path / "e", trials, warmup=warmup, prepare=prepare, demands=[300.0])
    description = json.loads((path / "experiment.json").read_text())
    description["search"] |= {"start": 30.0, "factor": 3.0, "precision": 5.0}
    (path / "experiment.json").write_text(json.dumps(description))
    report = read_report(path)
    (warning,) = beside_few_requests(report)
    assert warning["code"] == "less_on_more_nodes"
    assert "2 nodes sustained less load than 1 node: at most 30 against at least 60 requests/s" in warning["cause"]
    assert ("JVM" in warning["remedy"]) is short
    assert "2 nodes sustained less load" in printed(report)
    assert "2 nodes sustained less load" in Page(report.page).text
    open_ = (
        "It is open how many nodes sustain 300 requests/s: no measured cluster did, but larger clusters sustained less"
    )
    (entry,) = report.document["demands"]
    assert entry["sentence"].startswith(open_)
    assert (entry["nodes"], entry["extrapolated"]) == (None, False)
    assert open_ in printed(report)
    assert report.page.answer[0].startswith(open_)


@pytest.mark.parametrize(
    ("young", "old", "named"),
    [(None, 0, False), (60e3, 9e7, True), (900e3, 2100e3, True), (7200e3, 9e7, False), (2000e3, 2100e3, False)],
)
def test_less_capacity_with_a_new_node_names_the_cold_node_as_a_cause(tmp_path, young, old, named):
    path = write_capacity(tmp_path / "e", {1: [(60.0, True)] * 3, 2: SLOW}, warmup=60.0)
    description = json.loads((path / "experiment.json").read_text())
    description["search"] |= {"start": 30.0, "factor": 3.0, "precision": 5.0}
    (path / "experiment.json").write_text(json.dumps(description))
    if young:
        run = Run(path / "runs" / "b1-nodes2-t4")
        begin = run.summary.measured[0].begin
        ages = {"node:0": old, "node:1": young}
        add_samples(run, UPTIME, [(begin + t, name, age + 1e3 * t) for name, age in ages.items() for t in range(4)])
    report = read_report(path)
    (remedy,) = [told["remedy"] for told in report.document["warnings"] if told["code"] == "less_on_more_nodes"]
    assert ("A cold new node is a likely cause: the youngest had run for" in remedy) == named
    assert ("Load the new node for 5 minutes before its runs" in remedy) == named


def test_a_rate_that_failed_below_one_that_passed_is_a_warning(tmp_path):
    tried = [(30.0, False), (30.0, True), (60.0, True), (60.0, True), (60.0, True)]
    report = read_report(write_capacity(tmp_path / "e", {1: tried}, warmup=5.0))
    (warning,) = beside_few_requests(report)
    assert warning["code"] == "not_monotone"
    assert "b1-nodes1-t0 failed at 30, but b1-nodes1-t2 passed at 60 requests/s" in warning["cause"]
    assert "the warm-up of 5 s is short" in warning["remedy"]
    assert "the load alone does not decide, so" not in report.page.answer[0]


def test_a_failure_long_after_a_higher_rate_had_passed_is_named_in_the_answer(tmp_path):
    tried = [(60.0, True), (60.0, True), (60.0, True), (30.0, False), (30.0, True)]
    report = read_report(write_capacity(tmp_path / "e", {1: tried}, warmup=5.0))
    doubt = "But a trial at 30/s failed (b1-nodes1-t3) and one at 60/s passed: the load alone does not decide, so"
    assert doubt in report.page.answer[0]
    assert doubt in " ".join(printed(report).split())


def test_a_demand_above_the_highest_rate_names_the_capacity(tmp_path):
    report = read_report(write_capacity(tmp_path / "e", {1: [(60.0, True)] * 3}, searches=2, demands=[80.0]))
    assert report.document["demands"][0]["sentence"] == (
        "Inconclusive: the searches do not show whether 1 node (capacity: at least 60 requests/s) can sustain"
        " 80 requests/s. Raise search: most."
    )


def test_a_search_in_order_has_no_warning_and_a_lower_bound_has_a_triangle(tmp_path):
    trials = {nodes: [(60.0, True)] * 3 for nodes in (1, 2)}
    report = read_report(write_capacity(tmp_path / "e", trials, warmup=5.0))
    assert beside_few_requests(report) == []
    assert [trace["name"] for trace in Page(report.page).plots["capacity"]["traces"]][-1] == "at least"


def test_the_nodes_of_an_existing_cluster_are_those_that_its_runs_recorded(tmp_path):
    path = write_capacity(tmp_path / "e", {1: [(60.0, True)] * 3}, store={"kind": "sim", "hosts": ["h:1"]}, factors={})
    described = json.loads((path / "experiment.json").read_text())
    for entry in described["design"]:
        del entry["treatment"]["nodes"]
        manifest = path / "runs" / entry["run"] / "manifest.json"
        run = json.loads(manifest.read_text())
        del run["treatment"]["nodes"]
        run["store"]["nodes"] = 2
        manifest.write_text(json.dumps(run))
    (path / "experiment.json").write_text(json.dumps(described))
    report = read_report(path)
    assert [capacity["nodes"] for capacity in report.document["capacities"]] == [2]
    assert "2 nodes" in printed(report)
    assert "1 node" not in printed(report)


@pytest.mark.parametrize(("trial", "told"), [(0, False), (2, True)])
def test_nodes_that_were_fresh_before_the_deciding_trials_are_no_doubt(tmp_path, trial, told):
    trials = {1: [(20.0, True)] * 3, 2: [(10.0, True), *[(20.0, True)] * 3]}
    path = write_capacity(tmp_path / "e", trials, demands=[100.0])
    run = Run(path / "runs" / f"b1-nodes2-t{trial}")
    begin = run.summary.measured[0].begin
    ages = {"node:0": 3600e3, "node:1": 20e3}
    add_samples(run, UPTIME, [(begin + t, name, age + 1e3 * t) for name, age in ages.items() for t in range(4)])
    report = read_report(path)
    assert ("fresh_node" in [warning["code"] for warning in report.document["warnings"]]) == told
    assert ("new nodes were still cold" in report.document["demands"][0]["sentence"]) == told


def test_failures_that_the_search_did_not_count_are_named(tmp_path):
    # 25/s failed once before 35.36/s passed, and once more after it.
    tried = [(50.0, False), (50.0, False), (25.0, False), (25.0, True), (35.36, False), (35.36, True), (35.36, False),
             (25.0, True), (25.0, False), (25.0, True)]  # fmt: skip
    for place, changed, names in ((0, tried, "b1-nodes1-t2"), (1, [*tried[:2], *tried[3:]], None)):
        path = write_capacity(tmp_path / str(place), {1: changed}, search={"start": 50.0, "least": 1.0, "most": 800.0,
                              "factor": 2.0, "precision": 0.5})  # fmt: skip
        report = read_report(path)
        assert report.document["capacities"][0]["bracket"] == {"held": 25.0, "failed": 35.36}
        told = " ".join(printed(report).split())
        assert "failed at most one counted trial" in told
        assert (f"did not count 1 failed trial at its answer ({names})" in told) == (names is not None)
        assert ("not counted" in Page(report.page).text) == (names is not None)
