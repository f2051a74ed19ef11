"""Commands against a real Cassandra node with authentication and TLS."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from commands import PATIENCE, open_folder, within
from loadframe.base.errors import BadInput
from loadframe.cluster import ClusterSpec
from loadframe.cluster.software import prepare
from loadframe.host.local import LocalHost
from loadframe.load import check_operations
from loadframe.record import Run
from loadframe.store import find
from loadframe.store.base import NodeSpec
from loadframe.store.cassandra.cql import Connection, CqlError

pytestmark = pytest.mark.store

#: The user that a new cluster has, and its password.
FIRST = "cassandra"
#: Used by no other test: tests that run beside this one may show theirs.
PASSWORD = "marble-lantern-9458"
AUTHORITY = trustme.CA()
BRIEF = ("--user", "ann", "--set", "records=200", "--set", "duration=2s")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A node with a user `ann`, who may do everything."""
    kind, host = find("cassandra"), LocalHost()
    software = prepare(kind, ClusterSpec(store="cassandra"), host, print)
    port, peer_port = host.free_ports(2)
    settings = {"heap": "300m", "authorizer": "CassandraAuthorizer"}
    with open_folder("secured") as folder:
        settings |= _encryption(folder)
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
        )
        plan = kind.plan(node, software.installation)
        for name in plan.folders:
            (folder / name).mkdir()
        for name, content in plan.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(plan.argv, stdout=log, stderr=log, env={**os.environ, **plan.environment})
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


def _encryption(folder: Path) -> dict[str, Any]:
    """Return settings for TLS and plain text on one port; TLS clients need a certificate of our authority."""
    AUTHORITY.cert_pem.write_to_path(folder / "ca.pem")
    server = AUTHORITY.issue_cert("localhost")
    # Java reads private keys in PKCS#8 alone.
    key = serialization.load_pem_private_key(server.private_key_pem.bytes(), None)
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    (folder / "server.pem").write_bytes(encoded + chain)
    options = {
        "enabled": True,
        "optional": True,
        "require_client_auth": True,
        "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"},
        "keystore": str(folder / "server.pem"),
        "truststore": str(folder / "ca.pem"),
    }
    return {"client_encryption_options": options}


def _does(address: str, statement: str) -> bool:
    """Return whether the first user can log in and the statement succeeds."""
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
    (phase,) = [phase for phase in run.raw_summary["phases"] if phase["name"] == "a"]
    for operation in phase["operations"].values():
        assert operation["successes"] == operation["requests"] > 0
    assert run.raw_manifest["store"]["access"]["scheme"] == "basic"
    assert not any(PASSWORD.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("who", "words"),
    [(("--user", "ann"), "Provided username ann and/or password are incorrect"), ((), "Password must not be null")],
)
def test_denied_access_is_reported_in_the_stores_words(address, monkeypatch, who, words):
    monkeypatch.setenv("LOADFRAME_PASSWORD", "wrong-4711")
    status, errors = asked("bench", "ycsb/a", "--store", "cassandra", "--hosts", address, *who)
    assert status == 2
    assert f"{address}: the cluster denies access: {words}" in errors
    assert "--user" in errors


@pytest.fixture
def shown(tmp_path) -> tuple[str, ...]:
    """Options with the authority, and a certificate of the client's."""
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    AUTHORITY.issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    (tmp_path / "client.pem").chmod(0o600)
    return ("--ca", str(tmp_path / "ca.pem"), "--cert", str(tmp_path / "client.pem"))


def test_a_run_goes_by_tls_and_shows_the_clients_certificate(address, monkeypatch, tmp_path, shown):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)
    host = f"cassandra://localhost:{address.rpartition(':')[2]}"
    folder = tmp_path / "run"
    words = ("--hosts", host, *BRIEF, *shown, "--replace", "--yes", "--output", folder)
    status, errors = asked("bench", "ycsb/a", "--store", "cassandra", *words)
    assert status == 0, errors
    run = Run(folder)
    (phase,) = [phase for phase in run.raw_summary["phases"] if phase["name"] == "a"]
    for operation in phase["operations"].values():
        assert operation["successes"] == operation["requests"] > 0
    access = run.raw_manifest["store"]["access"]
    assert (access["tls"], access["verified"], access["client_certificate"]) == (True, True, True)


def test_a_tls_node_must_match_its_name_and_requires_a_certificate(address, monkeypatch, tmp_path, shown):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)
    port = address.rpartition(":")[2]
    for host, options, said in [
        (f"127.0.0.1:{port}", shown, "certificate is not valid for '127.0.0.1'"),
        (f"https://localhost:{port}", shown[2:], "certificate verification failed"),
        (f"localhost:{port}", shown[:2], "if it requires a client certificate, give --cert"),
    ]:
        words = ("--hosts", host, *BRIEF, *options, "--output", tmp_path / "none")
        status, errors = asked("bench", "ycsb/a", "--store", "cassandra", *words)
        assert status in (1, 2), errors
        assert said in errors
        assert not (tmp_path / "none").exists()


def test_the_engine_takes_a_certificate_for_the_name_and_for_no_other(address, tmp_path, shown):
    port = address.rpartition(":")[2]
    stream = {"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}}
    tls = {"ca": shown[1], "certificate": shown[3], "key": shown[3], "verify": True}
    auth = {"basic": {"user": "ann", "password": PASSWORD}}

    def plan(host: str, tls: dict[str, Any]) -> dict[str, Any]:
        target = {"driver": "cql", "hosts": [f"{host}:{port}"], "tls": tls, "auth": auth}
        operation = {"cql": {"statement": "SELECT release_version FROM system.local"}}
        return {"seed": 1, "phase": "p", "target": target, "operations": {"a": operation}, "streams": [stream]}

    [answer] = check_operations(plan("localhost", tls))
    assert answer["error"] is None, answer
    for host, changed in [("127.0.0.1", tls), ("localhost", tls | {"ca": None})]:
        with pytest.raises(BadInput, match="certificate does not verify"):
            check_operations(plan(host, changed))
    [answer] = check_operations(plan("127.0.0.1", tls | {"verify": False}))
    assert answer["error"] is None, answer
