"""Which nodes of a cluster may be elected, as it grows and shrinks, with nodes that are small real processes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from loadframe.cluster import Cluster, ClusterSpec, named
from loadframe.cluster.node import Node
from loadframe.cluster.scaling import _surplus
from loadframe.store import find
from loadframe.store.search.membership import electors

SPEC = ClusterSpec(store="toy", nodes=2, name="trial")


@pytest.fixture(autouse=True)
def elected(toy, state) -> Iterator[None]:
    """Give the toy elections, by as many nodes as in OpenSearch."""
    toy.elected = electors
    yield
    toy.elected = None


def electing(cluster: Cluster) -> list[str]:
    return [node.name for node in cluster.nodes if node.elects]


def test_one_of_two_and_three_of_three_and_more_may_be_elected(toy):
    for nodes, wanted in ((1, ["node-0"]), (2, ["node-0"]), (4, ["node-0", "node-1", "node-2"])):
        with Cluster.start(replace(SPEC, nodes=nodes, name=f"of-{nodes}")) as cluster:
            assert electing(cluster) == wanted
            assert {node.electors for node in toy.planned[-nodes:]} == {tuple(wanted)}
    assert not [step for step in toy.told if step[0] == "resign"]


@pytest.mark.slow
def test_nodes_that_join_are_elected_while_that_is_wanted_and_the_others_from_the_next_start_on(toy):
    with Cluster.start(SPEC) as cluster:
        cluster.grow(3)
        assert electing(cluster) == ["node-0", "node-2", "node-3"]
    assert [node.elects for node in named.existing("trial").nodes] == [True, False, True, True, False]
    with Cluster.start(replace(SPEC, nodes=3)) as again:
        assert electing(again) == ["node-0", "node-1", "node-2"]
    assert not [step for step in toy.told if step[0] == "resign"]


def test_one_that_joins_alone_is_not_elected_since_two_are_no_better_than_one(toy):
    with Cluster.start(SPEC) as cluster:
        cluster.grow()
        assert electing(cluster) == ["node-0"]
    with Cluster.start(replace(SPEC, nodes=3)) as again:
        assert electing(again) == ["node-0", "node-1", "node-2"]
        again.shrink("node-1")
        assert again.grow() == ["node-3"]
        assert electing(again) == ["node-0", "node-2", "node-3"]


def test_a_cluster_that_comes_back_with_more_nodes_has_its_electors_at_once(toy):
    with Cluster.start(SPEC):
        pass
    with Cluster.start(replace(SPEC, nodes=3)) as more:
        assert electing(more) == ["node-0", "node-1", "node-2"]


def test_those_that_are_too_many_resign_before_they_are_restarted(toy):
    with Cluster.start(replace(SPEC, nodes=3)):
        toy.told.clear()
    lines: list[str] = []
    with Cluster.start(SPEC, lines.append) as fewer:
        assert electing(fewer) == ["node-0"]
        assert fewer.deviations() == []
    assert toy.told[-2:] == [("resign", "node-1"), ("stay", "node-1")]
    assert "restarting node-1 without its vote" in lines


@pytest.mark.slow
def test_records_of_before_say_that_all_may_be_elected(toy):
    toy.elected = None
    with Cluster.start(replace(SPEC, nodes=4)) as cluster:
        assert electing(cluster) == ["node-0", "node-1", "node-2", "node-3"]
    toy.elected = electors
    with Cluster.start(replace(SPEC, nodes=4)) as again:
        assert electing(again) == ["node-0", "node-1", "node-2"]


def test_the_newest_nodes_lose_their_vote_first(toy):
    nodes = [Node(f"node-{number}", "127.0.0.1:1", number=number) for number in (10, 2, 9)]
    store = find("toy")
    assert [node.name for node in _surplus(store, nodes, 2)] == ["node-10", "node-9"]
    assert [node.name for node in _surplus(store, [*nodes, replace(nodes[0], number=None)], 2)] == ["node-10", "node-9"]
