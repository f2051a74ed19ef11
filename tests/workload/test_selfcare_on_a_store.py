"""One week of the health application's users on real stores: every document and every sum is checked."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pymongo
import pytest

from commands import open_folder
from documents import uri
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Session
from loadframe.load import Generator
from loadframe.workload import load_workload

#: The week from here on ends in another month.
MONDAY = datetime(2017, 1, 30, tzinfo=UTC)
#: Parameters for a short run. Posts match the study, except for 21 of its 22 user-existence checks.
SMALL = {"users": 2, "weeks": 1, "checks": 1, "pause": "50ms", "clients": 2, "from": "2017-01-30"}


@pytest.fixture
def mongodb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with open_folder("state") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder))
        cluster = Cluster.start(ClusterSpec(name="selfcare", store="mongodb"))
        yield cluster
        cluster.stop()


def walk(cluster: Cluster, folder: Path, **parameters: object) -> None:
    """Run all phases; raise an error for a failed request or assertion."""
    workload = load_workload("selfcare", {**SMALL, **parameters}).for_family(cluster.store.family, 1)
    session = Session(cluster, workload, seed=1, generator=Generator(), listener=Listener())
    session.create_collections()
    session.prepare(workload.phases, folder)


def hours(days: int) -> list[datetime]:
    return [MONDAY + timedelta(hours=hour) for hour in range(24 * days)]


def right(activities: list[dict], achievement: dict, instants: list[datetime], *, at: datetime) -> None:
    """Check a user's documents against the expected week; `at`: simulated time of the last post."""
    starts = [int(instant.timestamp() * 1000) for instant in instants]
    assert sorted(activity["start"] for activity in activities) == starts
    for activity in activities:
        begin = datetime.fromtimestamp(activity["start"] / 1000, UTC)
        assert activity["end"] == activity["start"] + 3_599_000
        assert activity["date"] == f"{begin:%Y-%m-%d}"
        awake = 8 <= begin.hour < 21
        assert activity["type"] == ("walking" if awake else "sleeping")
        assert 714 <= activity["steps"] <= 744 if awake else activity["steps"] == 0
    assert len({activity["steps"] for activity in activities}) > 5, "steps are drawn"

    def since(day: str) -> int:
        return sum(activity["steps"] for activity in activities if activity["date"] >= day)

    expected = {"day": f"{at:%Y-%m-%d}", "week": f"{MONDAY:%Y-%m-%d}", "month": f"{at:%Y-%m-01}", "total": ""}
    assert {name: achievement[name] for name in expected} == {name: since(day) for name, day in expected.items()}


@pytest.mark.store
@pytest.mark.parametrize(
    ("parameters", "days"),
    [
        ({}, 7),
        ({"layout": "user", "routing": "user", "refresh": "request", "shards": 2, "replicas": 1, "barriers": False}, 2),
    ],
    ids=["together", "alone"],
)
def test_a_search_engine_keeps_every_hour_and_every_total(node, tmp_path, parameters, days):
    walk(node, tmp_path, days=days, **parameters)
    for user in range(2):
        pair = user + 1 if parameters else 0
        query = {"size": 1000, "query": {"term": {"user": f"user{user}"}}}
        hits = node.store.request(node.addresses, "POST", f"/activity_{pair}/_search", query)["hits"]["hits"]
        assert {hit["_id"] for hit in hits} == {f"{hit['_source']['start']}-user{user}" for hit in hits}
        (kept,) = node.store.request(node.addresses, "POST", f"/achievement_{pair}/_search", query)["hits"]["hits"]
        right([hit["_source"] for hit in hits], kept["_source"], hours(days), at=hours(days)[-1])
    # The only node holds no replica: that is as declared.
    assert node.deviations() == []


@pytest.mark.store
@pytest.mark.parametrize("layout", ["one", "user"])
def test_mongodb_keeps_every_hour_and_every_total(mongodb, tmp_path, layout):
    walk(mongodb, tmp_path, layout=layout, days=2, hour_index="study" if layout == "user" else "right")
    with pymongo.MongoClient(uri(mongodb), directConnection=True) as client:
        database = client["loadframe"]
        for user in range(2):
            pair = user + 1 if layout == "user" else 0
            activities = list(database[f"activity_{pair}"].find({"user": f"user{user}"}))
            kept = database[f"achievement_{pair}"].find_one({"_id": f"user{user}"})
            assert {activity["_id"] for activity in activities} == {f"{one['start']}-user{user}" for one in activities}
            # By the study's hour index the last day is one hour, which is slept.
            instants = hours(2) if layout == "one" else [*hours(6), MONDAY + timedelta(days=6)]
            assert len(activities) == (48 if layout == "one" else 145)
            right(activities, kept, instants, at=instants[-1])


def test_more_collections_than_the_store_takes_are_refused_before_anything_is_started():
    workload = load_workload("selfcare", {"layout": "user", "users": 60, "shards": 5, "replicas": 1})
    with pytest.raises(BadInput, match="more shards than the store takes: 1,200 exceeds 1,000"):
        workload.for_family("elasticsearch", 1)
    assert workload.for_family("elasticsearch", 2).phases
    assert workload.for_family("mongodb", 1).phases
    with pytest.raises(BadInput, match="'apart' lacks a case for \"pair\"; it has one, user"):
        load_workload("selfcare", {"layout": "pair"})
