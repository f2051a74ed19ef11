"""An elastic run on real nodes with separate networks: a setting changes, and a node is cut off and returns."""

import shutil

import pytest

from carried_out import carry_out
from loadframe.analyze.elastic import read_elasticity
from loadframe.host.netns import NetnsHost
from loadframe.record import Run

OBSTACLE = NetnsHost().obstacle
SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="neither redis-server nor valkey-server is installed"),
    pytest.mark.skipif(OBSTACLE is not None, reason=f"no networks for nodes here: {OBSTACLE}"),
]
WORKLOAD = """\
workload: keys
collections: {things: {redis: {}}}
variables: {n: {uniform: [0, 999]}}
operations:
  write: {upsert: {collection: things, id: "k${n}", document: {n: 1}}}
phases:
  - {name: write, operation: write, rate: 1/s, duration: 1s}
"""
EXPERIMENT = """\
experiment: apart
store: {kind: redis, nodes: 2, host: netns, settings: {cluster: true}}
workload: ./keys.yaml
kind: elastic
duration: 24s
window: 5s
control: false
slo: {p99: 1s}
transitions:
  partition:
    timeline:
      - {at: 5s, set: {maxmemory-samples: 6}}
      - {at: 6s, cut: node-1}
      - {at: 10s, restore: node-1}
loads:
  users: {rate: 50/s}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return carry_out(tmp_path_factory.mktemp("apart"), EXPERIMENT, WORKLOAD, "keys.yaml")


def test_steps_are_recorded_in_order(folder):
    run = Run(folder.runs_path / "b1-partition-users")
    assert run.raw_summary["status"] == "done"
    happened = ("settings changed", "link cut", "link restored", "change failed", "trigger never fired")
    assert [event["kind"] for event in run.events if event["kind"] in happened] == list(happened[:3])
    assert not [reason for reason in run.raw_summary["verdict"]["reasons"] if reason["code"] == "cluster_state"]


def test_requests_to_the_node_waited_or_failed_meanwhile_but_not_afterwards(folder):
    run = Run(folder.runs_path / "b1-partition-users")
    times = {event["kind"]: event["time"] for event in run.events}
    rows = run.series.to_pylist()
    troubled = [row["time"] for row in rows if row["successes"] < row["requests"] or (row["response_max"] or 0) > 1.0]
    assert [time for time in troubled if times["link cut"] - 1 <= time <= times["link restored"] + 6]
    last = [row for row in rows if row["time"] > times["link restored"] + 8]
    assert last
    assert all(row["successes"] == row["requests"] for row in last)


def test_the_partition_is_measured_as_a_step_of_its_own(folder):
    (group,) = read_elasticity(folder.path).groups
    if not group.runs:
        pytest.skip("others use this machine so much that the generator was the limit")
    assert [step.change for step in group.steps] == ["set maxmemory-samples 6", "cut node-1", "restore node-1"]
    # Whether the cut node's requests fail at once or hang until it is back, and count then, is the store's business.
    assert sum(step.measures["violation"].mean.value for step in group.steps[1:]) >= 1
