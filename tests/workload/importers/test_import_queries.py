"""The MPI benchmarker's query files become workloads that run."""

import json
from dataclasses import replace

import pytest

from damage import damaged
from loadframe.base.errors import BadInput
from loadframe.workload.importers.queries import StepTimes, Triple, import_queries

ALL = {"size": 100, "query": {"match_all": {}}}
CHEAP = {"query": {"range": {"price": {"lt": 5}}}}
STEPS = [
    {"search_queries": [{"body": ALL}]},
    {
        "search_queries": [{"body": CHEAP}, {"body": ALL}, {"body": CHEAP}],
        "warmup_time_secs": 0,
        "execution_time_secs": 2.5,
        "sleep_between_requests_secs": 0.02,
    },
]


def test_steps_become_phases_with_the_formats_defaults(written, loaded):
    first, second = loaded(import_queries(written("fares.json", STEPS))).file.phases
    assert (first.name, first.weights, first.warmup, first.duration) == ("step_1", {"query_1": 1}, 60, 300)
    assert (first.clients, first.think_time) == (8, None)
    assert (second.weights, second.warmup, second.duration) == ({"query_2": 2, "query_1": 1}, 0, 2.5)
    assert second.think_time == 0.02
    assert (first.order, second.order) == (None, "permuted")
    assert (first.ready_within, second.ready_within) == (600, 600)


def test_times_of_the_command_line_replace_those_of_all_steps(written, loaded):
    times = StepTimes(warmup=1.5, execution=4.0, sleep=0.0)
    phases = loaded(import_queries(written("fares.json", STEPS), times=times)).file.phases
    assert [(phase.warmup, phase.duration, phase.think_time) for phase in phases] == [(1.5, 4.0, None)] * 2


FIELDS = {"price": {"type": "double"}, "note ${x}": {"type": "text"}}


@pytest.fixture
def triple(written, tmp_path):
    (tmp_path / "fares.ndjson").write_text('{"price": 3}\n')
    return Triple(written("index.json", {"properties": FIELDS, "aliases": {}}), tmp_path / "fares.ndjson")


def test_earlier_loads_become_phases_and_a_strict_mapping(written, loaded, triple, tmp_path):
    imported = import_queries(written("fares.json", STEPS), replace(triple, bulk_size=10_000))
    workload = loaded(imported)
    load, refresh, first, _ = workload.file.phases
    assert (load.name, load.prepares, load.until, load.clients) == ("load", True, "exhausted", 8)
    assert (refresh.name, refresh.prepares, first.name) == ("refresh", True, "step_1")
    resolved = workload.for_family("elasticsearch", 3)
    definition = resolved.collections["documents"]
    assert definition["mappings"] == {"dynamic": "strict", "properties": FIELDS}
    assert definition["settings"] == {"number_of_shards": 3, "requests.cache.enable": False}
    plan = resolved.phases[0].plan(seed=1, hosts=[], driver="null")
    assert plan["operations"]["load"]["bulk"] == {"collection": "documents", "corpus": "documents", "size": 10_000}
    assert plan["corpora"]["documents"]["files"] == [str(tmp_path / "fares.ndjson")]
    assert any(entry.endswith("index.json: aliases") for entry in imported.left_out)
    fixed = loaded(import_queries(written("fares.json", STEPS), replace(triple, shards=2)))
    assert fixed.for_family("elasticsearch", 3).collections["documents"]["settings"]["number_of_shards"] == 2


@pytest.mark.parametrize(
    ("content", "what"), [("{}", "lacks fields"), ('{"properties": 3}', "expected an object"), ("[", "invalid JSON")]
)
def test_a_definition_of_another_format_is_refused_with_its_place(written, triple, content, what):
    with pytest.raises(BadInput, match=what) as caught:
        import_queries(written("fares.json", STEPS), replace(triple, index=written("index.json", content)))
    assert "index.json" in str(caught.value.where)


def test_documents_that_are_not_there_are_refused(written, triple, tmp_path):
    with pytest.raises(BadInput, match="does not exist"):
        import_queries(written("fares.json", STEPS), replace(triple, documents=tmp_path / "gone.json"))


def test_it_is_named_after_its_file_and_runs_on_a_collection_of_any_name(written, loaded):
    resolved = loaded(import_queries(written("my fares.json", STEPS)), collection="trips").for_family(
        "elasticsearch", 2
    )
    assert resolved.name == "my_fares"
    assert list(resolved.collections) == ["trips"]
    form = {"search": {"collection": "trips", "request_cache": False, "body": ALL}}
    assert resolved.phases[0].plan(seed=1, hosts=[], driver="null")["operations"]["query_1"] == form


