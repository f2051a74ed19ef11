"""`loadframe import mapping` on files."""

import json
from pathlib import Path

import pytest

from commands import within
from loadframe.workload import load_workload

PROPERTIES = {
    "id": {"type": "keyword"},
    "total": {"type": "scaled_float", "scaling_factor": 100},
    "at": {"type": "date", "format": "yyyy-MM-dd HH:mm:ss"},
    "items": {"type": "nested", "properties": {"count": {"type": "integer", "null_value": 4929123456789012}}},
    "alice@example.com": {"type": "keyword"},
    "note": {"type": "text", "analyzer": "customer_words", "fields": {"raw": {"type": "keyword", "ignore_above": 20}}},
}
MAPPINGS = {"_meta": {"owner": "planted"}, "properties": PROPERTIES}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("content", [{"properties": PROPERTIES}, {"mappings": MAPPINGS}, {"a": {"mappings": MAPPINGS}}])
def test_documents_have_the_fields_and_types_of_the_mapping_and_no_values_of_it(content):
    Path("mapping.json").write_text(json.dumps(content))
    status, _, errors = within("import", "mapping", "mapping.json", "--generate", 40, "--output", "made.yaml")
    assert status == 0, errors
    documents = [json.loads(line) for line in Path("made-documents.ndjson").read_text().splitlines()]
    assert len(documents) == 40
    for document in documents:
        assert list(document) == ["id", "total", "at", "items", "note"]
        assert isinstance(document["items"]["count"], int)
        assert len(document["at"]) == len("2024-01-01 00:00:00")
    text = Path("made.yaml").read_text()
    assert [word for word in ("alice", "customer_words", "planted", "4929") if word in text] == []
    mapped = load_workload("./made.yaml").file.collections["made"].elasticsearch.mappings["properties"]
    assert mapped["note"] == {"type": "text", "fields": {"raw": {"type": "keyword", "ignore_above": 20}}}


@pytest.mark.parametrize("content", ["{}", "[]", '{"properties": 3}', '{"properties": {}}', "not JSON"])
def test_a_file_without_a_mapping_is_refused(folder, content):
    Path("mapping.json").write_text(content)
    status, output, errors = within("import", "mapping", "mapping.json")
    assert (status, output) == (2, "")
    assert "Traceback" not in errors
    assert [path.name for path in folder.iterdir()] == ["mapping.json"]
