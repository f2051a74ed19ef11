"""`loadframe stores`: which there are, and whether they are here."""

import json

from commands import loadframe


def stores(*words: str) -> str:
    done = loadframe("stores", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_default_store_is_listed_with_its_family_and_version():
    listed = {store["kind"]: store for store in json.loads(stores("--json"))}
    opensearch = listed["opensearch"]
    assert opensearch["family"] == "elasticsearch"
    assert (opensearch["offered"], listed["mongodb"]["offered"]) == ("", "from 6.0.4")
    assert opensearch["versions"][0]["version"] == "3.8.0"
    assert 50e6 < opensearch["versions"][0]["size"] < 70e6


def test_a_store_that_no_registry_has_says_how_it_can_be_had(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    [line] = [line for line in stores().splitlines() if line.startswith("couchbase")]
    assert line.split() == ["couchbase", "couchbase", "no", "no:", "--home", "or", "--hosts"]


def test_a_store_that_was_not_fetched_yet_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    (opensearch,) = [store for store in json.loads(stores("--json")) if store["kind"] == "opensearch"]
    assert opensearch["versions"][0]["cached"] is False
    shown = stores()
    assert "not yet" in shown
    assert "from its vendor" in shown
