"""The report of a capacity experiment: page, terminal and JSON."""

import io

from capacity_folder import write_capacity
from pages import Page
from rich.console import Console

from loadframe.report.kinds import read_report

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
    assert "55 requests/s needs 1 node" in answer
    assert report.page.answer[0].startswith(NEED)
    told = printed(report)
    assert told.index(NEED) < told.index("treatment")
    assert told.count(NEED) == 1
    keys = list(report.document)
    assert keys.index("demands") < keys.index("capacities")
    assert report.document["demands"][0]["sentence"].startswith(NEED)
    assert report.document["demands"][0]["single_search"]


def test_a_lower_bound_by_several_searches_leaves_the_number_of_nodes_open(tmp_path):
    trials = {nodes: [(60.0, True)] * 3 for nodes in (1, 2)}
    report = read_report(write_capacity(tmp_path / "e", trials, searches=2, demands=[40.0]))
    (entry,) = report.document["demands"]
    assert not entry["single_search"]
    assert "unknown number" not in entry["sentence"]
