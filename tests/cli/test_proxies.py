"""Proxies from the environment: administrative requests use them, load never does."""

import socket
import threading

import pytest
import trustme

from aws_signature import AwsKey, verifier
from commands import loadframe, result
from forward_proxy import running
from loadframe.base.errors import BadInput
from loadframe.store.access import Access, Tls
from loadframe.store.web import UnsentError, Web, proxy_for
from serverless_search import ServerlessSearch
from tls_front import Front

NAMES = [f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO")]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_the_variables_name_the_proxy(monkeypatch):
    assert proxy_for("search.example:9200", "http") is None
    monkeypatch.setenv("ALL_PROXY", "http://all.example:1")
    assert str(proxy_for("search.example:9200", "http")) == "all.example:1"
    monkeypatch.setenv("https_proxy", "secure.example:2")
    proxy = proxy_for("search.example:443", "https")
    assert (str(proxy), proxy.variable) == ("secure.example:2", "HTTPS_PROXY")
    assert str(proxy_for("search.example:9200", "http")) == "all.example:1"
    monkeypatch.setenv("HTTP_PROXY", "http://ann:p%40ss@plain.example:3")
    proxy = proxy_for("search.example:9200", "http")
    assert proxy.headers == {"Proxy-Authorization": "Basic YW5uOnBAc3M="}
    assert "p@ss" not in f"{proxy} {proxy!r}"
    assert "YW5u" not in repr(proxy)


@pytest.mark.parametrize("address", ["127.0.0.1:9200", "127.8.0.1:9200", "[::1]:9200", "localhost:9200"])
def test_this_machine_is_reached_directly(monkeypatch, address):
    monkeypatch.setenv("ALL_PROXY", "http://all.example:1")
    assert proxy_for(address, "http") is None


@pytest.mark.parametrize(
    ("exceptions", "direct"),
    [
        ("*", True),
        ("search.example", True),
        (".example", True),
        ("example", True),
        ("other.example, search.example:9200", True),
        ("search.example:443", False),
        ("ch.example", False),
        ("", False),
    ],
)
def test_exceptions_are_reached_directly(monkeypatch, exceptions, direct):
    monkeypatch.setenv("HTTP_PROXY", "http://all.example:1")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert (proxy_for("search.example:9200", "http") is None) == direct


def test_exceptions_may_be_networks(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://all.example:1")
    monkeypatch.setenv("NO_PROXY", "10.1.0.0/16,nonsense/99")
    assert proxy_for("10.1.2.3:9200", "http") is None
    assert proxy_for("10.2.2.3:9200", "http")


@pytest.mark.parametrize(
    "url", ["socks5://ann:hush@all.example:1", "https://all.example:1", "http://all.example:none", "http://[::1:80"]
)
def test_other_proxies_are_refused_unless_they_do_not_apply(monkeypatch, url):
    monkeypatch.setenv("ALL_PROXY", url)
    assert proxy_for("127.0.0.1:9200", "http") is None
    with pytest.raises(BadInput, match="ALL_PROXY names a proxy that Loadframe does not support") as caught:
        proxy_for("search.example:9200", "http")
    assert "NO_PROXY=search.example" in str(caught.value.remedy)
    assert "hush" not in f"{caught.value} {caught.value.where}"


def test_a_server_that_is_no_proxy_counts_as_unreachable(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n")
            connection.close()

        threading.Thread(target=answer).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(UnsentError, match=r"through the proxy .* of HTTPS_PROXY: SSH-2\.0-OpenSSH"):
            Web(Access(tls=Tls(), proxied=True), timeout=5).request("search.example:9200", "GET", "/")


@pytest.mark.slow
def test_status_goes_through_the_proxy_and_load_is_refused(tmp_path):
    log, run = tmp_path / "log", tmp_path / "run"
    with (
        ServerlessSearch(404) as service,
        running(log, f"search.invalid:9200={service.address}", "--login", "ann:hush-1") as proxy,
    ):
        hosts = ["--store", "elasticsearch", "--hosts", "search.invalid:9200"]
        variables = {"http_proxy": f"http://ann:hush-1@{proxy}"}
        state = result("cluster", "status", *hosts, env=variables)
        assert state["version"] == "8.11.0"
        assert "GET http://search.invalid:9200/ HTTP/1.1" in log.read_text().splitlines()

        done = loadframe("bench", "nyc_taxis/range_100", *hosts, "--output", run, env=variables)
        assert done.returncode == 2
        assert f"HTTP_PROXY applies: administrative requests go through the proxy {proxy}" in done.stderr
        assert "cannot connect to search.invalid:9200" in done.stderr
        assert "load does not go through the proxy" in done.stderr
        assert not run.exists()

        refused = loadframe("cluster", "status", *hosts, env={"http_proxy": f"http://{proxy}"})
        assert refused.returncode == 2
        assert f"the proxy {proxy} requires a user and a password" in refused.stderr
    assert "hush-1" not in done.stderr + refused.stderr


@pytest.mark.slow
def test_tls_and_signatures_pass_the_proxy_unchanged(tmp_path):
    authority, key = trustme.CA(), AwsKey("AKIAFIRST", "secret-4711")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with (
        ServerlessSearch(404, verifier(lambda: {key.id: key}, "aoss", "eu-west-1"), amazon=True) as service,
        Front(service.address, authority.issue_cert("a.eu-west-1.aoss.amazonaws.com")) as front,
        running(tmp_path / "log", f"a.eu-west-1.aoss.amazonaws.com:443=127.0.0.1:{front.port}") as proxy,
    ):
        hosts = ["--hosts", "https://a.eu-west-1.aoss.amazonaws.com", "--aws-service", "aoss"]
        variables = {"HTTPS_PROXY": f"http://{proxy}", "AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret}
        # Its own authority is verified through the tunnel.
        state = result("cluster", "status", *hosts, "--ca", tmp_path / "ca.pem", env=variables)
        assert state["version"] == "serverless"
        assert not service.refused
        other = loadframe("cluster", "status", *hosts, env=variables)
        assert other.returncode == 2
        assert "certificate" in other.stderr
        gone = loadframe("cluster", "status", "--hosts", "https://b.invalid", env={"ALL_PROXY": f"http://{proxy}"})
    assert gone.returncode == 2
    assert f"through the proxy {proxy} of ALL_PROXY" in gone.stderr
    assert "502" in gone.stderr
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0].startswith("CONNECT a.eu-west-1.aoss.amazonaws.com:443 HTTP/1.")


@pytest.fixture
def own_name():
    """A name of this machine other than localhost."""
    name = socket.gethostname()
    try:
        socket.create_server((socket.gethostbyname(name), 0)).close()
    except OSError:
        pytest.skip("this machine does not know its name")
    return name


@pytest.mark.slow
def test_load_connects_directly_while_administration_uses_the_proxy(tmp_path, own_name):
    with ServerlessSearch(404, host=socket.gethostbyname(own_name)) as service:
        address = f"{own_name}:{service.address.rpartition(':')[2]}"
        with running(tmp_path / "log", f"{address}={service.address}") as proxy:
            words = ["bench", "nyc_taxis/range_100", "--store", "elasticsearch", "--hosts", address]
            words += ["--set", "documents=1000", "--duration", "1s", "--output", tmp_path / "run"]
            done = loadframe(*words, env={"HTTP_PROXY": f"http://{proxy}"})
    assert done.returncode == 0, done.stderr
    assert f"set NO_PROXY={own_name} to send both directly" in done.stderr
    proxied = [line for line in (tmp_path / "log").read_text().splitlines() if f"http://{address}/" in line]
    assert proxied
    assert not any("_search" in line for line in proxied)
    assert service.requests["_search"] > 1
