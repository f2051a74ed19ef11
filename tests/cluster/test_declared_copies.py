"""Declared replicas: a run is invalid only if replicas are missing that its nodes could hold."""

from types import SimpleNamespace

import pytest

from loadframe.cluster.launch import wait_until_ready
from loadframe.cluster.view import miscounted, unready
from loadframe.store.base import Health


def yellow(missing: int, *declared: tuple[int, int], nodes: int = 1) -> Health:
    return Health(ready=False, status="yellow", nodes=nodes, moving=0, missing=missing, declared=declared)


@pytest.mark.parametrize(
    ("health", "nodes", "sentences"),
    [
        (yellow(5, (5, 2)), 1, []),
        (yellow(11, (5, 2), (3, 3), (7, 1)), 1, []),
        (yellow(3, (5, 2), (3, 3), nodes=2), 2, []),
        (yellow(6, (5, 2)), 1, ["the cluster is yellow, with 6 copies of data not in service"]),
        (yellow(5, (5, 2), nodes=2), 2, ["the cluster is yellow, with 5 copies of data not in service"]),
        # One of two nodes is away: its copies are missing, and the other node does not excuse them.
        (
            yellow(5, (5, 2)),
            2,
            ["the cluster has 1 node, not 2", "the cluster is yellow, with 5 copies of data not in service"],
        ),
        (yellow(5), 1, ["the cluster is yellow, with 5 copies of data not in service"]),
        (yellow(1), 1, ["the cluster is yellow, with 1 copy of data not in service"]),
        (Health(ready=False, status="ok", nodes=1, moving=0, missing=2), 1, ["2 copies of data not in service"]),
        (Health(ready=True, status="green", nodes=1, moving=0, missing=0), 1, []),
    ],
)
def test_only_copies_that_could_be_held_are_missed(health, nodes, sentences):
    assert miscounted(health, nodes) + unready(health, nodes) == sentences


def test_a_restarted_cluster_is_ready_without_the_copies_that_it_cannot_hold():
    states = [yellow(8, (5, 2)), yellow(5, (5, 2)), yellow(5, (5, 2))]
    node = SimpleNamespace(serves=True, alive=True, address="127.0.0.1:1")
    wait_until_ready(SimpleNamespace(health=lambda _: states.pop(0)), [node], 1)
    assert len(states) == 1
