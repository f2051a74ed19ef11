"""`loadframe watch`: the process and the store statistics of each node, once a second."""

import json
import os

import pytest
from rich.console import Console

from loadframe.cli import main
from loadframe.cluster import Cluster, ClusterSpec


@pytest.fixture
def trial(toy):
    with Cluster.start(ClusterSpec(store="toy", nodes=2, name="trial")) as cluster:
        yield cluster


def watch(*words):
    main(["watch", "trial", *words])


def test_each_look_is_a_line_for_programs(trial, capsys):
    with pytest.raises(SystemExit) as left:
        watch("--count", "2", "--json")
    assert left.value.code == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert second["time"] - first["time"] > 0.9
    assert set(first["nodes"]) == {"node-0", "node-1"}
    for look in (first, second):
        for node in look["nodes"].values():
            assert node["process.resident"] > 0
            assert 0 <= node["process.cpu"] < os.cpu_count() + 1
            assert node["pieces"] == 3
            assert node["served/s"] == pytest.approx(100, rel=0.5), "a total is shown by its growth"
        assert 0 <= look["host"]["cpu.busy"] <= 1
        assert look["gaps"] == {}


def test_the_table_has_a_row_for_each_node_and_marks_missing_ones(trial, capsys):
    trial.kill("node-1")
    while trial.nodes[1].alive:
        pass
    with pytest.raises(SystemExit):
        watch("--count", "1")
    said = capsys.readouterr().out
    assert "served/s" in said
    assert "throttled" in said
    assert "node-0 " in said
    assert "node-1 (gone)" in said
    assert "is gone" in said.partition("machine: ")[2]


def test_no_heading_is_cut_where_the_terminal_is_narrow(trial, capsys, monkeypatch):
    monkeypatch.setattr("loadframe.cli.watch.out", Console(width=40))
    with pytest.raises(SystemExit):
        watch("--count", "1")
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 40 for line in lines)
    headings = [line.split() for line in lines if line.startswith("node ")]
    assert len(headings) > 1
    titles = [title for heading in headings for title in heading[1:]]
    assert titles == ["cpu", "throttled", "memory", "read/s", "written/s", "pieces", "served/s"]


def test_a_cluster_that_is_not_there_is_bad_input(state, capsys):
    with pytest.raises(SystemExit) as left:
        watch()
    assert left.value.code == 2
    assert "does not exist" in capsys.readouterr().err
