"""The report of an elastic experiment: its findings in folders with known truth, and their wording."""

import io
import json
import math
import re
from dataclasses import replace

import pytest
from pages import Page
from rich.console import Console

from elastic_folder import ASKED, BALANCED, GAIN, JOINED, SECONDS, write_elastic
from loadframe.analyze.elastic import read_elasticity
from loadframe.analyze.elastic.measures import Value
from loadframe.analyze.elastic.repeated import repeated
from loadframe.analyze.rates import THROUGHPUT
from loadframe.base.units import format_share
from loadframe.report.kinds import elastic, read_report
from loadframe.report.kinds.elastic import elastic_page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_elastic(tmp_path_factory.mktemp("elastic") / "e")


@pytest.fixture(scope="module")
def elasticity(folder):
    return read_elasticity(folder)


@pytest.fixture(scope="module")
def page(elasticity):
    return Page(elastic_page(elasticity))


def test_the_folder_gives_back_the_truth_it_was_made_from(elasticity):
    (group,) = elasticity.groups
    (step,) = group.steps
    measures = {name: measure.mean.value for name, measure in step.measures.items()}
    assert (step.before, step.after, step.change) == (1, 2, "add 1")
    assert step.horizon == pytest.approx(SECONDS - ASKED, abs=0.1)
    assert measures["join_delay"] == pytest.approx(JOINED - ASKED)
    assert measures["redistribution"] == pytest.approx(BALANCED - JOINED)
    assert measures["stabilisation"] == pytest.approx(40.0, rel=0.05)
    assert step.measures["lost_work"].difference.value == pytest.approx(20.0, rel=0.05)
    assert measures["realised_gain"] == pytest.approx(GAIN / 2, rel=0.05)
    assert measures["break_even"] == pytest.approx(40 + 20 / (GAIN - 1), rel=0.05)
    assert measures["disturbance"] == pytest.approx(0.5, rel=0.05)


def test_what_the_file_says_of_capacity_is_what_throughput_is_held_against(tmp_path):
    capacity = [{"nodes": 1, "rate": 500.0}, {"nodes": 2, "rate": 1000.0}]
    (group,) = read_elasticity(write_elastic(tmp_path / "e", repetitions=1, capacity=capacity)).groups
    measures = group.steps[0].measures
    reached = measures["capacity_reached"]
    assert reached.mean.value == pytest.approx(measures["x1"].mean.value / 1000)
    assert reached.control[1].value == pytest.approx(measures["x1"].control[1].value / 500), "there is one node"


def test_a_policy_is_scored_where_the_file_has_capacities(tmp_path):
    capacity = [{"nodes": 1, "rate": 60.0}, {"nodes": 2, "rate": 120.0}]
    path = write_elastic(tmp_path / "e", repetitions=1, rate=100.0, capacity=capacity)
    description = json.loads((path / "experiment.json").read_text())
    description["transitions"]["grow"] = {"nodes": None, "timeline": None, "policy": {"target": 0.6, "most": 2}}
    (path / "experiment.json").write_text(json.dumps(description))
    elasticity = read_elasticity(path)
    # Two nodes were needed throughout, and there from the instant at which the second had its data.
    short = BALANCED / SECONDS
    (score,) = elasticity.groups[0].provisioning.values()
    assert score.under_share == pytest.approx(short, abs=0.01)
    assert score.under_accuracy == pytest.approx(short / 2, abs=0.01)
    assert (score.over_share, score.over_accuracy) == (0.0, 0.0)
    assert score.jitter == pytest.approx(1 / SECONDS, rel=0.02)
    assert format_share(score.under_share, 1) in elastic_page(elasticity)


def test_the_answer_gives_cost_and_gain_of_the_node(page):
    answer = page.text[: page.text.index("grow, steady")]
    assert "What does a second node cost, and what does it bring?" in answer
    assert "Add 1: the node was a member after 15 s" in answer
    assert "more than the control run lost; recovered after" in answer
    assert "2 times the nodes gave 1.68 times the throughput: a realised gain of 84 %" in answer
    assert "All 4 runs are valid." in answer


def test_a_gain_that_came_without_the_node_is_not_claimed(tmp_path):
    text = " ".join(Page(elastic_page(read_elasticity(write_elastic(tmp_path / "e", drift=(1.5,))))).text.split())
    assert "2 times the nodes gave 1.68 times the throughput, but without them, in the control run" in text
    assert "cannot be separated from drift" in text
    assert "realised gain of 84 %" not in text
    assert re.search(r"without the change, throughput became 1\.5\d \[1\.\d\d, 1\.\d\d\] times its earlier level", text)


