"""The CPU of each process in the measured window, from samples with known truth."""

import pyarrow as pa
import pytest

from loadframe.analyze import telemetry
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, read_experiment
from loadframe.analyze.scale.saturation import cores_used, cpu_shares
from loadframe.analyze.telemetry import ALL, processes_at
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.manifest import RecordedLimits, RecordedStore
from made_up_runs import MadeUp, operation, phase, summary
from simulated import Truth, write_experiment, write_run


class Watched(MadeUp):
    """A run with only samples: source -> times, s, and the cores used since the previous sample."""

    def __init__(self, samples, *phases, **operations):
        super().__init__(summary(*(phases or [phase("week", operations or {"walk": operation(100.0)})])))
        rows = [
            (time, source, metric, value)
            for source, looks in samples.items()
            for time, cores in looks
            for metric, value in (("process.resident", 1e6), ("process.cpu", cores))
            if value is not None
        ]
        times, sources, metrics, values = zip(*rows, strict=True)
        self.__dict__["telemetry"] = pa.table(
            {"time": times, "source": sources, "metric": metrics, "value": pa.array(values, pa.float64())}
        )


def processes_of(run):
    return telemetry.processes_of(run).used


def looks(begin, end, cores):
    """Look once a second; nothing is known at the first look."""
    return [(begin, None), *((begin + second, cores) for second in range(1, end - begin + 1))]


def test_a_sample_counts_as_far_as_it_lies_in_the_window():
    # The window is from 1.5 to 10.5 s: half of the second sample, all but half of the last.
    samples = [(0.0, None), (1.0, 5.0), (2.0, 3.0), *((second, 1.0) for second in range(3, 11)), (11.0, 3.0)]
    used = processes_of(Watched({"node:app": samples}))["week"]["app"]
    assert used.watched == pytest.approx(9.0)
    assert used.cores == pytest.approx((0.5 * 3.0 + 8 * 1.0 + 0.5 * 3.0) / 9)
    assert used.per_request == pytest.approx(used.cores * 9.0 / 1000), "1,000 requests were answered well"


def test_all_processes_are_added_up():
    samples = {"node:app-1": looks(0, 12, 0.5), "node:mongodb": looks(0, 12, 0.25), "host": [(1.0, 7.0), (2.0, 7.0)]}
    used = processes_of(Watched(samples))["week"]
    assert list(used) == ["app-1", "mongodb", ALL]
    assert used[ALL].cores == pytest.approx(0.75)
    assert used[ALL].per_request == pytest.approx(0.75 * 9.0 / 1000)


@pytest.mark.parametrize("lost", [{"node:2", "node:router"}, {"node:2"}, {"node:router"}, {"node:1", "node:2"}])
def test_without_samples_of_a_process_the_use_of_all_is_unknown(lost):
    names = ("node:0", "node:1", "node:2", "node:router")
    store = RecordedStore(
        nodes=3, companions={"router": "router"}, limits=RecordedLimits(cpus=1.0, enforced_by="quota")
    )
    some, every = (
        Watched({name: looks(0, 12, 0.9) for name in names if name not in without}) for without in (lost, ())
    )
    for watched in (some, every):
        watched.__dict__["manifest"] = Manifest(FORMAT, store=store)
    assert processes_of(every)["week"][ALL].per_request == pytest.approx(4 * 0.9 * 9.0 / 1000)
    cpu = telemetry.processes_of(some)
    assert cpu.partial == {"week"}
    assert list(cpu.used["week"]) == [name.removeprefix("node:") for name in names if name not in lost], "without a sum"
    one, whole = (RecordedRun("r", 1, {"nodes": 3}, watched) for watched in (some, every))
    assert (cores_used(one, "week"), cpu_shares(one, "week")) == (0.0, {})
    assert cores_used(whole, "week") == pytest.approx(3.6)
    assert list(cpu_shares(whole, "week")) == ["0", "1", "2"]


def test_each_member_of_a_shard_is_a_process_of_the_sum():
    names = ("0", "0-1", "0-2", "1", "1-1", "1-2")
    store = RecordedStore(kind="mongodb", nodes=2, settings={"members": 3})
    some, every = (Watched({f"node:{name}": looks(0, 12, 0.5) for name in names[:count]}) for count in (5, 6))
    for watched in (some, every):
        watched.__dict__["manifest"] = Manifest(FORMAT, store=store)
    assert (telemetry.processes_of(some).partial, ALL in processes_of(some)["week"]) == ({"week"}, False)
    assert processes_of(every)["week"][ALL].cores == pytest.approx(3.0)


def test_a_process_that_was_there_for_a_part_of_the_window_has_a_use_and_no_cost_of_a_request():
    samples = {"node:0": looks(0, 12, 1.0), "node:1": looks(0, 6, 1.0)}
    used = processes_of(Watched(samples))["week"]
    assert used["1"].watched == pytest.approx(4.5)
    assert (used["1"].cores, used["1"].whole, used["1"].per_request) == (pytest.approx(1.0), False, None)
    assert used[ALL].cores == pytest.approx(1.5), "the process ran for half of the window"
    assert used[ALL].per_request is None


