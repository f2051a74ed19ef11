"""Shared state of simulated nodes is deleted with the last node."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.store.sim.model import FOLDER, SimModel
from loadframe.store.sim.shared import MOST_NODES, SharedState


def test_the_second_of_two_leaving_nodes_removes_the_shared_state(tmp_path):
    nodes = []
    for name in ("node-0", "node-1"):
        (tmp_path / name).mkdir()
        node = SharedState(tmp_path, name, SimModel.from_settings({}))
        with node.locked(0.0):
            node.start(0.0, founding=True)
        nodes.append(node)
    # Neither process has ended when both have left.
    nodes[0].leave(1.0)
    assert (tmp_path / FOLDER).exists()
    nodes[1].leave(1.0)
    assert not (tmp_path / FOLDER).exists()
    assert all((tmp_path / name / "state.json").exists() for name in ("node-0", "node-1"))


def test_a_node_beyond_the_last_row_is_refused(tmp_path, monkeypatch):
    (tmp_path / "late").mkdir()
    node = SharedState(tmp_path, "late", SimModel())
    monkeypatch.setattr(node, "_dead", set)
    with pytest.raises(BadInput, match="a simulated cluster has at most 64 nodes"), node.locked(0.0):
        node.slots = {f"node-{number}": number for number in range(MOST_NODES)}
        node.start(0.0, founding=True)