def test_a_hole_in_a_query_is_a_literal(written, loaded):
    body = {"query": {"term": {"name": "${price}"}}}
    workload = loaded(import_queries(written("q.json", [{"search_queries": [{"body": body}]}])))
    assert workload.file.operations["query_1"].search.body == {"query": {"term": {"name": "$${price}"}}}


def test_texts_that_look_like_numbers_stay_texts(written, loaded):
    body = {"query": {"terms": {"x": ["1e3", "007", "true", "null", "0x1f", "", " a ", "1.5", "é\n\t", "no", ".5"]}}}
    workload = loaded(import_queries(written("q.json", [{"search_queries": [{"body": body}]}])))
    assert workload.file.operations["query_1"].search.body == body


def test_unknown_parts_are_named_in_the_head(written):
    steps = [{"search_queries": [{"body": ALL, "weight": 3}], "ranks": 4}]
    imported = import_queries(written("q.json", steps))
    assert [entry.rsplit(", ", 1)[-1] for entry in imported.left_out] == ["search_queries[0]: weight", "step 1: ranks"]
    head = _words(line.lstrip("#") for line in imported.text().splitlines() if line.startswith("#"))
    assert "search_queries[0]: weight" in head
    assert "step 1: ranks" in head


@pytest.mark.parametrize(
    ("searches", "what"),
    [
        ([{"query": {"match_all": {}}}], "body: missing"),
        (
            [{"body": ALL}, {"body": ALL, "index": "other"}],
            "two searches differ only in keys that are not imported",
        ),
    ],
)
def test_searches_without_a_body_or_without_an_imported_difference_are_refused(written, searches, what):
    with pytest.raises(BadInput, match=what):
        import_queries(written("q.json", [{"search_queries": searches}]))


def _words(lines):
    """The text without its line breaks: where a line is broken depends on the length of the folder's name."""
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ("", "q.json:1:1", "invalid JSON"),
        ('[\n {"search_queries": [}]', "q.json:2:22", "invalid JSON"),
        ('["x\u2028y",\n {"a": }]', "q.json:2:8", 'near " {'),
        ("[]", "q.json", "expected a list of steps"),
        ('{"a": 1}', "q.json", "expected a list of steps"),
        ("[3]", "q.json, step 1", "expected an object"),
        ("[{}]", "q.json, step 1", "lacks searches"),
        ('[{"search_queries": 3}]', "q.json, step 1", "expected a list"),
        ('[{"search_queries": [{"body": "x"}]}]', "search_queries[0]", "expected an object"),
        ('[{"search_queries": [{"body": {}}], "execution_time_secs": 0}]', "step 1", "the step lasts 0 s"),
        ('[{"search_queries": [{"body": {}}], "warmup_time_secs": -1}]', "step 1", "at least 0"),
        ('[{"search_queries": [{"body": {}}], "warmup_time_secs": "soon"}]', "step 1", "at least 0"),
        ('[{"search_queries": [{"body": {"a": NaN}}]}]', "q.json", "NaN"),
        ('[{"search_queries": [{"body": {"a": 1e999}}]}]', "q.json", "out of range"),
        ('[{"search_queries": [{"body": {"a": ' + "9" * 5000 + "}}]}]", "q.json", "64 bits"),
        ('["\\ud800"]', "q.json", "surrogate"),
        ("[" * 100_000, "q.json", "nested deeper"),
        ("[" * 55 + "]" * 55, "q.json", "nested deeper"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_place(written, content, where, what):
    with pytest.raises(BadInput, match=what) as caught:
        import_queries(written("q.json", content))
    assert where in str(caught.value.where)
    assert caught.value.remedy


def test_bytes_that_are_not_text_are_refused(tmp_path):
    (tmp_path / "q.json").write_bytes(b"[\n\xff]")
    with pytest.raises(BadInput, match="not UTF-8 text") as caught:
        import_queries(tmp_path / "q.json")
    assert str(caught.value.where).endswith("q.json:2")


@pytest.mark.parametrize("name", ["none.json", ".", "a\0b"])
def test_a_file_that_is_not_there_is_refused(tmp_path, name):
    with pytest.raises(BadInput) as caught:
        import_queries(tmp_path / name)
    assert caught.value.remedy


def test_a_damaged_file_is_imported_or_refused_and_nothing_else(written):
    refused = 0
    for text in damaged(json.dumps(STEPS, indent=1), ["3", "-1", "null", "[]", "{}", "true", '"x"', "1e99", '"${"']):
        try:
            import_queries(written("q.json", text)).text()
        except BadInput as error:
            refused += 1
            assert "q.json" in str(error.where)
    assert 100 < refused < 400
