"""Documents that were acknowledged against the documents that the store has."""

import json
from pathlib import Path
from typing import Any

import pytest
from held import Held

from loadframe.base import folders
from loadframe.load import run_phase

pytestmark = pytest.mark.store

DOCUMENTS = 400


def corpora(folder: Path) -> dict[str, Any]:
    """Return two corpora with the same documents, in opposite orders."""
    lines = [json.dumps({"key": f"p{age}", "age": age}) + "\n" for age in range(DOCUMENTS)]
    for name, ordered in (("up", lines), ("down", lines[::-1])):
        (folder / f"{name}.json").write_text("".join(ordered))
    return {"corpora": {name: {"files": [str(folder / f"{name}.json")]} for name in ("up", "down")}}


def acknowledged(things: Held, folder: Path, action: str, size: int = 100) -> int:
    """Send both corpora in bulk requests of eight clients at the same time; return how many documents succeeded."""
    folders.make(folder)
    bulk = {"collection": "things", "size": size, "id": "key", "action": action}
    operations = {name: {"bulk": bulk | {"corpus": name}} for name in ("up", "down")}
    plan = things.plan(operations, **corpora(folder))
    streams = [
        plan["streams"][0]
        | {"name": name, "mix": [[name, 1]], "retries": 50, "pacing": {"closed": {"clients": 4}}}
        | {"stop": {"requests": DOCUMENTS // size}}
        for name in ("up", "down")
    ]
    outcome = run_phase(plan | {"streams": streams}, folders.make(folder / "out"), lambda _: None)
    return sum(operation["documents"] for operation in outcome["operations"])


def test_bulk_requests_that_meet_acknowledge_each_document_once(things, tmp_path):
    made = acknowledged(things, tmp_path / "create", "create")
    assert things.cluster.count("things") == DOCUMENTS
    changed = acknowledged(things, tmp_path / "update", "update")
    assert changed == 2 * DOCUMENTS
    removed = acknowledged(things, tmp_path / "delete", "delete")
    assert things.cluster.count("things") == 0
    once = [2 * DOCUMENTS if verb in things.subject.blind else DOCUMENTS for verb in ("insert", "delete")]
    assert [made, removed] == once
