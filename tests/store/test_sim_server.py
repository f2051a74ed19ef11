"""Nodes of a simulated cluster, without their sockets."""

import json

import pytest

from loadframe.store.sim.answers import Request
from loadframe.store.sim.model import SimModel
from loadframe.store.sim.server import SimNode


@pytest.fixture
def nodes(tmp_path) -> list[SimNode]:
    """Two members; the second has not polled since the first joined."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return [SimNode(tmp_path, name, SimModel.from_settings({}), founding=True, seed=1) for name in ("a", "b")]


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
