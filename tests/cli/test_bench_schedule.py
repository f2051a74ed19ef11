"""`bench --at`: the cluster is changed under load, at times, without an experiment file."""

import pytest

from commands import loadframe, within
from loadframe.base.errors import BadInput
from loadframe.base.event_kinds import KILLED, PAUSED, RESUMED
from loadframe.library.bench import parse_schedule
from loadframe.record import Run

WORKLOAD = """\
workload: small
collections: {things: {elasticsearch: {settings: {number_of_shards: 4}}}}
corpora: {things: {generate: nyc_taxi_trip, documents: 100}}
operations:
  fill: {bulk: {collection: things, corpus: things, size: 50}}
  look: {search: {collection: things, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 2, duration: 3s}
"""


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(WORKLOAD)
    return path


@pytest.mark.store
def test_nodes_are_paused_and_killed_under_load(workload, tmp_path, state):
    path = tmp_path / "run"
    words = ("bench", workload, "--store", "sim", "--nodes", "2", "--output", path)
    done = loadframe(*words, "--at", "1.2s=kill:node-1", "--at", "0.3s=pause:node-1", "--at", "800ms=resume:node-1")
    assert done.returncode == 0, done.stderr
    run = Run(path)
    happened = [event["kind"] for event in run.events if event.get("nodes") == ["node-1"]]
    assert happened == [PAUSED, RESUMED, KILLED]
    started = [(event["change"], event["step"]) for event in run.events if event["kind"] == "change started"]
    assert started == [("pause node-1", 1), ("resume node-1", 2), ("kill node-1", 3)]
    assert not [reason for reason in run.raw_summary["verdict"]["reasons"] if reason["code"] == "cluster_state"]


def test_actions_are_sorted_by_time():
    steps = parse_schedule(["1m=shrink:node-2", "30s=kill:node-1", "10s=grow:2", "5s=set:search.x=7"])
    assert [step.at for step in steps] == [5.0, 10.0, 30.0, 60.0]
    assert (steps[0].set, steps[1].add, steps[2].kill, steps[3].remove) == ({"search.x": 7}, 2, "node-1", "node-2")


@pytest.mark.parametrize(
    "text", ["kill:node-1", "30s=", "30s=explode", "30s=kill", "soon=grow", "30s=grow:", "3s=set:a"]
)
def test_unknown_actions_are_refused(text):
    with pytest.raises(BadInput):
        parse_schedule([text])


def test_actions_after_the_end_or_on_foreign_clusters_are_refused(workload):
    status, _, said = within("bench", workload, "--store", "sim", "--at", "10s=grow")
    assert status == 2
    assert "is after the end of the load" in said
    status, _, said = within("bench", workload, "--hosts", "127.0.0.1:1", "--at", "1s=grow")
    assert status == 2
    assert "did not start" in said
