"""Real nodes that do not come up, and starts that are cut off: one clear message, and nothing left running."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from commands import servers
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cluster import Cluster, ClusterSpec

pytestmark = pytest.mark.store

START = """
from loadframe.cluster import Cluster, ClusterSpec
with Cluster.start(ClusterSpec(nodes=2), print) as cluster:
    print("ready", flush=True)
    input()
"""


def test_a_setting_that_the_store_does_not_know_is_shown_from_its_log(state):
    with pytest.raises(LoadframeError) as caught:
        Cluster.start(ClusterSpec(settings={"no.such.setting": 1}))
    message = str(caught.value)
    assert message.startswith("node-0 ended with status 1 while it started; the end of its log:\n")
    assert "unknown setting [no.such.setting]" in message
    assert caught.value.exit_status == 1
    assert not servers(state)
    assert not any(state.glob("passing/*"))


def test_nothing_starts_on_a_port_in_use(state):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} is in use"):
            Cluster.start(ClusterSpec(name="trial", port=port))
    assert not servers(state)
    assert not any(path.is_dir() for path in state.glob("clusters/*"))


@pytest.mark.parametrize("moment", ["while its nodes start", "when it is ready"])
def test_a_killed_command_leaves_no_node(state, moment):
    command = subprocess.Popen(
        [sys.executable, "-c", START], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wanted = "ready\n" if moment == "when it is ready" else "starting 2 nodes of opensearch 3.8.0\n"
        while command.stdout.readline() != wanted:
            assert command.poll() is None
        end = time.monotonic() + 60
        while len(running := servers(state)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(running) == 2
        os.kill(command.pid, signal.SIGKILL)
        assert not psutil.wait_procs(running, timeout=20)[1]
        end = time.monotonic() + 20
        while (any(state.glob("passing/*")) or servers(state)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(state.glob("passing/*"))
        assert not servers(state)
    finally:
        command.kill()
        command.communicate()


def test_cluster_folders_that_servers_of_root_cannot_reach_are_reported(state):
    if os.geteuid() != 0:
        pytest.skip("only root's servers run as another user")
    state.chmod(0o700)
    with pytest.raises(BadInput, match="cannot enter this folder"):
        Cluster.start(ClusterSpec())
    assert not servers(state)


def test_without_the_software_and_without_network_nothing_starts(state, cache, monkeypatch):
    monkeypatch.setenv("LOADFRAME_MAVEN", "http://127.0.0.1:9")
    with pytest.raises(BadInput, match="could not reach the package registry"):
        Cluster.start(ClusterSpec(name="trial"))
    assert not any(path.is_dir() for path in state.glob("clusters/*"))
    shutil.rmtree(cache)
