"""The measurements in `benchmarks/` start, and stream measurements send and count all of their lines."""

import importlib
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import events, measure_stream_ingestion, rsyslog

from loadframe.base.errors import BadInput, LoadframeError

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "trials")


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_each_measurement_can_be_started(name):
    assert callable(importlib.import_module(f"benchmarks.measure_{name}").main)


@pytest.mark.parametrize(
    "module", sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.py")), ids=lambda path: path.stem
)
def test_each_module_imports_names_that_exist(module):
    name = ".".join(module.relative_to(ROOT).with_suffix("").parts)
    if module.stem != "__init__":
        importlib.import_module(name)


@pytest.mark.parametrize("name", [path.stem for path in sorted((ROOT / "benchmarks").glob("simulate_*.py"))])
def test_each_simulation_is_started_by_one_command(name, monkeypatch):
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.main.__doc__.startswith("Print ")
    assert f"python -m benchmarks.{name}" in module.__doc__
    started = []
    monkeypatch.setattr(sys, "argv", [name, "7", "power"])
    module.start(lambda *words: started.append(words))
    assert started == [(7, "power")]
    monkeypatch.setattr(sys, "argv", [name, "many"])
    with pytest.raises(SystemExit, match="TRIALS must be a number, got many"):
        module.start(module.main)


def test_the_peak_memory_of_a_process_excludes_the_process_that_started_it():
    ballast = bytearray(b"x") * (128 << 20)
    words = "import resource\nfrom benchmarks.machine import peak_memory\nprint(peak_memory(),"
    words += " 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    printed = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    peak, inherited = map(int, printed.split())
    assert 1 << 20 < peak < len(ballast) < inherited


def test_a_measurement_that_there_is_not_is_refused_with_the_nearest_name():
    with pytest.raises(BadInput) as refused:
        benchmarks.main(["stream_ingestio"])
    assert refused.value.remedy == "did you mean stream_ingestion?"


def test_missing_peers_are_named_with_their_install_command(monkeypatch):
    monkeypatch.setattr(rsyslog.shutil, "which", lambda *_, **__: None)
    with pytest.raises(BadInput, match="rsyslog is not installed"), rsyslog.listening("by id", 1, "a:1", "ads"):
        pass


def test_a_log_is_sent_to_a_port_as_often_as_asked_for(tmp_path):
    log = tmp_path / "log.ndjson"
    lines = events.write(log, 300)
    received = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def receive():
            for _ in range(2):
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as reading:
                    received.append(reading.read())

        receiving = Thread(target=receive)
        receiving.start()
        with events.sending(log, server.getsockname()[1], times=3, connections=2, rate=1e8):
            receiving.join()
    assert received == [log.read_bytes() * 3] * 2
    assert received[0].count(b"\n") == 3 * lines


def test_incompletely_ingested_events_are_not_a_measurement():
    assert events.require_all(7, 7) == 7
    with pytest.raises(LoadframeError, match="7 events were sent, and 6 were taken in"):
        events.require_all(6, 7)


@pytest.mark.slow
def test_the_engine_takes_in_all_lines_that_a_measurement_sends(tmp_path):
    log = tmp_path / "log.ndjson"
    lines = events.write(log, 500)
    assert measure_stream_ingestion.taken_in({"driver": "null"}, log, 2, lines, None) > 0
