"""TLS-encrypted clusters with generated certificates: traffic on the wire, growth, and restart elsewhere."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from commands import within
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.cli.cluster import variables
from loadframe.cluster import Cluster, ClusterSpec, Encryption, credentials
from loadframe.host.local import LocalHost
from loadframe.load import check_operations
from loadframe.record import Run
from loadframe.store import find
from wire import hangs_up_on, speaks_tls

pytestmark = pytest.mark.store

POSTGRESQL = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/"), reverse=True)), None)
REDIS = shutil.which("redis-server") or shutil.which("valkey-server")
#: The first bytes of a plain connection to another node's port; encrypted nodes must hang up.
PLAIN = b"RCmb" + bytes(60)


@contextmanager
def encrypted(kind: str, encryption: str, **more: object) -> Iterator[Cluster]:
    with Cluster.start(
        ClusterSpec(store=kind, nodes=2, encryption=Encryption(encryption), **more)  # type: ignore[arg-type]
    ) as started:
        yield started


def authority_of(cluster: Cluster) -> Path:
    assert cluster._folder
    return credentials.certificate(cluster._folder)


def written_and_read(cluster: Cluster) -> list[str | None]:
    """Write a document by the generator's driver and read it again; return the classes of errors."""
    cluster.create_collection("people", {"columns": {"name": "text"}} if cluster.store.kind == "cassandra" else {})
    ann = {"collection": "people", "id": "ann"}
    operations = {"1": {"upsert": ann | {"document": {"name": "Ann Lee"}}}, "2": {"read": ann}}
    stream = {"name": "s", "mix": [["1", 1], ["2", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}}
    target = {"driver": cluster.store.driver, "hosts": cluster.addresses, **cluster.target()}
    plan = {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": [stream]}
    answers = check_operations(plan)
    cluster.drop_collection("people")
    return [answer["error"] for answer in answers]


def lets_in_without_tls(cluster: Cluster) -> bool:
    """Whether a plain client of that kind of store gets an answer from the first node."""
    try:
        find(cluster.store.kind).with_access(replace(cluster.access, tls=None)).version(cluster.addresses[:1])
    except LoadframeError:
        return False
    return True


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_a_redis_cluster_encrypts_both_grows_and_starts_again_elsewhere(module_state, monkeypatch):
    with encrypted("redis", "both", name="sealed") as cluster:
        ca = authority_of(cluster)
        for node in cluster.nodes:
            assert speaks_tls(node.address, ca) and speaks_tls(node.peer_address, ca)
            assert hangs_up_on(node.peer_address, PLAIN)
        assert not lets_in_without_tls(cluster)
        assert written_and_read(cluster) == [None, None]
        for file in (ca, ca.with_name("key.pem"), *cluster.nodes[0].folder.glob("config/tls/*")):
            assert file.stat().st_mode & 0o037 == 0, file
        described = cluster.describe()
        assert (described["encryption"], described["access"]["verified"]) == ("both", True)
        assert "PRIVATE KEY" not in json.dumps(described)
        assert variables(cluster, "sealed")["LOADFRAME_CA"] == str(ca)
        cluster.grow(1)
        assert speaks_tls(cluster.nodes[2].peer_address, ca)
    monkeypatch.setattr(LocalHost, "address", "127.0.64.1")
    monkeypatch.setattr(LocalHost, "address_of", lambda _, number, *__: str(IPv4Address("127.0.64.1") + number))
    with Cluster.start(replace(cluster.spec)) as again:
        assert again.addresses[0].startswith("127.0.64.1:")
        assert authority_of(again) == ca
        assert all(speaks_tls(node.address, ca) for node in again.nodes)
        assert written_and_read(again) == [None, None]


@pytest.mark.parametrize("encryption", ["http", "transport", "both"])
def test_a_replica_set_of_mongodb_encrypts_as_requested(module_state, encryption):
    with encrypted("mongodb", encryption, settings={"cache": "256m"}) as cluster:
        ca = authority_of(cluster)
        assert lets_in_without_tls(cluster) is (encryption != "both")
        assert all(speaks_tls(node.address, ca) for node in cluster.nodes)
        assert written_and_read(cluster) == [None, None]
        # In the mode `transport`, this process connects without TLS, so the counter counts only other members.
        if encryption == "transport":
            told = cluster.store.client(cluster.addresses[0]).ask({"serverStatus": 1})["transportSecurity"]
            assert sum(int(count) for count in told.values()) > 0
        refused = subprocess.run(
            ["openssl", "s_client", "-connect", cluster.addresses[0], "-CAfile", ca, "-verify_return_error", "-brief"],
            input="", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Verification: OK" in refused.stderr


@pytest.mark.skipif(POSTGRESQL is None, reason="a PostgreSQL server with TLS is not installed")
@pytest.mark.parametrize("encryption", ["http", "transport", "both"])
def test_a_primary_of_postgresql_and_its_replica_encrypt_as_requested(module_state, encryption):
    settings = {"ssl_min_protocol_version": "TLSv1.3"}
    with encrypted("postgresql", encryption, home=str(POSTGRESQL), settings=settings) as cluster:
        client = cluster.store.client(cluster.addresses[0])
        assert client.ask("SHOW ssl_min_protocol_version")[0]["ssl_min_protocol_version"] == "TLSv1.3"
        assert lets_in_without_tls(cluster) is (encryption == "transport")
        assert written_and_read(cluster) == [None, None]
        statement = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)"
        rows = cluster.store.client(cluster.addresses[0]).ask(statement)
        assert [row["ssl"] for row in rows] == [encryption != "http"]


@pytest.mark.parametrize(
    ("kind", "heap"), [pytest.param("cassandra", "320m", marks=pytest.mark.trial), ("elasticsearch", "300m")]
)
def test_java_servers_have_a_port_for_each_and_refuse_plain_connections(module_state, kind, heap):
    with encrypted(kind, "both", settings={"heap": heap}) as cluster:
        ca = authority_of(cluster)
        for node in cluster.nodes:
            assert speaks_tls(node.address, ca) and speaks_tls(node.peer_address, ca)
            # The first bytes of a node's message, then bytes that no server accepts.
            assert hangs_up_on(node.peer_address, b"ES" + bytes(64))
        assert not lets_in_without_tls(cluster)
        assert written_and_read(cluster) == [None, None]


def test_unsupported_encryption_is_refused_before_anything_starts():
    for kind, encryption, nodes, words in (
        ("redis", "http", 2, "through the client port"),
        ("redis", "transport", 1, "use none or both"),
        ("sim", "both", 1, "Loadframe cannot start sim with encryption"),
        ("opensearch", "http", 1, "Loadframe cannot start opensearch with encryption"),
    ):
        with pytest.raises(BadInput, match=words) as refused:
            Cluster.require_encryption(ClusterSpec(store=kind, nodes=nodes, encryption=Encryption(encryption)))
        assert refused.value.where == f"encryption: {encryption}" or refused.value.remedy


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("postgresql", "ssl_cert_file", "/mine.pem"),
        ("postgresql", "SSL", False),
        ("elasticsearch", "xpack.security.http.ssl.enabled", False),
        ("mongodb", "net.tls.mode", "disabled"),
        ("redis", "tls-cert-file", "/mine.pem"),
        ("cassandra", "client_encryption_options", {}),
    ],
)
def test_user_settings_do_not_override_encryption(kind, setting, value):
    settings = {setting: value}
    with pytest.raises(
        BadInput, match=f"Loadframe controls the setting {setting}|{setting} is controlled by Loadframe"
    ):
        find(kind).check_settings(settings)
        Cluster.require_encryption(ClusterSpec(store=kind, nodes=2, encryption=Encryption.BOTH, settings=settings))


