"""Real MongoDB servers: the verbs by their values on one and on a replica set, and members that come, go and die."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadframe import folders
from loadframe.cluster import Cluster, ClusterSpec, launch
from loadframe.errors import BadInput, LoadframeError
from loadframe.host.local import LocalHost
from loadframe.load import check_operations, render_operations, run_phase
from loadframe.store import Member, NodeSpec, find
from loadframe.store import mongodb_set as sets
from loadframe.store import mongodb_shards as shards

pytestmark = pytest.mark.store

DOCUMENT = {"name": "Ann Lee", "age": 41, "tags": ["a", "b"], "active": True, "home": {"city": "Ulm"}}
ANN = {"collection": "people", "id": "ann"}


@pytest.fixture(scope="module")
def single(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="mongodb", nodes=1)) as started:
        yield started


@pytest.fixture(scope="module")
def replicas(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="mongodb", nodes=2)) as started:
        yield started


@pytest.fixture(params=["single", "replicas"])
def people(request) -> Iterator[Cluster]:
    cluster = request.getfixturevalue(request.param)
    cluster.create_collection("people", {"shard_key": {"_id": "hashed"}, "indexes": [{"age": 1}]})
    yield cluster
    cluster.drop_collection("people")


def plan(cluster: Cluster, operations: dict, **more) -> dict:
    stream = {"name": "s", "mix": [[name, 1] for name in operations], "pacing": {"closed": {"clients": 1}}}
    streams = [stream | {"stop": {"requests": 1}} | more.pop("stream", {})]
    target = {"driver": "mongodb", "hosts": cluster.addresses}
    return {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": streams, **more}


def asked(cluster: Cluster, operation: dict) -> dict:
    return check_operations(plan(cluster, {"a": operation}))[0]


def rows(answer: dict) -> list[dict]:
    assert answer["error"] is None, answer
    return [json.loads(line) for line in answer["answer"].splitlines()[1:]]


def refused(cluster: Cluster, operation: dict) -> str:
    answer = asked(cluster, operation)
    assert answer["error"] == "client", answer
    return answer["message"]


def test_it_is_ready_with_the_expected_number_of_nodes(single, replicas):
    for cluster, nodes, status in ((single, 1, "ok"), (replicas, 2, "1 primary, 1 secondary")):
        health = cluster.health()
        assert (health.ready, health.balanced, health.status, health.nodes) == (True, True, status, nodes)
    assert single.describe()["version"].count(".") == 2


def test_what_is_written_is_read_back(people):
    assert asked(people, {"insert": ANN | {"document": DOCUMENT}})["error"] is None
    assert rows(asked(people, {"read": ANN})) == [{"_id": "ann"} | DOCUMENT]
    assert rows(asked(people, {"read": ANN | {"fields": ["age", "home.city"]}})) == [
        {"age": 41, "home": {"city": "Ulm"}}
    ]
    assert asked(people, {"update": ANN | {"document": {"age": 42}}})["error"] is None
    assert asked(people, {"upsert": ANN | {"document": {"tags": ["c"]}}})["error"] is None
    assert rows(asked(people, {"read": ANN})) == [{"_id": "ann"} | DOCUMENT | {"age": 42, "tags": ["c"]}]
    changed = asked(people, {"read_modify_write": ANN | {"document": {"age": 43}}})
    assert (changed["error"], changed["documents"]) == (None, 1)
    fields = {"age": 43, "name": "Ann Lee", "home.city": "Ulm"}
    assert asked(people, {"read": ANN, "assert": {"fields": fields}})["error"] is None
    assert asked(people, {"read": ANN, "assert": {"fields": {"age": 44}}})["error"] == "assertion"
    assert people.count("people") == 1
    assert asked(people, {"delete": ANN})["error"] is None
    assert people.count("people") == 0


def test_what_is_not_there_or_there_already_is_told(people):
    document = {"document": {"age": 1}}
    for verb in ({"read": ANN}, {"read": ANN | {"fields": ["age"]}}, {"delete": ANN}):
        assert refused(people, verb) == "not found"
    assert refused(people, {"update": ANN | document}) == "not found"
    assert refused(people, {"read_modify_write": ANN | document}) == "not found"
    assert asked(people, {"upsert": ANN | document})["error"] is None
    assert refused(people, {"insert": ANN | document}).startswith("E11000 duplicate key")


def test_documents_come_in_the_order_of_their_ids_and_by_queries(people):
    for name in ("c", "a", "d", "b"):
        asked(people, {"upsert": {"collection": "people", "id": name, "document": {"age": ord(name)}}})
    scan = {"scan": {"collection": "people", "from": "b", "count": 2}}
    assert rows(asked(people, scan | {"assert": {"hits": 2}})) == [{"_id": "b", "age": 98}, {"_id": "c", "age": 99}]
    find = {"collection": "people", "filter": {"age": {"$gt": 97}}, "sort": {"age": -1}, "limit": 2}
    assert [row["_id"] for row in rows(asked(people, {"find": find}))] == ["d", "c"]
    pipeline = [{"$group": {"_id": None, "sum": {"$sum": "$age"}}}]
    grouped = {"aggregate": {"collection": "people", "pipeline": pipeline}, "assert": {"fields": {"sum": 394}}}
    assert asked(people, grouped)["error"] is None
    assert json.loads(asked(people, {"command": {"count": "people"}})["answer"])["n"] == 4
    assert refused(people, {"command": {"cuont": "people"}}).startswith("no such command")


@pytest.mark.parametrize("concern", ["unacknowledged", "acknowledged", "journaled", "majority"])
def test_a_write_is_as_sure_as_it_is_asked_for(people, concern):
    insert = {"insert": ANN | {"document": DOCUMENT}, "write_concern": concern}
    assert asked(people, insert)["error"] is None
    assert people.count("people") == 1


def test_a_secondary_is_read_where_it_is_preferred_and_recorded(replicas):
    replicas.create_collection("people", {})
    written = asked(replicas, {"insert": ANN | {"document": DOCUMENT}, "write_concern": "majority"})
    nodes = {}
    for preference in ("primary", "secondary", "secondary_preferred"):
        read = asked(replicas, {"read": ANN, "read_preference": preference})
        assert rows(read)[0]["age"] == 41
        nodes[preference] = read["node"]
    assert nodes["primary"] == written["node"]
    assert nodes["secondary"] == nodes["secondary_preferred"] != written["node"]
    replicas.drop_collection("people")


def test_a_request_is_shown_without_being_sent(single):
    shown = dict(render_operations(plan(single, {"a": {"read": ANN}})))
    assert json.loads(shown["a"]) == {"find": "people", "filter": {"_id": "ann"}, "limit": 1, "singleBatch": True}


def test_a_bulk_request_counts_its_bad_item(people, tmp_path):
    lines = [{"key": f"p{n}", "age": n} for n in range(9)] + [{"age": 9}]
    file = tmp_path / "people.json"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bulk = {"collection": "people", "corpus": "c", "size": 10, "id": "key"}
    corpora = {"corpora": {"c": {"files": [str(file)]}}}

    def sent(**more) -> tuple[str, int]:
        answer = check_operations(plan(people, {"a": {"bulk": bulk | more}}, **corpora))[0]
        return answer["error"], answer["documents"]

    assert sent() == ("item", 9)
    assert people.count("people") == 9
    read = {"read": {"collection": "people", "id": "p8"}}
    assert rows(asked(people, read)) == [{"_id": "p8", "key": "p8", "age": 8}]
    assert sent(action="create") == ("item", 0)
    assert sent(action="update") == ("item", 9)
    assert sent(action="delete") == ("item", 9)
    assert people.count("people") == 0
    # Without ids of their own all ten are documents.
    assert sent(id=None) == (None, 10)


def load(cluster: Cluster, folder: Path, documents: int) -> dict:
    """Write that many documents of which number n has the id n."""
    insert = {"insert": {"collection": "people", "id": "${n}", "document": {"age": "${n}"}}}
    stream = {"stop": {"requests": documents}, "pacing": {"closed": {"clients": 16}}}
    loaded = plan(cluster, {"a": insert}, stream=stream, variables={"n": {"sequential": {"from": 0}}})
    return run_phase(loaded, folder, lambda _: None, lambda: cluster.addresses)


@contextmanager
def loaded(cluster: Cluster, folder: Path, documents: int) -> Iterator[Callable[[], dict]]:
    """Load a cluster meanwhile: read what is there, insert what is not. Afterwards the outcome is returned."""
    operations = {
        "read": {"read": {"collection": "people", "id": "${there}"}, "assert": {"fields": {"age": "${there}"}}},
        "insert": {"insert": {"collection": "people", "id": "${new}", "document": {"age": "${new}"}}},
    }
    operations["insert"]["write_concern"] = "majority"
    variables = {"there": {"uniform": [0, documents - 1]}, "new": {"sequential": {"from": documents}}}
    stream = {"pacing": {"open": {"rate": 200}}, "stop": {"duration": 900}}
    outcomes, over = [], threading.Event()

    def tell(_progress) -> None:
        if over.is_set():
            raise KeyboardInterrupt

    def run() -> None:
        changing = plan(cluster, operations, stream=stream, variables=variables)
        outcomes.append(run_phase(changing, folders.make(folder), tell, lambda: cluster.addresses))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: outcomes[0]
    finally:
        over.set()
        thread.join()


def of(outcome: dict) -> dict[str, dict]:
    return {operation["operation"]: operation for operation in outcome["operations"]}


def test_members_come_and_go_under_load_and_nothing_is_lost(replicas, tmp_path):
    replicas.create_collection("people", {})
    assert load(replicas, folders.make(tmp_path / "load"), 1000)["operations"][0]["successes"] == 1000
    assert replicas.count("people") == 1000
    with loaded(replicas, tmp_path / "changing", 1000) as outcome:
        joined = replicas.grow()
        assert replicas.health().status == "1 primary, 2 secondary"
        newcomer = next(node.address for node in replicas.nodes if node.name == joined[0])
        # The first, which has been the primary: it hands over.
        assert replicas.shrink("node-0") == ["node-0"]
    done = of(outcome())
    assert newcomer in outcome()["hosts"]
    told = [error for operation in done.values() for error in operation["errors"]]
    assert {error["class"] for error in told} <= {"rejected", "connect"}, told
    assert replicas.health().status == "1 primary, 1 secondary"
    assert replicas.count("people") >= 1000 + done["insert"]["successes"]
    assert sorted(replicas.statistics()) == ["node-1", "node-2"]
    replicas.drop_collection("people")


def test_a_primary_that_is_killed_under_load_is_noticed_and_another_serves(replicas, tmp_path):
    replicas.create_collection("people", {})
    load(replicas, folders.make(tmp_path / "load"), 100)
    if len(replicas.nodes) < 3:
        replicas.grow(3 - len(replicas.nodes))
    figures = replicas.statistics()
    assert all(node["memory_rss_bytes"] > 0 and node["cache_max_bytes"] > 0 for node in figures.values())
    primary = next(name for name, node in figures.items() if node["primary"])
    with loaded(replicas, tmp_path / "killed", 100) as outcome:
        time.sleep(1)
        replicas.kill(primary)
        assert until(lambda: f"{primary} is gone, killed on purpose" in replicas.deviations())
        # Not when their patience is over, which takes ten seconds.
        assert until(lambda: _elected(replicas))
        before = replicas.count("people")
        assert until(lambda: replicas.count("people") > before), "the load goes to the new primary"
    done = of(outcome())
    assert done["insert"]["errors"]
    assert replicas.count("people") >= 100 + done["insert"]["successes"]
    assert replicas.mend()
    assert replicas.health().status == "1 primary, 2 secondary"


def until(met: Callable[[], bool]) -> bool:
    """Wait for something, for a minute at most; say whether it came."""
    deadline = time.monotonic() + 60
    while not met():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _elected(cluster: Cluster) -> bool:
    """Ask the members that are left for an election; say whether there is a primary."""
    for address in cluster.addresses:
        server = cluster.store.client(address)
        try:
            if server.hello().get("isWritablePrimary"):
                return True
            server.ask({"replSetStepUp": 1})
        except LoadframeError:
            continue
    return False


def test_parameters_of_servers_that_run_can_be_changed(replicas):
    replicas.store.configure(replicas.addresses, {"cache": "300m", "setParameter.ttlMonitorSleepSecs": 30})
    assert {node["cache_max_bytes"] for node in replicas.statistics().values()} == {300 * 2**20}
    with pytest.raises(BadInput, match="cannot be changed while it runs"):
        replicas.store.configure(replicas.addresses, {"storage.journal.commitIntervalMs": 5})


def test_the_sets_that_a_sharded_cluster_is_made_of_form(module_state, tmp_path):
    """The routers, which bring them together, are in no package registry."""
    host, store = LocalHost(), find("mongodb")
    installation = launch.prepare(store, ClusterSpec(store="mongodb"), host, print).installation
    members, processes = [], []
    try:
        for (name, role), port in zip((("config-0", "config"), ("node-0", "shard")), host.free_ports(2), strict=True):
            node = NodeSpec("sharded", name, host.address, port, 0, tmp_path / name, (), (name,), role=role)
            planned = store.plan(node, installation)
            (node.folder / "data").mkdir(parents=True)
            (node.folder / "config").mkdir()
            (node.folder / "config" / "mongod.conf").write_text(planned.files["config/mongod.conf"])
            processes.append(subprocess.Popen(planned.argv, stdout=subprocess.DEVNULL))
            members.append(Member(name, f"{host.address}:{port}", folder=node.folder, role=role))
        config, shard = members
        sets.initiate("sharded-config", [config], store.client, lambda _: None, configsvr=True)
        sets.initiate("sharded-node-0", [shard], store.client, lambda _: None)
        assert store.client(config.address).hello()["configsvr"] == 2
        assert store.client(shard.address).hello()["setName"] == "sharded-node-0"
        shards.tell([Member("router-0", "a:1", folder=tmp_path / "node-0")], "sharded-config", [config])
        assert (tmp_path / "node-0" / "config" / "seeds").read_text() == f"sharded-config/{config.address}"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_one_member_is_the_last(replicas):
    with pytest.raises(BadInput, match="cannot lose"):
        replicas.shrink(replicas.size)


def test_a_single_server_does_not_grow(single):
    with pytest.raises(BadInput, match="cannot grow"):
        single.grow()


def test_a_set_starts_again_on_other_ports_with_its_data(module_state):
    spec = ClusterSpec(store="mongodb", nodes=2, name="again")
    with Cluster.start(spec) as first:
        before = set(first.addresses)
        first.create_collection("people", {})
        asked(first, {"insert": ANN | {"document": DOCUMENT}, "write_concern": "majority"})
    with Cluster.start(spec) as second:
        assert not before & set(second.addresses)
        assert second.count("people") == 1
        assert second.health().balanced
