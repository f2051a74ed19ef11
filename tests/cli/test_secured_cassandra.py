"""Commands against a real node of Cassandra that wants to know who asks."""

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from commands import PATIENCE, open_folder, within
from loadframe.cluster import ClusterSpec, launch
from loadframe.host.local import LocalHost
from loadframe.record import Run
from loadframe.store import find
from loadframe.store.base import NodeSpec
from loadframe.store.cassandra.cql import Connection, CqlError

pytestmark = pytest.mark.store

#: The user that a new cluster has, and its password.
FIRST = "cassandra"
PASSWORD = "correct-horse-7391"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A node with a user `ann`, who may do everything."""
    kind, host = find("cassandra"), LocalHost()
    software = launch.prepare(kind, ClusterSpec(store="cassandra"), host, print)
    port, peer_port, jmx_port = host.free_ports(3)
    settings = {"heap": "300m", "authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer"}
    with open_folder("secured") as folder:
        node = NodeSpec(
            cluster="secured",
            name="node-0",
            address="127.0.0.1",
            port=port,
            peer_port=peer_port,
            folder=folder,
            peers=(f"127.0.0.1:{peer_port}",),
            founders=("node-0",),
            settings=settings,
            extra_ports=(jmx_port,),
        )
        plan = kind.plan(node, software.installation)
        for name in plan.folders:
            (folder / name).mkdir()
        for name, content in plan.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        java, *options = plan.argv
        # The first user is made 10 s after the start otherwise.
        argv = [java, "-Dcassandra.superuser_setup_delay_ms=0", *options]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, **plan.environment})
        try:
            deadline = time.monotonic() + PATIENCE
            while not _does(f"127.0.0.1:{port}", "SELECT role FROM system_auth.roles"):
                assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.5)
            ann = f"CREATE ROLE ann WITH PASSWORD = '{PASSWORD}' AND LOGIN = true AND SUPERUSER = true"
            assert _does(f"127.0.0.1:{port}", ann)
            yield f"127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def _does(address: str, statement: str) -> bool:
    """Whether the first user is let in and the statement succeeds."""
    try:
        with Connection(address, (FIRST, FIRST)) as connection:
            connection.ask(statement)
    except (OSError, CqlError):
        return False
    return True


def asked(*words: object) -> tuple[int, str]:
    """Run a command here; return its status and its errors."""
    status, output, errors = within(*words)
    assert PASSWORD not in output + errors
    assert "Traceback" not in errors
    return status, errors


def test_a_run_as_a_user_leaves_its_secret_nowhere(address, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)
    folder = tmp_path / "run"
    words = ("--hosts", address, "--user", "ann", "--set", "records=200", "--set", "duration=2s", "--output", folder)
    status, errors = asked("bench", "ycsb/a", "--store", "cassandra", *words)
    assert status == 0, errors
    run = Run(folder)
    (phase,) = [phase for phase in run.summary["phases"] if phase["name"] == "a"]
    for operation in phase["operations"].values():
        assert operation["successes"] == operation["requests"] > 0
    assert run.manifest["store"]["access"]["scheme"] == "basic"
    assert not any(PASSWORD.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("who", "words"),
    [(("--user", "ann"), "Provided username ann and/or password are incorrect"), ((), "Password must not be null")],
)
def test_who_is_not_let_in_hears_it_in_the_stores_words(address, monkeypatch, who, words):
    monkeypatch.setenv("LOADFRAME_PASSWORD", "wrong-4711")
    status, errors = asked("bench", "ycsb/a", "--store", "cassandra", "--hosts", address, *who)
    assert status == 2
    assert f"{address}: the cluster does not let us do that: {words}" in errors
    assert "--user" in errors
