"""Start commands of an application's instances, balancer and stores."""

import importlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.cluster import Cluster
from loadframe.store import Installation, NodeSpec, application, find
from loadframe.store.application import balancer, tiers
from loadframe.store.application.tiers import TIERS, Tiers
from loadframe.store.base import Health, Member

EXAMPLE = Path(__file__).parents[2] / "examples" / "selfcare_app"

if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").is_file():
    pytest.skip("haproxy is not installed here", allow_module_level=True)


def spec(name: str, role: str, *, nodes: tuple[str, ...] = (), **settings: object) -> NodeSpec:
    founders = nodes or (name,)
    return NodeSpec(
        cluster="c",
        name=name,
        address="127.0.0.1",
        port=4000,
        peer_port=4001,
        folder=Path("/nodes") / name,
        peers=tuple(f"127.0.0.1:{4001 + 1000 * number}" for number in range(len(founders))),
        founders=founders,
        settings=settings,
        role=role,
    )


def test_instances_are_nodes_and_the_rest_are_companions():
    store = find(str(EXAMPLE))
    settings = {"store": "mongodb+opensearch"}
    assert [process.name for process in store.node_processes(1, settings)] == ["app-2"]
    assert [(process.name, process.serves) for process in store.companions(settings)] == [
        ("mongodb", False),
        ("opensearch", False),
        ("balancer", True),
    ]


def test_a_store_behind_an_application_has_as_many_nodes_as_set():
    settings = {"store": "mongodb+opensearch", "opensearch.nodes": 2}
    processes = find(str(EXAMPLE)).companions(settings)
    assert [(process.name, process.role) for process in processes[:-1]] == [
        ("mongodb", "mongodb"),
        ("opensearch-1", "opensearch"),
        ("opensearch-2", "opensearch"),
    ]
    # Two instances need 15 + 2 s, MongoDB 6 s, and two nodes of OpenSearch 20 + 5 s.
    assert Cluster.start_seconds(str(EXAMPLE), 2, settings) == 48


def test_an_instance_waits_for_its_environment_and_has_its_files():
    plan = find(str(EXAMPLE)).plan(spec("app-1", ""), Installation(Path("/venv")))
    assert plan.files["config/told"] == ""
    assert "files/service.py" in plan.files
    script = plan.argv[-1]
    assert script.startswith("while [ ! -s /nodes/app-1/config/told ]")
    assert script.endswith(
        "exec /venv/bin/python -m uvicorn service:app --host 127.0.0.1 --port 4000 --log-level warning"
        " --no-access-log --loop uvloop --http httptools"
    )


def test_a_store_behind_it_is_planned_as_it_would_be_alone(tmp_path):
    parts = {"opensearch": Installation(tmp_path, Path("/java"), "3.8.0")}
    node = spec("opensearch", "opensearch", **{"opensearch.heap": "300m", "store": "opensearch"})
    plan = find(str(EXAMPLE)).plan(node, Installation(Path("/venv"), parts=parts))
    text = next(text for name, text in plan.files.items() if name.endswith("opensearch.yml"))
    assert yaml.safe_load(text)["cluster.initial_cluster_manager_nodes"] == ["opensearch"]
    assert "store" not in {line.partition(":")[0] for line in text.splitlines()}
    assert plan.facts["heap"] == 300 * 2**20
    assert plan.facts["opensearch"] == "3.8.0"


def test_nodes_of_a_store_behind_it_find_each_other_and_elect_as_without_an_application(tmp_path):
    parts = {"opensearch": Installation(tmp_path, Path("/java"), "3.8.0")}
    nodes = ("opensearch-1", "opensearch-2")
    settings = {"opensearch.nodes": 2, "store": "opensearch"}
    first, second = (
        find(str(EXAMPLE)).plan(
            spec(name, "opensearch", nodes=nodes, **settings), Installation(Path("/v"), parts=parts)
        )
        for name in nodes
    )
    assert first.files["config/unicast_hosts.txt"] == "127.0.0.1:4001\n127.0.0.1:5001\n"
    one, other = (yaml.safe_load(plan.files["config/opensearch.yml"]) for plan in (first, second))
    assert one["cluster.initial_cluster_manager_nodes"] == ["opensearch-1"]
    assert "node.roles" not in one and "cluster_manager" not in other["node.roles"]
    assert "nodes" not in one


