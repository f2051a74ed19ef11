"""`loadframe workloads` on the command line."""

import json
import re

import pytest

from commands import loadframe
from loadframe.library.workload import Outline
from loadframe.workload.workload import library_names


def test_the_library_is_listed_with_a_line_on_each():
    done = loadframe("workloads")
    assert done.returncode == 0
    assert re.search(r"^nyc_taxis +Taxi trips", done.stdout, re.MULTILINE)
    assert {"name", "description"} == set(json.loads(loadframe("workloads", "--json").stdout)[0])


def test_a_workload_is_shown_with_its_parameters_operations_and_phases():
    shown = loadframe("workloads", "nyc_taxis").stdout
    spaced = " ".join(shown.split())
    for words in ("documents 100000", "bulk_clients ${clients}", "range_100 search", "with the corpus"):
        assert words in spaced
    assert "match_all_1000_sleep_500ms" in shown


@pytest.mark.parametrize("name", library_names())
def test_each_built_in_workload_is_shown(name):
    done = loadframe("workloads", name)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_workload_is_described_to_programs():
    told = json.loads(loadframe("workloads", "nyc_taxis", "--json").stdout)
    assert told["parameters"]["documents"] == 100_000
    assert told["operations"]["bulk"] == ["bulk"]
    phase = {phase["name"]: phase for phase in told["phases"]}["match_all_1000_sleep_20ms"]
    assert (phase["warmup"], phase["duration"], phase["prepares"]) == (1.0, 5.0, False)
    assert phase["streams"] == [
        {"name": "match_all_1000", "mix": {"match_all_1000": 1.0}, "clients": 8, "think_time": 0.02}
    ]


@pytest.mark.parametrize("kind", ["rate: 10/s", "clients: 1, think_time: 1s"])
def test_a_users_own_file_is_shown_too(tmp_path, kind):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "workload: mine\ncollections: {c: {}}\n"
        "operations: {a: {search: {collection: c}}, b: {get: {collection: c, id: x}}}\n"
        f"phases: [{{name: p, mix: {{a: 3, b: 1}}, {kind}, requests: 1}}]\n"
    )
    shown = loadframe("workloads", str(path)).stdout
    assert "after 1 request " in shown
    assert "3 a + 1 b" in shown


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (
            "operation: a, rate: {from: 1/s, stages: [{to: 9/s, over: 9s}, {to: 5/s, over: 0s}]}, duration: 9s",
            "1 to 9 to 5/s",
        ),
        ("operation: a, clients: {from: 1, stages: [{to: 10, over: 9s}]}, duration: 9s", "1 to 10 clients"),
        ("operation: a, clients: 1, think_time: {uniform: [1s, 2s]}, requests: 1", "thinking 1 s to 2 s"),
        ("operation: a, clients: 1, think_time: {normal: [1s, 2s]}, requests: 1", "thinking 1 s on average"),
        ("journey: [a], users: 10, journeys: 3", "after 3 journeys of each user a, 10 users on 64 clients"),
        ("operation: take, source: s, until: exhausted", "with the source take, events of s on 4 workers"),
        ("streams: [{operation: a, clients: 1, duration: 3s}]", "with the last stream a, 1 client"),
        ("streams: [{operation: a, clients: 1, duration: 3s}], ends_with: any", "with the first stream to end"),
    ],
)
def test_each_load_and_end_of_a_phase_is_shown(tmp_path, phase, words):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "workload: mine\ncollections: {c: {}}\n"
        "sources:\n"
        "  s: {generate: {generator: adbids, rate: 9/s, documents: 9}, events: {kinds: {k: {id: i, time: t}}}}\n"
        "operations: {a: {search: {collection: c}}, take: {take_in: {collection: c}}}\n"
        f"phases: [{{name: p, {phase}}}]\n"
    )
    shown = str(Outline(path))
    assert words in " ".join(shown.split())


def test_an_unknown_workload_is_bad_input_with_the_nearest():
    done = loadframe("workloads", "nyc_taxi")
    assert done.returncode == 2
    assert done.stderr == (
        "loadframe: unknown workload 'nyc_taxi'\n  "
        "did you mean 'nyc_taxis'? (the path of a workload file ends with .yaml)\n"
    )


def test_an_empty_name_is_an_unknown_workload():
    done = loadframe("workloads", "")
    assert done.returncode == 2
    assert done.stderr.startswith("loadframe: unknown workload ''\n")


def test_a_broken_file_is_bad_input_with_its_place(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text("workload: w\noperatoins: {}\nphases: []\n")
    done = loadframe("workloads", str(path), "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"loadframe: {path}:2:1: unknown key 'operatoins'\n  did you mean 'operations'?\n"


def test_several_operations_of_a_phase_are_a_mix(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(
        "workload: w\noperations: {a: {http: {method: GET, path: /}}}\nphases: [{name: p, operations: [a, b]}]\n"
    )
    done = loadframe("workloads", str(path))
    assert done.stderr == (
        f"loadframe: {path}:3:20: unknown key 'operations'\n"
        "  give each operation a weight, such as mix: {read: 95, update: 5}\n"
    )


def test_the_help_has_examples():
    assert "loadframe workloads nyc_taxis" in loadframe("workloads", "--help").stdout
