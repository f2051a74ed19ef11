"""Ctrl-C at random times from a seed, and at known critical ones: status 130, and measured data are kept."""

import contextlib
import os
import random
import re
import signal
import socket
import time

import pytest

from answering import Answering
from commands import Running
from loadframe.record import Run

WORKLOAD = """\
workload: brief
operations:
  look: {http: {method: GET, path: /look}}
phases:
  - {name: prepare, prepares: true, operation: look, clients: 1, duration: 60ms}
  - {name: open, operation: look, rate: 20/s, warmup: 400ms, duration: 400ms}
  - {name: closed, operation: look, clients: 1, duration: 300ms}
"""
#: Minimum duration of the uninterrupted command, s.
WHOLE = 1.6


def interrupt(folder, at, wait_for=None, delay=0.0, workload=WORKLOAD):
    """Interrupt the command `at` s after its start, or `delay` s after a given output; return status and run."""
    (folder / "w.yaml").write_text(workload)
    with Answering(delay=delay, slow="/look") as server:
        words = ("bench", folder / "w.yaml", "--store", "http", "--hosts", server.address, "--output", folder / "run")
        with Running(*words, folder=folder) as command:
            if wait_for:
                command.wait_for(wait_for)
            time.sleep(at)
            status, _ = command.send(signal.SIGINT)
            said = command.stderr
    assert "Traceback" not in said
    assert status == 130, said
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")], "half a run is left"
    if not (folder / "run").exists():
        return said, None
    run = Run(folder / "run")
    for phase in run.raw_summary["phases"]:
        rows = run.series.to_pylist()
        for name, operation in phase["operations"].items():
            at_hand = [row for row in rows if (row["phase"], row["operation"]) == (phase["name"], name)]
            assert operation["requests"] == sum(row["requests"] for row in at_hand if row["segment"] == "measure")
    return said, run


# From here on the command has its handler; before, Python itself starts.
@pytest.mark.slow
@pytest.mark.parametrize("at", [random.Random(f"15/{number}").uniform(0.1, WHOLE) for number in range(4)])
def test_at_any_instant_the_status_is_right_and_the_files_are_readable(tmp_path, at):
    said, run = interrupt(tmp_path, at)
    # Once a phase is over, something has been measured.
    assert ("phase open" in said) <= (run is not None)


@pytest.mark.slow
def test_in_a_phase_that_is_over_at_once_it_ends_the_command(tmp_path):
    said, run = interrupt(tmp_path, 0.0, wait_for="phase prepare")
    assert "phase closed" not in said
    assert run is None or run.raw_summary["status"] == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "measured"),
    [
        # In the warm-up, in the window, and in the drain: none of the requests has been answered by then.
        (0.3, 0.0),
        (0.9, 0.35),
        (1.5, 0.5),
    ],
)
def test_sent_requests_are_kept_before_any_answer(tmp_path, at, measured):
    slow = WORKLOAD.splitlines()[:4]
    slow.append("  - {name: open, operation: look, rate: 20/s, warmup: 500ms, duration: 500ms}\n")
    _, run = interrupt(tmp_path, at, wait_for="phase open", delay=2.5, workload="\n".join(slow))
    (phase,) = run.raw_summary["phases"]
    assert run.raw_summary["status"] == "interrupted"
    assert phase["duration"] == pytest.approx(measured, abs=0.35 if 0 < measured < 0.5 else 1e-9)
    assert phase["operations"]["look"]["requests"] == 0
    assert phase["operations"]["look"]["in_flight_at_end"] > 0


@pytest.mark.slow
def test_a_calibration_ends_in_the_middle_of_a_measurement(tmp_path):
    with Running("calibrate", "--quick", folder=tmp_path) as command:
        command.wait_for("1 of")
        status, seconds = command.send(signal.SIGINT)
        assert (status, "2 of" in command.stderr) == (130, False), command.stderr
        assert seconds < 30
        assert "Traceback" not in command.stderr


EXPERIMENT = """\
experiment: brief
kind: scale
store: {{kind: http, hosts: ["{address}"]}}
workload: ./w.yaml
factors: {{clients: [1, 2]}}
measure: closed
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["bench", "run"])
def test_an_interrupt_ends_the_metrics_of_a_command(tmp_path, command):
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("duration: 300ms", "duration: 300s"))
    with Answering() as server, contextlib.ExitStack() as stack:
        (tmp_path / "e.yaml").write_text(EXPERIMENT.format(address=server.address))
        subject = {
            "bench": (tmp_path / "w.yaml", "--store", "http", "--hosts", server.address),
            "run": (tmp_path / "e.yaml",),
        }[command]
        words = (command, *subject, "--metrics", "0", "--output", tmp_path / "kept")
        running = stack.enter_context(Running(*words, folder=tmp_path))
        running.wait_for("metrics: http://", "phase closed", " s: ")
        address = re.search(r"metrics: http://127\.0\.0\.1:(\d+)/metrics", running.stderr)
        assert address, running.stderr
        place = ("127.0.0.1", int(address[1]))
        stack.enter_context(socket.create_connection(place))  # sends nothing
        scraping = stack.enter_context(socket.create_connection(place))
        scraping.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert scraping.recv(12) == b"HTTP/1.0 200"
        status, _ = running.send(signal.SIGINT)
        assert status == 130, running.stderr
        assert running.stderr.count("interrupted") == 1
        assert "Traceback" not in running.stderr
        socket.create_server(place).close()
    if command == "bench":
        run = Run(tmp_path / "kept")
        assert run.raw_summary["status"] == "interrupted"
        assert run.summary.phases[-1].operations["look"].successes > 0


STREAM = """\
workload: stream
collections: {ads: {}}
sources: {ads: {listen: "127.0.0.1:0", flush: 30s, events: {kinds: {bid: {id: id, time: time}}}}}
operations: {take_in: {take_in: {collection: ads}}}
phases: [{name: filling, operation: take_in, source: ads, until: exhausted}]
"""


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGHUP, 130)])
def test_an_ingestion_sends_accepted_events_and_only_a_hangup_is_no_success(tmp_path, number, expected):
    (tmp_path / "w.yaml").write_text(STREAM)
    words = ("ingest", tmp_path / "w.yaml", "--store", "sim", "--output", tmp_path / "run")
    with Running(*words, folder=tmp_path) as command:
        command.wait_for("ads listens at 127.0.0.1:")
        address = re.search(r"ads listens at 127\.0\.0\.1:(\d+)", command.stderr)
        with socket.create_connection(("127.0.0.1", int(address[1]))) as sender:
            sender.sendall(b"".join(b'{"type": "bid", "id": "%d", "time": 1}\n' % event for event in range(50)))
            command.wait_for("50 unacknowledged")
            os.kill(command.process.pid, number)
            command.wait_for("stopped reading")
            # As from the kernel and from a shell, or from a scheduler and a launcher.
            os.kill(command.process.pid, number)
            assert command.process.wait(60) == expected, command.stderr
    assert "Traceback" not in command.stderr
    source = Run(tmp_path / "run").summary.phases[0].sources["ads"]
    assert (source.accepted, source.indexed) == (50, 50)
