"""The five questions of the workload adbids on real stores, compared with DuckDB's answers from the log."""

import json
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pymongo
import pytest
from adbids_answers import Answers

from commands import result
from documents import uri
from loadframe import _engine
from loadframe.cluster import Cluster
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Session
from loadframe.live.publisher import chart_data
from loadframe.load import Generator, check_operations, render_operations
from loadframe.workload import load_workload

BIDS = 6000
DAYS = 2
AD = "https://ad.zemanta.com/"


def today() -> date:
    return datetime.now(UTC).date()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events of yesterday and today."""
    path = tmp_path_factory.mktemp("adbids") / "log.ndjson"
    start = f"{today() - timedelta(days=1)}T00:00:00Z"
    lines = _engine.generate_events(
        path, generator="adbids", seed=19, documents=BIDS, rate=BIDS / (DAYS * 86400), start=start
    )
    assert lines == len(path.read_text().splitlines()) > BIDS
    return path


@pytest.fixture(scope="module")
def zoned(log: Path) -> Path:
    """Write a copy of the log with times in turn in another zone, in milliseconds, and unchanged."""
    tokyo = timezone(timedelta(hours=9))
    path = log.with_name("zoned.ndjson")
    with path.open("w") as file:
        for number, event in enumerate(map(json.loads, log.read_text().splitlines())):
            for key in ("time", "bid_time"):
                if key in event and number % 3:
                    at = datetime.fromisoformat(event[key])
                    forms = (at.astimezone(tokyo).isoformat(timespec="milliseconds"), round(at.timestamp() * 1000))
                    event[key] = forms[number % 3 - 1]
            file.write(f"{json.dumps(event)}\n")
    return path


@pytest.fixture(scope="module")
def right(log: Path) -> Answers:
    answers = Answers(log)
    assert answers.documents() == BIDS
    return answers


def documents(log: Path) -> dict[str, dict[str, Any]]:
    """The document of each bid, by id."""
    merged: dict[str, dict[str, Any]] = defaultdict(dict)
    for event in map(json.loads, log.read_text().splitlines()):
        merged[event.get("bid_id") or event["id"]][event["type"]] = event
    return merged


def ask(cluster: Cluster, folder: Path, fill: Callable[[], None], **parameters: Any) -> dict[str, str]:
    """Make the collections, fill them and ask all questions once; the request of each, by its name."""
    workload = load_workload("adbids", parameters).for_family(cluster.store.family, 1)
    session = Session(cluster, workload, seed=1, generator=Generator(), listener=Listener())
    session.create_collections(replace=True)
    session.prepare([phase for phase in workload.phases if phase.prepares], folder)
    fill()
    plan = workload.phase("queries").plan(
        seed=1, hosts=cluster.addresses, driver=cluster.store.driver, target=cluster.target()
    )
    assert [answer["message"] for answer in check_operations(plan) if answer["error"]] == []
    return {name: request for name, request in render_operations(plan) if request is not None}


def close(amounts: Mapping[Any, tuple[int, float]]) -> dict[Any, tuple[int, Any]]:
    """The same with amounts that sums of floats may differ from by their rounding."""
    return {key: (count, pytest.approx(amount)) for key, (count, amount) in amounts.items()}


def counts(buckets: Mapping[str, Any]) -> dict[str, int]:
    return {bucket["key"]: bucket["doc_count"] for bucket in buckets["buckets"]}


@pytest.mark.store
@pytest.mark.parametrize("published", [False, True], ids=["right", "published"])
def test_a_search_engine_answers_all_five(node, tmp_path, log, zoned, right, published):
    def fill() -> None:
        lines = []
        written = documents(zoned)
        for key, known in documents(log).items():
            document, day = written[key], known["bid"]["time"][:10].replace("-", ".")
            lines += [json.dumps({"index": {"_index": f"ads-{day}", "_id": key}}), json.dumps(document)]
        body = ("\n".join(lines) + "\n").encode()
        headers = {"Content-Type": "application/x-ndjson"}
        request = urllib.request.Request(f"http://{node.addresses[0]}/_bulk?refresh=true", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["errors"] is False

    asked, day = right.asked_for(), today() - timedelta(days=1)
    answers = {}
    for name, request in ask(node, tmp_path, fill, published=published, **asked).items():
        head, _, body = request.partition("\n\n")
        path = head.split()[1]
        answers[name] = node.store.request(node.addresses, "POST", path, json.loads(body))["aggregations"]
    if today() - timedelta(days=1) != day:
        pytest.skip("the day ended during the query for yesterday")
    assert len(answers) == 5
    settings = node.store.request(node.addresses, "GET", f"/ads-{day:%Y.%m.%d}/_settings")
    (index,) = (said["settings"]["index"] for said in settings.values())
    assert (index["number_of_shards"], index["refresh_interval"]) == ("3", "45s")
    assert index["translog"] == {"durability": "async", "sync_interval": "45s"}

    spend, countries = right.ad_spend(asked["ad"])
    assert spend > 0
    assert answers["ad_spend"]["spend"]["value"] == pytest.approx(spend)
    buckets = answers["ad_spend"]["countries"]["buckets"]
    assert {b["key"]: (b["doc_count"], b["spend"]["value"]) for b in buckets} == close(countries)

    days = answers["region_spend"]["days"]["buckets"]
    by_day = {
        (b["key_as_string"][:10], p["key"]): (p["doc_count"], p["spend"]["value"])
        for b in days
        for p in b["publishers"]["buckets"]
    }
    assert by_day == close(right.region_spend(asked["region"], asked["regional_ad"])) != {}

    if published:
        totals = answers["campaign_totals"]
        clicks, wins, spend = right.campaign_totals(asked["campaign"], day)
        assert wins > 0
        assert (totals["clicks"]["value"], totals["impressions"]["value"]) == (clicks, wins)
        assert totals["spend"]["value"] == pytest.approx(spend)
        # Each shard names its first 160, so that a publisher's wins may be too few, and never too many.
        most = {publisher: wins for publisher, wins, _ in right.top_publishers()}
        for bucket in answers["publishers_of_all"]["publishers"]["buckets"]:
            assert bucket["wins"]["value"] <= most.get(bucket["key"], min(most.values()))
        return
    ads = [
        (b["key"], b["clicks"]["value"], b["impressions"]["value"], pytest.approx(b["spend"]["value"]))
        for b in answers["campaign_ads"]["ads"]["buckets"]
    ]
    assert ads == right.campaign_ads(asked["campaign"], day) != []
    best = [
        (b["key"], b["doc_count"], counts(b["devices"]), counts(b["zips"]))
        for b in answers["top_ads"]["ads"]["buckets"]
    ]
    assert best == right.top_ads()
    publishers = [
        (b["key"], b["doc_count"], b["clicks"]["value"]) for b in answers["top_publishers"]["publishers"]["buckets"]
    ]
    assert publishers == right.top_publishers()


@pytest.mark.store
@pytest.mark.parametrize("published", [False, True], ids=["right", "published"])
def test_mongodb_answers_all_five(mongodb, tmp_path, zoned, right, published):
    def fill() -> None:
        options = ("--cluster", "mongodb", "--reuse", "--output", tmp_path / "run")
        assert result("ingest", "adbids", zoned, *options)["documents"] == BIDS

    asked, day = right.asked_for(), today() - timedelta(days=1)
    answers: dict[str, list[dict[str, Any]]] = {}
    with pymongo.MongoClient(uri(mongodb)) as client:
        for name, request in ask(mongodb, tmp_path, fill, published=published, **asked).items():
            command = {**json.loads(request), "cursor": {"batchSize": 10_000}}
            answers[name] = client["loadframe"].command(command)["cursor"]["firstBatch"]
    questions = [f"{name}={value}" for name, value in {"published": published, **asked}.items()]
    options = [word for question in (*questions, "between=0s", "duration=2s") for word in ("--set", question)]
    words = ("--cluster", "mongodb", "--reuse", "--only", "queries", "--output", tmp_path / "asked")
    result("bench", "adbids", *words, *options)
    shown = json.loads((tmp_path / "asked" / "answers-queries.json").read_text())
    if today() - timedelta(days=1) != day:
        pytest.skip("the day ended during the query for yesterday")
    assert len(answers) == 5
    charts = load_workload("adbids", {"published": published}).for_family("mongodb", 1).phase("queries").charts
    for name, answer in answers.items():
        assert [document["_id"] for document in shown[name]] == [document["_id"] for document in answer]
        chart = chart_data(name, charts[name], json.dumps(shown[name]).encode())
        assert chart and (chart.get("rows") or None not in chart["figures"].values())

    spend, countries = right.ad_spend(asked["ad"])
    (ad,) = answers["ad_spend"]
    assert ad["spend"] == pytest.approx(spend)
    assert {c["country"]: (c["bids"], c["spend"]) for c in ad["countries"]} == close(countries)

    by_day = {(r["_id"]["day"], r["_id"]["publisher"]): (r["bids"], r["spend"]) for r in answers["region_spend"]}
    assert by_day == close(right.region_spend(asked["region"], asked["regional_ad"])) != {}

    best = [
        (ad["_id"], ad["wins"], summed(ad["places"], "device"), summed(ad["places"], "zip"))
        for ad in answers["top_ads"]
    ]
    assert best == right.top_ads()
    if published:
        (totals,) = answers["campaign_totals"]
        clicks, wins, spend = right.campaign_totals(asked["campaign"], day)
        assert (totals["clicks"], totals["impressions"], totals["spend"]) == (clicks, wins, pytest.approx(spend))
        publishers = [(p["_id"], p["wins"]) for p in answers["publishers_of_all"]]
        assert publishers == [(publisher, wins) for publisher, wins, _ in right.top_publishers()]
        return
    ads = [(ad["_id"], ad["clicks"], ad["impressions"], pytest.approx(ad["spend"])) for ad in answers["campaign_ads"]]
    assert ads == right.campaign_ads(asked["campaign"], day) != []
    assert [(p["_id"], p["wins"], p["clicks"]) for p in answers["top_publishers"]] == right.top_publishers()


def summed(places: list[dict[str, Any]], by: str) -> dict[str, int]:
    """The wins of places by one of their fields."""
    wins: dict[str, int] = defaultdict(int)
    for place in places:
        wins[place[by]] += place["wins"]
    return wins
