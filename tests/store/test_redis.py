"""Redis nodes: files, command line, cluster status of a node, and refusals."""

from dataclasses import replace
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import Installation, NodePlan, NodeSpec, find
from loadframe.store.access import Access, Auth
from loadframe.store.base import Member, Sample, Unreachable
from loadframe.store.redis import Redis, cluster
from loadframe.store.redis.cluster import SLOTS, RedisNode, Ring, health, slot_of

STORE = find("redis")


def plan(**more) -> NodePlan:
    settled = NodeSpec(
        cluster="loadframe-x",
        name="node-0",
        address="127.0.0.1",
        port=7000,
        peer_port=7100,
        folder=Path("/clusters/x/node-0"),
        peers=("127.0.0.1:7100",),
        founders=("node-0", "node-1"),
    )
    return STORE.plan(replace(settled, **more), Installation(Path("/usr/bin/redis-server")))


def configuration(planned: NodePlan) -> dict[str, str]:
    lines = planned.files["config/redis.conf"].splitlines()
    return dict(line.split(" ", 1) for line in lines)


def test_a_node_binds_one_address_and_writes_into_its_folder():
    written = configuration(plan())
    assert (written["bind"], written["port"], written["cluster-port"]) == ("127.0.0.1", "7000", "7100")
    assert written["dir"] == "/clusters/x/node-0/data"
    assert plan().argv == ("/usr/bin/redis-server", "/clusters/x/node-0/config/redis.conf")


def test_values_with_blanks_quotes_and_line_ends_are_one_argument_in_the_file():
    values = {"proc-title-template": '{title} "x"', "logo": "a\\b\nbind 0.0.0.0", "hz": 20, "ignore": ""}
    values |= {"save": "3600 1  300 100", "client-output-buffer-limit": "normal 0 0 0 pubsub 32mb 8mb 60"}
    text = plan(settings=values).files["config/redis.conf"]
    for line in (
        r'proc-title-template "{title} \"x\""',
        r'logo "a\\b\x0abind 0.0.0.0"',
        "hz 20",
        'ignore ""',
        "save 3600 1\nsave 300 100",
        "client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit pubsub 32mb 8mb 60",
    ):
        assert f"\n{line}\n" in text
    for settings in ({}, {"save": ""}, {"save": '""'}):
        assert '\nsave ""\n' in plan(settings=settings).files["config/redis.conf"]


def test_settings_of_loadframe_are_refused_while_it_runs():
    with pytest.raises(BadInput, match="the setting port is controlled by Loadframe"):
        STORE.configure(["127.0.0.1:1"], {"port": 7001})


def test_every_client_needs_the_password_which_is_in_the_configuration_alone():
    planned = plan(password="secret")
    written = configuration(planned)
    assert (written["requirepass"], written["masterauth"]) == ("secret", "secret")
    assert [name for name, content in planned.files.items() if "secret" in content] == ["config/redis.conf"]
    assert "secret" not in repr((planned.argv, planned.environment, planned.facts))


@pytest.mark.parametrize(
    ("founders", "settings", "clustered"),
    [
        (("node-0",), {}, False),
        (("node-0",), {"cluster": True}, True),
        (("node-0", "node-1"), {}, True),
        ((), {}, True),
    ],
)
def test_several_nodes_are_a_cluster_and_one_is_on_request(founders, settings, clustered):
    written = configuration(plan(founders=founders, settings=settings))
    assert (written.get("cluster-enabled") == "yes") is clustered
    assert any(key.startswith("cluster-") for key in written) is clustered


@pytest.mark.parametrize("clustered", [True, False])
def test_a_restarted_node_keeps_its_role(tmp_path, clustered):
    (tmp_path / "data").mkdir()
    if clustered:
        (tmp_path / "data" / "nodes.conf").touch()
    assert plan(founders=(), folder=tmp_path).facts["cluster_mode"] is clustered


def test_the_users_settings_go_over_ours_and_a_limit_leaves_room():
    written = configuration(plan(memory=400 * 2**20, settings={"appendonly": False, "cluster": False, "hz": 50}))
    assert (written["appendonly"], written["hz"], written["maxmemory"]) == ("no", "50", str(300 * 2**20))
    assert "cluster" not in written


