"""What is OpenSearch's own: copies that must have a place, and a pause that its other nodes notice."""

import time

import pytest

from loadframe.errors import BadInput

pytestmark = pytest.mark.store
ONLY = "opensearch"


def test_a_node_cannot_leave_whose_copies_would_have_no_place(store):
    store.cluster.create_collection("copies", {"settings": {"number_of_shards": 1, "number_of_replicas": 1}})
    with pytest.raises(BadInput, match="copies is kept in 2 copies, and 1 nodes would remain"):
        store.cluster.shrink()
    store.cluster.drop_collection("copies")
    assert store.cluster.deviations() == []


def test_a_paused_node_is_a_deviation_until_it_is_resumed(store):
    name = store.cluster.nodes[-1].name
    store.cluster.pause(name)
    assert f"{name} is paused" in store.cluster.deviations()
    store.cluster.resume(name)
    end = time.monotonic() + 120
    while store.cluster.deviations() and time.monotonic() < end:
        time.sleep(0.5)
    assert store.cluster.deviations() == []
