"""Phases on the real engine, with the driver that answers at once."""

import _thread
import contextlib
import json
import os
import signal
import socket
import ssl
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trustme
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from answering import Answering
from loadframe import _engine
from loadframe._engine import HistogramLog
from loadframe.base import interrupts
from loadframe.base.errors import BadInput, GeneratorFailed
from loadframe.cluster import ClusterSpec, Limits
from loadframe.load import Generator, check_operations, run_phase
from loadframe.record.merge import PhaseRecording, sampled_phases, write_samples


def plan(**stream):
    stream = {"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 2}}, "stop": {"requests": 5000}} | stream
    return {"seed": 1, "phase": "p", "target": {"driver": "null"}, "operations": {"a": {}}, "streams": [stream]}


def test_a_phase_returns_the_outcome_that_it_writes(tmp_path):
    outcome = run_phase(plan(), tmp_path, lambda progress: None)
    assert outcome["operations"][0]["successes"] == 5000
    assert outcome == json.loads((tmp_path / "outcome.json").read_text())
    assert not outcome["interrupted"]


@pytest.mark.parametrize("threads", [1, 2])
def test_each_arrival_of_a_group_sends_every_operation_as_often_as_its_weight(tmp_path, threads):
    mix = {"mix": [["a", 2], ["b", 1]], "order": "together"}
    group = plan(**mix, pacing={"open": {"rate": 100, "max_in_flight": 3}}, stop={"requests": 30})
    group |= {"operations": {"a": {}, "b": {}}, "threads": threads}
    outcome = run_phase(group, tmp_path, lambda progress: None)
    counts = {one["operation"]: one["successes"] + one["dropped"] for one in outcome["operations"]}
    assert counts == {"a": 20, "b": 10}
    assert outcome["streams"][0]["group"] == 3


def test_progress_is_reported_during_the_phase(tmp_path):
    told = []
    run_phase(plan(pacing={"open": {"rate": 1000}}, stop={"duration": 2.5}), tmp_path, told.append)
    assert 1 <= told[-1].seconds <= 2
    # Answers that a busy machine delays count in the next second.
    assert 800 <= told[-1].throughput <= 1200


def test_seconds_without_answers_do_not_have_response_times(tmp_path):
    told = []
    run_phase(plan(pacing={"open": {"rate": 0.5}}, stop={"duration": 2.5}), tmp_path, told.append)
    assert {(entry.throughput, entry.response_p99 is None) for entry in told if entry.seconds} == {
        (1, False),
        (0, True),
    }


def test_progress_has_the_requests_in_flight_and_the_age_of_the_oldest(tmp_path):
    told = []
    with Answering(delay=2.5) as server:
        target = {"driver": "search", "hosts": [server.address]}
        operations = {"a": {"request": {"method": "GET", "path": "/"}}}
        clients = plan(pacing={"closed": {"clients": 3}}, stop={"requests": 3})
        run_phase(clients | {"target": target, "operations": operations}, tmp_path, told.append)
    seen = {entry.seconds: (entry.in_flight, entry.oldest_in_flight) for entry in told}
    assert seen[0] == (0, None)
    assert seen[2] == (3, pytest.approx(2.0, abs=0.3))


def test_an_interrupt_ends_the_phase_within_a_second_and_keeps_what_was_measured_for_whoever_defers_it(tmp_path):
    threading.Timer(1.2, _thread.interrupt_main).start()
    started = time.monotonic()
    endless = plan(pacing={"open": {"rate": 1000}}, stop={"duration": 60})
    outcome = {}
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        outcome = run_phase(endless, tmp_path, lambda progress: None)
    assert time.monotonic() - started < 2.4
    assert outcome["interrupted"]
    assert outcome["operations"][0]["successes"] >= 1000
    assert not interrupts.pending(), "it was raised"


def test_an_interrupt_of_a_phase_that_is_shorter_than_a_look_is_raised_behind_it(tmp_path):
    outcome = {}

    def started(offset):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        outcome = run_phase(plan(stop={"requests": 5}), tmp_path, lambda progress: None, started=started)
    assert outcome["operations"][0]["successes"] == 5
    assert not outcome["interrupted"], "it was over before it could be cut short"
    with pytest.raises(KeyboardInterrupt):
        run_phase(plan(stop={"requests": 5}), tmp_path, lambda progress: None, started=started)


def test_a_rate_at_which_the_next_request_comes_in_ages_is_a_phase_of_one_request(tmp_path):
    slow = plan(pacing={"open": {"rate": 1e-25}}, stop={"duration": 0.3})
    outcome = run_phase(slow, tmp_path, lambda progress: None)
    assert (outcome["operations"][0]["successes"], outcome["measured"]) == (1, 0.3)
    poisson = plan(pacing={"open": {"rate": 1e-25, "arrivals": "poisson"}}, stop={"duration": 0.3})
    assert run_phase(poisson, tmp_path, lambda progress: None)["operations"][0]["requests"] == 0


def test_threads_without_a_client_hold_no_progress_up(tmp_path):
    told = []
    few = plan(pacing={"closed": {"clients": 2, "think_time": 0.01}}, stop={"duration": 2.5}) | {"threads": 4}
    run_phase(few, tmp_path, told.append)
    assert told[-1].seconds >= 1
    assert told[-1].requests > 0


def threads(*names: str) -> list[int]:
    """Return the ids of this process's threads with a name that begins with one of `names`."""
    ids = []
    for thread in Path("/proc/self/task").iterdir():
        # Other threads may end meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if (thread / "comm").read_text().startswith(names):
                ids.append(int(thread.name))
    return ids


def test_unwritable_records_end_the_load_before_the_error(tmp_path):
    (tmp_path / "histograms.hlog").symlink_to("/dev/full")
    with pytest.raises(GeneratorFailed, match="No space left"):
        run_phase(plan(stop={"duration": 60}), tmp_path, lambda progress: None)
    assert not threads("worker-", "collector")


def test_workers_run_on_the_cores_that_are_theirs(tmp_path):
    core, before = max(os.sched_getaffinity(0)), os.sched_getaffinity(0)
    seen = []

    def look(progress):
        seen.extend(os.sched_getaffinity(thread) for thread in threads("worker-0"))

    run_phase(plan(stop={"duration": 0.5}), tmp_path, look, cores={core})
    assert seen
    assert all(cores == {core} for cores in seen)
    assert os.sched_getaffinity(0) == before


@pytest.mark.slow
def test_python_code_runs_during_load(tmp_path):
    counted = 0

    def count():
        nonlocal counted
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    run_phase(plan(stop={"duration": 0.6}), tmp_path, lambda progress: None)
    thread.join()
    assert counted > 1000


def test_a_refused_plan_is_bad_input_that_names_the_phase(tmp_path):
    with pytest.raises(BadInput, match="rate of 0") as caught:
        run_phase(plan(pacing={"open": {"rate": 0}}), tmp_path, lambda progress: None)
    assert "phase p" in str(caught.value)
    with pytest.raises(BadInput, match="unknown driver"):
        check_operations(plan() | {"target": {"driver": "nul"}})


def test_a_target_that_cannot_be_trusted_is_refused_with_a_remedy_of_its_own(tmp_path):
    certificate = trustme.CA().issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            with contextlib.suppress(OSError), server.accept()[0] as peer, context.wrap_socket(peer, server_side=True):
                pass

        greeting = threading.Thread(target=greet)
        greeting.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        target = {"driver": "search", "hosts": [address], "tls": {"ca": str(other)}}
        operations = {"a": {"request": {"method": "GET", "path": "/"}}}
        with pytest.raises(BadInput, match="certificate does not verify") as caught:
            run_phase(plan() | {"target": target, "operations": operations}, tmp_path, lambda progress: None)
        greeting.join()
    assert caught.value.remedy == "check the credentials and the TLS options"


def test_an_independent_reader_finds_the_same_histograms(tmp_path):
    run_phase(plan(), tmp_path, lambda progress: None)
    path = str(tmp_path / "histograms.hlog")
    ours = HistogramLog(path).total("p/a/service")
    theirs = HdrHistogram(1, 3_600_000_000_000, 3)
    reader = HistogramLogReader(path, theirs)
    while (interval := reader.get_next_interval_histogram()) is not None:
        if interval.get_tag() == "p/a/service":
            theirs.add(interval)
    assert ours.count == theirs.get_total_count() == 5000
    for q in (0.5, 0.9, 0.99, 0.999, 1.0):
        assert round(ours.quantile(q) * 1e9) == theirs.get_value_at_percentile(100 * q)


@pytest.mark.parametrize(("held", "most"), [(True, 21), (False, 90)])
def test_held_clients_pause_and_new_ones_do_not_start(tmp_path, held, most):
    level = {"from": 1, "stages": [{"to": 1, "over": 1.0}, {"to": 50, "over": 0.0}]}
    # Each thinks 0.1 s: one client makes at most 21 requests in 2 s.
    pacing = {"closed": {"clients": level, "think_time": 0.1}}
    outcome = run_phase(plan(pacing=pacing, stop={"duration": 2.0}), tmp_path, lambda progress: None, held=lambda: held)
    requests = outcome["operations"][0]["requests"]
    assert requests <= most if held else requests > most


def test_a_client_that_is_busy_when_it_becomes_active_again_sends_its_next_request_afterwards(tmp_path):
    # The first request of the second client is answered when it is inactive and active again.
    level = {"from": 2, "stages": [{"to": 2, "over": 0.3}, {"to": 1, "over": 0.0}, {"to": 1, "over": 0.2}]}
    level["stages"] += [{"to": 2, "over": 0.0}, {"to": 2, "over": 2.0}]
    request = {"request": {"method": "GET", "path": "/"}}
    with Answering(delay=0.8) as server:
        slow = plan(pacing={"closed": {"clients": level}}, stop={"duration": 2.0})
        slow |= {
            "target": {"driver": "search", "hosts": [server.address]},
            "operations": {"a": request},
            "samples": True,
        }
        run_phase(slow, tmp_path, lambda progress: None)
    write_samples(sampled_phases([PhaseRecording("p", 0.0, (), tmp_path)]), tmp_path / "samples.parquet")
    samples = pq.read_table(tmp_path / "samples.parquet").to_pylist()
    ends = {}
    for sample in sorted(samples, key=lambda sample: sample["done"]):
        assert sample["scheduled"] >= ends.get(sample["client"], 0.0), sample
        ends[sample["client"]] = sample["done"]
    assert len(ends) == 2 and len(samples) >= 4


class EndingHandle:
    """A phase of 1.5 s: the engine records its end as second 2, just before it is over."""

    def __init__(self):
        self.started = time.monotonic() - 1.5
        self._looks = iter([False, True])

    def wait(self, seconds):
        return next(self._looks)

    def progress(self):
        return {"seconds": 2, "requests": 150, "errors": 0, "documents": 0, "throughput": 50,
                "documents_throughput": 0, "response_p50": 0.1, "response_p99": 0.1, "operations": {},
                "in_flight": 0, "oldest_in_flight": 0.0}  # fmt: skip

    def answers(self):
        return []

    def stop(self):
        pass

    def outcome(self):
        return '{"failed": null}'


def test_a_second_that_the_end_cut_short_is_not_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(_engine, "start", lambda plan, folder: EndingHandle())
    told = []
    run_phase(plan(), tmp_path, told.append)
    assert told == []


def test_spinning_workers_are_refused_on_too_few_cores(tmp_path):
    core = {min(os.sched_getaffinity(0))}
    with pytest.raises(
        BadInput, match=r"1 threads need 2 cores, and this process may use 1; use fewer threads"
    ) as refused:
        run_phase({**plan(), "spin": True}, tmp_path, lambda progress: None, cores=core)
    assert str(refused.value).count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_spinning_is_refused_where_nodes_may_use_all_cores():
    for generator, limits, refused in (
        (Generator(spin=True), Limits(), True),
        (Generator(spin=True), Limits(cores=(1,)), False),
        (Generator(spin=True), Limits(cores_each=1), False),
        (Generator(), Limits(), False),
    ):
        shared = ClusterSpec("redis", limits=limits).shares_cores
        with pytest.raises(BadInput, match="reserve cores") if refused else contextlib.nullcontext():
            generator.require_own_cores(shared=shared)


@pytest.mark.parametrize("files, refused", [
    ({"cpu.max": "150000 100000"}, True),
    ({"cpu.max": "200000 100000"}, False),
    ({"cpu.max": "max 100000"}, False),
    ({"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"}, True),
    ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, False),
    ({}, False),
])  # fmt: skip
def test_spinning_is_refused_under_a_cpu_quota_without_room(tmp_path, monkeypatch, files, refused):
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr("loadframe.load.phase.own_groups", lambda: [tmp_path])
    expected = pytest.raises(BadInput, match="1 thread requires 2 cores") if refused else contextlib.nullcontext()
    with expected:
        Generator(spin=True).require_own_cores(shared=False)
