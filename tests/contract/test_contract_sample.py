"""`loadframe import sample` on every store: the generated workload loads and queries, and holds no planted secret."""

import json
from pathlib import Path

import pytest

from commands import within
from every_step import failed_steps
from loadframe.base import folders
from loadframe.load import run_phase
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

SECRETS = ["alice.planted@example.com", "planted", "Zyxwoman", "4929123456789012"]
DOCUMENTS = 300


def fill(things, folder: Path) -> None:
    """Load documents with secret names and tags."""
    documents = [
        {"key": f"user-{n}-planted", "name": SECRETS[n % 4], "age": n % 80, "tags": [SECRETS[n % 4], f"planted {n}"]}
        for n in range(DOCUMENTS)
    ]
    file = folders.make(folder) / "documents.json"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    load = {"bulk": {"collection": "things", "corpus": "c", "size": 50, "id": "key"}}
    plan = things.plan({"load": load}, corpora={"c": {"files": [str(file)]}})
    plan["streams"][0]["stop"] = {"requests": DOCUMENTS // 50}
    outcome = run_phase(plan, folders.make(folder / "out"), lambda _: None)
    assert sum(operation["documents"] for operation in outcome["operations"]) == DOCUMENTS
    assert things.cluster.count("things") == DOCUMENTS


def test_a_sampled_collection_becomes_a_workload_that_runs(things, tmp_path, monkeypatch):
    monkeypatch.chdir(folders.make(tmp_path / "made"))
    of_store = ("import", "sample", "--cluster", f"contract-{things.kind}", "--collection")
    for name in ("things", "nothing"):
        status, output, errors = within(*of_store, name)
        assert (status, output) == (2, "")
        assert name in errors
    fill(things, tmp_path / "fill")
    status, output, errors = within(*of_store, "things", "--documents", 250, "--generate", 400)
    assert (status, output) == (0, ""), errors
    text = "".join(path.read_text() for path in Path().iterdir()).casefold()
    assert [secret for secret in SECRETS if secret.casefold() in text] == []
    made = [json.loads(line) for line in Path("things-documents.ndjson").read_text().splitlines()]
    assert len(made) == 400
    assert {document["age"] for document in made} <= set(range(80))
    things.drop()
    workload = load_workload("./things.yaml").for_family(things.cluster.store.family, things.subject.nodes)
    assert failed_steps(things.cluster, workload, folders.make(tmp_path / "steps")) == []
    assert things.cluster.count("things") == 400


def test_a_schema_becomes_a_workload_that_runs(things, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of_store = ("import", "mapping", "--cluster", f"contract-{things.kind}", "--collection")
    status, output, errors = within(*of_store, "nothing", "--generate", 300)
    assert (status, output) == (2, "")
    assert "nothing" in errors
    status, output, errors = within(*of_store, "things", "--generate", 300)
    if things.kind in ("mongodb", "redis"):
        assert (status, output) == (2, "")
        assert "the schema has no fields" in errors
        return
    assert status == 0, errors
    things.drop()
    workload = load_workload("./things.yaml").for_family(things.cluster.store.family, things.subject.nodes)
    assert failed_steps(things.cluster, workload, folders.make(tmp_path / "steps")) == []
    assert things.cluster.count("things") == 300
