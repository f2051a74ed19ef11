"""How the simulated store's data lies and moves: evenly, one copy at a time to each node, at the bandwidth."""

import pytest

from loadframe.store.sim.model import SimModel
from loadframe.store.sim.shared import Placement


def cluster(nodes, shards=6, replicas=0, **parameters):
    placement = Placement(SimModel(shard_size=100, bandwidth=10, **parameters))
    for number in range(nodes):
        placement.start(f"n{number}", 0.0, founding=True)
    placement.advance(0.0)
    placement.create("c", shards, replicas, 0.0)
    return placement


def test_a_new_collection_is_spread_evenly():
    assert cluster(3).counts() == {"n0": 2, "n1": 2, "n2": 2}


def test_a_node_joins_after_the_delay_and_gets_its_share_copy_by_copy():
    placement = cluster(2, join_delay=5.0)
    placement.start("n2", 20.0, founding=False)
    placement.advance(24.9)
    assert placement.members == ["n0", "n1"]
    placement.advance(25.0)
    assert placement.members[-1] == "n2"
    assert placement.counts()["n2"] == 0
    placement.advance(35.0)
    assert placement.counts()["n2"] == 1
    assert placement.next() == 45.0
    placement.advance(100.0)
    assert placement.counts() == {"n0": 2, "n1": 2, "n2": 2}
    assert placement.next() is None


def test_a_node_that_is_to_leave_gives_up_its_data():
    placement = cluster(3)
    placement.exclude(["n1"], 0.0)
    placement.advance(100.0)
    assert placement.counts() == {"n0": 3, "n1": 0, "n2": 3}
    placement.gone(["n1"], 100.0)
    assert placement.missing == 0


def test_a_copy_without_a_place_gets_one_when_a_node_may_hold_data_again():
    placement = cluster(2, shards=1)
    placement.exclude(["n1"], 0.0)
    placement.create("late", 1, 1, 0.0)
    assert placement.missing == 1
    placement.exclude([], 0.0)
    assert placement.missing == 0


def test_data_of_a_node_that_is_gone_is_missing_until_it_comes_back():
    placement = cluster(2)
    placement.gone(["n1"], 1.0)
    assert (placement.missing, placement.lost("c")) == (3, 3)
    placement.start("n1", 2.0, founding=True)
    placement.advance(2.0)
    assert placement.missing == 0


def test_copies_of_a_shard_never_share_a_node():
    placement = cluster(2, shards=3, replicas=1)
    placement.gone(["n1"], 1.0)
    assert (placement.missing, placement.lost("c")) == (3, 0), "the other copies serve"
    alone = cluster(1, shards=2, replicas=1)
    assert alone.missing == 2
    alone.start("late", 0.0, founding=True)
    alone.advance(0.0)
    assert alone.missing == 0


def test_throughput_follows_the_data():
    placement = cluster(2, service=0.01, move_cost=0.5)
    assert placement.throughput() == pytest.approx(200)
    placement.start("n2", 0.0, founding=False)
    placement.advance(0.0)
    # n0 gives to n2, which has nothing yet; n1 is as fast as before.
    assert placement.throughput() == pytest.approx(150)
    placement.advance(100.0)
    assert placement.throughput() == pytest.approx(300)


def test_a_state_that_was_written_reads_the_same():
    placement = cluster(2)
    placement.start("n2", 0.0, founding=False)
    placement.advance(1.0)
    again = Placement.from_dict(placement.model, placement.as_dict())
    assert again.as_dict() == placement.as_dict()


def test_a_dropped_collection_ends_its_moves():
    placement = cluster(1, shards=4)
    placement.start("n1", 0.0, founding=False)
    placement.advance(0.0)
    assert placement.moves
    placement.drop("c", 1.0)
    assert (placement.copies, placement.moves) == ([], [])
