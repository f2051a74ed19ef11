"""Commands against a real mongod with users and TLS, which wants the clients' certificates, too."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from commands import PATIENCE, within
from loadframe.cluster import ClusterSpec
from loadframe.cluster.software import prepare
from loadframe.host.local import LocalHost
from loadframe.record import Run
from loadframe.store import Access, Balancing, find
from loadframe.store.access import Auth, Tls
from loadframe.store.mongodb import config
from loadframe.store.mongodb import replica_set as sets

pytestmark = pytest.mark.store

#: Used by no other test: tests that run beside this one may show theirs.
PASSWORD = "silver-ladder-6023"
WORKLOAD = """\
workload: people
collections: {people: {mongodb: {indexes: [{field0: 1}]}}}
corpora: {people: {generate: ycsb_record, documents: 300}}
operations:
  load: {bulk: {collection: people, corpus: people, size: 100}}
  any: {mongodb: {find: {collection: people, filter: {}, limit: 10}, assert: {min_hits: 10}}}
phases:
  - {name: load, prepares: true, operation: load, clients: 2, until: exhausted}
  - {name: any, operation: any, clients: 2, duration: 1s}
"""


@dataclass(frozen=True)
class Secured:
    """A replica set of one member, and a folder with its certificates and credentials."""

    address: str
    folder: Path

    def words(self, *command: object, user: str | None = "bob") -> list[object]:
        """Return a command with all that the server wants to see."""
        words = [*command, "--hosts", f"https://{self.address}", "--ca", self.folder / "ca.pem"]
        words += ["--cert", self.folder / "own.pem"]
        return words if user is None else [*words, "--user", user]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder, authority, host, kind = tmp_path_factory.mktemp("secured"), trustme.CA(), LocalHost(), find("mongodb")
    for name, identity in (("server.pem", "127.0.0.1"), ("own.pem", "client.example")):
        (folder / name).write_bytes(authority.issue_cert(identity).private_key_and_cert_chain_pem.bytes())
        (folder / name).chmod(0o600)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    (folder / "key").write_text("c2VjcmV0\n" * 4)
    (folder / "key").chmod(0o600)
    (folder / "people.yaml").write_text(WORKLOAD)
    (folder / "data").mkdir()
    program = config.program(prepare(kind, ClusterSpec(store="mongodb"), host, print).installation, "mongod")
    port = host.free_ports(1)[0]
    options = {"dbpath": folder / "data", "port": port, "bind_ip": "127.0.0.1", "replSet": "secured"}
    options |= {"keyFile": folder / "key", "wiredTigerCacheSizeGB": 0.25, "logpath": folder / "log"}
    options |= {"tlsMode": "requireTLS", "tlsCertificateKeyFile": folder / "server.pem", "tlsCAFile": folder / "ca.pem"}
    argv = [program, "--nounixsocket", *(str(word) for name, value in options.items() for word in (f"--{name}", value))]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        address = f"127.0.0.1:{port}"
        tls = Tls(folder / "ca.pem", folder / "own.pem", folder / "own.pem")
        # Until a user exists, any client on the same machine may create one.
        nobody = kind.with_access(Access(tls)).client(address)
        deadline = time.monotonic() + PATIENCE

        def watch(_balancing: Balancing) -> None:
            assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()

        sets.wait([nobody], watch)
        nobody.ask({"replSetInitiate": {"_id": "secured", "members": [{"_id": 0, "host": address}]}})
        while not nobody.hello().get("isWritablePrimary"):
            watch(Balancing(0, "members"))
            time.sleep(0.05)
        nobody.ask({"createUser": "ann", "pwd": PASSWORD, "roles": ["root"]})
        ann = kind.with_access(Access(tls, Auth("basic", PASSWORD, "ann")))
        roles = [{"role": "readWrite", "db": "loadframe"}, "clusterMonitor"]
        ann.client(address).ask({"createUser": "bob", "pwd": PASSWORD, "roles": roles})
        ann.client(address).ask({"createUser": "eve", "pwd": PASSWORD, "roles": roles[:1]})
        yield Secured(address, folder)
    finally:
        server.kill()
        server.wait()


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("LOADFRAME_PASSWORD", PASSWORD)


def asked(words: list[object]) -> tuple[int, str, str]:
    """Run a command here and now, as it starts nothing; return its status, its output and its errors."""
    status, output, errors = within(*words)
    assert PASSWORD not in output + errors
    assert "Traceback" not in errors
    return status, output, errors


def test_a_run_on_a_secured_server_wants_two_roles_and_leaves_its_secret_nowhere(secured, tmp_path):
    words = secured.words("bench", secured.folder / "people.yaml", "--store", "mongodb", "--output", tmp_path / "run")
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
    status, output, errors = asked(secured.words("check", secured.folder / "people.yaml", "--store", "mongodb"))
    assert status == 0, errors
    assert '"find":"people"' in output.replace(" ", "")


def test_a_sample_that_the_server_forbids_is_one_message(secured, tmp_path):
    command = ("import", "sample", "--store", "mongodb", "--database", "foreign", "--collection", "people")
    status, _, errors = asked([*secured.words(*command, user="bob"), "--output", tmp_path / "made.yaml"])
    assert status == 2
    assert f"{secured.address}: the server does not allow bob to do that: not authorized on foreign" in errors
    assert "the role read on it" in errors
    assert errors.count("\n") == 2, "one message and its remedy"
    assert not (tmp_path / "made.yaml").exists()


def test_denied_access_is_reported_with_a_remedy(secured, monkeypatch):
    command = ("cluster", "status", "--store", "mongodb")
    status, _, errors = asked(secured.words(*command, user="eve"))
    assert status == 2
    assert f"{secured.address}: the server does not allow eve to do that: not authorized" in errors
    assert "clusterMonitor" in errors
    status, _, errors = asked(secured.words(*command, user=None))
    assert status == 2
    assert f"{secured.address}: the server denies access" in errors
    assert "--user" in errors
    monkeypatch.setenv("LOADFRAME_PASSWORD", "wrong-4711")
    status, _, errors = asked(secured.words(*command))
    assert status == 2
    assert f"{secured.address}: the server denies access to bob: Authentication failed" in errors
    assert "--password-file" in errors
    assert "wrong-4711" not in errors


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"--ca": "other.pem"}, "certificate verification failed: "),
        ({"--cert": None}, "if it requires a client certificate, give --cert"),
        ({"--ca": None, "--cert": None}, "if it uses TLS, write https://"),
    ],
    ids=["another authority", "no certificate of the client's", "in the clear"],
)
def test_tls_failures_give_one_message_with_the_cause(secured, change, cause):
    words = ["cluster", "status", "--store", "mongodb", "--hosts", secured.address]
    for option, file in ({"--ca": "ca.pem", "--cert": "own.pem"} | change).items():
        words += [] if file is None else [option, secured.folder / file]
    status, _, errors = asked(words)
    assert (status, cause in errors, secured.address in errors) == (2, True, True), errors