def test_a_gain_that_control_runs_may_have_by_chance_is_not_claimed(tmp_path):
    elasticity = read_elasticity(write_elastic(tmp_path / "e", drift=(0.7, 1.9)))
    text = " ".join(Page(elastic_page(elasticity)).text.split())
    assert "may be chance: the result is inconclusive" in text
    assert "realised gain of 84 %" not in text
    assert "without the change, throughput became" not in text, "what scatters this much is not a drift"


def test_more_nodes_with_less_throughput_are_not_a_gain(tmp_path):
    elasticity = read_elasticity(write_elastic(tmp_path / "e", gain=0.8))
    text = " ".join(Page(elastic_page(elasticity)).text.split())
    assert "2 times the nodes gave 0.79 times the throughput: more nodes, less throughput" in text


def test_a_single_run_is_not_said_to_have_done_less(tmp_path):
    elasticity = read_elasticity(write_elastic(tmp_path / "e", gain=0.97, repetitions=1, control=False))
    text = " ".join(Page(elastic_page(elasticity)).text.split())
    assert "more nodes did less" not in text
    assert "times the throughput: less than before, in a single run, so the run-to-run variance is unknown" in text


def test_values_from_some_runs_are_marked_as_such(tmp_path):
    path = write_elastic(tmp_path / "e")
    early = path / "runs" / "b2-grow-steady" / "events.jsonl"
    entries = [json.loads(line) for line in early.read_text().splitlines()]
    for entry in entries:
        if entry["kind"] not in ("phase started", "phase ended"):
            entry["time"] -= 50
    early.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    text = " ".join(Page(elastic_page(read_elasticity(path))).text.split())
    assert "2 times the nodes gave 1.69 times the throughput (from 1 of 2 runs): a realised gain" in text
    assert ", in a single run, so the run-to-run variance is unknown" in text
    assert "1 of 2 runs had less: measures that rely on these levels come from the other runs only" in text


def test_the_plot_has_one_time_axis_with_all_lanes_and_the_events(page):
    plot = page.plots["g0"]
    titles = [panel["title"] for panel in plot["panels"]]
    assert titles == ["clients", "requests/s", "response, ms", "failed/s", "cores"]
    names = [trace["name"] for trace in plot["traces"]]
    assert names == ["load", "control run", "throughput", "p50", "p99", "failed", "CPU of 0"]
    assert plot["labels"] == ["node-1 requested", "node-1 joined", "node-1 balanced"]
    assert plot["rules"] == pytest.approx([ASKED, JOINED, BALANCED])


def test_nothing_is_loaded_from_anywhere(page):
    assert page.loads == []


def test_the_terminal_has_the_measures_with_their_control(folder):
    console = Console(file=io.StringIO(), width=120)
    read_report(folder).show(console)
    text = console.file.getvalue()
    assert "Step 1: add 1 (1 node, then 2; 2 min 20 s observed)" in text
    (line,) = [line for line in text.splitlines() if line.startswith("throughput deficit")]
    assert line.count("[") == 2


def test_the_document_is_json_with_censored_values_marked(folder):
    document = json.loads(json.dumps(read_report(folder).document, allow_nan=False))
    (step,) = document["transitions"][0]["steps"]
    assert step["measures"]["join_delay"]["censored"] == 0
    assert step["measures"]["lost_work"]["values"].keys() == {"1", "2"}


def test_one_run_without_a_control_says_how_little_that_is(tmp_path):
    elasticity = read_elasticity(write_elastic(tmp_path / "e", repetitions=1, control=False))
    causes = " ".join(warning.cause for warning in elasticity.groups[0].warnings)
    assert "no control run" in causes
    assert "one run with the change" in causes
    assert "What does a second" in elastic_page(elasticity)


def test_without_a_valid_run_nothing_is_claimed(tmp_path):
    path = write_elastic(tmp_path / "e", repetitions=1, failed="b1-grow-steady")
    page = Page(elastic_page(read_elasticity(path)))
    assert "No answer: no run with the event is valid." in page.text
    assert "1 of 2 runs is used; left out: 1 bounded." in page.text


