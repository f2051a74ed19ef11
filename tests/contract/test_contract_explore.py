"""Exploring documents: counts over time, filters, values, statistics, and hostile names."""

import json

import httpx
import pytest

from loadframe.live.exploration import Exploration, StoreSource
from loadframe.live.server import Server
from loadframe.store.exploring import Question

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
        both = ask("findings", **whole, where=["bid.country", "price"], value=["GB", "39"])
        assert both["total"] == 1
        none = ask("findings", **whole, field="price", where="bid.country", value='US" OR "1')
        assert (none["total"], none["periods"], none["values"]) == (0, [], [])

        for name in ("explored-2017.03.01/_delete_by_query?x=", "*", "../_cluster/settings", "none"):
            assert "lacks the index" in ask("findings", 400, collection=name)["error"]
        assert "lacks the field text" in ask("findings", 400, collection="explored-*", field="text")["error"]
        assert ask("findings", 502, **whole, where="price", value="dear")["error"]
        for method in ("POST", "DELETE"):
            assert httpx.request(method, f"{server.url}findings?collection=explored-*").status_code == 501
        assert ask("findings", **whole)["total"] == 60


#: Daily collections with missing, repeated and nested fields, and with different types of a field.
ODD = {
    "odd-2020.01.01": {
        "time": {"type": "date"},
        "number": {"type": "long"},
        "word": {"type": "keyword"},
        "mixed": {"type": "keyword"},
        "items": {"type": "nested", "properties": {"price": {"type": "double"}, "at": {"type": "date"}}},
    },
    "odd-2020.01.02": {"number": {"type": "double"}, "mixed": {"type": "text"}},
    "odd-2020.01.03": {"other": {"type": "keyword"}},
}


@pytest.fixture
def odd(store):
    """Create the family; its first collection has four shards and 6,000 words."""
    if not store.cluster.store.explores:
        pytest.skip(f"not applicable to {store.kind}: it does not answer questions about documents")
    cluster = store.cluster
    is_old = store.kind == "elasticsearch"
    documents = {
        "odd-2020.01.01": [
            *({"word": f"w{number}", "mixed": "a"} for number in range(6000)),
            {"time": ["2020-01-01T00:00:00Z", "2020-01-03T00:00:00Z"], "number": [1, 2, 3]},
            {"time": "2020-01-02T00:00:00Z", "number": -4, "items": [{"price": 1}, {"price": 5}]},
        ],
        "odd-2020.01.02": [{"number": 7.5, "mixed": "a"}],
        "odd-2020.01.03": [{"other": "x"}],
    }
    for name, properties in ODD.items():
        mappings = {"properties": properties}
        settings = {"number_of_replicas": 0, "number_of_shards": 4 if name.endswith("01.01") else 1}
        body = {"settings": settings, "mappings": {"_doc": mappings} if is_old else mappings}
        cluster.store.request(cluster.addresses, "PUT", f"/{name}", body)
        kind = {"_type": "_doc"} if is_old else {}
        lines = [part for document in documents[name] for part in ({"index": kind}, document)]
        cluster.store.request(cluster.addresses, "POST", f"/{name}/_bulk?refresh=true", lines)
    yield StoreSource(cluster.store, cluster.addresses)
    for name in ODD:
        cluster.drop_collection(name)


OLD = "The newest documents come first: this version does not sort by number, whose types differ between indices."


def test_missing_repeated_nested_and_approximate_values_are_noted(odd):
    fields = odd.fields("odd-*")
    # A text cannot be aggregated, and nested times have no periods.
    assert fields == {
        "time": "time",
        "number": "number",
        "word": "keyword",
        "items.price": "number",
        "other": "keyword",
    }
    answer = odd.explore(Question("odd-*", time="time", field="number", largest=True))
    assert (answer.total, sum(period.count for period in answer.periods)) == (6004, 3)
    assert answer.statistics == {"count": 5, "min": -4, "mean": pytest.approx(1.9), "max": 7.5, "sum": 9.5}
    is_old = odd.title.startswith("elasticsearch")
    first = [[1, 2, 3], -4, None, None] if is_old else [7.5, [1, 2, 3], -4, None]
    assert [document.get("number") for document in answer.documents[:4]] == first
    assert answer.notes == [
        "In no period, without time: 6,002 documents.",
        "A document with several values of time counts in each of their periods.",
        "Without number: 6,001 documents.",
        "Statistics count each value of documents with several values of number.",
        *([OLD] if is_old else []),
    ]
    nested = odd.explore(Question("odd-*", time="time", field="items.price", largest=True))
    assert sorted(nested.values) == [(1.0, 1), (5.0, 1)]
    assert (nested.unit, nested.statistics["sum"], nested.periods[1].mean) == ("nested objects", 6, 3)
    assert nested.notes[-1] == "The newest documents come first: nested objects do not sort documents."
    assert odd.explore(Question("odd-*", filters=(("items.price", "5"), ("number", "-4")))).total == 1
    assert odd.explore(Question("odd-*", filters=(("items.price", "5"), ("number", "1")))).total == 0
    # Each shard reports fewer words than it has.
    words = odd.explore(Question("odd-*", field="word"))
    assert words.notes[:2] == [
        "Without word: 4 documents.",
        "With values of word that are not listed: 5,980 documents.",
    ]
    assert "counts of values are approximate: each may be up to" in words.notes[2]
    exact = odd.explore(Question("odd-*", field="number"))
    assert not any("approximate" in note for note in exact.notes)
