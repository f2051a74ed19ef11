"""`loadframe import mapping` on files."""

import json
from pathlib import Path

import pytest

from commands import within
from loadframe.workload import load_workload
from loadframe.workload.sampling import schema

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


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"a": "text"}, "the field a is not an object"),
        ({"a": None}, "the field a is not an object"),
        ({"a": {"type": ["x"]}}, "the parameter type of the field a has an invalid value"),
        ({"a": {"properties": {"b": {"type": 3}}}}, "the parameter type of the field a.b has an invalid value"),
        ({"a": {"type": "dense_vector", "dims": "abc"}}, "the parameter dims of the field a has an invalid value"),
        ({"a": {"type": "dense_vector", "dims": 10**9}}, "the parameter dims of the field a has an invalid value"),
        ({"a": {"type": "keyword", "fields": {"x": "y"}}}, "the field a.x is not an object"),
        ({"a": {"type": "scaled_float", "scaling_factor": 0}}, "scaling_factor of the field a has an invalid value"),
        ({"a": {"scaling_factor": "x"}}, "the parameter scaling_factor of the field a has an invalid value"),
        ({"": {"type": "long"}}, "a field of the mapping has an empty name"),
        ({"a": {"properties": {"": {"type": "long"}}}}, "a field of a has an empty name"),
        ({"a": {"properties": [1]}}, "the parameter properties of the field a has an invalid value"),
        ({"a": {"type": "keyword", "copy_to": [1]}}, "the parameter copy_to of the field a has an invalid value"),
    ],
)
def test_a_malformed_field_is_refused(folder, fields, what):
    Path("mapping.json").write_text(json.dumps({"properties": fields}))
    status, output, errors = within("import", "mapping", "mapping.json")
    assert (status, output) == (2, "")
    assert what in errors
    assert [path.name for path in folder.iterdir()] == ["mapping.json"]


def test_documents_leave_out_fields_that_need_objects():
    types = ("flattened", "geo_shape", "rank_feature", "histogram", "dense_vector", "date_nanos", "wildcard")
    Path("mapping.json").write_text(json.dumps({"properties": {kind: {"type": kind} for kind in types}}))
    status, _, errors = within("import", "mapping", "mapping.json", "--generate", 5, "--output", "made.yaml")
    assert status == 0, errors
    for line in Path("made-documents.ndjson").read_text().splitlines():
        document = json.loads(line)
        assert list(document) == ["date_nanos", "wildcard"]
        assert document["date_nanos"].startswith("2024-")


def test_parameters_that_may_hold_data_are_left_out():
    fields = {
        "at": {"type": "date", "format": "'planted' yyyy||yyyy-MM-dd'T'HH:mm"},
        "day": {"type": "date", "format": "yyyy-MM-dd'T'HH:mm||epoch_millis"},
        "name": {"type": "keyword", "similarity": "planted", "copy_to": ["alice@planted.example"]},
        "owner": {"type": "constant_keyword", "value": "planted", "meta": {"by": "planted"}},
    }
    Path("mapping.json").write_text(json.dumps({"mappings": {"properties": fields}, "aliases": {"planted": {}}}))
    status, _, errors = within("import", "mapping", "mapping.json", "--generate", 20, "--output", "made.yaml")
    assert status == 0, errors
    for left_out in ("format of the field at", "similarity of the field name", "copy_to of the field name"):
        assert left_out in errors
    assert "planted" not in Path("made.yaml").read_text() + Path("made-documents.ndjson").read_text() + errors
    mapped = load_workload("./made.yaml").file.collections["made"].elasticsearch.mappings["properties"]
    assert mapped["day"] == fields["day"]
    documents = [json.loads(line) for line in Path("made-documents.ndjson").read_text().splitlines()]
    assert len({document["owner"] for document in documents}) == 1


def test_frozen_columns_have_the_values_of_their_type():
    columns = {"id": "int", "numbers": "frozen<list<int>>", "pairs": "list<frozen<map<text, int>>>"}
    for document in schema.documents({"columns": columns}, "cassandra", 20, 1):
        assert all(isinstance(number, int) for number in document["numbers"])
        assert all(pair == {} for pair in document["pairs"])
