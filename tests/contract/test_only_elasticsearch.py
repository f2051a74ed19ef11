"""Elasticsearch 6.8 only: its older API, and the election of its masters."""

import pytest

pytestmark = pytest.mark.store
ONLY = "elasticsearch"


def test_what_later_versions_say_is_said_in_the_words_of_its_age(things):
    assert things.cluster.target()["store"] == {"distribution": "elasticsearch", "version": "6.8.23"}
    histogram = {"date_histogram": {"field": "age", "calendar_interval": "day"}}
    search = {"collection": "things", "body": {"aggs": {"days": histogram}, "track_total_hits": 10}}
    assert things.errors(
        {"index": {"collection": "things", "id": 1, "document": {"age": 1}}},
        {"update": {"collection": "things", "id": 1, "document": {"age": 2}}},
        {"search": search},
    ) == [None, None, None]
