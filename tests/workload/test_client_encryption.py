"""Encrypted workload values: the resulting collections, corpora and searches, and refusals."""

import json

import pytest

from loadframe.base.errors import BadInput
from loadframe.load import render_operations
from loadframe.workload import load_workload

TEXT = """\
workload: w
parameters: {encrypted: true}
client_encryption: {enabled: "${encrypted}"}
collections:
  things:
    elasticsearch:
      settings: {number_of_shards: 1}
      mappings:
        dynamic: strict
        properties:
          name: {type: keyword, doc_values: false}
          words: {type: text}
          n: {type: integer}
          at: {type: date, format: "yyyy-MM-dd'T'HH:mm:ss.SSS"}
          place: {type: geo_point}
          inside: {properties: {amount: {type: scaled_float, scaling_factor: 100}}}
corpora: {things: {file: things.ndjson, documents: 5}}
variables:
  n: {uniform: [1, 9]}
  name: {field: {corpus: things, field: name}}
operations:
  load: {bulk: {collection: things, corpus: things, size: 10}}
  ask: {search: {collection: things, size: 7, body: %s}}
phases:
  - {name: load, prepares: true, operation: load, clients: 1, until: exhausted}
  - {name: ask, operation: ask, clients: 1, requests: 1}
"""
NAMES = {"query": {"term": {"name": "${name}"}}}


def resolved(load, body, **parameters):
    return load(TEXT % json.dumps(body), **parameters).for_family("elasticsearch", 1)


@pytest.fixture(autouse=True)
def things(tmp_path):
    (tmp_path / "things.ndjson").write_text('{"name": "a"}\n' * 5)


def test_texts_become_keywords_and_numbers_and_dates_become_long(load):
    mappings = resolved(load, NAMES).collections["things"]["mappings"]
    assert mappings == {
        "dynamic": "strict",
        "properties": {
            "name": {"type": "keyword", "doc_values": False},
            "words": {"type": "keyword"},
            **{name: {"type": "long"} for name in ("n", "at", "place")},
            "inside": {"properties": {"amount": {"type": "long"}}},
        },
    }


def test_nothing_changes_where_encryption_is_off(load):
    off = resolved(load, NAMES, encrypted=False)
    assert off.collections["things"]["mappings"]["properties"]["n"] == {"type": "integer"}
    assert off.phase("ask").operations["ask"]["search"]["body"] == NAMES
    assert off.phase("load").operations["load"]["bulk"]["corpus"] == "things"


def test_the_documents_of_a_load_are_encrypted_and_those_that_values_are_drawn_from_are_not(load):
    workload = resolved(load, NAMES)
    (name,) = workload.phase("load").corpora
    assert workload.phase("load").operations["load"]["bulk"]["corpus"] == name
    said = workload.corpora[name]
    assert (said["documents"], said["encrypted"]["of"]) == (5, workload.corpora["things"])
    assert said["encrypted"]["fields"]["at"] == {"instant": {"format": "%Y-%m-%dT%H:%M:%S.%L", "span": 1}}
    assert workload.phase("ask").corpora == {"things": workload.corpora["things"]}


def test_each_value_of_a_query_is_a_variable_and_all_else_stays(load):
    body = {
        "query": {
            "bool": {"must": [{"range": {"n": {"gte": "${n}", "lt": 9, "boost": 2}}}], "minimum_should_match": 0}
        },
        "size": 3,
        "sort": ["_doc", {"at": "asc"}],
    }
    phase = resolved(load, body).phase("ask")
    (query,) = phase.operations["ask"]["search"]["body"]["query"]["bool"]["must"]
    assert query == {"range": {"n": {"gte": "${encrypted_n_1}", "lt": "${encrypted_n_2}", "boost": 2}}}
    said = {name: phase.variables[name]["encrypted"] for name in ("encrypted_n_1", "encrypted_n_2")}
    assert [(form["of"], form["bound"]) for form in said.values()] == [("n", "low"), ("plain_n_1", "low")]
    assert phase.variables["plain_n_1"] == {"constant": 9}
    assert phase.operations["ask"]["search"]["size"] == 7


