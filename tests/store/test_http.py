"""A service with a REST interface: its known and unknown properties."""

import socket

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store import find
from loadframe.store.base import Unreachable
from rest_service import RestService


@pytest.fixture
def closed() -> str:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_service_that_answers_is_well_whatever_it_says(closed):
    with RestService() as service:
        store = find("http")
        assert store.version([service.address]) == "rest-service/1.0"
        assert store.version([closed, service.address]) == "rest-service/1.0"
        health = store.health([service.address])
        assert (health.ready, health.status, health.nodes) == (True, "answering", 1)
        health = store.health([service.address, closed])
        assert (health.ready, health.status, health.nodes) == (False, "partly silent", 1)
        assert store.statistics([service.address]) == {}


def test_a_service_that_does_not_answer_is_named(closed):
    with pytest.raises(Unreachable, match=f"{closed}: the service does not answer"):
        Cluster.attach([closed], "http")


def test_a_service_is_attached_to_and_never_started():
    with RestService() as service:
        cluster = Cluster.attach([service.address], "http")
        assert (cluster.size, cluster.deviations()) == (1, [])
        cluster.create_collection("any", {})
        assert not cluster.has_collection("any")
    with pytest.raises(BadInput, match="name it with --hosts"):
        Cluster.start(ClusterSpec("http"))