@pytest.mark.parametrize(
    "settings",
    [{"port": 1}, {"Port": 1}, {"requirepass": "x"}, {"cluster-enabled": True}, {"cluster": "maybe"}],
)
def test_settings_that_loadframe_controls_are_refused(settings):
    with pytest.raises(BadInput, match=next(iter(settings))):
        STORE.check_settings(settings)


def test_the_durability_is_the_users_in_any_spelling():
    assert STORE.durability({}) == "appendonly yes, appendfsync everysec"
    assert STORE.durability({"AppendFsync": "always"}) == "appendonly yes, appendfsync always"
    assert STORE.durability({"AppendOnly": False}) == "appendonly no"


@pytest.mark.parametrize("access", [Access(compress=True), Access(auth=Auth(scheme="api_key", secret="k"))])
def test_unsupported_protocol_features_are_refused(access):
    with pytest.raises(BadInput):
        STORE.with_access(access)


def test_missing_software_is_reported_with_the_searched_places(tmp_path):
    with pytest.raises(BadInput, match="cannot find redis-server or valkey-server") as caught:
        STORE.installation(tmp_path)
    assert caught.value.where == str(tmp_path)


def node(name: str, port: int, rest: str, flags: str = "master", link: str = "connected") -> RedisNode:
    return RedisNode.parse(f"{name} 127.0.0.1:{port}@1{port},host {flags} - 0 0 1 {link} {rest}".strip())


def test_a_nodes_line_names_its_slots_and_those_on_their_way():
    parsed = node("a", 7000, "0-2 5 [3->-b] [9-<-c]", "myself,master")
    assert (parsed.address, parsed.slots) == ("127.0.0.1:7000", {0, 1, 2, 5})
    assert (parsed.migrating, parsed.importing) == ({3: "b"}, {9: "c"})
    assert parsed.present


@pytest.mark.parametrize(
    ("place", "address"),
    [("fd00::1:6379@16379", "[fd00::1]:6379"), ("::1:6379@16379,host", "[::1]:6379"), (":6379@16379", ":6379")],
)
def test_a_nodes_line_names_its_address(place, address):
    assert RedisNode.parse(f"a {place} master - 0 0 1 connected").address == address


@pytest.mark.parametrize(("flags", "link"), [("master,fail", "disconnected"), ("master", "disconnected")])
def test_a_cluster_is_not_ready_while_a_node_that_has_slots_is_out_of_reach(flags, link):
    mine = node("a", 7000, "0-8191", "myself,master")
    seen = Ring((mine, node("b", 7001, "8192-16383", flags, link)), mine, "ok")
    judged = health(seen, lambda _: pytest.fail("no other node exists"))
    assert (judged.ready, judged.nodes, judged.missing) == (False, 1, SLOTS // 2)


def test_a_keys_slot_is_that_of_the_specification():
    assert slot_of("123456789") == 0x31C3
    assert slot_of("foo") == 12182


def test_a_sample_of_a_missing_collection_is_refused(monkeypatch):
    monkeypatch.setattr(STORE, "_masters", lambda addresses: [])
    monkeypatch.setattr("loadframe.store.redis.sampled_values", lambda masters, name, documents: Sample([], {}))
    monkeypatch.setattr(STORE, "has_collection", lambda addresses, name: name == "things")
    assert STORE.sample(["127.0.0.1:6379"], "things", 10).documents == []
    with pytest.raises(BadInput, match="no collection other"):
        STORE.sample(["127.0.0.1:6379"], "other", 10)


@pytest.mark.parametrize("change", ["join", "leave"])
def test_a_cluster_is_changed_also_if_its_first_node_does_not_answer(monkeypatch, change):
    class Node:
        def __init__(self, address: str):
            self.address = address

        def info(self) -> dict[str, str]:
            if self.address == "silent:7000":
                raise Unreachable("the server does not answer")
            return {"cluster_enabled": "1"}

        def look_at(self, _command: str) -> list[str]:
            self.info()
            return ["n1 running:7001@17001 myself,master - 0 0 1 connected 0-16383"]

        def look(self, _command: str) -> dict[str, str]:
            return {"cluster_state": "ok"}

    store, seen = Redis(), []
    monkeypatch.setattr(store, "client", Node)
    monkeypatch.setattr(cluster, change, lambda view, *_: seen.append(view.myself.address))
    getattr(store, change)(["silent:7000", "running:7001"], Member("node-2", "new:7002"), lambda _: None)
    assert seen == ["running:7001"]