def test_a_restart_leaves_a_hole_and_no_made_up_rate():
    samples = {"node:0": [*looks(0, 4, 1.0), *((time + 3, cores) for time, cores in looks(5, 9, 1.0))]}
    used = processes_of(Watched(samples))["week"]["0"]
    assert used.watched == pytest.approx(2.5 + 2.5)
    assert not used.whole


def test_operations_that_stand_for_others_are_not_counted_twice():
    operations = {"walk": operation(100.0), "journey": operation(10.0, of_several=True)}
    used = processes_of(Watched({"node:0": looks(0, 12, 1.0)}, **operations))["week"]["0"]
    assert used.per_request == pytest.approx(9.0 / 1000)


def test_without_answers_the_cost_of_a_request_is_absent():
    used = processes_of(Watched({"node:0": looks(0, 12, 1.0)}, walk=operation(0.0, successes=0)))["week"]["0"]
    assert (used.whole, used.per_request) == (True, None)


@pytest.mark.parametrize("last", [9, 8, 2])
def test_windows_with_too_few_samples_do_not_have_figures(last):
    # The window is 1.5 to 10.5 s. Its part without samples may have had most of the activity.
    assert processes_of(Watched({"node:0": looks(0, last, 0.01)})) == {}


def test_a_preparing_phase_has_no_figures_in_place_of_a_short_measured_phase():
    load = phase("load", {"put": operation(100.0)}, prepares=True, start=0.2, warmup=0.0, duration=9.0)
    short = phase("b", {"get": operation(100.0)}, start=9.6, warmup=1.0, duration=3.0)
    run = Watched({"node:0": looks(0, 13, 0.1)}, load, short)
    cpu = telemetry.processes_of(run)
    assert cpu.used == {}
    [gap] = cpu.unsampled
    assert (gap.phase, gap.duration, gap.sampled) == ("b", 3.0, 2.0), "the last sample is 0.6 s before the end"
    assert list(telemetry.processes_of(run, (load,)).used) == ["load"], "preparing phases have figures on request"


@pytest.mark.parametrize(("duration", "known"), [(0.3, False), (1.4, False), (3.0, True)])
def test_intervals_that_reach_far_beyond_a_short_window_have_no_figures(duration, known):
    short = phase("b", {"get": operation(100.0)}, start=3.3, warmup=0.0, duration=duration)
    run = Watched({"node:0": [*looks(0, 12, 0.1)]}, short)
    assert bool(processes_of(run)) == known
    assert bool(telemetry.processes_of(run).unsampled) != known


def test_a_window_that_ends_shortly_after_the_last_look_has_figures():
    assert processes_of(Watched({"node:0": looks(0, 10, 0.5)}))["week"]["0"].cores == pytest.approx(0.5)


def test_runs_without_process_telemetry_do_not_have_figures():
    cpu = telemetry.processes_of(Watched({"host": [(1.0, 7.0)]}))
    assert (cpu.used, cpu.unsampled) == ({}, [])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "e"
    spoilt = ["b1-nodes2-clients4"]
    return read_experiment(write_experiment(path, nodes=(2, 1), clients=(8, 4), repetitions=3, invalid=spoilt))


def test_treatments_have_means_over_their_valid_runs(folder):
    rows, unsampled = processes_at(folder)
    assert unsampled == []
    assert [(row.treatment["nodes"], row.treatment["clients"], row.process) for row in rows] == [
        *((2, clients, process) for clients in (8, 4) for process in ("0", "1", ALL)),
        *((1, clients, "0") for clients in (8, 4)),
    ], "in the order of the file"
    assert [row.runs for row in rows[:6]] == [3, 3, 3, 2, 2, 2], "an invalid run does not count"
    for row in rows:
        assert row.cores.value == pytest.approx(0.9 if row.process == ALL else 0.45)
        assert row.per_request is not None
        assert 0 <= row.per_request.low < row.per_request.value < row.per_request.high


def test_a_single_run_does_not_have_an_interval(tmp_path):
    run = write_run(tmp_path, "r1", Truth())
    one = RecordedRun("r1", 1, {"nodes": 1}, run)
    known = {"kind": "scale", "factors": {"nodes": [1]}, "measure": ["range_100"]}
    ([row], _) = processes_at(RecordedExperiment(tmp_path, known, (one,)))
    assert not row.cores.is_finite
    assert row.as_dict()["cores"]["low"] is None


def test_processes_are_listed_by_their_numbers():
    names = ["node:10", "node:router-10", "node:2", "node:router-9"]
    used = processes_of(Watched({name: looks(0, 12, 0.5) for name in names}))["week"]
    assert list(used) == ["2", "10", "router-9", "router-10", ALL]
