"""A node of Couchbase from an installation: found or refused, and with everything that it writes in its own folder."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from couchbase_home import install
from loadframe.base.errors import BadInput
from loadframe.store import Installation, NodePlan, NodeSpec, find
from loadframe.store.couchbase import Couchbase

STORE = find("couchbase")


@pytest.fixture
def node(tmp_path: Path) -> NodeSpec:
    return NodeSpec(
        cluster="trial",
        name="node-0",
        address="127.0.0.1",
        port=21001,
        peer_port=21002,
        folder=tmp_path / "node-0",
        peers=("127.0.0.1:21002",),
        founders=("node-0",),
        extra_ports=tuple(range(22000, 22000 + Couchbase.extra_ports)),
    )


def planned(node: NodeSpec, home: Path) -> NodePlan:
    return STORE.plan(node, Installation(home, version="7.6.2"))


def test_an_installation_tells_its_version(tmp_path):
    software = STORE.installation(install(tmp_path))
    assert (software.version, software.home, software.java) == ("7.6.2", tmp_path, None)


def test_an_installation_that_was_moved_is_refused(tmp_path):
    with pytest.raises(BadInput, match="made for another folder") as caught:
        STORE.installation(install(tmp_path, prefix=Path("/opt/couchbase")))
    assert caught.value.where == str(tmp_path)


def test_an_installation_that_is_too_old_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"Loadframe cannot start couchbase 6\.6\.0, only 7 and newer"):
        STORE.installation(install(tmp_path, version="6.6.0"))


def test_a_script_that_starts_it_in_another_way_is_refused(tmp_path):
    script = install(tmp_path) / "bin" / "couchbase-server"
    script.write_text(script.read_text().replace("PIDFILE", "PID"))
    with pytest.raises(BadInput, match="unknown start script"):
        STORE.installation(tmp_path)


def test_a_folder_without_the_server_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot find couchbase-server"):
        STORE.installation(tmp_path)


def test_a_node_writes_into_its_own_folder_alone(tmp_path, node):
    home = install(tmp_path / "couchbase")
    plan = planned(node, home)
    told = "\n".join(plan.files.values())
    assert str(home / "var") not in told
    assert f'"{home}/etc' not in told
    assert plan.argv[1:] == (str(node.folder / "config" / "couchbase-server"), "--", "-noinput")
    static = plan.files["config/static_config"]
    assert f'{{path_config_datadir, "{node.folder}/data"}}.' in static
    assert f'{{path_config_bindir, "{home}/bin"}}.' in static, "programs are the installation's"
    assert f'STATIC_CONFIG_PATH="{node.folder}/config/static_config"' in plan.files["config/couchbase-server"]
    assert f"{node.folder}/data/config/ca.pem" in plan.files["config/ssl_dist_opts"]


def test_each_port_of_a_node_is_its_own(tmp_path, node):
    plan = planned(node, install(tmp_path / "couchbase"))
    static = plan.files["config/static_config"]
    ports = {key: int(port) for key, port in re.findall(r"^\{(\w+), (\d+)\}\.$", static, re.MULTILINE)}
    assert (ports["rest_port"], ports["memcached_port"]) == (21001, 21002)
    assert ports.pop("projector_ssl_port") == ports["projector_port"], "one or the other is open"
    assert len(set(ports.values())) == len(ports) == 1 + Couchbase.extra_ports
    assert f"port = {ports['capi_port']}\n" in plan.files["config/couch.ini"]


def test_a_node_is_called_as_no_other_one_of_the_machine(tmp_path, node):
    plan = planned(node, install(tmp_path / "couchbase"))
    number = node.extra_ports[-1] - 20000
    assert f'{{short_name, "n_{number}"}}.' in plan.files["config/static_config"]
    assert f"babysitter_of_n_{number}@cb.local" in plan.files["config/couchbase-server"]


def test_a_node_that_is_started_again_keeps_its_name_and_its_ports(tmp_path, node):
    home = install(tmp_path / "couchbase")
    first = planned(node, home)
    for name, content in first.files.items():
        (node.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (node.folder / name).write_text(content)
    again = planned(replace(node, extra_ports=(), founders=()), home)
    assert {name: first.files[name] for name in again.files} == again.files


def test_the_quotas_follow_from_a_nodes_memory(tmp_path, node):
    home = install(tmp_path / "couchbase")
    assert json.loads(planned(node, home).files["config/quotas.json"]) == {}
    small = planned(replace(node, memory=2**31), home)
    assert json.loads(small.files["config/quotas.json"]) == {"ram_quota": 2**30, "index_quota": 2**28}
    with pytest.raises(BadInput, match="a couchbase node needs at least 1 GiB"):
        planned(replace(node, memory=2**29), home)
