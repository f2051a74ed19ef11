"""`loadframe cluster up NAME -- COMMAND`: the cluster runs during the command and stops however it ends."""

import json
import signal
import sys

import pytest

from commands import LOADFRAME, Running, loadframe, servers
from loadframe.cluster import named

#: Prints its information about the cluster, sends a request to a node, and exits with a distinct status.
LOOK = """
import json, os, socket, sys
told = {name: text for name, text in os.environ.items() if name.startswith("LOADFRAME_") and name != "LOADFRAME_STATE"}
host, port = told["LOADFRAME_HOST"].rsplit(":", 1)
with socket.create_connection((host, int(port)), timeout=5) as connection:
    connection.sendall(f"AUTH {told['LOADFRAME_USER']} {told.pop('LOADFRAME_PASSWORD')}\\r\\nPING\\r\\n".encode())
    told["answer"] = ""
    while told["answer"].count("\\n") < 2:
        told["answer"] += connection.recv(100).decode()
print(json.dumps(told))
sys.exit(7)
"""


def up(*words):
    return loadframe("cluster", "up", "job", *words)


@pytest.mark.store
def test_a_command_finds_the_cluster_and_ends_it(state):
    done = up("--store", "redis", "--nodes", "3", "--", sys.executable, "-c", LOOK)
    assert done.returncode == 7, done.stderr
    told = json.loads(done.stdout)
    hosts = told["LOADFRAME_HOSTS"].split(",")
    assert (len(hosts), hosts[0]) == (3, told["LOADFRAME_HOST"])
    assert (told["LOADFRAME_CLUSTER"], told["LOADFRAME_STORE"], told["answer"]) == ("job", "redis", "+OK\r\n+PONG\r\n")
    assert named.names() == []
    assert servers(state) == []


@pytest.mark.store
def test_its_data_stays_where_it_was_asked_for_or_was_there_before(state):
    done = up("--store", "redis", "--nodes", "3", "--keep-data", "--", LOADFRAME, "cluster", "grow", "job")
    assert done.returncode == 0, done.stderr
    assert servers(state) == [], "a node that the command added is left"
    saved = named.existing("job")
    assert (saved.running, saved.spec.nodes) == (False, 4)
    # The cluster existed before the command, so it stays.
    done = up("--", "true")
    assert done.returncode == 0, done.stderr
    assert named.existing("job").spec.nodes == 4
    assert loadframe("cluster", "down", "job", "--delete-data").returncode == 0


@pytest.mark.store
def test_a_cluster_that_runs_already_is_refused_and_keeps_running(state):
    assert up("--store", "sim").returncode == 0
    before = servers(state)
    done = up("--", "true")
    assert (done.returncode, "cluster job is already running" in done.stderr) == (2, True), done.stderr
    assert (named.existing("job").running, servers(state)) == (True, before)
    assert loadframe("cluster", "down", "job", "--delete-data").returncode == 0


@pytest.mark.store
def test_an_interrupt_ends_both(state, tmp_path):
    words = ("cluster", "up", "job", "--store", "sim", "--", "sh", "-c", "echo began >&2; exec sleep 300")
    with Running(*words, folder=tmp_path) as command:
        command.wait_for("began")
        status, seconds = command.send(signal.SIGINT)
    assert (status, servers(state), named.names()) == (130, [], [])
    assert seconds < 30


@pytest.mark.store
def test_nodes_lost_meanwhile_are_reported(state):
    done = up("--store", "sim", "--nodes", "2", "--", LOADFRAME, "cluster", "kill", "job", "node-0")
    assert done.returncode == 0, done.stderr
    assert "while the command ran: node-0 has ended" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--", "no-such-program"), "the program 'no-such-program' does not exist"),
        (("--json", "--", "true"), "--json cannot be combined with a COMMAND"),
        (("--keep-data",), "--keep-data requires a COMMAND"),
    ],
)
def test_impossible_requests_are_refused_before_anything_starts(state, words, message):
    done = up("--store", "sim", *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert named.names() == []
