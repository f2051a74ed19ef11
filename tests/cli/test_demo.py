"""`loadframe demo`, as far as a test has time for it: it begins, can be stopped, and would go on."""

import json
import signal

import pytest

from commands import Running, loadframe, servers


@pytest.mark.store
def test_the_demo_begins_and_stops_at_once_on_request(state, tmp_path):
    with Running("demo", "--output", tmp_path / "demo", folder=tmp_path) as command:
        command.wait_for("36 runs, about")
        command.wait_for("starting ")
        status, seconds = command.send(signal.SIGINT)
        assert status == 130
        assert seconds < 10
        assert "the same command goes on with what is missing" in command.stderr
        assert "Traceback" not in command.stderr
    assert servers(state) == []
    assert not any(state.glob("passing/*"))
    assert len(json.loads((tmp_path / "demo" / "experiment.json").read_text())["design"]) == 36
    assert not any((tmp_path / "demo" / "runs").iterdir())


def test_a_machine_that_cannot_show_it_is_told_why(state, tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", str(tmp_path))
    done = loadframe("demo", "--output", tmp_path / "demo")
    assert done.returncode == 2
    assert "no Java" in done.stderr
