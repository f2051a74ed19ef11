"""This machine as a host: ports that are free, and users for servers that refuse root."""

import os
import pwd
import socket

import pytest

from loadframe.base.errors import BadInput
from loadframe.host import local
from loadframe.host.files import SERVER_USER
from loadframe.host.local import LocalHost
from loadframe.host.netns import NetnsHost


def test_free_ports_are_distinct_and_can_be_listened_on():
    ports = LocalHost().free_ports(8)
    assert len(set(ports)) == 8
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_ports_that_are_asked_for_count_on_from_the_first():
    host = LocalHost()
    first = next(port for port in host.free_ports(20) if all(not _listening(port + step) for step in range(3)))
    assert host.free_ports(3, first) == [first, first + 1, first + 2]


def test_a_port_in_use_is_named_with_a_way_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(BadInput, match=f"127.0.0.1: port {port} is in use"):
            LocalHost().free_ports(1, port)


def test_ranges_without_a_free_port_are_reported_with_a_remedy(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr("loadframe.host.local.PORTS", range(port, port + 1))
        with pytest.raises(BadInput, match=f"fewer than 1 ports from {port} to {port} are free") as caught:
            LocalHost().free_ports(1)
    assert "--port" in str(caught.value.remedy)


@pytest.mark.parametrize("port", [0, 80, 65536])
def test_invalid_node_ports_are_refused(port):
    with pytest.raises(BadInput, match="the port of a node must be"):
        LocalHost().free_ports(1, port)


def test_servers_that_refuse_root_get_another_user_only_when_we_are_root():
    assert LocalHost().server_user() == (SERVER_USER if os.geteuid() == 0 else None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another user")
def test_servers_that_look_their_user_up_borrow_a_name_in_a_namespace():
    user = LocalHost().server_user(named=True)
    if user == pwd.getpwnam("nobody").pw_uid:
        pytest.skip("this machine permits no user namespaces")
    assert user == SERVER_USER


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another user")
def test_servers_that_look_up_their_user_run_as_nobody_without_namespaces(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    local._can_borrow_a_name.cache_clear()
    try:
        assert LocalHost().server_user(named=True) == pwd.getpwnam("nobody").pw_uid
    finally:
        local._can_borrow_a_name.cache_clear()


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("host", [LocalHost(), NetnsHost()])
def test_ports_beyond_the_last_one_are_refused_with_the_first_that_fits(host):
    with pytest.raises(BadInput, match="1000 ports from 65000 on reach 65999, but the last port is 65535") as error:
        host.free_ports(1000, 65000)
    assert "at most 64536" in error.value.remedy
    for first in (80, 65_536):
        with pytest.raises(BadInput, match=f"the port of a node must be 1024 to 65535; got {first}"):
            host.free_ports(2, first)
    assert NetnsHost().free_ports(2, 65_534) == [65_534, 65_535]
