"""Real Redis servers: the verbs by their values on one and on a cluster, and nodes that come and go under load."""

import json
import re
import shutil
import threading
from collections.abc import Iterator

import psutil
import pytest

from loadframe import folders
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.errors import BadInput
from loadframe.load import check_operations, run_phase

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(SERVER is None, reason="there is no redis-server and no valkey-server on this machine"),
]

DOCUMENT = {"name": "Ann Lee", "age": 41, "tags": ["a", "b"], "active": True}
ANN = {"collection": "people", "id": "ann"}


@pytest.fixture(scope="module")
def single(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="redis", nodes=1)) as started:
        yield started


@pytest.fixture(scope="module")
def ring(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="redis", nodes=2)) as started:
        yield started


@pytest.fixture(params=["single", "ring"])
def people(request) -> Iterator[Cluster]:
    cluster = request.getfixturevalue(request.param)
    cluster.create_collection("people", {"index": True})
    yield cluster
    cluster.drop_collection("people")


def plan(cluster: Cluster, operations: dict, **more) -> dict:
    stream = {"name": "s", "mix": [[name, 1] for name in operations], "pacing": {"closed": {"clients": 1}}}
    streams = [stream | {"stop": {"requests": 1}} | more.pop("stream", {})]
    target = {"driver": "redis", "hosts": cluster.addresses}
    return {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": streams, **more}


def asked(cluster: Cluster, operation: dict) -> dict:
    return check_operations(plan(cluster, {"a": operation}))[0]


def rows(answer: dict) -> list[dict]:
    return [json.loads(line) for line in answer["answer"].splitlines()[1:]]


def refused(cluster: Cluster, operation: dict) -> str:
    answer = asked(cluster, operation)
    assert answer["error"] == "client", answer
    return answer["message"]


def test_it_is_ready_with_the_expected_number_of_nodes(single, ring):
    for cluster, nodes in ((single, 1), (ring, 2)):
        health = cluster.health()
        assert (health.ready, health.balanced, health.status, health.nodes) == (True, True, "ok", nodes)
    assert re.match(r"\d+\.\d+", single.describe()["version"])


def test_what_is_written_is_read_back(people):
    assert asked(people, {"insert": ANN | {"document": DOCUMENT}})["error"] is None
    assert rows(asked(people, {"read": ANN})) == [DOCUMENT]
    assert rows(asked(people, {"read": ANN | {"fields": ["age"]}})) == [{"age": 41}]
    assert asked(people, {"update": ANN | {"document": {"age": 42}}})["error"] is None
    assert asked(people, {"upsert": ANN | {"document": {"tags": ["c"]}}})["error"] is None
    assert rows(asked(people, {"read": ANN})) == [DOCUMENT | {"age": 42, "tags": ["c"]}]
    changed = asked(people, {"read_modify_write": ANN | {"document": {"age": 43}}})
    assert (changed["error"], changed["documents"]) == (None, 1)
    assert asked(people, {"read": ANN, "assert": {"fields": {"age": 43, "name": "Ann Lee"}}})["error"] is None
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
    assert refused(people, {"insert": ANN | document}) == "already there"


def test_commands_of_ones_own_are_judged(people):
    assert asked(people, {"command": ["SET", "people:x", "a b"]})["answer"] == "OK"
    assert asked(people, {"command": ["GET", "people:x"], "assert": {"min_hits": 1}})["answer"] == "a b"
    assert refused(people, {"read": {"collection": "people", "id": "x"}}).startswith("WRONGTYPE")
    assert refused(people, {"command": ["GETT", "people:x"]}).startswith("ERR unknown command")
    assert asked(people, {"command": ["GET", "people:y"], "assert": {"min_hits": 1}})["error"] == "assertion"


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
    assert rows(asked(people, {"read": {"collection": "people", "id": "p8"}})) == [{"key": "p8", "age": 8}]
    assert sent(action="create") == ("item", 0)
    assert sent(action="update") == ("item", 9)
    assert sent(action="delete") == ("item", 9)
    assert people.count("people") == 0


def load(cluster: Cluster, folder, documents: int, **stream) -> dict:
    """Write that many documents of which number n has the id n."""
    insert = {"insert": {"collection": "people", "id": "${n}", "document": {"age": "${n}"}}}
    load = {"stop": {"requests": documents}, "pacing": {"closed": {"clients": 16}}} | stream
    return run_phase(
        plan(cluster, {"a": insert}, stream=load, variables={"n": {"sequential": {"from": 0}}}),
        folder,
        lambda _: None,
        lambda: cluster.addresses,
    )


def test_a_thousand_documents_are_counted(people, tmp_path):
    outcome = load(people, tmp_path, 1000)
    assert outcome["operations"][0]["successes"] == 1000
    assert people.count("people") == 1000


def test_a_single_server_scans_in_the_order_of_ids_and_a_cluster_says_that_it_cannot(single, ring):
    scan = {"scan": {"collection": "people", "from": "b", "count": 2}}
    single.create_collection("people", {"index": True})
    for name in ("c", "a", "d", "b"):
        asked(single, {"upsert": {"collection": "people", "id": name, "document": {"name": name}}})
    assert rows(asked(single, scan)) == [{"name": "b"}, {"name": "c"}]
    asked(single, {"delete": {"collection": "people", "id": "c"}})
    assert rows(asked(single, scan)) == [{"name": "b"}, {"name": "d"}]
    single.drop_collection("people")
    single.create_collection("people", {})
    assert "index: true" in refused(single, scan)
    single.drop_collection("people")
    assert "single servers" in refused(ring, scan)


def test_its_figures_are_those_of_each_node(ring):
    figures = ring.statistics()
    assert sorted(figures) == sorted(ring.addresses)
    assert sum(node["slots"] for node in figures.values()) == 16384
    assert all(node["commands"] > 0 and node["memory_bytes"] > 0 for node in figures.values())


def test_a_node_comes_and_goes_under_load_and_nothing_is_lost(ring, tmp_path):
    ring.create_collection("people", {})
    documents, outcomes, over = 5000, [], threading.Event()
    operations = {
        "read": {"read": {"collection": "people", "id": "${there}"}, "assert": {"fields": {"age": "${there}"}}},
        "insert": {"insert": {"collection": "people", "id": "${new}", "document": {"age": "${new}"}}},
    }
    variables = {"there": {"uniform": [0, documents - 1]}, "new": {"sequential": {"from": documents}}}
    stream = {"pacing": {"open": {"rate": 500}}, "stop": {"duration": 900}}
    load(ring, folders.make(tmp_path / "load"), documents)

    def tell(_progress) -> None:
        if over.is_set():
            raise KeyboardInterrupt

    def run() -> None:
        loaded = plan(ring, operations, stream=stream, variables=variables)
        outcomes.append(run_phase(loaded, folders.make(tmp_path / "changing"), tell, lambda: ring.addresses))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        told: list[tuple[float, str]] = []
        joined = ring.grow(tell=lambda _, state: told.append((state.left, state.unit)))
        newcomer = next(node.address for node in ring.nodes if node.name == joined[0])
        assert sorted(node["slots"] for node in ring.statistics().values()) == [5461, 5461, 5462]
        served = ring.statistics()[newcomer]["commands"]
        assert ring.shrink(joined[0]) == joined
    finally:
        over.set()
        thread.join()
    outcome = outcomes[0]
    done = {operation["operation"]: operation for operation in outcome["operations"]}
    assert [operation["errors"] for operation in done.values()] == [[], []]
    assert newcomer in outcome["hosts"]
    assert served > 0
    assert (0, "slots") in told
    assert ring.health().balanced
    assert ring.count("people") == documents + done["insert"]["successes"]
    ring.drop_collection("people")


def test_one_node_is_the_last(ring):
    with pytest.raises(BadInput, match="cannot lose 2"):
        ring.shrink(2)


def test_a_single_server_does_not_grow(single):
    with pytest.raises(BadInput, match="cannot grow"):
        single.grow()


def test_a_cluster_starts_again_on_other_ports_with_its_data(module_state):
    spec = ClusterSpec(store="redis", nodes=3, name="again")
    with Cluster.start(spec) as first:
        before = set(first.addresses)
        first.create_collection("people", {})
        for n in range(20):
            asked(first, {"insert": {"collection": "people", "id": str(n), "document": {"n": n}}})
    with Cluster.start(spec) as second:
        assert not before & set(second.addresses)
        assert second.count("people") == 20
        assert second.health().balanced


def test_the_users_own_installation_is_started_and_described(module_state, tmp_path):
    there = tmp_path / "bin" / "redis-server"
    there.parent.mkdir()
    shutil.copy(shutil.which("redis-server"), there)
    with Cluster.start(ClusterSpec(store="redis", home=str(tmp_path))) as cluster:
        assert psutil.Process(cluster.nodes[0].pid).exe() == str(there)
        described = cluster.describe()
        assert (described["origin"], described["home"]) == ("installed", str(tmp_path))
        assert described["version"] == cluster.store.version(cluster.addresses)
    with pytest.raises(BadInput, match=r"this is redis \S+, and not 1\.2\.3"):
        Cluster.start(ClusterSpec(store="redis", version="1.2.3", home=str(tmp_path)))
