"""Commands against a real PostgreSQL with users and TLS, which wants the clients' certificates, too."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from commands import within
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.record import Run

#: The server in the wheel lacks TLS; servers of Linux distributions have it.
SERVER = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/"), reverse=True)), None)

pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="a PostgreSQL server with TLS is not installed"),
]

#: Used by no other test: tests that run beside this one may show theirs.
PASSWORD = "copper-kettle-2846"
WORKLOAD = """\
workload: people
corpora: {people: {generate: ycsb_record, documents: 300}}
collections: {people: {postgresql: {indexes: ["USING gin (document)"]}}}
operations:
  load: {bulk: {collection: people, corpus: people, size: 100}}
  any: {postgresql: {sql: {statement: "SELECT * FROM people LIMIT 10"}, assert: {min_hits: 10}}}
phases:
  - {name: load, prepares: true, operation: load, clients: 2, until: exhausted}
  - {name: any, operation: any, clients: 2, duration: 1s}
"""


@dataclass(frozen=True)
class Secured:
    """A server, and a folder with its certificates and credentials."""

    address: str
    folder: Path

    def words(self, *command: object, user: str | None = "bob") -> list[object]:
        """Return a command with all that the server wants to see."""
        words = [*command, "--hosts", f"https://{self.address}", "--ca", self.folder / "ca.pem"]
        words += ["--cert", self.folder / "own.pem", "--key", self.folder / "own.pem"]
        return words if user is None else [*words, "--user", user]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder, authority = tmp_path_factory.mktemp("secured"), trustme.CA()
    (folder / "own.pem").write_bytes(authority.issue_cert("client.example").private_key_and_cert_chain_pem.bytes())
    (folder / "own.pem").chmod(0o600)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    (folder / "people.yaml").write_text(WORKLOAD)
    (folder / "strangers.yaml").write_text(WORKLOAD.replace("people", "strangers"))
    with Cluster.start(ClusterSpec(store="postgresql", home=str(SERVER))) as cluster:
        (node,) = cluster.nodes
        server, config = cluster.store.client(node.address), node.folder / "config"
        identity = authority.issue_cert("127.0.0.1")
        identity.private_key_and_cert_chain_pem.write_to_path(config / "server.pem")
        shutil.copy(folder / "ca.pem", config / "ca.pem")
        for name in ("server.pem", "ca.pem"):
            (config / name).chmod(0o640)
            os.chown(config / name, config.stat().st_uid, config.stat().st_gid)
        for user, role in (("bob", "pg_monitor"), ("eve", "pg_signal_backend")):
            server.ask(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}' IN ROLE {role}")
        server.ask("ALTER DATABASE loadframe OWNER TO bob")
        files = {"ssl_cert_file": "server.pem", "ssl_key_file": "server.pem", "ssl_ca_file": "ca.pem"}
        cluster.configure({name: str(config / file) for name, file in files.items()} | {"ssl": True})
        # Until a user had a password, access needed no protection.
        (config / "pg_hba.conf").write_text("hostssl all all all scram-sha-256 clientcert=verify-ca\n")
        server.ask("SELECT pg_reload_conf()")
        server.close()
        yield Secured(node.address, folder)


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)


def asked(words: list[object]) -> tuple[int, str, str]:
    """Run a command here and now, as it starts nothing; return its status, its output and its errors."""
    status, output, errors = within(*words)
    assert PASSWORD not in output + errors
    assert "Traceback" not in errors
    return status, output, errors


def test_a_run_on_a_secured_server_leaves_its_secret_nowhere(secured, tmp_path):
    words = secured.words(
        "bench", secured.folder / "people.yaml", "--store", "postgresql", "--output", tmp_path / "run"
    )
    status, _, errors = asked(words)
    assert status == 0, errors
    run = Run(tmp_path / "run")
    (operation,) = [phase["operations"]["any"] for phase in run.raw_summary["phases"] if phase["name"] == "any"]
    assert operation["successes"] == operation["requests"] > 0
    assert run.raw_manifest["store"]["access"] == {
        "tls": True,
        "verified": True,
        "client_certificate": True,
        "scheme": "basic",
        "compress": False,
    }
    assert not any(PASSWORD.encode() in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    status, output, errors = asked(secured.words("check", secured.folder / "people.yaml", "--store", "postgresql"))
    assert status == 0, errors
    assert "SELECT * FROM people" in output


def test_denied_access_is_reported_with_a_remedy(secured, monkeypatch):
    command = ("cluster", "status", "--store", "postgresql")
    status, _, errors = asked(secured.words(*command, user=None))
    assert status == 2
    assert "the server denies access to postgres" in errors and "--user" in errors
    status, _, errors = asked(
        secured.words("bench", secured.folder / "strangers.yaml", "--store", "postgresql", user="eve")
    )
    assert status == 2
    assert f"{secured.address}: the server does not allow the user eve to do that: permission denied" in errors
    assert "make eve the owner of the database loadframe" in errors
    monkeypatch.setenv("LOADFRAME_PASSWORD", "wrong-4711")
    status, _, errors = asked(secured.words(*command))
    assert status == 2
    assert f"{secured.address}: the server refuses the user bob: password authentication failed" in errors
    assert "--password-file" in errors
    assert "wrong-4711" not in errors


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"--ca": "other.pem"}, "certificate verification failed: "),
        ({"--cert": None, "--key": None}, "connection requires a valid client certificate"),
        ({"--ca": None, "--cert": None, "--key": None}, "if the server requires TLS, write https://"),
    ],
    ids=["another authority", "no certificate of the client's", "in the clear"],
)
def test_tls_failures_give_one_message_with_the_cause(secured, change, cause):
    words = ["cluster", "status", "--store", "postgresql", "--hosts", secured.address, "--user", "bob"]
    for option, file in ({"--ca": "ca.pem", "--cert": "own.pem", "--key": "own.pem"} | change).items():
        words += [] if file is None else [option, secured.folder / file]
    status, _, errors = asked(words)
    assert (status, cause in errors, secured.address in errors) == (2, True, True), errors
