"""Commands against a real Redis server with a password and TLS, which wants the clients' certificates, too."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from commands import PATIENCE, within
from loadframe.host.local import LocalHost
from loadframe.record import Run
from loadframe.store import Access, find
from loadframe.store.access import Auth, Tls
from loadframe.store.base import Unreachable

SERVER = shutil.which("redis-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="redis-server is not installed"),
]
#: Used by no other test: tests that run beside this one may show theirs.
PASSWORD = "violet-anchor-5170"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of the server, and a folder with its credentials. The certificate is for `localhost`."""
    folder, authority = tmp_path_factory.mktemp("secured"), trustme.CA()
    for name, identity in (("server.pem", "localhost"), ("client.pem", "client.example")):
        (folder / name).write_bytes(authority.issue_cert(identity).private_key_and_cert_chain_pem.bytes())
        (folder / name).chmod(0o600)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    [port] = LocalHost().free_ports(1)
    options = {"port": 0, "tls-port": port, "bind": "127.0.0.1", "dir": folder, "save": "", "requirepass": PASSWORD}
    options |= {"tls-cert-file": folder / "server.pem", "tls-key-file": folder / "server.pem"}
    options |= {"tls-ca-cert-file": folder / "ca.pem", "tls-auth-clients": "yes"}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    server = subprocess.Popen([str(SERVER), *words], stdout=subprocess.DEVNULL)
    try:
        access = Access(Tls(folder / "ca.pem", folder / "client.pem"), Auth("basic", PASSWORD, "default"))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                find("redis").with_access(access).version([f"localhost:{port}"])
                break
            except Unreachable:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield port, folder
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def words(secured) -> list[object]:
    """A command with all that the server wants to see."""
    port, folder = secured
    command = ["bench", "ycsb/c", "--store", "redis", "--hosts", f"rediss://localhost:{port}", "--user", "default"]
    command += ["--set", "records=200", "--set", "duration=1s"]
    return [*command, "--ca", folder / "ca.pem", "--cert", folder / "client.pem"]


def test_a_run_goes_by_tls_as_a_user_and_leaves_its_secret_nowhere(words, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)
    status, _, errors = within(*words, "--output", tmp_path / "run")
    assert status == 0, errors
    run = Run(tmp_path / "run")
    (phase,) = [phase for phase in run.raw_summary["phases"] if phase["name"] == "c"]
    for operation in phase["operations"].values():
        assert operation["successes"] == operation["requests"] > 0
    access = run.raw_manifest["store"]["access"]
    assert (access["tls"], access["verified"], access["client_certificate"]) == (True, True, True)
    assert not any(PASSWORD.encode() in path.read_bytes() for path in run.path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("option", "value", "cause"),
    [
        ("--ca", "other.pem", "certificate verification failed"),
        ("--hosts", "rediss://127.0.0.1:{port}", "certificate verification failed"),
        ("--cert", None, "if it requires a client certificate, give --cert"),
        ("--hosts", "redis://localhost:{port}", "--ca requires TLS"),
    ],
)
def test_tls_failures_give_one_message_with_the_cause(secured, words, monkeypatch, tmp_path, option, value, cause):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)
    port, folder = secured
    at = words.index(option)
    given = [] if value is None else [option, folder / value if value.endswith(".pem") else value.format(port=port)]
    status, _, errors = within(*words[:at], *given, *words[at + 2 :], "--output", tmp_path / "run")
    assert status in (1, 2), errors
    assert cause in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run").exists()
