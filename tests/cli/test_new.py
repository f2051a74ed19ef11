"""`loadframe new`: a workload and an experiment from documents, a mapping and queries."""

import json
import shlex
from pathlib import Path

import pytest

from commands import TRIPS, within
from loadframe.experiment.file.reader import load_experiment
from loadframe.workload import load_workload


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("trips.ndjson").write_text("".join(TRIPS.read_text().splitlines(keepends=True)[:200]))
    return tmp_path


def test_documents_become_an_experiment_that_runs(folder):
    status, _, errors = within("new", "trips.ndjson", "--store", "postgresql")
    assert status == 0, errors
    assert errors.splitlines()[-1] == "next: loadframe run trips-experiment.yaml"
    made = {"trips.yaml", "trips-documents.ndjson", "trips-experiment.yaml", "trips.ndjson"}
    assert {path.name for path in folder.iterdir()} == made
    assert load_experiment(Path("trips-experiment.yaml")).file.store.kind == "postgresql"
    status, output, errors = within("run", "trips-experiment.yaml", "--dry-run")
    assert status == 0, errors
    assert "b1-clients16" in output


def test_the_mapping_and_the_queries_are_used(folder):
    Path("mapping.json").write_text(json.dumps({"properties": {"vendor_id": {"type": "keyword", "norms": False}}}))
    Path("queries.json").write_text(json.dumps([{"query": {"term": {"vendor_id": "2"}}}, {"query": {"match_all": {}}}]))
    status, output, errors = within(
        "new", "trips.ndjson", "--mapping", "mapping.json", "--queries", "queries.json", "--json"
    )
    assert status == 0, errors
    assert json.loads(output)["operations"] == ["load", "refresh", "query_1", "query_2"]
    assert "vendor_id: {type: keyword, norms: false}" in Path("trips.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "collection"),
    [
        ("My-Trips 2026", "my_trips_2026"),
        ("_2026", "documents_2026"),
        ("trips-" * 20, "trips_trips_trips_trips_trips_trips_tr"),
    ],
)
def test_the_name_of_a_file_becomes_a_collection_that_every_store_permits(folder, name, collection):
    Path(f"{name}.ndjson").write_text("".join(f'{{"id": "A-{number}", "color": "red"}}\n' for number in range(50)))
    for store in ("opensearch", "cassandra", "couchbase"):
        status, _, errors = within("new", f"{name}.ndjson", "--store", store, "--output", f"{name}.yaml")
        assert status == 0, errors
        assert shlex.join(["loadframe", "run", f"{name}-experiment.yaml"]) in errors
        assert list(load_workload(f"./{name}.yaml").file.collections) == [collection]
        for path in folder.glob("*.yaml"):
            path.unlink()
        Path(f"{name}-documents.ndjson").unlink()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["none.ndjson"], "the file does not exist"),
        (["trips.ndjson", "--store", "redis", "--queries", "queries.json"], "does not support stores of the family"),
        (["trips.ndjson", "--store", "redis", "--mapping", "queries.json"], "--mapping does not apply to redis"),
        (["trips.ndjson", "--mapping", "queries.json"], "this is not a mapping"),
    ],
)
def test_nothing_is_written_if_a_part_is_unusable(folder, options, what):
    Path("queries.json").write_text(json.dumps([{"query": {"match_all": {}}}]))
    before = {path.name for path in folder.iterdir()}
    status, output, errors = within("new", *options)
    assert (status, output) == (2, "")
    assert what in errors
    assert {path.name for path in folder.iterdir()} == before
