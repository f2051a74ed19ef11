"""`loadframe import` on the command line."""

import json
from pathlib import Path

import pytest

from commands import loadframe, result

CHECKOUT = Path(__file__).parents[1] / "data" / "checkout"
STEPS = [{"search_queries": [{"body": {"query": {"match_all": {}}}, "weight": 3}], "execution_time_secs": 1}]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.json").write_text(json.dumps(STEPS))
    return tmp_path


def test_queries_become_a_workload_that_the_other_commands_take(folder):
    done = loadframe("import", "queries", "steps.json", "--output", "steps.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == "workload: steps.yaml"
    assert result("workloads", "steps.yaml")["operations"] == {"query_1": ["search"]}


def test_omitted_parts_are_named_on_the_terminal_and_in_the_file():
    done = loadframe("import", "queries", "steps.json")
    assert done.returncode == 0
    named = "steps.json, step 1, search_queries[0]: weight"
    assert named in done.stderr
    assert f"#   - {named}\n" in done.stdout


def test_ycsb_properties_become_a_workload(folder):
    (folder / "workloada").write_text("recordcount=100\nrequestdistribution=latest\n")
    done = loadframe("import", "ycsb", "workloada", "-p", "threadcount=4", "--output", "a.yaml")
    assert done.returncode == 0, done.stderr
    shown = result("workloads", "a.yaml")
    assert shown["parameters"] == {"clients": 4}
    assert shown["operations"] == {"load": ["insert"], "refresh": ["refresh"], "read": ["read"], "update": ["update"]}


def test_a_track_becomes_a_workload(folder):
    (folder / "mine").mkdir()
    track = """{"indices": [{"name": "a"}], "schedule": [
      {"operation": {"name": "look", "operation-type": "search", "body": {}}, "clients": {{ clients | default(1) }} },
      {"operation": {"name": "odd", "operation-type": "juggle"}}]}"""
    (folder / "mine" / "track.json").write_text(track)
    done = loadframe("import", "rally", "mine", "--set", "clients=3", "--output", "mine.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[1:] == ["left out: 1", "  - operation odd: unsupported type juggle"]
    (phase,) = result("workloads", "mine.yaml")["phases"]
    assert phase["streams"] == [{"name": "look", "mix": {"look": 1.0}, "clients": 3}]


def test_a_workload_of_a_checkout_can_be_looked_at_without_a_store_or_a_network(folder):
    rides = CHECKOUT / "rides"
    done = loadframe("import", "rally", rides, "--allow-code", "--test-mode", "--output", "rides.yaml")
    assert done.returncode == 0, done.stderr
    assert f"({rides}/operations/default.json:8)" in done.stderr
    requests = {answer["operation"]: answer["request"] for answer in result("check", "rides.yaml", "--offline")}
    _, body = requests["cheap"].split("\n\n")
    assert json.loads(body) == {"query": {"range": {"fare": {"gte": 5, "lt": 15}}}}
    assert "which is not on this machine" in requests["index"]


def test_many_requests_of_code_have_a_file_of_their_own(folder):
    done = loadframe("import", "rally", CHECKOUT / "rides", "--allow-code", "--draws", "250", "--output", "rides.yaml")
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "rides-requests").iterdir()
    assert len(file.read_text().splitlines()) == 250
    assert "To draw more, raise --draws" in " ".join((folder / "rides.yaml").read_text().replace("#", "").split())
    requests = {answer["operation"]: answer["request"] for answer in result("check", "rides.yaml", "--offline")}
    assert '"fare"' in requests["random-fare"]


def test_a_limit_that_is_reached_is_named_with_its_option(folder):
    (folder / "track.json").write_text("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
    done = loadframe("import", "rally", ".", "--time-limit", "1s")
    assert done.returncode == 2
    assert "the templates need more than 1 s of CPU time" in done.stderr
    assert "--time-limit" in done.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("rally none", "none: the track does not exist"),
        ("rally .", "the folder has neither track.json nor workload.json"),
        ("rally broken.json", "broken.json:1: invalid JSON after rendering"),
        ("rally steps.json --set a=1", "steps.json: expected a JSON object"),
        ("ycsb none", "none: the file does not exist"),
        ("ycsb steps.json", "steps.json:1: "),
        ("ycsb wrong", "wrong:2: recordcount=x: expected a number"),
        ("ycsb wrong -p recordcount", "-p 'recordcount' lacks a value"),
        ("queries none.json", "none.json: the file does not exist"),
        ("queries .", "this is a folder"),
        ("queries broken.json", "broken.json:2:1: invalid JSON"),
        ("queries steps.json --output there.yaml", "there.yaml: it exists already"),
        ("queries steps.json --output steps.txt", "choose a name that ends with .yaml"),
        ("queries steps.json --output no/where.yaml", "cannot be written"),
    ],
)
def test_bad_input_is_refused_in_one_message_and_nothing_is_written(folder, words, what):
    (folder / "broken.json").write_text("[\n")
    (folder / "there.yaml").write_text("mine\n")
    (folder / "wrong").write_text("\nrecordcount=x\n")
    before = sorted(folder.iterdir())
    done = loadframe("import", *words.split())
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert what in done.stderr
    assert sorted(folder.iterdir()) == before
    assert (folder / "there.yaml").read_text() == "mine\n"
