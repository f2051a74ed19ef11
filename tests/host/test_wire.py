"""Messages to agents: values of all types, functions by name, and sources that import no library."""

import subprocess
import sys
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.host import Limits, files, wire
from loadframe.host.agent import ProcessState
from loadframe.host.agent_client import AgentClient, bundle
from loadframe.host.ssh import ssh
from loadframe.store import Installation


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.5,
        "text",
        [1, (2, "three")],
        {"a": Path("/b"), "$": b"\x00\xff"},
        {None: (1, 2), 3: ()},
        Limits(0.5, 2**30, (0, 2), 1),
        Installation(Path("/home"), None, "1.2"),
    ],
)
def test_values_come_back_as_they_were(value):
    assert wire.decoded(wire.encoded(value)) == value


def test_only_the_package_s_own_functions_and_values_are_sent():
    assert wire.import_named(wire.name_of(files.read)) is files.read
    for thing in (lambda: None, print, subprocess.run):
        with pytest.raises(TypeError, match="is not a top-level name of the loadframe package"):
            wire.name_of(thing)
    with pytest.raises(TypeError, match="subprocess:run is not in the loadframe package"):
        wire.import_named("subprocess:run")
    with pytest.raises(TypeError, match="cannot be sent to another machine"):
        wire.encoded(object())
    with pytest.raises(TypeError, match="is not a dataclass"):
        wire.decoded({"$": "loadframe.host.files:read", "is": {}})


def test_all_that_is_called_on_other_machines_needs_python_alone(tmp_path):
    (tmp_path / "bundle").write_bytes(bundle())
    called = (
        "host.agent",
        "cluster.placement",
        "cluster.transport",
        "observe.machine",
    )
    program = f"""
import importlib, sys
sys.path.insert(0, {str(tmp_path / "bundle")!r})
for name in {called!r}:
    importlib.import_module("loadframe." + name)
import loadframe.store
kinds = set(loadframe.store.stores())
known = {{*sys.stdlib_module_names, "loadframe", "__main__"}}
foreign = {{name.partition(".")[0] for name in sys.modules}} - known
assert not foreign, foreign
assert {{"cassandra", "mongodb", "opensearch", "postgresql", "redis"}} <= kinds, kinds
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_an_older_state_of_a_process_never_replaces_a_newer_one():
    client = AgentClient("there", None)
    client.learn(3, ProcessState(number=1))
    client.learn(3, ProcessState(alive=False, number=3))
    client.learn(3, ProcessState(number=2))
    assert not client.states[3].alive


def test_an_ssh_command_with_an_open_quote_is_refused(monkeypatch):
    monkeypatch.setenv("LOADFRAME_SSH", "ssh -F 'config")
    with pytest.raises(BadInput, match="cannot split LOADFRAME_SSH into words: No closing quotation"):
        ssh()
