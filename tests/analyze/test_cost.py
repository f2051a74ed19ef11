"""Costs of treatments, and the cheapest one for a demand."""

import math

import pytest

from loadframe.analyze.cost import MONTH, Prices, cheapest, cost
from loadframe.analyze.estimate import Estimate

PRICES = {"currency": "EUR", "node_hour": 0.5, "by": None, "storage": None, "gb_month": None}


def prices(**parts):
    made = Prices.of({"prices": PRICES | parts, "factors": {"store.limits.cpus": [0.5, 2.0]}})
    assert made
    return made


def test_a_cluster_costs_its_nodes_and_their_storage():
    made = cost(prices(storage=100 * 10**9, gb_month=0.1), {"nodes": 3}, 3, Estimate(1000, 800, 1250))
    assert made.month == pytest.approx(3 * (0.5 * MONTH + 10))
    # 3 nodes answer 3.6 million requests in an hour.
    assert made.million.value == pytest.approx((1.5 + 30 / MONTH) / 3.6)
    assert made.million.low == pytest.approx(made.million.value * 0.8)
    assert made.million.high == pytest.approx(made.million.value * 1.25)


def test_a_throughput_without_bounds_leaves_the_cost_open():
    made = cost(prices(), {}, 1, Estimate(1000, -math.inf, math.inf))
    assert (made.million.low, made.million.high) == (0.0, math.inf)


def test_a_node_has_the_price_of_its_size():
    by_size = prices(node_hour=[0.1, 0.3], by="store.limits.cpus")
    assert by_size.hourly(2, {"store.limits.cpus": 0.5}) == pytest.approx(0.2)
    assert by_size.hourly(2, {"store.limits.cpus": 2}) == pytest.approx(0.6)


def test_the_cheapest_is_certain_and_cheaper_ones_may_be_open():
    made = [
        cost(prices(), {"nodes": nodes}, nodes, Estimate(500 * nodes, 450 * nodes, 550 * nodes))
        for nodes in (1, 2, 3, 4)
    ]
    answer = cheapest(made, 1000)
    assert answer.cost == made[2]
    assert answer.open == (made[1],)
    assert cheapest(made, 2000).cost is None
    assert cheapest(made, 2000).open == (made[3],)
    assert cheapest(made, 100).cost == made[0]
