"""A single Redis server, which is not a cluster: it keeps an index of ids, scans in their order, and does not grow."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from commands import open_folder, until
from loadframe.base import folders
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, credentials, named
from loadframe.load import check_operations
from loadframe.store import Access, find
from loadframe.store.base import Unreachable
from loadframe.store.redis import client as redis_client

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="neither redis-server nor valkey-server is installed"),
]

ANN = {"collection": "people", "id": "ann"}


@pytest.fixture(scope="module")
def single(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="redis", nodes=1)) as started:
        yield started


@pytest.fixture
def people(single) -> Iterator[Cluster]:
    single.create_collection("people", {"index": True})
    yield single
    single.drop_collection("people")


def asked(cluster: Cluster, operation: dict) -> dict:
    stream = {"name": "s", "mix": [["a", 1]], "pacing": {"closed": {"clients": 1}}, "stop": {"requests": 1}}
    target = {"driver": "redis", "hosts": cluster.addresses, **cluster.target()}
    plan = {"seed": 1, "phase": "p", "target": target, "operations": {"a": operation}, "streams": [stream]}
    return check_operations(plan)[0]


def admit(cluster: Cluster, access: Access) -> None:
    """Give a cluster the password of another, so that one access is for both."""
    assert access.auth
    for address in cluster.addresses:
        cluster.store.client(address).ask("CONFIG", "SET", "requirepass", access.auth.secret)


def rows(answer: dict) -> list[dict]:
    return [json.loads(line) for line in answer["answer"].splitlines()[1:]]


def test_it_is_ready_and_reports_its_version(single):
    health = single.health()
    assert (health.ready, health.balanced, health.status, health.nodes) == (True, True, "ok", 1)
    assert re.match(r"\d+\.\d+", single.describe()["version"])


def test_documents_of_an_indexed_collection_come_change_and_go(people):
    document = {"name": "Ann Lee", "age": 41}
    for operation, error in [
        ({"update": ANN | {"document": {"age": 1}}}, "client"),
        ({"insert": ANN | {"document": document}}, None),
        ({"insert": ANN | {"document": document}}, "client"),
        ({"upsert": ANN | {"document": {"age": 42}}}, None),
        ({"read": ANN, "assert": {"fields": document | {"age": 42}}}, None),
        ({"delete": ANN}, None),
        ({"delete": ANN}, "client"),
    ]:
        assert asked(people, operation)["error"] == error, operation
    assert people.count("people") == 0


def test_it_scans_in_the_order_of_ids(people):
    scan = {"scan": {"collection": "people", "from": "b", "count": 2}}
    for name in ("c", "a", "d", "b"):
        asked(people, {"upsert": {"collection": "people", "id": name, "document": {"name": name}}})
    assert rows(asked(people, scan)) == [{"name": "b"}, {"name": "c"}]
    asked(people, {"delete": {"collection": "people", "id": "c"}})
    assert rows(asked(people, scan)) == [{"name": "b"}, {"name": "d"}]


def test_without_an_index_the_error_has_a_remedy(single):
    single.create_collection("plain", {})
    refused = asked(single, {"scan": {"collection": "plain", "from": "b", "count": 2}})
    assert "index: true" in refused["message"]
    single.drop_collection("plain")


def test_it_does_not_grow(single):
    with pytest.raises(BadInput, match="cannot grow"):
        single.grow()


def test_it_is_the_last(single):
    with pytest.raises(BadInput, match="cannot remove 1 of 1 node"):
        single.shrink()


@pytest.fixture
def home() -> Iterator[Path]:
    with open_folder("home") as folder:
        yield folder


def test_the_users_own_installation_is_started_and_described(module_state, home):
    there = home / "bin" / "redis-server"
    there.parent.mkdir()
    shutil.copy(shutil.which("redis-server"), there)
    with Cluster.start(ClusterSpec(store="redis", home=str(home))) as cluster:
        assert psutil.Process(cluster.nodes[0].pid).exe() == str(there)
        described = cluster.describe()
        assert (described["origin"], described["home"]) == ("installed", str(home))
        assert described["version"] == cluster.store.version(cluster.addresses)
    with pytest.raises(BadInput, match=r"the installation is redis \S+, not 1\.2\.3"):
        Cluster.start(ClusterSpec(store="redis", version="1.2.3", home=str(home)))


def test_a_start_interrupted_before_its_first_node_does_not_block_the_next(module_state):
    folder = named.folder_of("early")
    folders.make(folder)
    (folder / credentials.FILE).write_text("kept")
    with Cluster.start(ClusterSpec(store="redis", name="early")) as cluster:
        assert cluster.access.auth.secret == "kept"
    named.delete("early")


def test_a_kill_while_the_password_is_made_leaves_no_empty_one(module_state, monkeypatch):
    folder, store = named.folder_of("killed"), find("redis")

    def killed(_: int) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(credentials, "token_urlsafe", killed)
        credentials.password(store, {}, folder, new=True)
    made = credentials.password(store, {}, folder, new=True)
    assert made
    assert credentials.password(store, {}, folder, new=False) == made
    assert credentials.file_of(folder).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [credentials.FILE]


def test_a_cluster_from_before_there_were_passwords_works_while_it_runs_and_is_not_started_again(module_state):
    spec = ClusterSpec(store="redis", name="old", settings={"cluster": True})
    with Cluster.start(spec) as cluster:
        for section in ("requirepass", "masterauth"):
            cluster.store.client(cluster.addresses[0]).ask("CONFIG", "SET", section, "")
        credentials.file_of(named.folder_of("old")).unlink()
        old = Cluster.load("old")
        assert old.deviations() == []
        with pytest.raises(BadInput, match="cluster old lacks a password") as caught:
            old.grow()
        assert "--delete-data" in str(caught.value.remedy)
    with pytest.raises(BadInput, match="cluster old lacks a password"):
        Cluster.start(spec)
    assert named.existing("old").formed
    assert named.delete("old") == []


def test_hosts_of_different_clusters_are_reported(single):
    with Cluster.start(ClusterSpec(store="redis", nodes=2)) as cluster:
        admit(cluster, single.access)
        for hosts in ([*cluster.addresses, *single.addresses], [*single.addresses, *cluster.addresses]):
            with pytest.raises(BadInput, match="this is a single server, which shares no data") as caught:
                Cluster.attach(hosts, "redis", single.access)
            assert caught.value.where == single.addresses[0]
        dead = "127.0.0.1:1"
        attached = Cluster.attach([*cluster.addresses, dead], "redis", single.access)
        assert attached.deviations() == [f"{dead} does not answer"]
        assert Cluster.attach(cluster.addresses, "redis", single.access).deviations() == []
        with Cluster.start(ClusterSpec(store="redis", nodes=1, settings={"cluster": True})) as other:
            admit(other, single.access)
            with pytest.raises(BadInput, match="belong to different clusters"):
                Cluster.attach([*cluster.addresses, *other.addresses], "redis", single.access)


def test_a_cluster_that_grew_and_shrank_has_few_ranges_of_slots(module_state):
    with Cluster.start(ClusterSpec(store="redis", nodes=2)) as cluster:
        cluster.grow()
        cluster.shrink()
        lines = cluster.store.client(cluster.addresses[0]).ask("CLUSTER SLOTS")
        assert len(lines) == 2


def test_the_folder_of_the_state_may_have_a_blank_in_its_path(state, monkeypatch):
    monkeypatch.setenv("LOADFRAME_STATE", str(state / "my state"))
    with Cluster.start(ClusterSpec(store="redis", nodes=1, name="kept")) as cluster:
        console = cluster.console()
        assert console is not None
        # It is a command line of a shell.
        assert f"'{credentials.file_of(named.folder_of('kept'))}'" in console


def test_a_pattern_is_not_a_parameter(single):
    for name in ("*", "max*", "maxmemory-polic?"):
        with pytest.raises(BadInput, match="the server does not have the parameter"):
            single.store.running_settings(single.addresses, [name])
    assert single.store.running_settings(single.addresses, ["HZ"])["HZ"].value == "10"


def test_a_server_that_could_evict_an_index_does_not_get_one(single):
    evicts = pytest.raises(BadInput, match="can evict the index of a collection")
    try:
        single.configure({"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru"})
        with evicts:
            single.create_collection("people", {"index": True})
        assert not single.has_collection("people")
        single.create_collection("things", {})
        single.configure({"maxmemory-policy": "volatile-lru"})
        single.create_collection("people", {"index": True})
        with evicts:
            single.configure({"MaxMemory-Policy": "allkeys-random"})
        # Without a limit, nothing is evicted.
        single.configure({"maxmemory": 0, "maxmemory-policy": "allkeys-lfu"})
        with evicts:
            single.configure({"maxmemory": "64mb"})
        assert single.store.indexed(single.addresses) == {"people"}
        single.drop_collection("people")
        single.configure({"maxmemory": "64mb"})
    finally:
        for name in ("people", "things"):
            single.drop_collection(name)
        single.configure({"maxmemory": 0, "maxmemory-policy": "noeviction"})


def values(cluster: Cluster, name: str) -> dict[str, str]:
    """Return a parameter by node."""
    asked = {node.name: cluster.store.client(node.address) for node in cluster.nodes}
    return {node: client.ask("CONFIG", "GET", name)[1] for node, client in asked.items()}


def test_a_killed_node_does_not_prevent_a_change_of_settings(module_state):
    with Cluster.start(ClusterSpec(store="redis", nodes=2)) as cluster:
        cluster.kill("node-1")
        cluster.configure({"hz": 20})
        # The state `fail?` of the other node's view, which lasts: one of two nodes is not a majority.
        first = cluster.store.client(cluster.addresses[0])
        until(lambda: "fail?" in first.ask("CLUSTER NODES"))
        cluster.configure({"hz": 30})
        assert first.ask("CONFIG", "GET", "hz")[1] == "30"
        running = cluster.store.running_settings(cluster.addresses, ["hz"])
        assert running["hz"].value == "30"


def test_added_and_restarted_nodes_start_with_the_settings_of_the_cluster(module_state, monkeypatch):
    with Cluster.start(ClusterSpec(store="redis", nodes=2)) as cluster:
        cluster.kill("node-1")
        title = r'{title} "a b" \ c'
        cluster.configure({"hz": 20, "save": "3600 1 300 100", "proc-title-template": title})
        # CONFIG SET would come after the first requests.
        monkeypatch.setattr(type(cluster.store), "configure", lambda *_: None)
        cluster.mend()
        cluster.grow()
        for name, value in {"hz": "20", "save": "3600 1 300 100", "proc-title-template": title}.items():
            assert values(cluster, name) == dict.fromkeys(("node-0", "node-1", "node-2"), value)


def test_a_node_that_does_not_answer_prevents_a_change_of_settings(module_state, monkeypatch):
    monkeypatch.setattr(redis_client, "_STATUS_TIMEOUT", 0.5)
    with Cluster.start(ClusterSpec(store="redis", nodes=3)) as cluster:
        cluster.pause("node-1")
        first, paused = cluster.store.client(cluster.addresses[0]), cluster.addresses[1]
        until(lambda: "master,fail " in first.ask("CLUSTER NODES"))
        with pytest.raises(Unreachable) as caught:
            cluster.configure({"hz": 20})
        assert caught.value.where == paused
        cluster.resume("node-1")
