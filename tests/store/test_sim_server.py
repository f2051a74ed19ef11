"""Nodes of a simulated cluster, without their sockets."""

import json

import numpy as np
import pytest

from loadframe.store.sim.model import SimModel
from loadframe.store.sim.server import Request, SimNode


@pytest.fixture
def nodes(tmp_path) -> list[SimNode]:
    """Two members; the second has not polled since the first joined."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return [SimNode(tmp_path, name, SimModel.from_settings({}), founding=True) for name in ("a", "b")]


def ask(node: SimNode, method: str, target: str) -> tuple[int, dict]:
    """Return status and answer, by way of its text."""
    _, status, answer = node.answer(Request.read(method, target, b"{}"))
    return status, json.loads(json.dumps(answer))


def count(node: SimNode) -> int:
    return ask(node, "GET", "/things/_count")[1]["count"]


def test_collections_of_one_node_are_known_to_the_other_immediately(nodes):
    first, second = nodes
    ask(first, "PUT", "/things")
    assert ask(second, "PUT", "/things/_create/1")[0] == 200
    ask(first, "DELETE", "/things")
    assert ask(second, "PUT", "/things/_create/2")[0] == 404


def test_documents_are_counted_at_the_next_look(nodes):
    first, second = nodes
    ask(first, "PUT", "/things")
    ask(second, "PUT", "/things/_create/1")
    second.tick()
    assert count(first) == 1


def test_documents_of_a_collection_that_is_gone_do_not_count_for_the_next_of_its_name(nodes):
    first, second = nodes
    ask(first, "PUT", "/things")
    second.tick()
    ask(second, "PUT", "/things/_create/1")
    ask(first, "DELETE", "/things")
    ask(first, "PUT", "/things")
    second.tick()
    assert count(first) == 0


def service_times(node: SimNode, seed: str, requests: int = 200) -> np.ndarray:
    """Return the service times of the requests of a run, which all wait in the node's queue."""
    assert node.answer(Request.read("PUT", "/_seed", json.dumps({"seed": seed}).encode()))[1] == 200
    ends = [node.answer(Request.read("GET", "/things/_doc/1", b""))[0] for _ in range(requests)]
    return np.diff(ends)


def test_service_times_follow_from_the_runs_seed_and_differ_between_runs_and_nodes(nodes):
    first, second = nodes
    ask(first, "PUT", "/things")
    once, again = service_times(first, "1"), service_times(first, "1")
    assert np.allclose(once, again, atol=1e-9), "seconds of the monotonic clock round"
    second_run = service_times(first, "2")
    assert abs(np.corrcoef(once, second_run)[0, 1]) < 0.3
    # The other node learns the seed from the shared state.
    ends = [second.answer(Request.read("GET", "/things/_doc/1", b""))[0] for _ in range(200)]
    assert abs(np.corrcoef(second_run, np.diff(ends))[0, 1]) < 0.3


def test_means_of_runs_with_different_seeds_vary_like_independent_ones(nodes):
    first, _ = nodes
    ask(first, "PUT", "/things")
    means = [service_times(first, str(run), 101).mean() for run in range(9)]
    # Means of 100 exponential times of 5 ms have a standard deviation of 0.5 ms.
    assert 0.15e-3 < np.std(means) < 1.2e-3
