"""Costs of treatments, and the cheapest one for a demand."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import numpy as np
import pytest

from loadframe.analyze.capacity import Slo
from loadframe.analyze.compare import Measure
from loadframe.analyze.cost import (
    MONTH,
    LimitAt,
    Prices,
    by_load,
    cheapest,
    cheapest_within,
    cost,
    estimates,
    limits_at,
)
from loadframe.analyze.estimate import ONE_SIDED, Estimate, geometric_mean, mean_share
from loadframe.analyze.experiment import RecordedRun
from loadframe.base.errors import BadInput
from loadframe.base.units import parse_size
from loadframe.experiment.file.reader import load_experiment
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Latency
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


def test_clusters_at_the_same_price_are_all_named():
    """Settings change the throughput, and not the price."""
    slow, fast, short = (cost(prices(), {"s": rate}, 1, Estimate(rate, rate, rate)) for rate in (1000, 1500, 100))
    answer = cheapest([slow, short, fast], 500)
    assert (answer.cost, answer.alike, answer.open) == (fast, (slow,), ())


@pytest.mark.parametrize(
    ("description", "groups"),
    [
        ({"kind": "scale"}, [{"with.documents": 1}, {"with.documents": 9}]),
        ({"kind": "scale", "scaling": "weak"}, [{"with.documents": d, "nodes": n} for n in (1, 2) for d in (1, 9)]),
        (
            {"kind": "scale", "with": {"bulk": "${2 * nodes}"}},
            [{"with.documents": d, "nodes": n} for n in (1, 2) for d in (1, 9)],
        ),
        (
            {"kind": "scale", "rate": "${9 * nodes}"},
            [{"with.documents": d, "nodes": n} for n in (1, 2) for d in (1, 9)],
        ),
        (
            {"kind": "settings", "at": {}, "capacities": [{"treatment": {"nodes": n}, "rate": 9.0} for n in (1, 2)]},
            [{"nodes": 1}, {"nodes": 2}],
        ),
        ({"kind": "scale", "with": {"documents": "${9 * nodes}"}}, [{"with.documents": 1}, {"with.documents": 9}]),
        ({"kind": "settings", "at": {}}, [{}]),
        # The batch follows a setting that the experiment chooses.
        ({"kind": "settings", "at": {}, "with": {"bulk": "${2 * with.documents}"}}, [{}]),
        ({"kind": "settings", "at": {"with.documents": [1, 9]}}, [{"with.documents": 1}, {"with.documents": 9}]),
    ],
)
def test_only_configurations_for_the_same_load_are_compared(description, groups):
    levels = {"nodes": [1, 2], "with.documents": [1, 9]}
    costs = [
        cost(prices(), {"nodes": nodes, "with.documents": documents}, nodes, Estimate(100, 90, 110))
        for nodes in levels["nodes"]
        for documents in levels["with.documents"]
    ]
    made = by_load({**description, "factors": levels}, costs)
    assert [load for load, _ in made] == groups
    assert sum(len(entries) for _, entries in made) == len(costs)


def test_a_level_that_depends_on_the_nodes_is_another_load_at_each_size():
    grows = "${9 * nodes}"
    costs = [
        cost(prices(), {"nodes": nodes, "with.documents": documents}, nodes, Estimate(100, 90, 110))
        for nodes in (1, 2)
        for documents in (9, grows)
    ]
    factors = {"nodes": [1, 2], "with.documents": [9, grows]}
    assert [load for load, _ in by_load({"kind": "scale", "factors": factors}, costs)] == [
        {"with.documents": 9},
        {"with.documents": grows, "nodes": 1},
        {"with.documents": grows, "nodes": 2},
    ]


SLO = Slo(0.1)
FEW = Estimate(0.0, 0.0, 0.005)


def configuration(name, rate, p99, *, failed=False, errors=FEW):
    """Return the cost of a node with 10 % intervals of its rate and its p99, s."""
    times = LimitAt(None, "p99", 0.1, p99 and Estimate(p99, p99 * 0.9, p99 * 1.1))
    limits = (times, LimitAt(None, "errors", 0.01, errors))
    made = cost(prices(), {"name": name}, 1, Estimate(rate, rate * 0.9, rate * 1.1))
    return replace(made, limits=limits, failed=failed)


def test_the_cheapest_within_the_slo_is_certain_and_its_rivals_are_named():
    slow, failing, unsure = (
        configuration("slow", 4000, 0.2),
        configuration("failing", 4000, 0.01, failed=True),
        configuration("unsure", 3000, 0.1),
    )
    best, alike, dear = (
        configuration("best", 2000, 0.05),
        configuration("alike", 1900, 0.05),
        configuration("d", 500, 0.01),
    )
    # Fast, but the share of failed requests is above the limit, or may be.
    wrong = configuration("wrong", 4000, 0.05, errors=Estimate(0.05, 0.04, 0.06))
    maybe = configuration("maybe", 3500, 0.05, errors=Estimate(0.009, 0.008, 0.01))
    answer = cheapest_within([dear, alike, unsure, best, failing, slow, wrong, maybe], SLO)
    assert (answer.cost, answer.alike, answer.open) == (best, (alike,), (maybe, unsure))
    assert cheapest_within([replace(slow, limits=()), dear], None).cost.treatment == {"name": "slow"}
    assert cheapest_within([slow, failing, wrong], SLO).cost is None
    unknown = configuration("unknown", 2000, None)
    assert cheapest_within([unknown], SLO).open == (unknown,)


def measured(*operations, number=0):
    """Return a run of phase `read`; each operation is (name, p50, p99, requests, failed ones), times in s."""
    figures = {}
    for name, p50, p99, requests, failed in operations:
        times = Latency(p50=p50, p90=p50, p99=p99, p999=p99, mean=p50, max=p99)
        counts = {
            "requests": requests,
            "successes": requests - failed,
            "errors": {"status_500": failed} if failed else {},
        }
        figures[name] = operation(1000, response=times, all=times, **counts)
    return RecordedRun(f"r{number}", None, {"nodes": 1}, MadeUp(summary(phase("read", figures))))


def standings(slo, *groups):
    return [{limit.name: limit.standing for limit in limits} for limits in limits_at(slo, "read", groups)]


def test_each_limit_of_an_slo_has_an_estimate_and_an_interval():
    slo = Slo.read({"response": 0.1, "operations": {"put": {"response": 0.02, "percentile": "p50", "errors": 0.05}}})
    times = [(0.07, 0.015), (0.08, 0.016), (0.09, 0.014)]
    runs = [
        measured(
            ("get", 0.01, get, 4000, 8), ("scan", 0.01, get / 2, 1000, 9), ("put", put, 1.0, 1000, 30), number=number
        )
        for number, (get, put) in enumerate(times)
    ]
    (limits,) = limits_at(slo, "read", [runs])
    by_name = {limit.name: limit for limit in limits}
    assert list(by_name) == ["put: p50", "put: errors", "p99", "errors"]
    # The general limits are of the worst operation: `get` by its times, `scan` by its failures.
    alike = [None] * 3
    assert by_name["p99"].estimate.as_dict() == pytest.approx(geometric_mean([0.07, 0.08, 0.09], alike).as_dict())
    assert by_name["put: p50"].estimate.as_dict() == pytest.approx(
        geometric_mean([0.015, 0.016, 0.014], alike).as_dict()
    )
    for name, counts in (("errors", (9, 1000)), ("put: errors", (30, 1000))):
        assert by_name[name].estimate == mean_share([counts] * 3, alike, ONE_SIDED)
    assert {limit.limit for limit in limits} == {0.02, 0.05, 0.1, 0.01}


@pytest.mark.parametrize(
    ("p99", "requests", "failed", "expected"),
    [
        ((0.05, 0.051, 0.052), 1000, 0, {"p99": "yes", "errors": "yes"}),
        ((0.15, 0.151, 0.152), 1000, 50, {"p99": "no", "errors": "no"}),
        ((0.09, 0.1, 0.11), 1000, 9, {"p99": "unknown", "errors": "unknown"}),
        # 90 requests without a failure do not show a share below 1 %.
        ((0.05, 0.051, 0.052), 30, 0, {"p99": "yes", "errors": "unknown"}),
        # One run does not show the variance between runs.
        ((0.001,), 100_000, 0, {"p99": "unknown", "errors": "unknown"}),
    ],
)
def test_a_limit_is_decided_only_by_its_whole_interval(p99, requests, failed, expected):
    runs = [measured(("get", 0.001, value, requests, failed), number=number) for number, value in enumerate(p99)]
    assert standings(SLO, runs) == [expected]


def test_an_operation_that_never_succeeds_misses_the_general_limit():
    runs = [measured(("get", 0.001, 0.01, 10_000, 0), ("report", None, None, 50, 50), number=n) for n in range(3)]
    assert standings(SLO, runs) == [{"p99": "yes", "errors": "no"}]


def test_an_operation_without_requests_leaves_its_limits_undecided():
    slo = Slo.read({"operations": {"put": {"response": 0.1}}})
    runs = [measured(("get", 0.001, 0.01, 1000, 0), number=number) for number in range(3)]
    assert standings(slo, runs) == [{"put: p99": "unknown", "put: errors": "unknown"}]
    # Without a response the general SLO limits nothing, and with a limit for each operation nothing is left.
    every = Slo.read({"response": 0.1, "operations": {"get": {"response": 0.1}}})
    assert standings(every, runs) == [{"get: p99": "yes", "get: errors": "yes"}]


def test_configurations_at_the_limit_are_rarely_called_within_it():
    """The true p99 and error share equal their limits, so each call of `yes` is an error: at most 2.5 % and 5 %."""
    random = np.random.default_rng(7)
    calls = {"p99": 0, "errors": 0}
    trials = 1000
    for _ in range(trials):
        times, failed = 0.1 * np.exp(random.normal(0, 0.1, 5)), random.binomial(2000, 0.01, 5)
        runs = [
            measured(("get", 0.001, float(time), 2000, int(count)), number=number)
            for number, (time, count) in enumerate(zip(times, failed, strict=True))
        ]
        for name, standing in standings(SLO, runs)[0].items():
            calls[name] += standing == "yes"
    assert calls["p99"] <= 0.04 * trials
    assert calls["errors"] <= 0.065 * trials


@pytest.mark.parametrize("repetitions", [2, 3])
def test_a_configuration_whose_times_vary_more_is_rarely_called_within_its_limit(repetitions):
    """One of four configurations has its true p99 at the limit, and four times the noise of the others."""
    random, calls, trials = np.random.default_rng(3), 0, 300
    for _ in range(trials):
        groups = [
            [measured(("get", 0.001, float(time), 2000, 0), number=number) for number, time in enumerate(times)]
            for times in (
                0.1 * np.exp(random.normal(0, 0.2, repetitions)),
                *(0.05 * np.exp(random.normal(0, 0.05, repetitions)) for _ in range(3)),
            )
        ]
        calls += standings(SLO, *groups)[0]["p99"] == "yes"
    assert calls <= 0.06 * trials


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
    (made,) = estimates(Measure("read", "throughput").figure, [runs])
    assert made.as_dict() == pytest.approx(geometric_mean(everything, [0] * 4 + [1] * 4 + [2] * 4).as_dict())
    assert made.high / made.low > 1.5
    (one,) = estimates(Measure("read", "throughput").figure, [runs[:4]])
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


def test_the_slo_of_prices_is_that_of_capacity_experiments(tmp_path):
    text = """\
    experiment: e
    store: {kind: redis}
    workload: ycsb/b
    kind: settings
    factors: {store.settings.hz: [10, 20]}
    prices: {node_hour: 1, slo: SLO}
    """
    path = tmp_path / "e.yaml"

    def slo_of(written):
        path.write_text(dedent(text).replace("SLO", written))
        return Prices.of(load_experiment(path).describe()).slo

    assert slo_of("{p99: 100ms}") == slo_of("{response: 100ms}") == Slo(0.1)
    assert slo_of("{operations: {update: {response: 20ms, percentile: p50, errors: 5%}}}") == Slo(
        operations=(("update", Slo(0.02, "p50", 0.05)),)
    )
    with pytest.raises(BadInput, match=r"unknown operation 'updte' in the measured phases.*") as refused:
        slo_of("{operations: {updte: {response: 20ms}}}")
    assert "update" in refused.value.remedy
    with pytest.raises(BadInput, match="'response' is missing"):
        slo_of("{errors: 1%}")
    with pytest.raises(BadInput, match="unknown key 'response'"):
        slo_of("{p99: 1s, response: 1s}")
