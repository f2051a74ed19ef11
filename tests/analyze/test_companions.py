"""Routers and configuration servers are not nodes: statements about nodes' CPUs cover data nodes only."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from pytest import approx

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.scale import warnings
from loadframe.analyze.scale.saturation import cpu_shares
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.analyze.telemetry import by_source
from loadframe.cluster.node import Node
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.spec import ClusterSpec
from loadframe.cluster.view import describe
from loadframe.experiment.runner.director import data_processes
from simulated import Truth, write_experiment, write_run

IDLE = {"config-0": 0.01, "router-0": 0.03}
NODES = [
    Node("node-0", "a:1", folder=Path("a"), number=0, role="shard", process=SimpleNamespace(pid=11)),
    Node("node-0-1", "a:2", folder=Path("b"), number=0, role="shard", process=SimpleNamespace(pid=12)),
    Node("config-0", "a:3", folder=Path("c"), role="config", process=SimpleNamespace(pid=13)),
    Node("router-0", "a:4", folder=Path("d"), role="router", process=SimpleNamespace(pid=14)),
]


def test_the_bound_of_idle_nodes_is_for_those_that_keep_data(tmp_path):
    truth = Truth(noise=0.0, node_cpu=0.25, companions=IDLE)
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, repetitions=1)).curves
    assert {(one.nodes, one.idlest, one.busiest) for one in curves.calibrations} == {(n, 0.5, 0.5) for n in (1, 2, 3)}
    assert all(one.clients for one in curves.calibrations), "idle routers hid that all nodes were within the bounds"


def test_a_node_beside_idle_routers_is_not_hot(tmp_path):
    truth = Truth(node_cpu=0.49, companions=IDLE)
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, clients=(4, 8), repetitions=1)).curves
    assert not [warning for warning in curves.warnings if warning.rule == warnings.HOT_NODE]


def test_triggers_and_policies_look_at_those_that_keep_data():
    assert data_processes(NODES) == {"node-0": "node-0", "node-0-1": "node-0-1"}


def test_a_companions_use_counts_against_the_nodes_limits(tmp_path):
    shard, router = replace(NODES[0], shares="node-0"), replace(NODES[3], shares="node-0")
    assert data_processes([shard, NODES[1], router]) == {
        "node-0": "node-0",
        "node-0-1": "node-0-1",
        "router-0": "node-0",
    }
    truth = Truth(noise=0.0, node_cpu=0.25, companions={"router-0": 0.1, "router-1": 0.1}, shared={"router-0": "0"})
    recorded = RecordedRun("r1", 1, {}, write_run(tmp_path, "r1", truth, nodes=2))
    assert cpu_shares(recorded, "range_100") == approx({"0": 0.7, "1": 0.5}), "of 0.5 CPU a node"


def test_a_manifest_names_the_others_with_their_roles():
    node_table = NodeTable(ClusterSpec("mongodb"), {}, NODES, formed=True)
    assert describe(node_table)["companions"] == {"config-0": "config", "router-0": "router"}


def test_nodes_of_an_attached_cluster_keep_data_as_far_as_is_known():
    assert not Node("a:1", "a:1").companion


def test_averages_over_nodes_exclude_companions(tmp_path):
    run = write_run(tmp_path, "r1", Truth(node_cpu=0.5, companions=IDLE), nodes=2)
    recorded = RecordedRun("r1", 1, {}, run)
    assert set(by_source(recorded, "range_100", "node:", "process.cpu")) == {"node:0", "node:1"}
