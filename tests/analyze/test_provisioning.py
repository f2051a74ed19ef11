"""Scores of scaling policies against hand-counted ones."""

import numpy as np
import pytest
from courses import course

from loadframe.analyze.elastic.course import Event, node_changes
from loadframe.analyze.elastic.groups import _provisioning, demand, level_at, score, supply
from loadframe.analyze.experiment import RecordedRun
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.manifest import RecordedWorkload
from loadframe.record.schema.summary import PhaseSummary, StreamSummary
from made_up_runs import MadeUp, operation, summary

CAPACITY = {1: 100.0, 2: 190.0, 3: 270.0}
TIMES = np.arange(100) + 0.5


def test_demand_is_the_least_number_of_nodes_that_sustains_the_load():
    rates = np.array([0.0, 100.0, 101.0, 190.0, 191.0, 270.0])
    assert demand(rates, CAPACITY).tolist() == [1, 1, 2, 2, 3, 3]


def test_demand_beyond_the_measured_range_is_proportional():
    assert demand(np.array([271.0, 360.0, 361.0]), CAPACITY).tolist() == [4, 4, 5]


@pytest.mark.parametrize(("group", "under"), [(1, 0.0), (3, 1.0)])
def test_rates_of_groups_count_their_requests(group, under):
    load = {"open": {"rate": 100.0, "arrivals": "constant"}}
    stream = StreamSummary("main", load, group=group)
    measured = PhaseSummary(
        name="m", streams=(stream,), operations={"a": operation(100.0 * group)}, start=0.0, warmup=0.0, duration=100.0
    )
    run = RecordedRun("r", 1, {"nodes": 3 if group == 3 else 1}, MadeUp(summary(measured)))
    capacity = {"capacity": [{"nodes": nodes, "rate": rate} for nodes, rate in CAPACITY.items()]}
    # 300 requests/s exceed the capacity of three nodes.
    assert _provisioning([run], {"r": course(100)}, capacity)["r"].under_share == under


def test_rates_of_journeys_count_their_requests():
    stream = StreamSummary("main", {"open": {"rate": 100.0, "arrivals": "constant"}})
    measured = PhaseSummary(
        name="m", streams=(stream,), operations={"a": operation(300.0)}, start=0.0, warmup=0.0, duration=100.0
    )
    steps = [{"operation": "a", "think_time": 0.0}] * 3
    phases = ({"name": "m", "streams": [{"name": "main", "journey": steps}]},)
    manifest = Manifest(FORMAT, workload=RecordedWorkload(phases=phases))
    run = RecordedRun("r", 1, {"nodes": 3}, MadeUp(summary(measured), manifest))
    capacity = {"capacity": [{"nodes": nodes, "rate": rate} for nodes, rate in CAPACITY.items()]}
    # 100 journeys/s of three requests exceed the capacity of three nodes.
    assert _provisioning([run], {"r": course(100)}, capacity)["r"].under_share == 1.0


def test_a_node_counts_when_it_has_its_data_and_no_longer_when_it_begins_to_leave():
    events = [
        Event(10.0, "node requested", ("node-1",)),
        Event(20.0, "node joined", ("node-1",)),
        Event(40.0, "cluster balanced", ("node-1",)),
        Event(70.0, "node leaving", ("node-1",)),
        Event(80.0, "node left", ("node-1",)),
        Event(80.0, "cluster balanced"),
    ]
    nodes = supply(TIMES, 1, events)
    assert nodes.tolist() == [1.0] * 40 + [2.0] * 30 + [1.0] * 30


@pytest.mark.parametrize(
    ("later", "count"),
    [
        ([(30.0, "node killed", "node-1")], [1, 1, 1]),
        ([(30.0, "node killed", "node-1"), (40.0, "cluster balanced", "node-1")], [1, 1, 1]),
        (
            [(30.0, "node killed", "node-1"), (40.0, "node restarted", "node-1"), (50.0, "cluster balanced", "")],
            [1, 1, 2],
        ),
        ([(30.0, "node leaving", "node-1"), (80.0, "cluster balanced", "")], [1, 1, 1]),
        ([(30.0, "node leaving", "node-0"), (35.0, "change failed", ""), (36.0, "cluster balanced", "")], [1, 2, 2]),
        ([(30.0, "node killed", "router-0"), (31.0, "node killed", "node-0-1")], [1, 1, 1]),
    ],
)
def test_a_node_that_ends_before_its_data_are_in_place_never_counted(later, count):
    events = [Event(10.0, "node requested", ("node-1",)), Event(20.0, "node joined", ("node-1",))]
    events += [Event(time, kind, (name,) if name else ()) for time, kind, name in later]
    assert supply(np.array([25.0, 37.0, 90.0]), 1, events).tolist() == count


def test_a_node_that_is_killed_before_it_joins_is_no_lost_member():
    events = [Event(10.0, "node requested", ("node-1",)), Event(15.0, "node killed", ("node-1",))]
    assert [members for _, members, _ in node_changes(events)] == [0, 0]
    left = [Event(10.0, "node killed", ("node-0",)), Event(15.0, "node left", ("node-0",))]
    assert sum(members for _, members, _ in node_changes(left)) == -1


def test_a_failed_kill_during_a_removal_keeps_no_node():
    events = [
        Event(10.0, "node leaving", ("node-1",)),
        Event(20.0, "change failed", step=2, words="kill node-7"),
        Event(30.0, "node left", ("node-1",)),
    ]
    assert supply(np.array([5.0, 15.0, 25.0, 35.0]), 2, events).tolist() == [2, 1, 1, 1]


def test_a_node_that_leaves_after_its_removal_failed_no_longer_serves():
    events = [
        Event(10.0, "node leaving", ("node-1",)),
        Event(20.0, "change failed", step=1, words="remove 1"),
        Event(30.0, "node left", ("node-1",)),
    ]
    assert supply(np.array([5.0, 15.0, 25.0, 35.0]), 2, events).tolist() == [2, 1, 2, 1]
    assert sum(members for _, members, _ in node_changes(events)) == -1


def test_scores_are_shares_of_time_and_of_demand():
    wanted = np.array([1.0] * 20 + [2.0] * 60 + [1.0] * 20)
    given = np.array([1.0] * 40 + [2.0] * 60)
    result = score(wanted, given)
    assert (result.under_share, result.over_share) == (0.2, 0.2)
    assert result.under_accuracy == pytest.approx(0.2 * 0.5)
    assert result.over_accuracy == pytest.approx(0.2 * 1.0)
    assert result.jitter == pytest.approx((1 - 2) / 100)


def test_a_perfect_policy_scores_nothing():
    wanted = np.array([1.0] * 50 + [3.0] * 50)
    assert set(score(wanted, wanted).as_dict().values()) == {0.0}


def test_a_level_in_stages_is_what_it_is_at_each_time():
    level = {"from": 10.0, "stages": [{"to": 20.0, "over": 10.0}, {"to": 5.0, "over": 0.0}, {"to": 5.0, "over": 5.0}]}
    times = np.array([0.0, 5.0, 9.999, 10.0, 14.0, 50.0])
    assert level_at(level, times) == pytest.approx([10.0, 15.0, 20.0, 5.0, 5.0, 5.0], abs=0.01)
    assert level_at(7, times).tolist() == [7.0] * 6
    days = {"from": 2.0, "repeats": True, "stages": [{"to": 2.0, "over": 3.0}, {"to": 8.0, "over": 2.0}]}
    assert level_at(days, np.array([1.0, 4.0, 6.0, 9.0, 5001.0])).tolist() == [2.0, 5.0, 2.0, 5.0, 2.0]
