"""An application behind a real load balancer: started by its path, grown, shrunk, and with an instance killed."""

import http.client
import shutil
import time
from pathlib import Path

import pytest

from loadframe.base.errors import LoadframeError
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store.access import split_address
from loadframe.store.application.tiers import TOLD

pytestmark = [pytest.mark.store, pytest.mark.xdist_group("application")]

PLAIN = Path(__file__).parents[1] / "plain_app"

if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").is_file():
    pytest.skip("haproxy is not installed here", allow_module_level=True)


def asked(cluster: Cluster) -> list[str]:
    """Return the words of an answer: instance, greeting, secret."""
    connection = http.client.HTTPConnection(*split_address(cluster.addresses[0]), timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode().split()
    finally:
        connection.close()


def until(true, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_instances_come_and_go_behind_the_balancer(state, monkeypatch):
    monkeypatch.setattr("loadframe.cluster.scaling._FAREWELL", 0.1)
    spec = ClusterSpec(str(PLAIN), nodes=2, settings={"greeting": "moin", "balance": "leastconn"})
    with Cluster.start(spec) as cluster:
        assert [node.name for node in cluster.nodes] == ["app-1", "app-2", "balancer"]
        assert len(cluster.addresses) == 1
        assert cluster.deviations() == []
        answers = [asked(cluster) for _ in range(8)]
        assert {name for name, _, _ in answers} == {"app-1", "app-2"}
        assert {greeting for _, greeting, _ in answers} == {"moin"}
        assert len({secret for _, _, secret in answers}) == 1, "all instances know the same secret"
        assert cluster.grow(1) == ["app-3"]
        assert {name for name, _, secret in (asked(cluster) for _ in range(12))} == {"app-1", "app-2", "app-3"}
        cluster.shrink("app-1")
        assert {asked(cluster)[0] for _ in range(8)} == {"app-2", "app-3"}
        figures = cluster.statistics()
        assert figures["app-2"]["requests"] > 0
        assert figures["balancer"]["requests"] >= 28
        cluster.kill("app-3")
        until(lambda: cluster.health().nodes == 1)
        assert {asked(cluster)[0] for _ in range(4)} == {"app-2"}
        assert cluster.health().missing == 1
        assert cluster.grow(1) == ["app-4"], "one comes while another is gone"
        assert {asked(cluster)[0] for _ in range(8)} == {"app-2", "app-4"}
        cluster.mend()
        until(lambda: cluster.health().ready)
        assert {asked(cluster)[0] for _ in range(12)} == {"app-2", "app-3", "app-4"}
        cluster.kill("balancer")
        assert cluster.mend()
        (front,) = (node for node in cluster.nodes if node.name == "balancer")
        assert "balance leastconn" in (front.folder / TOLD).read_text()
        assert {asked(cluster)[0] for _ in range(12)} == {"app-2", "app-3", "app-4"}
        folders = [node.folder for node in cluster.nodes]
    assert not any(folder.exists() for folder in folders)


def test_errors_of_an_application_are_quoted(state, tmp_path):
    shutil.copytree(PLAIN, tmp_path / "app")
    (tmp_path / "app" / "service.py").write_text("raise SystemExit('no database here')\n")
    with pytest.raises(LoadframeError, match=r"(?s)app-1 ended with status 1.*no database here"):
        Cluster.start(ClusterSpec(str(tmp_path / "app")))
