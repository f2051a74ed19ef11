"""Which slots move when a Redis cluster grows, shrinks or is balanced."""

from itertools import groupby

import pytest

from loadframe.store.redis.cluster import SLOTS, RedisNode, Routes, balancing_moves, leaving_moves


def node(name: str, slots: set[int]) -> RedisNode:
    """A node with these slots, as ranges."""
    ranges: list[range] = []
    for _, run in groupby(enumerate(sorted(slots)), lambda pair: pair[1] - pair[0]):
        [first, *rest] = [slot for _, slot in run]
        ranges.append(range(first, (rest or [first])[-1] + 1))
    return RedisNode(name, f"{name}:1", frozenset({"master"}), True, tuple(ranges), {}, {})


def founded(count: int) -> list[RedisNode]:
    return [node(f"n{at}", set(range(SLOTS * at // count, SLOTS * (at + 1) // count))) for at in range(count)]


def after(nodes: list[RedisNode], routes: Routes) -> list[RedisNode]:
    slots = {node.id: set(node.slots) for node in nodes}
    for (source, target), moved in routes.items():
        assert len(set(moved)) == len(moved)
        assert set(moved) <= slots[source]
        slots[source] -= set(moved)
        slots[target] |= set(moved)
    assert set().union(*slots.values()) == set(range(SLOTS))
    return [node(name, owned) for name, owned in slots.items()]


def grown(nodes: list[RedisNode]) -> list[RedisNode]:
    more = [*nodes, node(f"n{len(nodes)}", set())]
    return after(more, balancing_moves(more))


def shrunk(nodes: list[RedisNode]) -> list[RedisNode]:
    *others, gone = nodes
    return after(nodes, leaving_moves(gone, others))[:-1]


def ranges(nodes: list[RedisNode]) -> int:
    return sum(len(node.ranges) for node in nodes)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_a_newcomer_gets_its_share_in_one_range_of_each_node(count):
    nodes = grown(founded(count))
    assert max(node.size for node in nodes) - min(node.size for node in nodes) <= 1
    assert ranges(nodes) <= 2 * count


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_a_cluster_that_grew_and_shrank_has_its_ranges_again(count):
    nodes = founded(count)
    for _ in range(4):
        nodes = shrunk(grown(nodes))
        assert ranges(nodes) <= 2 * count, "no range is cut into slots"
        assert max(node.size for node in nodes) - min(node.size for node in nodes) <= 1


def test_the_order_of_nodes_does_not_matter():
    first, second, third = grown(founded(2))
    nodes = after([second, first, third], leaving_moves(third, [second, first]))
    assert ranges(nodes) == 2


def test_as_few_slots_move_as_possible():
    nodes = [*founded(4), node("n4", set())]
    assert sum(map(len, balancing_moves(nodes).values())) == SLOTS // 5
    assert balancing_moves(founded(4)) == {}


@pytest.mark.slow
def test_slots_in_pieces_are_put_together_before_ranges_are_cut():
    scattered = node("n0", set(range(0, 8192, 2)) | set(range(8192, SLOTS)))
    other = node("n1", set(range(1, 8192, 2)))
    nodes = after([scattered, other], balancing_moves([scattered, other]))
    assert [one.size for one in nodes] == [8192, 8192]
    assert ranges(nodes) == 2


def test_an_uneven_cluster_is_evened_out():
    nodes = [
        node("n0", set(range(10_000))),
        node("n1", set(range(10_000, 10_010))),
        node("n2", set(range(10_010, SLOTS))),
    ]
    nodes = after(nodes, balancing_moves(nodes))
    assert sorted(one.size for one in nodes) == [5461, 5461, 5462]
    assert ranges(nodes) <= 5
