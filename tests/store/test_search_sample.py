"""Samples of the search family: each document is as likely, whatever the sizes of indices and gaps in their numbers."""

import random
from itertools import pairwise

import pytest

from loadframe.base.errors import LoadframeError
from loadframe.store.search.collections import sample


def store_of(numbers: dict[str, list[int]], *, refuses: bool = False):
    """Return the `request` of a store: the sequence numbers of the documents of each index."""
    hits = [
        {"_index": index, "_id": f"{number}", "_source": {"at": (index, number)}}
        | ({"_seq_no": -2} if refuses else {"_seq_no": number})
        for index, held in numbers.items()
        for number in held
    ]
    waiting: list[dict] = []
    size = 0
    requests: list[tuple[str, str]] = []

    def request(addresses, method, path, body, *, repeatable=False):
        nonlocal size
        requests.append((method, path))
        if method == "POST" and path == "/all/_search?scroll=1m":
            waiting[:], size = random.sample(hits, len(hits)), body["size"]
        if "scroll" in path and method == "POST":
            found, waiting[:] = waiting[:size], waiting[size:]
            return {"_scroll_id": "s", "hits": {"hits": found}}
        if method == "DELETE":
            return {}
        if refuses:
            raise LoadframeError("sequence numbers are disabled")
        clauses = [clause["bool"]["filter"] for clause in body["query"]["bool"]["filter"][0]["bool"]["should"]]
        assert len(clauses) <= 1024
        ranges = {(index["term"]["_index"], *numbers["range"]["_seq_no"].values()) for index, numbers in clauses}
        held = {
            (name, number): hit
            for hit in hits
            for name, low, high in ranges
            for number in [hit["_seq_no"]]
            if hit["_index"] == name and low <= number < high
        }
        return {"hits": {"hits": [*held.values()][: body["size"]]}}

    return request, requests, {index: {} for index in numbers}


def drawn(numbers: dict[str, list[int]], documents: int, *, refuses: bool = False) -> list[tuple[str, int]]:
    request, requests, indices = store_of(numbers, refuses=refuses)
    found = [tuple(source["at"]) for source in sample(request, ["a"], "all", documents, indices).documents]
    assert requests[-1] == ("DELETE", "/_search/scroll")
    assert len(found) == len(set(found)) == min(documents, sum(map(len, numbers.values())))
    assert refuses or found == sorted(found)
    return found


def test_small_indices_have_their_share():
    numbers = {"a-large": [*range(9000)], **{f"b-{n:02}": [*range(30)] for n in range(33)}}
    small = sum(index != "a-large" for index, _ in drawn(numbers, 2000))
    assert 0.04 < small / 2000 < 0.18


def test_documents_before_a_gap_of_updates_have_their_share():
    found = drawn({"a": [*range(5000), *range(10**9, 10**9 + 100_000, 1000)]}, 1000)
    assert 0 < sum(number >= 10**9 for _, number in found) < 100


def test_neighbours_are_sampled_together():
    found = drawn({"a": [*range(20_000)]}, 1000)
    follow = sum(second[1] == first[1] + 1 for first, second in pairwise(found))
    assert follow > 800


@pytest.mark.parametrize("documents", [50, 300, 1000])
def test_a_store_that_refuses_sequence_numbers_is_sampled_at_random(documents):
    drawn({"a": [*range(300)]}, documents, refuses=True)