def test_the_course_of_invalid_runs_is_shown_marked_and_with_the_rules_that_apply(tmp_path):
    elasticity = read_elasticity(write_elastic(tmp_path / "e", repetitions=1, failed="b1-grow-steady"))
    page = Page(elastic_page(elasticity))
    text = " ".join(page.text.split())
    assert "The plot shows b1-grow-steady, which is invalid: in phase look a generator thread used" in text
    assert "No figure uses it." in text
    assert "are invalid if the load generator was the limit, no request succeeded, or a step was" in text
    assert "INVALID: see the reasons above. Run b1-grow-steady" in text
    names = [trace["name"] for trace in page.plots["g0"]["traces"]]
    assert "throughput" in names
    assert elasticity.groups[0].steps == ()
    assert elasticity.as_dict()["transitions"][0]["invalid"] == ["b1-grow-steady"]
    valid = read_elasticity(write_elastic(tmp_path / "valid", repetitions=1))
    assert "INVALID" not in Page(elastic_page(valid)).text


def test_open_loads_report_the_worst_second_instead_of_a_gain(tmp_path):
    elasticity = read_elasticity(write_elastic(tmp_path / "e", repetitions=1, rate=100.0))
    (step,) = elasticity.groups[0].steps
    assert "realised_gain" not in step.measures
    page = Page(elastic_page(elasticity))
    assert "In the worst second, p99 was" in page.text
    assert page.plots["g0"]["panels"][0]["title"] == "offered/s"
    # In an unknown second, p99 may have been longer.
    slow = step.measures["slowdown"].values[1]
    bound = repeated("slowdown", 1, {1: replace(slow, censored=True)}, {})
    *_, words = elastic._sentences(elasticity.groups[0], replace(step, measures={**step.measures, "slowdown": bound}))
    assert re.match(r"In the worst second, p99 was at least .* before the step; it was .*ms before and", words)


def test_failed_requests_of_a_step_are_named(elasticity):
    step = elasticity.groups[0].steps[0]
    failed = repeated("errors", 1, {1: Value(2573.0)}, {1: Value(4.0)})
    words = elastic._sentences(elasticity.groups[0], replace(step, measures={**step.measures, "errors": failed}))
    assert "2,573 requests failed or were dropped, 4 in the control run." in words


def test_experiments_in_documents_use_documents_everywhere(tmp_path, elasticity):
    path = write_elastic(tmp_path / "e")
    description = json.loads((path / "experiment.json").read_text())
    (path / "experiment.json").write_text(json.dumps(description | {"objective": "documents"}))
    (counted,), (asked,) = read_elasticity(path).groups, elasticity.groups
    documents, requests = (group.steps[0].measures for group in (counted, asked))
    for name in ("x0", "x1"):
        assert documents[name].mean.value == pytest.approx(100 * requests[name].mean.value), "each request has 100"
    for name in ("lost_work", "disturbance", "growth", "errors", "violation"):
        assert documents[name].mean.value == pytest.approx(requests[name].mean.value)
    terminal = io.StringIO()
    report = read_report(path)
    report.show(Console(file=terminal, width=200))
    texts = (terminal.getvalue(), Page(report.page).text)
    for text in texts:
        assert "the throughput (documents/s)" in text
        assert re.search(r"throughput before\b.{0,60}?[\d.,]+ documents/s", text)
    assert "as many documents" in texts[1]
    assert "requests/s" not in texts[0] + texts[1]
    assert [entry["unit"] for entry in report.document["transitions"]] == ["documents/s"]


def test_an_interval_with_one_open_end_names_the_other():
    bounds = {1: Value(4.0, low=3.0, high=math.inf), 2: Value(4.0, low=3.0, high=math.inf)}
    assert elastic._measure_text(repeated("latency_debt", 2, bounds, {})) == "4 s (at least 3 s)"


def test_differences_of_some_runs_are_marked_as_such():
    values = {block: Value(20.0 + block) for block in (1, 2, 3)}
    control = {block: Value(2.0) for block in (1, 2)}
    lost = repeated("lost_work", 3, values, control)
    row = elastic._row(lost, THROUGHPUT)
    assert "(from" not in row.value
    assert row.difference.endswith("(from 2 of 3 runs)")
    assert elastic._cost(lost).endswith("more than the control run lost (from 2 of 3 runs)")


def test_a_bound_of_some_runs_is_not_mixed_with_the_values_of_the_others():
    censored = {1: Value(480.0, censored=True), 2: Value(90.0), 3: Value(110.0)}
    text = elastic._measure_text(repeated("stabilisation", 3, censored, {}))
    assert text.startswith("> 8 min 00 s (in 1 of 3 runs); 100 s [")
    assert text.endswith("in the others")
