"""Access to clusters: addresses, certificates and credentials. The tests create the certificates."""

import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from loadframe.base.errors import BadInput
from loadframe.store import find
from loadframe.store.access import OPEN, Access, Auth, Aws, Tls, endpoints, split_address
from loadframe.store.base import Unreachable

AUTHORITY = trustme.CA()
AWS = Auth("aws", "hush", "AKID", aws=Aws("es", "eu-central-1", session_token="hush-token"))
SECRETS = [Auth("basic", "hush", "ann"), Auth("api_key", "hush"), Auth("bearer", "hush"), AWS]


@pytest.fixture
def ca(tmp_path) -> Path:
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    return path


@contextmanager
def shaking_hands(identity: trustme.LeafCert, clients: trustme.CA | None = None):
    """A server that shakes hands with one client and asks nothing; yields its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity.configure_cert(context)
    if clients:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # so that the client hears within the handshake
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            with server.accept()[0] as plain, context.wrap_socket(plain, server_side=True):
                pass
        except OSError:
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    thread.join()
    server.close()


@pytest.mark.parametrize(
    ("text", "addresses", "secure"),
    [
        ("127.0.0.1:9200", ["127.0.0.1:9200"], None),
        ("a:1, b:2", ["a:1", "b:2"], None),
        ("https://a:9200,https://b:9201/", ["a:9200", "b:9201"], True),
        ("http://a:9200", ["a:9200"], False),
        ("https://search.example", ["search.example:443"], True),
        ("https://[::1]:9200", ["[::1]:9200"], True),
    ],
)
def test_hosts_are_addresses_with_or_without_a_scheme(text, addresses, secure):
    assert endpoints(text) == (addresses, secure)


@pytest.mark.parametrize(
    "text",
    [
        *("localhost", "a:b", ":9200", "", "a:1,", "ftp://a:1", "https://a:1/path", "https://a:b", "::1:9200"),
        *("http://[::1:9200", "[::1:9200", "::1]:9200", "[]:9200"),
    ],
)
def test_malformed_addresses_are_refused(text):
    with pytest.raises(BadInput, match="invalid address"):
        endpoints(text)


@pytest.mark.parametrize(
    ("kind", "text", "addresses", "secure"),
    [
        ("cassandra", "10.0.0.1, node.example:9043", ["10.0.0.1:9042", "node.example:9043"], None),
        ("cassandra", "[::1]", ["[::1]:9042"], None),
        ("redis", "redis://a", ["a:6379"], False),
        ("redis", "rediss://a:7000/", ["a:7000"], True),
        ("redis", "redis://a:7000,b:7001,c", ["a:7000", "b:7001", "c:6379"], False),
        ("mongodb", "mongodb://a,b:27018/", ["a:27017", "b:27018"], None),
        ("opensearch", "localhost", ["localhost:9200"], None),
        ("opensearch", "https://search.example", ["search.example:443"], True),
        ("couchbase", "couchbase://a", ["a:8091"], False),
    ],
)
def test_each_store_has_urls_and_a_port_of_its_own(kind, text, addresses, secure):
    store = find(kind)
    assert endpoints(text, store.port, store.schemes) == (addresses, secure)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("redis", "mongodb://a"), ("opensearch", "a:"), ("mongodb", "mongodb://a/?tls=true"), ("http", "a")],
)
def test_invalid_store_urls_are_refused(kind, text):
    with pytest.raises(BadInput, match="invalid address"):
        endpoints(text, find(kind).port, find(kind).schemes)


def test_hosts_are_asked_in_one_way():
    with pytest.raises(BadInput, match="some of these hosts use TLS"):
        endpoints("https://a:1,b:2")


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(BadInput, match="visible to all users") as caught:
        endpoints("https://ann:hush@a:9200")
    assert "hush" not in str(caught.value)


def test_an_address_falls_into_host_and_port():
    assert split_address("[::1]:9200") == ("::1", 9200)
    assert split_address("node.example:9200") == ("node.example", 9200)


@pytest.mark.parametrize("auth", SECRETS)
def test_secrets_are_in_the_plan_and_the_headers_and_nowhere_else(auth):
    access = Access(Tls(), auth)
    assert "hush" in str(access.plan())
    headers = access.authenticate("GET", "/", {"Host": "a"}, b"")
    assert headers["authorization"].split()[0] in {"Basic", "ApiKey", "Bearer", "AWS4-HMAC-SHA256"}
    assert "hush" not in f"{access} {access!r} {access.describe()}"
    assert access.describe()["scheme"] == auth.scheme


def test_an_api_key_with_its_id_is_encoded_and_an_encoded_one_is_left_alone():
    for key in ("id:key", "aWQ6a2V5"):
        headers = Access(auth=Auth("api_key", key)).authenticate("GET", "/", {}, b"")
        assert headers == {"authorization": "ApiKey aWQ6a2V5"}
    assert Auth("api_key", "id:key").plan == {"api_key": "aWQ6a2V5"}


def test_an_open_cluster_wants_nothing():
    assert OPEN.plan() == {}
    assert OPEN.authenticate("GET", "/", {}, b"") == {}
    OPEN.verify(["127.0.0.1:1"])


def test_a_certificate_of_the_named_authority_verifies(ca):
    with shaking_hands(AUTHORITY.issue_cert("127.0.0.1")) as address:
        Access(Tls(ca=ca)).verify([address])


@pytest.mark.parametrize(
    ("identity", "cause"),
    [
        (trustme.CA().issue_cert("127.0.0.1"), "unable to get local issuer certificate"),
        (
            AUTHORITY.issue_cert("127.0.0.1", not_after=datetime.now(UTC) - timedelta(days=1)),
            "certificate has expired",
        ),
        (AUTHORITY.issue_cert("elsewhere.example"), "certificate is not valid for '127.0.0.1'"),
    ],
    ids=["wrong authority", "expired", "wrong name"],
)
def test_unverified_certificates_are_named_with_the_reason(ca, identity, cause):
    with shaking_hands(identity) as address, pytest.raises(BadInput) as caught:
        Access(Tls(ca=ca)).verify([address])
    assert str(caught.value).startswith(f"{address}: certificate verification failed: ")
    assert cause in str(caught.value)
    assert "--ca" in str(caught.value)
    with shaking_hands(identity) as address:
        Access(Tls(verify=False)).verify([address])


def test_every_host_is_looked_at_and_one_that_is_not_there_is_left_out(ca):
    with (
        shaking_hands(AUTHORITY.issue_cert("127.0.0.1")) as good,
        shaking_hands(AUTHORITY.issue_cert("elsewhere.example")) as bad,
        pytest.raises(BadInput, match=f"{bad}: certificate verification failed"),
    ):
        Access(Tls(ca=ca)).verify(["127.0.0.1:1", good, bad])


def test_a_server_that_wants_the_clients_certificate_gets_it(ca, tmp_path):
    issued = AUTHORITY.issue_cert("client")
    certificate, key = tmp_path / "own.pem", tmp_path / "own.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    server = AUTHORITY.issue_cert("127.0.0.1")
    with shaking_hands(server, clients=AUTHORITY) as address:
        Access(Tls(ca=ca, certificate=certificate, key=key)).verify([address])
    with shaking_hands(server, clients=AUTHORITY) as address, pytest.raises(BadInput, match="give --cert"):
        Access(Tls(ca=ca)).verify([address])


def test_servers_without_tls_are_reported(ca):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def refuse() -> None:
            with server.accept()[0] as plain:
                plain.recv(1000)
                plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(BadInput, match=f"(?s){address}: the TLS handshake failed.*http://"):
            Access(Tls(ca=ca)).verify([address])
        thread.join()


def test_files_that_cannot_serve_are_named(ca, tmp_path):
    issued, other = AUTHORITY.issue_cert("client"), AUTHORITY.issue_cert("client")
    certificate, key, text = tmp_path / "own.pem", tmp_path / "other.key", tmp_path / "text"
    issued.cert_chain_pems[0].write_to_path(certificate)
    other.private_key_pem.write_to_path(key)
    text.write_text("no certificate")
    for tls, file, cause in [
        (Tls(ca=tmp_path / "gone"), "gone", "No such file"),
        (Tls(ca=text), "text", "cannot use this file for TLS"),
        (Tls(ca=ca, certificate=certificate, key=key), "own.pem", "the key does not belong to it"),
    ]:
        with pytest.raises(BadInput, match=rf"{file}: .*{cause}"):
            Access(tls).verify(["127.0.0.1:1"])


def test_stores_refuse_features_that_their_protocol_lacks():
    store = find("opensearch")
    assert store.with_access(OPEN) is store
    assert store.with_access(Access(auth=SECRETS[0])) is not store


@pytest.mark.parametrize("kind", ["opensearch", "redis", "mongodb", "postgresql", "cassandra", "couchbase"])
@pytest.mark.parametrize(
    ("cluster", "hint"),
    [
        (None, "; if it uses TLS, write https://"),
        ("trial", "; `loadframe cluster status trial` shows its nodes"),
        ("", ""),
    ],
)
def test_a_node_of_loadframe_that_does_not_answer_is_not_suspected_of_tls(kind, cluster, hint):
    with socket.socket() as reserved:
        # A port that is bound, but refuses connections.
        reserved.bind(("127.0.0.1", 0))
        store = find(kind).with_access(Access(cluster=cluster))
        with pytest.raises(Unreachable) as raised:
            store.version([f"127.0.0.1:{reserved.getsockname()[1]}"])
    assert raised.value.remedy.endswith(hint)
    assert ("TLS" in raised.value.remedy) == (cluster is None)
