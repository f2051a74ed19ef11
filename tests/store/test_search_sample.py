"""Samples of the search family: each document is as likely, whatever the sizes of indices and gaps in their numbers."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from loadframe.base.errors import LoadframeError
from loadframe.store.search.collections import sample


def store_of(numbers: dict[str, list[int]], *, refuses: bool = False):
    """Return the `request` of a store: the sequence numbers of the documents of each index, one list per shard."""
    hits = [
        {"_index": index, "_id": f"{place}", "_source": {"at": (index, number)}, "_seq_no": number}
        for index, held in numbers.items()
        for place, number in enumerate(held)
    ]
    waiting: list[dict] = []
    size = 0
    requests: list[tuple[str, str]] = []

    def request(addresses, method, path, body=None, *, repeatable=False):
        nonlocal size
        requests.append((method, path))
        if path == "/all/_count":
            return {"count": len(hits)}
        if method == "POST" and path.startswith("/all/_search?scroll="):
            waiting[:], size = random.sample(hits, len(hits)), body["size"]
        if "scroll" in path and method == "POST":
            places, waiting[:] = waiting[:size], waiting[size:]
            return {"_scroll_id": "s", "hits": {"hits": places}}
        if method == "DELETE":
            return {}
        if refuses:
            raise LoadframeError("sequence numbers are disabled")
        assert body["sort"] == ["_seq_no"]
        index, numbers = body["query"]["bool"]["filter"]
        low, limit = numbers["range"]["_seq_no"]["gte"], numbers["range"]["_seq_no"].get("lt", float("inf"))
        held = [hit for hit in hits if hit["_index"] == index["term"]["_index"] and low <= hit["_seq_no"] < limit]
        return {"hits": {"hits": sorted(held, key=lambda hit: hit["_seq_no"])[: body["size"]]}}

    return request, requests, {index: {"settings": {"index": {"number_of_shards": "1"}}} for index in numbers}


def drawn(numbers: dict[str, list[int]], documents: int, *, refuses: bool = False) -> list[tuple[str, int]]:
    request, requests, indices = store_of(numbers, refuses=refuses)
    places = [tuple(source["at"]) for source in sample(request, ["a"], "all", documents, indices).documents]
    assert requests[-1] == ("DELETE", "/_search/scroll")
    assert len(places) == len(set(places)) == min(documents, sum(map(len, numbers.values())))
    assert places == sorted(places)
    return places


def test_each_document_is_equally_likely_at_ends_of_indices_and_beside_gaps():
    """Rates of six regions: ends of indices, a small index, and numbers that later updates spread."""
    random.seed(7)
    dense, sparse = [*range(60)], [*range(10**6, 10**6 + 60_000, 1000)]
    numbers = {"a": dense + sparse, "b": [0, 5, 9], "c": [*range(37)]}
    seen: Counter[tuple[str, int]] = Counter()
    rounds = 2000
    for _ in range(rounds):
        seen.update(drawn(numbers, 30))
    regions = {
        "begin": [("a", n) for n in dense[:10]],
        "end of a": [("a", n) for n in sparse[-10:]],
        "before the gap": [("a", n) for n in dense[-10:]],
        "after the gap": [("a", n) for n in sparse[:10]],
        "small": [("b", n) for n in numbers["b"]],
        "end of c": [("c", n) for n in numbers["c"][-10:]],
    }
    expected = rounds * 30 / 160
    for name, places in regions.items():
        mean = sum(seen[place] for place in places) / len(places)
        # Documents of a run are drawn together: the standard deviation of a mean is below 2.5 %.
        assert abs(mean / expected - 1) < 0.1, name


def test_neighbours_are_sampled_together():
    places = drawn({"a": [*range(20_000)]}, 1000)
    follow = sum(second[1] == first[1] + 1 for first, second in pairwise(places))
    assert follow > 800


def test_most_of_a_collection_is_sampled_without_runs():
    request, requests, indices = store_of({"a": [*range(100)]})
    sample(request, ["a"], "all", 60, indices)
    assert ("POST", "/all/_search") not in requests


@pytest.mark.parametrize("documents", [50, 300, 1000])
def test_a_store_that_refuses_sequence_numbers_is_sampled_at_random(documents):
    drawn({"a": [*range(300)]}, documents, refuses=True)
