"""Triggers and policies: the conditions that fire them, and similar ones that do not."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from loadframe.analyze.autocorrelation import stepwise_noise
from loadframe.experiment.file.elastic import Objective, Overload, Step
from loadframe.experiment.runner.director import PolicyInput, _CpuWatcher, target_tracking, thresholds
from loadframe.experiment.runner.triggers import (
    AtTime,
    Balanced,
    LiveMetrics,
    Overloaded,
    RunState,
    SloBroken,
    Trigger,
    throughput_drop,
    trigger_of,
)
from loadframe.load import Progress, Requests, SourceProgress
from loadframe.observe import Sample
from loadframe.simulate import autoregressive
from loadframe.store.sim.model import SimModel
from virtual_arrivals import arriving


def progress(seconds, throughput, errors=0, p99=0.01, waiting=(0, None), **operations):
    of_each = {name: Requests(*counts) for name, counts in operations.items()}
    return Progress(seconds, 0, errors, 0, throughput, 0, p99 and p99 / 2, p99, {}, of_each, *waiting)


def metrics(rates, cpu=None, **more):
    seen = LiveMetrics()
    for second, rate in enumerate(rates, start=1):
        seen.progress(progress(second, rate, **more))
        seen.progress(progress(second, rate, **more))  # told several times a second
        seen.look({"node:node-0": cpu or 0.0, "node:node-1": 0.1})
    return seen


def moment(seen, now=100.0, balanced=None, since=0):
    return RunState(now, seen, balanced, since)


def noisy(level, seconds, seed=1, variation=0.03):
    return (level * (1 + variation * np.random.default_rng(seed).standard_normal(seconds))).tolist()


OVERLOADED = Overloaded(Overload(cpu=0.9, drop=0.05, seconds=10))


def test_overload_is_a_busy_node_and_a_drop_of_throughput():
    dropped = [*noisy(1000, 180), *noisy(800, 20, seed=2)]
    assert "95 % CPU" in str(OVERLOADED.fires(moment(metrics(dropped, cpu=0.95))))
    assert OVERLOADED.fires(moment(metrics(dropped, cpu=0.85))) is None
    assert OVERLOADED.fires(moment(metrics(noisy(1000, 100), cpu=0.95))) is None
    assert OVERLOADED.fires(moment(metrics([*noisy(1000, 90), *noisy(1200, 10)], cpu=0.95))) is None


def test_a_drop_counts_when_it_is_large_and_more_than_noise():
    fallen = throughput_drop(np.array([*noisy(1000, 180), *noisy(800, 20, seed=2)]), 10, 0.05)
    assert fallen is not None
    assert (fallen.best, fallen.last) == (pytest.approx(1000, rel=0.03), pytest.approx(800, rel=0.03))
    wild = np.array([*noisy(1000, 90, variation=0.9), *noisy(900, 10, seed=2, variation=0.9)])
    assert throughput_drop(np.maximum(wild, 0), 10, 0.05) is None
    assert throughput_drop(np.array([1000.0] * 10 + [500.0] * 9), 10, 0.05) is None, "too short"


def test_a_small_drop_is_seen_when_it_lasts():
    lasting = np.array([*noisy(1000, 200, variation=0.1), *noisy(800, 200, seed=2, variation=0.1)])
    assert throughput_drop(lasting[:210], 10, 0.05) is None
    fallen = throughput_drop(lasting, 10, 0.05)
    assert fallen is not None
    assert fallen.seconds > 10


def test_without_a_drop_asked_for_overload_is_throughput_that_no_longer_grows():
    plateau = Overloaded(Overload(cpu=0.9, drop=0.0, seconds=5))
    assert plateau.fires(moment(metrics([100.0] * 5 + [200.0] * 5, cpu=0.95))) is None
    assert plateau.fires(moment(metrics([200.0] * 5 + [199.0] * 5, cpu=0.95))) is not None


def test_nothing_fires_before_the_level_is_known_that_it_is_to_change():
    step = Step.model_validate({"overloaded": {"drop": 0.0, "seconds": 5}, "add": 1})
    trigger = trigger_of(step, None, 20.0)
    seen = metrics([200.0] * 5 + [199.0] * 5, cpu=0.95)
    assert trigger.fires(moment(seen, now=19.9)) is None
    assert trigger.fires(moment(seen, now=20.1)) is not None
    assert "no longer growing" in trigger.description


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_noise_alone_is_seldom_taken_for_overload(rho):
    # Allowed in at most 5 % of 15-minute runs with a check every second; see benchmarks/simulate_trigger.py.
    noise = autoregressive(np.random.default_rng(1), (20, 400), rho)
    runs = 1000 * (1 + 0.1 * noise)
    fired = sum(any(throughput_drop(run[:until], 10, 0.05) for until in range(60, 401, 4)) for run in runs)
    assert fired <= 2


def test_noise_about_a_level_that_rises_in_steps_is_that_of_its_seconds():
    level = 200 + 20 * (np.arange(400) // 20)
    deviation, rho = stepwise_noise(level * (1 + 0.05 * autoregressive(np.random.default_rng(3), (400,), 0.5)))
    assert deviation == pytest.approx(0.05, rel=0.2)
    assert rho == pytest.approx(0.5, abs=0.15)


def test_an_objective_is_broken_when_it_was_so_for_all_of_the_last_seconds():
    broken = SloBroken(Objective(p99=0.1), 3.0)
    assert broken.fires(moment(metrics([100] * 3, p99=0.2))) is not None
    assert broken.fires(moment(metrics([100] * 2, p99=0.2))) is None
    assert broken.fires(moment(metrics([100] * 9, p99=0.05))) is None
    assert broken.fires(moment(metrics([0] * 3, p99=None))) is None


def test_seconds_that_an_earlier_trigger_used_do_not_fire_another():
    broken, slow = SloBroken(Objective(p99=0.1), 3.0), metrics([100] * 6, p99=0.2)
    assert broken.fires(moment(slow, since=4)) is None
    assert broken.fires(moment(slow, since=3)) is not None
    dropped = metrics([*noisy(1000, 180), *noisy(800, 20, seed=2)], cpu=0.95)
    # The level before the first drop still counts.
    assert OVERLOADED.fires(moment(dropped, since=180)) is not None
    assert OVERLOADED.fires(moment(dropped, since=195)) is None


def test_failures_break_an_objective_too():
    seen = LiveMetrics()
    for second in range(1, 5):
        seen.progress(progress(second, 100, read=(105 * second, 5 * second)))
    assert SloBroken(Objective(errors=0.01), 3.0).fires(moment(seen)) == "p99 10 ms, 4.76 % of read failed"
    assert SloBroken(Objective(errors=0.10), 3.0).fires(moment(seen)) is None


def test_an_objective_is_broken_by_the_failures_of_one_operation_among_many_requests():
    seen = LiveMetrics()
    for second in range(1, 5):
        # One of 1,000 requests fails, and so half of the writes.
        counts = {"read": (998 * second, 0), "write": (2 * second, second)}
        seen.progress(progress(second, 1000, errors=second, **counts))
    assert SloBroken(Objective(errors=0.01), 3.0).fires(moment(seen)) == "p99 10 ms, 50.00 % of write failed"
    for second in range(5, 8):
        # No write is due.
        seen.progress(progress(second, 998, errors=4, read=(998 * second, 0), write=(8, 4)))
    assert SloBroken(Objective(errors=0.01), 3.0).fires(moment(seen)) is None


def fired(trigger: Trigger, told) -> int | None:
    """Return the second in which the trigger fires first, or None."""
    seen = LiveMetrics()
    for entry in told:
        seen.progress(entry)
        if trigger.fires(moment(seen)):
            return entry.seconds
    return None


def virtual(rate, service, seconds, fails=lambda number: False):
    """Yield the progress of each second of Poisson arrivals at a simulated store in virtual time."""
    load = arriving(SimModel(service=service, distribution="constant", servers=64), 1, rate, duration=seconds, seed=1)
    failed = np.array([fails(number) for number in range(len(load.done))])
    for second in range(1, seconds + 1):
        ended = load.done <= second
        last = ended & (load.done > second - 1)
        due = load.scheduled[(load.scheduled < second) & ~ended]
        responses = (load.done - load.scheduled)[last & ~failed]
        p99 = float(np.quantile(responses, 0.99)) if len(responses) else None
        errors, requests = int((ended & failed).sum()), int(ended.sum())
        yield Progress(second, requests, errors, 0, len(responses), 0, p99, p99,
                       operations={"read": Requests(requests, errors)} if requests else {}, in_flight=len(due),
                       oldest_in_flight=second - float(due.min()) if len(due) else None)  # fmt: skip


@pytest.mark.parametrize("rate", [0.1, 1.0, 20.0])
def test_a_store_that_is_well_breaks_no_objective_at_any_rate(rate):
    told = list(virtual(rate, 0.01, 2000, fails=lambda number: number % 2 == 0 and rate > 10))
    assert fired(SloBroken(Objective(p99=0.1, errors=0.8), 3.0), told) is None


@pytest.mark.parametrize("rate", [0.1, 1.0, 20.0])
@pytest.mark.parametrize(
    ("service", "fails", "slo"),
    [
        (0.5, False, Objective(p99=0.1)),
        (2.5, False, Objective(p99=0.1)),
        (0.01, True, Objective(errors=0.05)),
        (0.01, True, Objective(p99=0.1)),
    ],
)
def test_an_objective_is_broken_at_any_rate(rate, service, fails, slo):
    at = fired(SloBroken(slo, 5.0), virtual(rate, service, 400, fails=lambda number: fails))
    assert at is not None
    # Each request breaks the objective in at least one second.
    assert 5 <= at <= max(5 * 4 / rate, 12)


def test_a_second_with_waiting_requests_counts_by_their_wait():
    broken = SloBroken(Objective(p99=2.0), 3.0)
    waits = [progress(second, 0, p99=None, waiting=(4, float(second))) for second in range(1, 6)]
    assert fired(broken, waits) == 5
    seen = LiveMetrics()
    for entry in waits:
        seen.progress(entry)
    assert broken.fires(moment(seen)) == "no answers, 4 requests in flight for up to 5 s"
    # A short wait shows nothing: its request may still be late.
    late = [progress(second, second % 2, p99=3.0 if second % 2 else None, waiting=(1, 0.5)) for second in range(1, 9)]
    assert fired(broken, late) == 5
    assert fired(broken, [progress(second, 0, p99=None, waiting=(1, 0.5)) for second in range(1, 9)]) is None


def test_an_operation_with_few_requests_breaks_an_objective_by_its_failures():
    # One write in ten seconds, which fails; reads in each.
    told = [progress(second, 10, read=(10 * second, 0), write=(second // 10, second // 10)) for second in range(1, 101)]
    assert fired(SloBroken(Objective(errors=0.1), 5.0), told) == 50
    # Every second one succeeds.
    told = [progress(second, 10, read=(10 * second, 0), write=(second // 10, second // 20)) for second in range(1, 101)]
    assert fired(SloBroken(Objective(errors=0.1), 2.0), told) is None


@pytest.mark.parametrize("slo", [Objective(errors=0.05), Objective(p99=0.1)])
def test_failures_of_missed_seconds_break_no_more_seconds_than_there_are_failures(slo):
    def told(before, failures, missed=4):
        counts = [(1, before), (2 + missed, before + failures)]
        return [Progress(second, failed, failed, 0, 0, 0, None, None, operations={"read": Requests(failed, failed)})
                for second, failed in counts]  # fmt: skip

    assert fired(SloBroken(slo, 2.0), told(0, 1)) is None
    assert fired(SloBroken(slo, 3.0), told(1, 1)) is None
    assert fired(SloBroken(slo, 2.0), told(1, 1)) == 6
    assert fired(SloBroken(slo, 6.0), told(1, 5)) == 6
    # The failures may have begun in the last of the missed seconds.
    assert fired(SloBroken(slo, 2.0), told(0, 5)) is None


def test_balanced_counts_from_the_end_of_the_change_before():
    after = Balanced(30.0)
    assert after.fires(moment(LiveMetrics(), now=100.0)) is None
    assert after.fires(moment(LiveMetrics(), now=100.0, balanced=80.0)) is None
    assert after.fires(moment(LiveMetrics(), now=110.0, balanced=80.0)) is not None


def test_a_time_is_a_time():
    assert AtTime(5.0).fires(moment(LiveMetrics(), now=4.9)) is None
    assert AtTime(5.0).fires(moment(LiveMetrics(), now=5.0)) is not None


@pytest.mark.parametrize(("cpu", "nodes"), [(0.9, 4), (0.5, 3), (0.1, 2)])
def test_thresholds_add_or_remove_one_node(cpu, nodes):
    assert thresholds(0.3, 0.8)(PolicyInput(0.0, 3, cpu, 0.0, 0.0, 0.0)) == nodes


@pytest.mark.parametrize(("cpu", "nodes"), [(0.9, 5), (0.6, 3), (0.3, 2), (0.0, 0)])
def test_target_tracking_asks_for_the_nodes_that_would_meet_its_target(cpu, nodes):
    assert target_tracking(0.6)(PolicyInput(0.0, 3, cpu, 0.0, 0.0, 0.0)) == nodes


def test_where_documents_are_counted_throughput_is_of_documents_and_errors_are_of_requests():
    seen = LiveMetrics("documents")
    seen.progress(Progress(1, 12, 2, 5000, 10, 5000, 0.01, 0.01, operations={"read": Requests(12, 2)}))
    (second,) = seen.seconds()
    assert (second.throughput, second.successes, second.errors) == (5000, 10, 2)
    assert SloBroken(Objective(errors=0.1), 1.0).fires(moment(seen)), "2 of 12 requests, and not of 5,002"


def test_of_a_phase_that_takes_in_events_throughput_is_of_events():
    seen = LiveMetrics()
    for second, indexed in enumerate((300, 700), start=1):
        source = SourceProgress(indexed, indexed, indexed, 0, 0, 0, {}, (), None)
        seen.progress(Progress(second, second, 0, 9, 1, 9, 0.01, 0.01, {"ads": source}))
    assert [second.throughput for second in seen.seconds()] == [300, 400]


def test_totals_of_missed_seconds_are_spread_over_them():
    seen = LiveMetrics()
    seen.progress(Progress(1, 110, 10, 0, 100, 0, 0.01, 0.02))
    seen.progress(Progress(4, 490, 40, 0, 150, 0, 0.01, 0.05))
    assert [second.errors for second in seen.seconds()] == [10, 10, 10, 10]
    assert [second.successes for second in seen.seconds()] == [100, 100, 100, 150]
    assert [second.throughput for second in seen.seconds()] == [100, 100, 100, 150]
    assert [second.response_p99 for second in seen.seconds()] == [0.02, 0.02, 0.02, 0.05]


def test_documents_of_missed_seconds_are_spread_over_them():
    seen = LiveMetrics("documents")
    seen.progress(Progress(3, 30, 0, 900, 10, 500, 0.01, 0.02))
    assert [second.throughput for second in seen.seconds()] == [200, 200, 500]
    assert [second.successes for second in seen.seconds()] == [10, 10, 10]


def test_events_of_missed_seconds_are_spread_over_them():
    seen = LiveMetrics()
    for second, indexed in ((1, 300), (3, 1100)):
        source = SourceProgress(indexed, indexed, indexed, 0, 0, 0, {}, (), None)
        seen.progress(Progress(second, second, 0, 9, 1, 9, 0.01, 0.01, {"ads": source}))
    assert [second.throughput for second in seen.seconds()] == [300, 400, 400]


def test_missed_seconds_alone_do_not_break_an_objective():
    seen = LiveMetrics()
    seen.progress(progress(1, 100, p99=0.02))
    seen.progress(progress(6, 100, p99=0.2))
    assert SloBroken(Objective(p99=0.1), 3.0).fires(moment(seen)) is None


def test_cpu_of_a_policy_covers_the_whole_interval():
    seen = LiveMetrics()
    for share in [0.2] * 600 + [0.8] * 600:
        seen.look({"node:node-0": share})
    assert seen.cpu(1200) == pytest.approx(0.5)
    assert seen.busiest(600) == pytest.approx(0.8)


def test_the_cpu_of_a_node_on_another_machine_is_sampled_there():
    asked = []

    def call(_, look, watch, targets):
        asked.append(targets.pids)
        return [Sample("node:far", "process.cpu", 1.5), Sample("host", "cpu.busy", 0.5)]

    machine = SimpleNamespace(here=False, hostname="b", facts=SimpleNamespace(cores=range(2)), call_within=call)
    # The process id exists on this machine, too.
    far = SimpleNamespace(
        name="far", pid=os.getpid(), machine=machine, on="b", alive=True, companion=None, shares=None, control_groups={}
    )
    cluster = SimpleNamespace(
        nodes=[far],
        machines=[machine],
        store=SimpleNamespace(many_processes=False),
        describe=lambda: {"limits": {"cpus": None, "enforced_by": "none"}},
    )
    seen = LiveMetrics()
    watcher = _CpuWatcher(cluster, seen)
    watcher.look(0.0)
    watcher.look(1.0)
    assert asked == [{"far": os.getpid()}] * 2
    assert seen.cpu(2) == 0.75
