"""The example application with two instances: both see each other's writes; sums are right, also as data moves."""

import http.client
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.store.access import Access, Auth, split_address
from loadframe.store.mongodb.client import Client

pytestmark = [pytest.mark.store, pytest.mark.xdist_group("application")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "selfcare_app"
MONDAY = 1_514_764_800_000
HOUR = 3_600_000

if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").is_file():
    pytest.skip("haproxy is not installed here", allow_module_level=True)


def ask(address: str, method: str, path: str, body: object = None, **headers: str):
    """Return the status, the JSON and the headers of an answer."""
    connection = http.client.HTTPConnection(*split_address(address), timeout=60)
    try:
        content = body if isinstance(body, str) else json.dumps(body) if body is not None else None
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, content, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def test_two_instances_know_the_same_and_reckon_right(state):
    with Cluster.start(ClusterSpec(str(EXAMPLE), nodes=2, settings={"store": "mongodb"})) as cluster:
        front = cluster.addresses[0]
        one, other = (node.address for node in cluster.nodes if node.name.startswith("app-"))
        assert ask(one, "GET", f"/clock/{MONDAY}")[:2] == (200, {"now": MONDAY})
        assert ask(other, "GET", "/clock")[1] == {"now": MONDAY, "instance": "app-2"}
        ask(front, "GET", "/init/reset_static")
        assert ask(front, "POST", "/init/addpatient/ann", {"age": 40})[0] == 200
        token = ask(one, "POST", "/oauth/token", "grant_type=password&username=ann")[1]["access_token"]
        known = {"Authorization": f"Bearer {token}"}
        steps = [0 if hour % 24 < 8 else 400 + hour for hour in range(30)]
        for hour, count in enumerate(steps):
            kind = "walking" if count else "sleeping"
            row = {"start": MONDAY + hour * HOUR, "type": kind, "steps": count}
            status, told, headers = ask(
                (one, other)[hour % 2],
                "POST",
                "/patient/activity",
                {"activities": [row]},
                X_Request_ID=f"r-{hour}",
                **known,
            )
            assert status == 201
            # The user's day begins an hour before the clock's day.
            today = range((hour + 1) // 24 * 24 - 1, hour + 1)
            assert told["steps_day"] == sum(steps[at] for at in today if at >= 0)
            assert headers["x-request-id"] == f"r-{hour}"
            assert headers["server-timing"].startswith("store;dur=")
        totals = ask(other, "GET", "/patient/totals", **known)[1]
        assert totals == {"activities": 30, "steps": sum(steps), "seconds": 30 * 3599}
        rows = ask(front, "GET", "/patient/achievements", **known)[1]["achievements"]
        (achieved,) = (row for row in rows if "days_with_goal" in row)
        assert (achieved["steps"], achieved["days_with_goal"]) == (sum(steps), 1)
        _, planned, headers = ask(front, "POST", "/patient/plan/next", {"pain": 3}, **known)
        assert planned["plan"]["week"] == 1
        assert len(planned["plan"]["exercises"]) == 6
        assert "recommend;dur=" in headers["server-timing"]
        assert ask(front, "GET", "/patient/totals", Authorization="Bearer ann.99999999999.no")[0] == 401
        assert ask(front, "POST", "/patient/activity", {"activities": []}, **known)[0] == 422
        record = [
            json.loads(line)
            for node in cluster.nodes
            if node.name.startswith("app-")
            for line in (node.folder / "data" / "requests.jsonl").read_text().splitlines()
        ]
        (of_last,) = (row for row in record if row["id"] == "r-29")
        assert 20 <= of_last["store_calls"] <= 50
        assert 0 < of_last["store_ms"] <= of_last["total_ms"]


def test_a_collection_moves_under_load_and_no_document_is_missed(state):
    there = {"store": "mongodb+opensearch", "placement": "activity=opensearch", "opensearch.heap": "400m"}
    with Cluster.start(ClusterSpec(str(EXAMPLE), nodes=2, settings=there)) as cluster:
        front = cluster.addresses[0]
        opensearch, mongodb = (
            next(node.address for node in cluster.nodes if node.name == kind) for kind in ("opensearch", "mongodb")
        )
        gone = Event()

        def post(user: str, hour: int, known: dict[str, str]) -> None:
            row = {"start": MONDAY + hour * HOUR, "type": "walking", "steps": 100 + hour}
            status, told, _ = ask(front, "POST", "/patient/activity", {"activities": [row]}, **known)
            assert status == 201, told

        def prepare(user: str) -> dict[str, str]:
            ask(front, "POST", f"/init/addpatient/{user}", {})
            token = ask(front, "POST", "/oauth/token", f"grant_type=password&username={user}")[1]["access_token"]
            known = {"Authorization": f"Bearer {token}"}
            for hour in range(8):
                post(user, hour, known)
            return known

        def live(user: str, known: dict[str, str]) -> int:
            """Post, rewrite an earlier hour and read until the move is over; return the number of hours."""
            hours, more = 8, 2
            while more:
                more -= gone.is_set()
                post(user, hours, known)
                hours += 1
                post(user, hours % 8, known)
                steps = sum(100 + hour for hour in range(hours))
                assert ask(front, "GET", "/patient/totals", **known)[1] == {
                    "activities": hours,
                    "steps": steps,
                    "seconds": hours * 3599,
                }
            return hours

        users = {user: prepare(user) for user in ("ann", "bob", "eve")}
        assert ask(front, "GET", "/placement/activity")[1] == {
            "store": "opensearch",
            "stage": "still",
            "here": 24,
            "elsewhere": 0,
        }
        with ThreadPoolExecutor() as threads:
            lives = {user: threads.submit(live, user, known) for user, known in users.items()}
            told: list[dict[str, object]] = []
            try:
                while not told or told[-1]["left"]:
                    status, answer, _ = ask(front, "POST", "/placement/activity/next", {"to": "mongodb", "batch": 4})
                    assert status == 200, answer
                    told.append(answer)
            finally:
                gone.set()
            hours = {user: life.result() for user, life in lives.items()}
        assert sum(answer["moved"] for answer in told) >= 24
        assert [answer["stage"] for answer in told] == ["copy"] * (len(told) - 1) + ["moved"]
        posted = {
            f"{MONDAY + hour * HOUR}-{user}": {
                "user": user,
                "date": MONDAY + hour * HOUR,
                "end": MONDAY + hour * HOUR + 3_599_000,
                "type": "walking",
                "steps": 100 + hour,
                "seconds": 3599,
            }
            for user, count in hours.items()
            for hour in range(count)
        }
        folder = next(node.folder for node in cluster.nodes if node.name == "mongodb")
        auth = Auth("basic", (folder / "config/administrator").read_text(), user="loadframe")
        answered = Client(mongodb, Access(auth=auth)).ask({"find": "activity", "batchSize": 10_000}, "selfcare")
        assert {row.pop("_id"): row for row in answered["cursor"]["firstBatch"]} == posted
        ask(opensearch, "POST", "/activity/_refresh")
        assert ask(opensearch, "GET", "/activity/_count")[1]["count"] == 0
        # The other collections stay where they were.
        assert ask(front, "GET", "/placement/achievement")[1]["store"] == "mongodb"
        assert ask(front, "GET", "/placement/plan")[1]["store"] == "opensearch"
        assert ask(front, "POST", "/placement/none/next", {"to": "mongodb"})[0] == 409


@pytest.mark.trial
def test_shards_replicas_routing_and_merging_are_settings_and_change_no_answer(state):
    layout = {"shards": 5, "replicas": 1, "routing": "user", "merge": True, "refresh": "all"}
    settings = {"store": "opensearch", "opensearch.heap": "400m", "opensearch.nodes": 2, **layout}
    with Cluster.start(ClusterSpec(str(EXAMPLE), settings=settings)) as cluster:
        front = cluster.addresses[0]
        store = next(node for node in cluster.nodes if node.name.startswith("opensearch")).address
        ask(front, "GET", "/init/reset_static")
        for user in ("ann", "bob"):
            assert ask(front, "POST", f"/init/addpatient/{user}", {"age": 40})[0] == 200
            token = ask(front, "POST", "/oauth/token", f"grant_type=password&username={user}")[1]["access_token"]
            known = {"Authorization": f"Bearer {token}"}
            for hour in range(8, 12):
                row = {"start": MONDAY + hour * HOUR, "type": "walking", "steps": 100 * hour}
                assert ask(front, "POST", "/patient/activity", {"activities": [row]}, **known)[0] == 201
            totals = ask(front, "GET", "/patient/totals", **known)[1]
            assert totals == {"activities": 4, "steps": 3800, "seconds": 4 * 3599}
            assert ask(front, "POST", "/patient/plan/next", {"pain": 3}, **known)[1]["plan"]["week"] == 1
            achieved = ask(front, "GET", "/patient/achievements", **known)[1]["achievements"]
            assert [row["steps"] for row in achieved if "days_with_goal" in row] == [3800]
        made = ask(store, "GET", "/activity/_settings")[1]["activity"]["settings"]["index"]
        assert (made["number_of_shards"], made["number_of_replicas"]) == ("5", "1")
        shards = ask(store, "GET", "/_cat/shards/activity?format=json&h=docs,prirep,shard,node,state")[1]
        of_shard = {
            row["shard"]: {other["node"] for other in shards if other["shard"] == row["shard"]} for row in shards
        }
        assert list(of_shard.values()) == [{"opensearch-1", "opensearch-2"}] * 5, "each node has a copy of each shard"
        queries = {
            name: row["search_query_total"]
            for name, row in cluster.store.statistics([front]).items()
            if "-" in name and name.startswith("opensearch")
        }
        assert len(queries) == 2 and min(queries.values()) > 0, "both nodes answer"
        of_primaries = sorted(int(row["docs"]) for row in shards if row["prirep"] == "p")
        assert sum(of_primaries) == 8 and of_primaries[:3] == [0, 0, 0], "two users are in at most two of five shards"
        segments = ask(store, "GET", "/exercise/_segments")[1]["indices"]["exercise"]["shards"]
        assert all(len(copy["segments"]) <= 1 for copies in segments.values() for copy in copies)
