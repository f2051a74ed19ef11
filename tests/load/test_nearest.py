"""Clients divided over nodes at the least total of round trips."""

import itertools

import pytest

from loadframe.load.nearest import Nearest, divide, seats


def test_each_rank_gets_its_own_node_where_that_is_nearest():
    near, far = 1e-4, 2e-3
    trips = [[far, near, far], [near, far, far], [far, far, near]]
    assert divide(trips, [4, 4, 4]) == [[0, 4, 0], [4, 0, 0], [0, 0, 4]]


def test_nodes_get_equal_numbers_even_when_one_is_near_to_all():
    divided = divide([[1e-4, 5e-4], [1e-4, 9e-4]], [3, 3])
    assert [sum(column) for column in zip(*divided, strict=True)] == [3, 3]
    # Rank 0 has the shorter way to the far node, so it goes there.
    assert divided == [[0, 3], [3, 0]]


def test_no_division_is_cheaper():
    trips = [[3e-4, 1e-4, 7e-4], [2e-4, 2e-4, 9e-4]]
    clients = [2, 3]
    divided = divide(trips, clients)
    best = min(
        sum(
            cost * count
            for row, counts in zip(trips, rows, strict=True)
            for cost, count in zip(row, counts, strict=True)
        )
        for rows in itertools.product(*(_ways(count, 3) for count in clients))
        if all(1 <= sum(column) <= 2 for column in zip(*rows, strict=True))
    )
    assert Nearest(
        ("a", "b", "c"), (0, 1), tuple(map(tuple, trips)), tuple(map(tuple, divided))
    ).cost() == pytest.approx(best / 5)


def test_a_node_out_of_reach_is_left_to_others():
    assert divide([[None, 1e-4], [1e-2, 1e-2]], [2, 2]) == [[0, 2], [2, 0]]


def test_clients_get_their_homes_by_number():
    assert seats(10, 2, 2) == [6, 4]
    nearest = Nearest(("a", "b"), (0, 3), ((1e-4, 2e-4), (2e-4, 1e-4)), ((5, 1), (0, 4)))
    homes = nearest.homes(threads=2)
    assert homes == [0, 0, 1, 1, 0, 0, 1, 1, 0, 1]
    assert (homes.count(0), homes.count(1)) == (5, 5)


def test_round_robin_goes_by_the_number_of_the_client():
    # Of two workers, the first has the clients 0, 2, 4, ..., which start at the first of two hosts.
    near, far = 1e-4, 9e-4
    described = Nearest(("a", "b"), (0, 1), ((far, near), (near, far)), ((0, 3), (3, 0))).describe(threads=1)
    assert (described["mean_round_trip"], described["mean_round_trip_in_turn"]) == pytest.approx((near, far))
    # Two workers of each rank: clients 0 and 1 of the first, 2 and 3 of the second.
    described = Nearest(("a", "b"), (0, 1), ((far, near), (near, far)), ((0, 4), (4, 0))).describe(threads=2)
    assert described["mean_round_trip_in_turn"] == pytest.approx((near + far) / 2)


def test_an_unreachable_node_has_no_part_in_the_mean_round_trip():
    nearest = Nearest(("a", "b"), (0,), ((1e-4, None),), ((2, 2),))
    described = nearest.describe(threads=1)
    assert (described["mean_round_trip"], described["mean_round_trip_in_turn"]) == pytest.approx((1e-4, 1e-4))


def _ways(total, parts):
    return [way for way in itertools.product(range(total + 1), repeat=parts) if sum(way) == total]