def test_what_is_sent_is_the_same_each_time_and_another_with_another_key(load):
    def sent(key):
        text = TEXT.replace('"${encrypted}"', f'"${{encrypted}}", key: "{key}"') % json.dumps(NAMES)
        phase = load(text).for_family("elasticsearch", 1).phase("ask")
        return render_operations(phase.plan(seed=1, hosts=["127.0.0.1:9"], driver="search"))

    one, other = ("0" * 32, "1" * 32)
    assert sent(one) == sent(one)
    assert sent(one) != sent(other)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {"query": {"fuzzy": {"name": "a"}}},
            "the query fuzzy compares characters, which encryption does not preserve",
        ),
        (
            {"query": {"match": {"words": "a"}}},
            "the query match matches words within a text, but texts are encrypted as a whole",
        ),
        (
            {"query": {"term": {"words": "a"}}},
            "a query of the field 'words' matches words within a text, but texts are encrypted as a",
        ),
        ({"query": {"term": {"place": 1}}}, "a query of the field 'place' measures distances"),
        ({"query": {"term": {"nmae": "a"}}}, "the mapping lacks the field 'nmae'"),
        ({"query": {"range": {"name": {"gt": "a"}}}}, "encryption does not preserve the order of 'name'"),
        ({"query": {"range": {"n": {"gt": 1, "format": "yyyy"}}}}, "a date format does not apply to the field 'n'"),
        ({"query": {"range": {"at": {"gt": "2015", "format": "yyyy"}}}}, "must consist of yyyy MM dd HH mm ss SSS"),
        ({"query": {"range": {"n": {"from": 1}}}}, "the key 'from' of a range query is unsupported with encryption"),
        ({"query": {"terms": {"n": "${n}"}}}, "a terms query requires a list of values"),
        ({"query": {"term": {"n": None}}}, "'n' requires a single value; got None"),
        (
            {"query": {"term": {"name": {"value": "a", "case_insensitive": True}}}},
            "the key 'case_insensitive' of a term query is unsupported with encryption",
        ),
        ({"query": {"term": 1}}, "the body of the query term must be a mapping"),
        ({"query": {"constant_score": {}}}, "a query must be a mapping with one key"),
        ({"query": {"range": {"n": 1}}}, "a range query requires a mapping of bounds"),
        ({"query": {"nested": {"path": "inside"}}}, "the query nested does not support encrypted values"),
        ({"sort": ["name"]}, "encryption does not preserve the order of 'name'"),
        ({"sort": [{"n": {"mode": "avg"}}]}, "the key 'mode' of a sort is unsupported with encryption"),
        (
            {"aggs": {"a": {"terms": {"field": "n", "missing": 0}}}},
            "the key 'missing' of an aggregation is unsupported with encryption",
        ),
        ({"aggs": {"a": {"sum": {"field": "n"}}}}, "the aggregation sum computes with values, which are encrypted"),
        ({"aggs": {"a": {"min": {"field": "name"}}}}, "encryption does not preserve the order of 'name'"),
        ({"script_fields": {}}, "the key 'script_fields' of a search body is unsupported with encryption"),
    ],
)
def test_a_search_that_encrypted_values_cannot_answer_is_refused(load, body, reason):
    with pytest.raises(BadInput) as caught:
        resolved(load, body)
    assert "this operation does not work on encrypted values: ask: " in caught.value.what
    assert reason in caught.value.what
    assert caught.value.remedy.startswith("exclude the phases ask with --only or measure")


def test_all_unsupported_operations_are_reported_together():
    with pytest.raises(BadInput) as caught:
        load_workload("nyc_taxis", {"encrypted": "true"}).for_family("elasticsearch", 1)
    assert "these operations do not work on encrypted values: distance_histogram: " in caught.value.what
    assert "exclude the phases distance_histogram, auto_date_histogram, date_histogram with" in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("{type: geo_point}", "{type: dense_vector}"),
            "the type dense_vector of the field 'place' cannot be encrypted",
        ),
        (
            ("doc_values: false", "normalizer: lowercase"),
            "the mapping of the field 'name' has normalizer, which changes query matches",
        ),
        (
            ("format: \"yyyy-MM-dd'T'HH:mm:ss.SSS\"", "store: true"),
            "the date format of the field 'at' is missing; it must consist of yyyy MM dd HH mm ss SSS",
        ),
        (
            ("format: \"yyyy-MM-dd'T'HH:mm:ss.SSS\"", "format: strict_date"),
            "the date format 'strict_date' of the field 'at' is unsupported; it must consist of yyyy",
        ),
        (
            ("dynamic: strict", "dynamic_templates: []"),
            "its mapping uses dynamic_templates, so the types of fields are unknown",
        ),
    ],
)
def test_a_mapping_that_does_not_say_how_to_encrypt_is_refused(load, change, reason):
    text = TEXT % json.dumps(NAMES)
    assert change[0] in text
    with pytest.raises(BadInput) as caught:
        load(text.replace(*change)).for_family("elasticsearch", 1)
    assert "cannot encrypt the documents of the collection 'things': " in caught.value.what
    assert reason in caught.value.what


def test_another_family_and_a_key_that_is_none_are_refused(load, refused):
    with pytest.raises(BadInput) as caught:
        load_workload("nyc_taxis/distance_histogram", {"encrypted": "true"}).for_family("mongodb", 1)
    assert caught.value.what == "client_encryption requires a store of the family elasticsearch; got mongodb"
    error = refused(TEXT.replace('"${encrypted}"', "true, key: abc") % "{}")
    assert (error.what, error.remedy) == ('"abc" is not an AES-128 key', "write 32 hexadecimal digits")


def test_a_changed_encryption_refills_the_collection():
    workload = load_workload("mri/range_age")
    assert {"encrypted", "key"} <= workload.shaping(["load", "refresh"])
