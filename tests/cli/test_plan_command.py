"""`loadframe plan`: of a file by what is supposed, of a folder by what its runs say; starts nothing."""

import json

import pytest

from commands import within
from loadframe.simulate import outlook
from simulated import Truth, write_experiment

FILE = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: scale
factors: {nodes: [1, 2, 4]}
measure: range_100
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(outlook, "TRIALS", 4)


def test_of_a_file_everything_is_supposed(tmp_path):
    (tmp_path / "e.yaml").write_text(FILE)
    status, told, _ = within("plan", tmp_path / "e.yaml", "--sigma", "0.1", "--json")
    planned = json.loads(told)
    assert status == 0
    assert planned["origin"] == "supposed"
    assert planned["law"]["sigma"] == 0.1
    assert planned["designs"][0]["sizes"] == [1, 2, 4]
    assert planned["best"] in [design["name"] for design in planned["designs"]]
    assert planned["effects"] == [{"factor": "nodes", "runs": 1, "least": None}]


def test_in_words_it_says_what_to_measure_next(tmp_path):
    (tmp_path / "e.yaml").write_text(FILE)
    status, told, _ = within("plan", tmp_path / "e.yaml")
    words = " ".join(told.split())
    assert status == 0
    assert "The true peak is at 44 nodes" in words
    assert "Most is learned per run by" in words


def test_of_a_folder_it_takes_what_the_runs_say(tmp_path):
    truth = Truth(node_sigma=0.2, noise=0.02, seconds=2)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 2, 4, 8), clients=(8,), repetitions=3)
    status, told, _ = within("plan", path, "--json")
    planned = json.loads(told)
    assert status == 0
    assert planned["origin"] == "fitted to the runs that are there"
    assert planned["made"] == 12
    assert planned["law"]["sigma"] == pytest.approx(0.2, abs=0.06)
    assert 0.01 < planned["law"]["noise"] < 0.04


COMPARE = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: compare
variants: {old: {clients: 2}, new: {clients: 4}}
measure: range_100
repetitions: 5
"""


def test_before_a_gate_is_measured_it_is_told_what_it_would_find(tmp_path):
    (tmp_path / "e.yaml").write_text(COMPARE)
    status, told, _ = within("plan", tmp_path / "e.yaml", "--noise", "0.03", "--json")
    rows = {(row["check"], row["runs"]): row for row in json.loads(told)["gate"]}
    assert status == 0
    throughput = rows["throughput", 5]
    assert list(throughput["power"]) == ["0.05", "0.1", "0.2"]
    assert throughput["power"]["0.05"] < 0.5 < 0.99 < throughput["power"]["0.2"]
    assert 0.05 < rows["throughput", 10]["finds"] < throughput["finds"] < 0.15
    assert rows["p99", 5]["finds"] > throughput["finds"]
    _, told, _ = within("plan", tmp_path / "e.yaml")
    assert "As a gate, against a baseline that is measured in the same blocks" in " ".join(told.split())


@pytest.mark.parametrize("words", [["--noise", "2"], ["--budget", "0"], ["--sigma", "-1"]])
def test_what_cannot_be_is_refused(tmp_path, words):
    (tmp_path / "e.yaml").write_text(FILE)
    status, _, said = within("plan", tmp_path / "e.yaml", *words)
    assert status == 2
    assert said.startswith("loadframe: ")
