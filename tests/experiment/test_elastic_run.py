"""An elastic experiment on simulated nodes, which are real processes: the record matches the changes."""

import pyarrow.compute as pc
import pytest

from carried_out import carry_out
from loadframe.analyze.elastic.course import read_course
from loadframe.record import Run
from loadframe.report.kinds import read_report

WORKLOAD = """\
workload: small
parameters: {}
collections: {trips: {elasticsearch: {settings: {number_of_shards: 2, number_of_replicas: 0}}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 50}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 50}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: 1s}
"""
#: A node serves 20 requests/s, joins after 1 s, and gets a copy of a shard in 1 s.
EXPERIMENT = """\
experiment: simulated
store:
  kind: sim
  settings: {service: 100ms, servers: 2, distribution: constant, join_delay: 1s, shard_size: 5m, bandwidth: 5m}
workload: ./small.yaml
kind: elastic
duration: 16s
window: 5s
slo: {p99: 10s}
transitions:
  grow:
    timeline: [{at: 5s, add: 1}]
loads:
  arriving: {clients: {from: 4, more: 4, every: 6s, most: 12}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return carry_out(tmp_path_factory.mktemp("elastic-run"), EXPERIMENT, WORKLOAD, "small.yaml")


@pytest.fixture(scope="module")
def runs(folder):
    return {path.name: Run(path) for path in folder.runs_path.iterdir()}


def kinds(run):
    return [event["kind"] for event in run.events]


def times(run, kind):
    return [event["time"] for event in run.events if event["kind"] == kind]


@pytest.mark.store
def test_every_instant_of_a_node_that_joins_under_load_is_recorded(runs):
    run = runs["b1-grow-arriving"]
    assert run.raw_summary["status"] == "done"
    (asked,), (joined,), (balanced,) = (
        times(run, kind) for kind in ("node requested", "node joined", "cluster balanced")
    )
    assert asked + 1.0 <= joined <= balanced
    assert {"trigger fired", "change started", "balancing", "change over"} <= set(kinds(run))
    assert not [reason for reason in run.raw_summary["verdict"]["reasons"] if reason["code"] == "cluster_state"]
    served = {source for source in run.telemetry["source"].to_pylist() if source.startswith("target:")}
    assert len(served) == 2, "the load follows to the new node"


@pytest.mark.store
def test_the_control_run_watches_and_changes_nothing(runs):
    control = runs["b1-grow-arriving-control"]
    assert times(control, "trigger fired")
    assert not {"node requested", "change started"} & set(kinds(control))
    assert not [reason for reason in control.raw_summary["verdict"]["reasons"] if reason["code"] == "cluster_state"]


@pytest.mark.store
def test_no_more_clients_come_once_something_has_happened(runs):
    for run in runs.values():
        # 4 clients until 6 s, but the step was taken at 5 s; 12 would have come.
        assert "clients held" in kinds(run)
        table = run.telemetry
        in_flight = table.filter(pc.equal(table["metric"], "in_flight"))["value"].to_pylist()
        assert max(in_flight) <= 4


@pytest.mark.store
def test_the_folder_is_reported(folder, runs):
    course = read_course(runs["b1-grow-arriving"])
    assert course.left[0][1] >= course.left[-1][1]
    assert course.throughput.sum() > 0
    report = read_report(folder.path)
    assert report.document["transitions"][0]["transition"] == "grow"
    assert "Experiment simulated" in report.page
