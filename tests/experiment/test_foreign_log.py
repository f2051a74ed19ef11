"""A complete experiment with events from a foreign program over TCP; errors without a sender or with a taken port."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from commands import PATIENCE, Running, connected, loadframe, open_folder
from loadframe.record import Run

GENERATOR = Path(__file__).parents[2] / "examples" / "adbids_generator.py"
EXPERIMENT = """\
experiment: whole
store: {kind: opensearch, limits: {memory: 1g}, settings: {heap: 350m}}
workload: adbids
with: {listen: "127.0.0.1:PORT", wait: WAIT, idle: 2s, refresh: 1s, shards: 1, workers: 2, ad: 0, between: 100ms}
kind: elastic
measure: live
duration: 20s
window: 5s
control: false
loads:
  log: {as_written: true, with: {translog: request}}
transitions:
  crash:
    timeline: [{at: 6s, kill: node-0}, {at: 7s, start: node-0}]
"""


@pytest.fixture
def folder(monkeypatch):
    with open_folder("foreign") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        yield folder


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def written(port, wait="60s"):
    Path("e.yaml").write_text(EXPERIMENT.replace("PORT", str(port)).replace("WAIT", wait))


@pytest.mark.store
def test_each_event_of_a_foreign_log_is_counted_in_the_store_though_its_node_was_killed_meanwhile(folder, port):
    written(port)
    with Running("run", "e.yaml", folder=folder) as command:
        command.wait_for(f"waiting for the first line of ads at 127.0.0.1:{port}")
        # The day of the events rolls over in the middle.
        words = (sys.executable, GENERATOR, "--rate", "60", "--seconds", "18", "--before-midnight", "9")
        log = []
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as generator,
            connected(port) as sender,
        ):
            assert generator.stdout
            for line in generator.stdout:
                log.append(json.loads(line))
                sender.sendall(line.encode())
        command.process.wait(PATIENCE)
        said = command.stderr
    run = Run(folder / "results" / "whole" / "runs" / "b1-crash-log")
    (phase,) = run.summary.phases
    ads = phase.sources["ads"]
    kinds = {kind: sum(event["type"] == kind for event in log) for kind in ("bid", "win", "click")}
    assert (ads.lines, ads.accepted, ads.indexed, ads.left_over, ads.dead) == (len(log), len(log), len(log), 0, 0)
    (stored,) = run.summary.stored
    assert dict(stored.events) == kinds, said
    assert (stored.documents, stored.missing, stored.unique) == (kinds["bid"], 0, False)
    assert 0 <= stored.acknowledged_at_kill < len(log)
    assert {event["kind"] for event in run.events} >= {"node killed", "node restarted"}
    assert phase.operations["top_ads"].successes > 0
    report = (folder / "results" / "whole" / "report.html").read_text()
    assert "Events in the store" in report


@pytest.mark.store
def test_an_experiment_without_input_reports_address_and_waiting_time(folder, port):
    written(port, wait="500ms")
    real = "kind: opensearch, limits: {memory: 1g}, settings: {heap: 350m}"
    # The simulated store has neither templates nor documents to wait for.
    Path("e.yaml").write_text(Path("e.yaml").read_text().replace(real, "kind: sim") + "prepare: [clear]\n")
    done = loadframe("run", "e.yaml")
    assert done.returncode == 1
    assert f"no line arrived at 127.0.0.1:{port} within 0.5 s: send lines to it" in done.stderr


def test_a_port_that_is_taken_is_refused_before_a_store_is_started(folder, port):
    written(port)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = loadframe("run", "e.yaml")
    assert done.returncode == 2
    assert f"cannot listen at 127.0.0.1:{port}" in done.stderr