def test_a_store_that_lacks_a_node_is_not_ready(monkeypatch):
    monkeypatch.setattr(tiers, "_READY_WITHIN", 0.0)
    servers = [Member(f"opensearch-{number}", f"127.0.0.1:{number}") for number in (1, 2)]
    part = SimpleNamespace(health=lambda addresses: Health(ready=True, status="green", nodes=1, moving=0, missing=0))
    with pytest.raises(StoreFailed, match="waiting for opensearch-1, opensearch-2: this took longer"):
        application._until_ready(part, servers, lambda _: None)
    application._until_ready(part, servers[:1], lambda _: None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"store": "cassandra"},
            "does not support the store 'cassandra'\n  its stores are mongodb, opensearch, elasticsearch",
        ),
        ({"colour": 1}, "has no setting 'colour'"),
        ({"redis.cache": "1g"}, "has no setting 'redis.cache'"),
        ({"mongodb.cache": [1]}, "is not a size"),
        ({"mongodb.nodes": "2"}, "must be 1 to 64; got '2'\n  give a whole number, without quotes"),
        ({"mongodb.nodes": 0}, "the setting mongodb.nodes must be 1 to 64"),
        ({"balance": "fair"}, "invalid setting balance: fair"),
        ({"balancer_threads": 0}, "the setting balancer_threads must be 1 to 64"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(BadInput, match=message):
        find(str(EXAMPLE)).check_settings(settings)


def test_settings_of_a_store_that_is_not_behind_it_now_have_no_effect():
    settings = {"store": "mongodb", "mongodb.cache": "1g", "opensearch.heap": "400m"}
    find(str(EXAMPLE)).check_settings(settings)
    assert find(str(EXAMPLE)).without_effect(settings) == ["opensearch.heap"]


def test_another_build_has_another_version(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "app")
    before = find(str(EXAMPLE)).distribution("").version
    store = find(str(tmp_path / "app"))
    assert store.distribution("").version == before
    with (tmp_path / "app" / "work.py").open("a") as file:
        file.write("# another\n")
    assert store.distribution("").version != before


def test_one_that_runs_elsewhere_is_not_taken_for_one_of_ours():
    with pytest.raises(BadInput, match="give --store http"):
        find(str(EXAMPLE)).require_product(["127.0.0.1:1"], "1.0-0")


def test_what_instances_are_told_is_what_a_shell_reads():
    told = Tiers({"mongodb": ["h:1", "h:2"]}, "b:1", "b:2", {"SECRET": "it's"}).exports
    assert told == (
        "export SECRET='it'\"'\"'s'\nexport STORE_MONGODB=h:1\nexport STORE_MONGODB_NODES='h:1 h:2'\n"
        "export STORES=mongodb\n"
    )


def test_tiers_of_a_cluster_of_version_0_3_are_read(tmp_path):
    (tmp_path / "config").mkdir()
    file = tmp_path / TIERS
    others = {"balancer": "b:1", "commands": "b:2", "environment": {}}
    for nodes in ("h:1", ["h:1"]):
        file.write_text(json.dumps({"stores": {"mongodb": nodes}, **others}))
        assert Tiers.kept(tmp_path) == Tiers({"mongodb": ["h:1"]}, "b:1", "b:2", {})
    for text in ("{}", "[]", '{"stores": []}', "{"):
        file.write_text(text)
        with pytest.raises(BadInput, match="cannot read the addresses"):
            Tiers.kept(tmp_path)


def test_the_balancer_has_places_for_instances_to_come():
    text = balancer.configuration("h:1", "h:2", {"app-1": "h:3"}, health="/up", balance="random", threads=1)
    assert "server app-1 h:3 check\n" in text
    assert f"server app-{balancer.MOST} 127.0.0.1:1 check disabled\n" in text
    assert "GET /up" in text


def test_a_later_cluster_at_the_same_address_is_logged_in_to_with_its_own_password():
    store = find(str(EXAMPLE))
    logins = [{"STORE_MONGODB_USER": "loadframe", "STORE_MONGODB_PASSWORD": word} for word in ("first", "second")]
    first, again, second = (store._part("mongodb", "10.9.0.1:27017", login) for login in (*logins[:1], *logins))
    assert again is first
    assert (first._access.auth.secret, second._access.auth.secret) == ("first", "second")


def test_the_recommender_chooses_the_exercises_of_the_most_similar_cases(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    recommender = importlib.import_module("recommender")
    near = {"pain": 3, "sleep": 4, "exercises": ["walk", "bend"]}
    nearer = {"pain": 2, "sleep": 4, "exercises": ["bend", "lift"]}
    far = [{"pain": 10, "sleep": 0, "exercises": ["rest"]}] * 9
    user = {"pain": 2, "sleep": 4, "work": None}
    assert recommender.similarity(user, nearer) == 1
    assert recommender.similarity(user, near) == pytest.approx(0.95)
    # Five neighbours: both near cases, and three that share the exercise "rest" with a similarity of 0.4.
    assert recommender.recommend(user, [*far, near, nearer], 2) == ["bend", "rest"]
    assert recommender.recommend(user, [], 6) == []
    cases = recommender.stored_cases(60, 6)
    assert len({case["exercises"][0] for case in cases}) > 5
