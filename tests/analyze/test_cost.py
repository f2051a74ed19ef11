"""Costs of treatments, and the cheapest one for a demand."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import pytest

from loadframe.analyze.compare import Measure
from loadframe.analyze.cost import MONTH, Prices, cheapest, cheapest_within, cost, estimates
from loadframe.analyze.estimate import Estimate, geometric_mean
from loadframe.analyze.experiment import RecordedRun
from loadframe.base.errors import BadInput
from loadframe.base.units import parse_size
from loadframe.experiment.file.reader import load_experiment
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from made_up_runs import MadeUp, operation, phase, summary

PRICES = {"currency": "EUR", "node_hour": 0.5, "by": None, "storage": None, "gb_month": None}


def prices(**parts):
    made = Prices.of({"prices": PRICES | parts, "factors": {"store.limits.cpus": [0.5, 2.0]}})
    assert made
    return made


def test_a_cluster_costs_its_nodes_and_their_storage():
    made = cost(prices(storage=parse_size("100g"), gb_month=0.1), {"nodes": 3}, 3, Estimate(1000, 800, 1250))
    # A size of 100g is 100 GB of 2^30 bytes.
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


def configuration(name, rate, p99, *, failed=False):
    """Return the cost of a node with 10 % intervals of its rate and its p99, s."""
    p99 = Estimate(p99, p99 * 0.9, p99 * 1.1)
    return replace(cost(prices(), {"name": name}, 1, Estimate(rate, rate * 0.9, rate * 1.1)), p99=p99, failed=failed)


def test_the_cheapest_within_the_slo_is_certain_and_its_rivals_are_named():
    slow, failing, unsure = (
        configuration("slow", 4000, 0.2),
        configuration("failing", 4000, 0.01, failed=True),
        configuration("unsure", 3000, 0.1),
    )
    best, alike, dear = (
        configuration("best", 2000, 0.05),
        configuration("alike", 1900, 0.05),
        configuration("d", 500, 0),
    )
    answer = cheapest_within([dear, alike, unsure, best, failing, slow], 0.1)
    assert (answer.cost, answer.alike, answer.open) == (best, (alike,), (unsure,))
    assert cheapest_within([slow, dear], None).cost == slow
    assert cheapest_within([slow, failing], 0.1).cost is None
    unknown = replace(best, p99=None)
    assert cheapest_within([unknown], 0.1).open == (unknown,)


def in_session(number, rate):
    """Return a run of a session; sessions are a day apart."""
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    manifest = Manifest(FORMAT, started=started.isoformat(), session=f"s{number}")
    made = MadeUp(summary(phase("read", {"get": operation(rate)})), manifest)
    return RecordedRun(f"r{number}-{rate}", None, {"nodes": 1}, made)


def test_the_interval_of_several_sessions_is_of_their_means():
    rates = [[100, 101, 99, 100], [130, 131, 129, 130], [90, 91, 89, 90]]
    runs = [in_session(number, rate) for number, of_session in enumerate(rates) for rate in of_session]
    everything = [rate for of_session in rates for rate in of_session]
    (made,) = estimates(Measure("read", "throughput"), [runs])
    assert made.as_dict() == pytest.approx(geometric_mean(everything, [0] * 4 + [1] * 4 + [2] * 4).as_dict())
    assert made.high / made.low > 1.5
    (one,) = estimates(Measure("read", "throughput"), [runs[:4]])
    assert one.as_dict() == pytest.approx(geometric_mean(rates[0], [0] * 4).as_dict())


def test_a_price_may_depend_on_the_size_of_a_settings_experiment(tmp_path):
    text = """\
    experiment: e
    store: {kind: redis}
    workload: ycsb/b
    kind: settings
    factors: {store.settings.hz: [10, 20]}
    at: {store.limits.cpus: [1, 2]}
    prices: {node_hour: {1: 0.1, 2: 0.2}, by: store.limits.cpus, slo: {p99: 100ms}}
    """
    path = tmp_path / "e.yaml"
    path.write_text(dedent(text))
    assert load_experiment(path).describe()["prices"]["node_hour"] == [0.1, 0.2]
    path.write_text(dedent(text).replace("2: 0.2", "3: 0.2"))
    with pytest.raises(BadInput, match=r"node_hour lacks a price for store.limits.cpus 2"):
        load_experiment(path)
