"""Exploring documents: counts over time, filters, values, statistics, and hostile names."""

import json

import httpx
import pytest

from loadframe.live.exploration import Exploration, StoreSource
from loadframe.live.server import Server

pytestmark = pytest.mark.store

HOSTILE = "<script>alert(1)</script>"
PROPERTIES = {
    "bid": {"properties": {"time": {"type": "date"}, "country": {"type": "keyword"}}},
    "price": {"type": "double"},
    "text": {"type": "text"},
    HOSTILE: {"type": "keyword"},
}
#: A document each minute from noon: 40 of the first day, 20 of the second.
DAYS = (("explored-2017.03.01", "2017-03-01", 40), ("explored-2017.03.02", "2017-03-02", 20))


@pytest.fixture
def source(store):
    """Two daily collections of a store that answers questions."""
    if not store.cluster.store.explores:
        pytest.skip(f"not applicable to {store.kind}: it does not answer questions about documents")
    cluster = store.cluster
    is_old = store.kind == "elasticsearch"
    mappings = {"properties": PROPERTIES}
    for name, day, number in DAYS:
        body = {"settings": {"number_of_replicas": 0}, "mappings": {"_doc": mappings} if is_old else mappings}
        cluster.store.request(cluster.addresses, "PUT", f"/{name}", body)
        documents = [
            {"bid": {"time": f"{day}T12:{minute:02}:00Z", "country": ["US", "GB"][minute % 4 == 3]},
             "price": minute, "text": "free text", HOSTILE: HOSTILE}
            for minute in range(number)
        ]  # fmt: skip
        kind = {"_type": "_doc"} if is_old else {}
        lines = [part for document in documents for part in ({"index": kind}, document)]
        cluster.store.request(cluster.addresses, "POST", f"/{name}/_bulk?refresh=true", lines)
    yield StoreSource(cluster.store, cluster.addresses)
    for name, *_ in DAYS:
        cluster.drop_collection(name)


def test_documents_are_counted_over_time_and_by_value(source):
    with Server("127.0.0.1", 0, Exploration(source)) as server:

        def ask(path, status=200, **given):
            answer = httpx.get(f"{server.url}{path}", params=given, timeout=120)
            assert answer.status_code == status, answer.text
            return answer.json()

        collections = ask("source")["collections"]
        assert {"explored-*", *(name for name, *_ in DAYS)} <= set(collections)
        fields = ask("fields", collection="explored-*")["fields"]
        assert fields == {"bid.time": "time", "bid.country": "keyword", "price": "number", HOSTILE: "keyword"}

        whole = {"collection": "explored-*", "time": "bid.time"}
        counted = ask("findings", **whole, field="price")
        assert counted["total"] == 60 == sum(period["count"] for period in counted["periods"])
        assert counted["statistics"] == {"count": 60, "min": 0, "mean": pytest.approx(970 / 60), "max": 39, "sum": 970}
        assert json.loads(counted["documents"][0])["bid"]["time"] == "2017-03-02T12:19:00Z"

        some = ask("findings", **whole, field="bid.country", start="2017-03-01T12:10", end="2017-03-01T12:30")
        assert some["total"] == 20
        assert some["values"] == [["US", 15], ["GB", 5]]
        assert [period["count"] for period in some["periods"]] == [1] * 20
        british = ask("findings", **whole, field="price", where="bid.country", value="GB", largest="1")
        assert british["total"] == 15
        assert json.loads(british["documents"][0])["price"] == 39

        hostile = ask("findings", **whole, field=HOSTILE, where=HOSTILE, value=HOSTILE)
        assert hostile["values"] == [[HOSTILE, 60]]
        none = ask("findings", **whole, field="price", where="bid.country", value='US" OR "1')
        assert (none["total"], none["periods"], none["values"]) == (0, [], [])

        for name in ("explored-2017.03.01/_delete_by_query?x=", "*", "../_cluster/settings", "none"):
            assert "lacks the index" in ask("findings", 400, collection=name)["error"]
        assert "lacks the field text" in ask("findings", 400, collection="explored-*", field="text")["error"]
        assert ask("findings", 502, **whole, where="price", value="dear")["error"]
        for method in ("POST", "DELETE"):
            assert httpx.request(method, f"{server.url}findings?collection=explored-*").status_code == 501
        assert ask("findings", **whole)["total"] == 60
