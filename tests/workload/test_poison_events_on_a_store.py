"""Events that a store rejects and deeply nested lines: each becomes a single dead letter."""

import json
from pathlib import Path

import pytest

from commands import loadframe

pytestmark = pytest.mark.store

#: Good events beside a bad one.
GOOD = 300


def bid(number: int) -> str:
    return json.dumps({"type": "bid", "id": f"b{number}", "time": "2026-11-20T10:00:00Z", "ad": number})


def nested(depth: int) -> str:
    return f'{{"type":"bid","id":"deep","time":"2026-11-20T10:00:00Z","x":{"[" * depth}{"]" * depth}}}'


#: For each store, a line that it rejects although it is an event: nested too deep, or with too long a key.
POISON = {
    "opensearch": nested(250),
    "mongodb": nested(250),
    "cassandra": bid(0).replace("b0", "k" * 70_000),
}


def ingest(name: str, folder: Path, bad: str) -> tuple[int, dict[str, int], list[str]]:
    """Ingest good events around a bad line; return the status, the counts and the dead letters' lines."""
    lines = [bid(number) for number in range(GOOD)]
    lines.insert(GOOD // 3, bad)
    (folder / "e.ndjson").write_text("\n".join(lines))
    words = ("--cluster", name, "--replace", "--output", folder / "run", "--json")
    done = loadframe("ingest", "adbids", folder / "e.ndjson", *words)
    letters = (folder / "run" / "dead-letters-ingest-ads.ndjson").read_text().splitlines()
    return done.returncode, json.loads(done.stdout), [json.loads(letter)["line"] for letter in letters]


@pytest.fixture(params=sorted(POISON))
def store(request: pytest.FixtureRequest) -> str:
    """A store with a running node."""
    request.getfixturevalue("node" if request.param == "opensearch" else request.param)
    return str(request.param)


def cluster_of(store: str) -> str:
    """Return the name of the store's cluster."""
    return "shared" if store == "opensearch" else store


def test_one_event_that_the_store_refuses_is_dead_by_itself_and_the_status_tells(store, tmp_path):
    poison = POISON[store]
    status, came, letters = ingest(cluster_of(store), tmp_path, poison)
    assert (came["indexed"], came["dead_letters_by_reason"], came["left_over"]) == (GOOD, {"refused": 1}, 0)
    assert letters == [poison]
    assert status == 1


def test_a_line_that_is_nested_too_deep_is_a_dead_letter_and_ends_nothing(store, tmp_path):
    status, came, letters = ingest(cluster_of(store), tmp_path, nested(5000))
    assert (came["indexed"], came["dead_letters_by_reason"]) == (GOOD, {"nested too deep": 1})
    assert letters == [nested(5000)]
    assert status == 0