def test_which_ciphers_and_protocols_are_used_stays_the_users_to_say():
    for kind, setting in (
        ("postgresql", "ssl_min_protocol_version"),
        ("elasticsearch", "xpack.security.http.ssl.supported_protocols"),
    ):
        settings = {setting: "TLSv1.3"}
        Cluster.require_encryption(ClusterSpec(store=kind, nodes=2, encryption=Encryption.BOTH, settings=settings))


def test_a_server_that_was_built_without_tls_is_refused():
    with pytest.raises(BadInput, match="was built without TLS"):
        Cluster.require(ClusterSpec(store="postgresql", version="16.2", encryption=Encryption.BOTH))


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_a_passing_cluster_takes_its_authority_along_when_it_ends(module_state):
    with encrypted("redis", "both") as cluster:
        ca = authority_of(cluster)
        with pytest.raises(ssl.SSLCertVerificationError):
            speaks_tls(cluster.addresses[0], _another(module_state))
    assert not ca.parent.parent.exists()


def _another(folder: Path) -> Path:
    """The authority of some other cluster."""
    return credentials.certificate(folder / "other")


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_encryption_is_a_factor_of_an_experiment(module_state, tmp_path):
    file = tmp_path / "sealed.yaml"
    file.write_text("""\
experiment: sealed
store: {kind: redis, nodes: 2}
workload: ycsb/c
with: {records: 200}
kind: settings
factors: {store.encryption: [none, both]}
clients: 2
duration: 1s
confirm: 0
""")
    status, output, errors = within("run", file, "--output", tmp_path / "results")
    assert status == 0, output + errors
    runs = [Run(path) for path in sorted((tmp_path / "results" / "runs").iterdir())]
    told = {run.raw_manifest["store"]["encryption"]: run.raw_manifest["store"]["access"]["tls"] for run in runs}
    assert told == {"none": False, "both": True}
    texts = [path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert not any(b"PRIVATE KEY" in text for text in texts)
    file.write_text(file.read_text().replace("both]", "transport]"))
    status, _, errors = within("run", file, "--output", tmp_path / "refused")
    assert status == 2
    assert "through the client port" in errors
    assert not list((tmp_path / "refused").glob("runs/*"))
