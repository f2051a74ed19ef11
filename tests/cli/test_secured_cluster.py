"""Commands against a real node with TLS and credentials: access control, and no leaked secrets."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from commands import Running, loadframe, result
from loadframe.record import Run
from tls_front import Front

pytestmark = pytest.mark.store

#: Used by no other test: tests that run beside this one may show theirs.
PASSWORD = "correct-horse-7391"
BASIC = "Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
WORKLOAD = """\
workload: trips
collections: {trips: {elasticsearch: {settings: {number_of_replicas: 0}}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 500}}
operations:
  load: {bulk: {collection: trips, corpus: trips, size: 100}}
  refresh: {refresh: {collection: trips}}
  all: {search: {collection: trips, size: 10}, assert: {min_hits: 500}}
phases:
  - {name: load, prepares: true, operation: load, clients: 2, until: exhausted}
  - {name: refresh, prepares: true, operation: refresh, clients: 1, requests: 1}
  - {name: all, operation: all, clients: 2, duration: 1s}
"""


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path, authority) -> Path:
    """A folder with the workload, the authority and the secret."""
    (tmp_path / "trips.yaml").write_text(WORKLOAD)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    return tmp_path


def test_a_run_on_a_secured_cluster_leaves_its_secret_nowhere(node, authority, files):
    run = files / "run"
    with Front(node.addresses[0], authority.issue_cert("127.0.0.1"), authorization=BASIC) as front:
        words = ["bench", files / "trips.yaml", "--hosts", f"https://127.0.0.1:{front.port}", "--ca", files / "ca.pem"]
        words += ["--user", "ann", "--password-file", files / "password", "--compress", "--output", run]
        with Running(*words, folder=files) as running:
            seen = running.watch()
            assert running.process.returncode == 0, running.stderr
    summary = Run(run).raw_summary
    (operation,) = [phase["operations"]["all"] for phase in summary["phases"] if phase["name"] == "all"]
    assert operation["successes"] == operation["requests"] > 0
    assert Run(run).raw_manifest["store"]["access"] == {
        "tls": True,
        "verified": True,
        "client_certificate": False,
        "scheme": "basic",
        "compress": True,
    }
    texts = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    texts += [running.stderr.encode(), (files / "stdout.txt").read_bytes(), *(line.encode() for line in seen)]
    assert any(b"password" in line.encode() for line in seen), "the command itself was among the processes"
    for secret in (PASSWORD, BASIC.split()[1]):
        assert not any(secret.encode() in text for text in texts)


def test_a_check_shows_requests_without_credentials(node, authority, files):
    loadframe("bench", files / "trips.yaml", "--hosts", node.addresses[0], "--only", "all", "--output", files / "run")
    with Front(node.addresses[0], authority.issue_cert("127.0.0.1"), authorization="Bearer tok.en-5582") as front:
        words = ["check", files / "trips.yaml", "--hosts", f"https://127.0.0.1:{front.port}", "--ca", files / "ca.pem"]
        done = loadframe(*words, env={"LOADFRAME_TOKEN": "tok.en-5582"})
    assert done.returncode == 0, done.stderr
    assert "POST /trips/_search" in done.stdout
    assert "tok.en" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("identity", "cause"),
    [
        (lambda _: trustme.CA().issue_cert("127.0.0.1"), "unable to get local issuer certificate"),
        (lambda ca: ca.issue_cert("127.0.0.1", not_after=datetime.now(UTC) - timedelta(days=3)), "has expired"),
        (lambda ca: ca.issue_cert("node.example"), "not valid for '127.0.0.1'"),
    ],
    ids=["wrong authority", "expired", "wrong name"],
)
def test_a_certificate_that_does_not_verify_ends_it_before_the_load(node, authority, files, identity, cause):
    with Front(node.addresses[0], identity(authority)) as front:
        address = f"127.0.0.1:{front.port}"
        words = ["bench", files / "trips.yaml", "--hosts", f"https://{address}", "--output", files / "run"]
        done = loadframe(*words, "--ca", files / "ca.pem")
        assert done.returncode == 2
        assert f"{address}: certificate verification failed" in done.stderr
        assert cause in done.stderr
        assert front.admitted == 0
        assert not (files / "run").exists()

        done = loadframe(*words, "--insecure", "--replace", "--yes")
        assert done.returncode == 0, done.stderr
        assert "certificates are not verified" in done.stderr
        assert Run(files / "run").raw_manifest["store"]["access"]["verified"] is False


def test_denied_access_is_reported_with_a_remedy(node, authority, files):
    with Front(node.addresses[0], authority.issue_cert("127.0.0.1"), authorization=BASIC) as front:
        words = ["cluster", "status", "--hosts", f"https://127.0.0.1:{front.port}", "--ca", files / "ca.pem"]
        done = loadframe(*words)
        assert done.returncode == 2
        assert "401, missing authentication" in done.stderr
        assert "--user" in done.stderr
        done = loadframe(*words, "--user", "ann", env={"LOADFRAME_PASSWORD": "wrong-4711"})
        assert done.returncode == 2
        assert "wrong-4711" not in done.stderr
        state = result(*words, "--user", "ann", env={"LOADFRAME_PASSWORD": PASSWORD})
    assert state["size"] == 1
    assert state["access"]["scheme"] == "basic"
    assert PASSWORD not in json.dumps(state)


def test_a_cluster_that_wants_the_clients_certificate_gets_it(node, authority, files):
    client = authority.issue_cert("client")
    (files / "own.pem").write_bytes(client.private_key_and_cert_chain_pem.bytes())
    (files / "own.pem").chmod(0o644)
    with Front(node.addresses[0], authority.issue_cert("127.0.0.1"), clients=authority) as front:
        hosts = ["--hosts", f"https://127.0.0.1:{front.port}", "--ca", files / "ca.pem"]
        done = loadframe("cluster", "status", *hosts)
        assert done.returncode == 2
        assert "if it requires a client certificate, give --cert" in done.stderr
        words = ["bench", files / "trips.yaml", *hosts, "--cert", files / "own.pem", "--output", files / "run"]
        done = loadframe(*words)
    assert done.returncode == 0, done.stderr
    assert f"other users can read the secret in {files / 'own.pem'} (mode 644)" in done.stderr


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--user", "ann"], "--user requires an existing cluster"),
        (["--hosts", "http://a:1", "--insecure"], "--insecure requires TLS"),
        (["--hosts", "https://a:1", "--insecure", "--ca", "ca.pem"], "--ca and --insecure contradict each other"),
        (["--hosts", "https://a:1", "--key", "key.pem"], "--key requires --cert"),
        (["--hosts", "https://ann:hush@a:1"], "a password in an address is visible to all users"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(files, words, cause):
    done = loadframe("bench", files / "trips.yaml", *words, "--output", files / "run", cwd=files)
    assert done.returncode == 2
    assert cause in done.stderr
    assert "hush" not in done.stderr
