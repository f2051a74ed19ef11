"""Import of Rally tracks: the resulting workloads run, and the importer names unsupported parts."""

import bz2
import json
from pathlib import Path

import pytest
from rally_tracks import simple

from damage import damaged
from loadframe.base.errors import BadInput
from loadframe.workload.importers.rally import import_rally, isolated

TRACK = """\
{% import "rally.helpers" as rally with context %}
{% set per_request = bulk_size | default(500) %}
{
  "version": 2,
  "description": "Orders of a shop",
  "indices": [{"name": "orders", "body": "index.json"}],
  "corpora": [{"name": "shop", "base-url": "https://example.org/corpora", "documents": [
    {"source-file": "orders.json.bz2", "document-count": 2000, "uncompressed-bytes": 1000000}
  ]}],
  "operations": [{{ rally.collect(parts="operations/*.json") }}],
  "challenges": [{{ rally.collect(parts="challenges/*.json") }}]
}
"""
INDEX = """\
{% import "rally.helpers" as rally with context %}
{"settings": {"number_of_shards": {{ shards | default(3) }} {{ rally.exists_set_param("codec", codec) }}},
 "mappings": {"dynamic": "strict", "properties": {"price": {"type": "double"}}}}
"""
OPERATIONS = """\
{"name": "write", "operation-type": "bulk", "bulk-size": {{ per_request }}, "ingest-percentage": 50},
{"name": "cheap", "operation-type": "search", "cache": false, "request-params": {"preference": "_local"},
 "body": {"query": {"range": {"price": {"lt": 5}}}},
 "detailed-results": true, "assertions": [{"property": "hits.total.value", "condition": ">", "value": 0}]},
{"name": "by-plugin", "operation-type": "search", "param-source": "random-prices"},
{"name": "settle", "operation-type": "force-merge", "max-num-segments": 1, "request-timeout": 900},
{"name": "learn", "operation-type": "start-ml-job"}
"""
CHALLENGES = """\
{"name": "usual", "default": true, "schedule": [
  {"operation": "delete-index"},
  {"operation": {"operation-type": "create-index", "settings": {"index.number_of_replicas": 0}}},
  {"operation": {"operation-type": "cluster-health", "request-params": {"wait_for_status": "green"}}},
  {"operation": "write", "clients": 4, "warmup-time-period": 10},
  {"operation": "refresh"},
  {"operation": "settle"},
  {"operation": "cheap", "clients": 2, "warmup-iterations": 50, "iterations": 100, "target-throughput": 20},
  {"name": "cheap-for-a-while", "operation": "cheap", "warmup-time-period": 5, "time-period": 60,
   "target-interval": 0.5, "schedule": "poisson"},
  {"operation": "by-plugin"},
  {"operation": "learn"}
]},
{"name": "together", "schedule": [
  {"parallel": {"time-period": 30, "warmup-time-period": 5, "completed-by": "write", "tasks": [
    {"operation": "write", "clients": 2, "target-throughput": "1000 docs/s"},
    {"operation": "cheap", "clients": 3, "ramp-up-time-period": 10}
  ]}}
]}
"""


@pytest.fixture
def track(written):
    written("shop/index.json", INDEX)
    written("shop/operations/default.json", OPERATIONS)
    written("shop/challenges/default.json", CHALLENGES)
    return written("shop/track.json", TRACK)


@pytest.fixture
def whole(track, loaded):
    return loaded(import_rally(track.parent, None, {}))


def test_the_sections_of_a_track_become_those_of_a_workload(whole):
    assert whole.name == "shop"
    assert whole.file.description == "Orders of a shop (usual)"
    index = whole.file.collections["orders"].elasticsearch
    assert index.settings == {"number_of_shards": 3, "index.number_of_replicas": 0}
    assert index.mappings["properties"] == {"price": {"type": "double"}}
    (corpus,) = whole.file.corpora.values()
    assert (corpus.url, corpus.documents) == ("https://example.org/corpora/orders.json.bz2", 1000)


def test_operations_become_forms(whole):
    forms = {name: form.dump() for name, form in whole.file.operations.items()}
    assert forms["write"] == {"bulk": {"collection": "orders", "corpus": "shop-50-percent", "size": 500}}
    assert forms["cheap"] == {
        "search": {
            "collection": "orders",
            "body": {"query": {"range": {"price": {"lt": 5}}}},
            "request_cache": False,
            "parameters": {"preference": "_local"},
        },
        "assert": {"min_hits": 1},
    }
    assert forms["settle"] == {"force_merge": {"collection": "orders", "max_segments": 1}, "timeout": 900}
    assert forms["cluster-health"] == {"wait_for_health": {"status": "green"}}


def test_tasks_become_phases_and_those_before_the_first_search_prepare(whole):
    phases = {phase.name: phase for phase in whole.file.phases}
    assert [name for name, phase in phases.items() if phase.prepares] == [
        "cluster-health",
        "write",
        "refresh",
        "settle",
    ]
    write = phases["write"]
    assert (write.clients, write.warmup, write.until) == (4, 10, "exhausted")
    # Iterations count per client; throughput is the total of all clients.
    assert phases["cheap-warmup"].requests == 100
    assert (phases["cheap"].requests, phases["cheap"].rate) == (200, 20)
    poisson = phases["cheap-for-a-while"]
    assert (poisson.warmup, poisson.duration, poisson.rate, poisson.arrivals) == (5, 60, 2, "poisson")


def test_tasks_in_parallel_become_streams(track, loaded):
    (phase,) = loaded(import_rally(track, "together", {})).file.phases
    assert (phase.ends_with, phase.warmup) == ("write", 5)
    write, cheap = phase.named_streams
    assert write.duration == cheap.duration == 30
    assert (write.name, write.rate) == ("write", 2)
    assert cheap.clients.from_ == 1
    assert (cheap.clients.stages[0].to, cheap.clients.stages[0].over) == (3, 10)


def together(*tasks, **more):
    return {"indices": [{"name": "a"}], "schedule": [{"parallel": {**more, "tasks": list(tasks)}}]}


def looks(name, **more):
    return {"name": name, "operation": {"name": "look", "operation-type": "search", "body": {}}, **more}


@pytest.mark.parametrize("ending", ["short", "any", "long"])
def test_tasks_in_parallel_end_with_the_one_that_completes_them(written, loaded, ending):
    tasks = looks("short", **{"time-period": 10}), looks("long", **{"time-period": 30})
    track = written("t.json", together(*tasks, **{"completed-by": ending}))
    (phase,) = loaded(import_rally(track, None, {})).file.phases
    assert phase.ends_with == ending
    assert {stream.name: stream.duration for stream in phase.named_streams} == {"short": 10, "long": 30}


def test_tasks_in_parallel_have_ends_of_their_own(written, loaded):
    tasks = looks("short", **{"time-period": 10}), looks("few", iterations=3, clients=2)
    (phase,) = loaded(import_rally(written("t.json", together(*tasks)), None, {})).file.phases
    assert phase.ends_with is None
    assert [(stream.duration, stream.requests) for stream in phase.named_streams] == [(10, None), (None, 6)]


def test_bulk_requests_are_limited_by_iterations(written, loaded):
    write = {"operation": {"name": "write", "operation-type": "bulk", "bulk-size": 10}, "clients": 2}
    schedule = [{**write, "name": "few", "warmup-iterations": 3, "iterations": 5}, {**write, "name": "all"}]
    corpora = [{"name": "c", "documents": [{"source-file": "c.json", "document-count": 1000}]}]
    track = {"indices": [{"name": "a"}], "corpora": corpora, "schedule": schedule}
    few, rest = loaded(import_rally(written("t.json", track), None, {})).file.phases
    assert (few.requests, few.until) == (16, None)
    assert (rest.requests, rest.until) == (None, "exhausted")


def test_tasks_in_parallel_end_with_the_largest_file_of_the_one_that_completes_them(written, loaded):
    write = {"name": "write", "operation": {"operation-type": "bulk", "bulk-size": 10}, "clients": 2}
    documents = [{"source-file": f"{count}.json", "document-count": count} for count in (10, 1000, 100)]
    track = together(write, looks("look", **{"time-period": 3600}), **{"completed-by": "write"})
    track |= {"corpora": [{"name": "c", "documents": documents}]}
    imported = import_rally(written("t.json", track), None, {})
    (phase,) = loaded(imported).file.phases
    operation = next(stream.operation for stream in phase.named_streams if stream.name == phase.ends_with)
    corpus = imported.data["operations"][operation]["bulk"]["corpus"]
    assert imported.data["corpora"][corpus]["documents"] == 1000
    assert any("its 3 files one after the other; each is a stream with all clients" in p for p in imported.left_out)
    write["target-throughput"] = 10
    imported = import_rally(written("t.json", track), None, {})
    assert any("each is a stream with the whole rate of the task" in part for part in imported.left_out)


def test_the_only_task_in_parallel_writes_its_files_one_after_the_other(written, loaded):
    write = {"name": "write", "operation": {"operation-type": "bulk", "bulk-size": 10}}
    write |= {"clients": 8, "target-throughput": 40, "warmup-time-period": 5}
    documents = [{"source-file": f"{count}.json", "document-count": count} for count in (10, 1000)]
    track = together(write) | {"corpora": [{"name": "c", "documents": documents}]}
    imported = import_rally(written("t.json", track), None, {})
    phases = loaded(imported).file.phases
    assert [(phase.rate, phase.until) for phase in phases] == [(40, "exhausted")] * 2
    assert [phase.warmup for phase in phases] == [5, 0]
    assert "task write: its warm-up after the first of its 2 files" in imported.left_out


def test_warm_up_iterations_are_sent_once_for_all_files(written, loaded):
    write = {"name": "write", "operation": {"operation-type": "bulk", "bulk-size": 10}}
    write |= {"iterations": 4, "warmup-iterations": 3}
    documents = [{"source-file": f"{count}.json", "document-count": count} for count in (500, 1000)]
    track = together(write) | {"corpora": [{"name": "c", "documents": documents}]}
    phases = loaded(import_rally(written("t.json", track), None, {})).file.phases
    assert [phase.requests for phase in phases] == [7, 4]


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("ending", [{}, {"time-period": 60}, {"iterations": 4}])
def test_warm_up_iterations_of_a_task_without_iterations_are_reported(written, files, ending):
    write = {"name": "write", "operation": {"operation-type": "bulk", "bulk-size": 10}, "warmup-iterations": 3}
    corpora = [{"name": "c", "documents": [{"source-file": f"{n}.json", "document-count": 99} for n in range(files)]}]
    lost = "task write: its warm-up iterations, because it ends by time or with its documents"
    after = f"task write: its warm-up after the first of its {files} files"
    track = {"indices": [{"name": "a"}], "corpora": corpora, "schedule": [write | ending]}
    left_out = import_rally(written("t.json", track), None, {}).left_out
    assert (lost in left_out) == ("iterations" not in ending)
    assert (after in left_out) == (files > 1 and "iterations" in ending)


def test_warm_up_iterations_of_parallel_tasks_that_end_by_time_are_reported(written):
    tasks = looks("a", **{"warmup-iterations": 3, "time-period": 60}), looks("b", **{"time-period": 60})
    left_out = import_rally(written("t.json", together(*tasks)), None, {}).left_out
    assert list(left_out) == ["task a: its warm-up iterations, because it runs in parallel"]


def test_settings_of_a_created_index_are_not_those_of_another(written, loaded):
    create = {"operation-type": "create-index", "index": "a", "settings": {"number_of_shards": 7}}
    look = {"operation-type": "search", "index": "a", "body": {}}
    track = simple(create, look) | {"indices": [{"name": "a"}, {"name": "b"}]}
    collections = import_rally(written("t.json", track), None, {}).data["collections"]
    assert collections == {"a": {"elasticsearch": {"settings": {"number_of_shards": 7}}}, "b": {}}


def test_a_throughput_ramps_up_with_its_clients(written, loaded):
    task = looks("look", **{"clients": 4, "target-throughput": 20, "ramp-up-time-period": 8, "time-period": 10})
    (phase,) = loaded(import_rally(written("t.json", together(task)), None, {})).file.phases
    assert (phase.rate.from_, phase.rate.stages[0].to, phase.rate.stages[0].over) == (5, 20, 8)


def test_the_limit_of_the_clients_of_throttled_tasks_is_reported(written, loaded):
    slow = looks("slow", clients=2, **{"target-throughput": 20, "iterations": 3})
    often = looks("often", **{"target-interval": 0.5, "schedule": "poisson"})
    imported = import_rally(written("t.json", together(slow, often, looks("free", clients=3))), None, {})
    (report,) = imported.left_out
    assert report.startswith("throttled tasks slow (2 clients), often (1 client): their limit of one request in flight")
    assert "the bursts of their clients, which send at the same instants" in report
    # The remedy is a valid stream.
    imported.data["phases"][0]["streams"][0].update(clients=2, pacing="100ms")
    for key in ("rate", "arrivals"):
        del imported.data["phases"][0]["streams"][0][key]
    (phase,) = loaded(imported).file.phases
    assert (phase.named_streams[0].clients, phase.named_streams[0].pacing) == (2, 0.1)


def test_clients_that_ramp_up_lose_their_bursts_too(written):
    task = looks("look", **{"clients": 4, "target-throughput": 20, "ramp-up-time-period": 8, "time-period": 10})
    (report,) = import_rally(written("t.json", together(task)), None, {}).left_out
    assert "the bursts of their clients, which send at the same instants; to keep them, replace" in report


def test_a_single_client_loses_no_bursts(written):
    (report,) = import_rally(written("t.json", together(looks("look", **{"target-throughput": 20}))), None, {}).left_out
    assert "one request in flight per client; to keep it, replace" in report


def test_tasks_without_a_rate_report_no_limit_of_clients(written):
    track = written("t.json", together(looks("a", clients=2), looks("b", **{"target-throughput": 0})))
    assert import_rally(track, None, {}).left_out == ()


@pytest.mark.slow
def test_templates_with_as_many_fields_as_the_largest_tracks_have_are_imported(written, loaded):
    fields = {f"field_{number}": {"type": "keyword", "ignore_above": 1024} for number in range(20_000)}
    written("large.json", {"template": {"mappings": {"properties": fields}}})
    templates = [{"name": "large", "index-pattern": "x*", "template": "large.json"}]
    track = simple({"operation-type": "create-composable-template"}) | {"composable-templates": templates}
    body = loaded(import_rally(written("track.json", track), None, {})).file.operations["o0"].request.body
    assert body["template"]["mappings"]["properties"] == fields


def test_parts_without_an_import_are_named_in_the_file(track, written):
    written("shop/track.py", "raise SystemExit('this must never be run')")
    imported = import_rally(track.parent, None, {})
    text = imported.text()
    for words in (
        "track.py: its code did not run; allow it with --allow-code",
        "operation by-plugin: its parameters need the code of its parameter source random-prices",
        "operation learn: unsupported type start-ml-job",
        "operation delete-index: delete-index, because",
        "operation create-index: create-index, because",
    ):
        assert any(entry.startswith(words) for entry in imported.left_out)
        assert words in text
    assert "https://example.org/corpora/orders.json.bz2" in text


def test_parameters_of_the_track_are_set(track, loaded):
    file = loaded(import_rally(track, None, {"bulk_size": "100", "shards": "1", "codec": "best"})).file
    assert file.operations["write"].bulk.size == 100
    assert file.collections["orders"].elasticsearch.settings["codec"] == "best"


def test_documents_with_an_address_are_fetched_unless_a_file_is_named(track, loaded, tmp_path):
    imported = import_rally(track, None, {})
    assert loaded(imported).parameters == {"documents": 1000, "file_shop": ""}
    assert any("set `file_shop` to" in remark for remark in imported.remarks)
    (tmp_path / "mine.json.bz2").write_bytes(bz2.compress(b'{"price": 1}\n'))
    resolved = loaded(imported, file_shop=str(tmp_path / "mine.json.bz2")).for_family("elasticsearch", 1)
    assert [corpus["files"] for corpus in resolved.corpora.values()] == [[str(tmp_path / "mine.json.bz2")]]


def bulk_of(*operations, **documents):
    """A track of one corpus and bulk operations."""
    corpora = [{"name": "x", "documents": [{"source-file": "x.json", **documents}]}]
    return simple(
        *({"operation-type": "bulk", "bulk-size": 5, **operation} for operation in operations), corpora=corpora
    )


def test_documents_without_an_address_are_found_in_the_folder_that_is_given(written, loaded, tmp_path):
    imported = import_rally(written("track.json", bulk_of({})), None, {})
    there = written("there/x.json", '{"price": 1}\n')
    resolved = loaded(imported, data=str(there.parent)).for_family("elasticsearch", 1)
    assert resolved.corpora["x"]["files"] == [str(there)]
    with pytest.raises(BadInput, match=r"x\.json"):
        loaded(imported).for_family("elasticsearch", 1)


def test_a_share_of_the_documents_is_that_of_one_operation(written, loaded):
    track = bulk_of({"ingest-percentage": 10}, {}, {"ingest-percentage": 10}, **{"document-count": 2000})
    file = loaded(import_rally(written("track.json", track), None, {})).file
    assert {name: corpus.documents for name, corpus in file.corpora.items()} == {"x": 2000, "x-10-percent": 200}
    assert [form.bulk.corpus for form in file.operations.values()] == ["x-10-percent", "x", "x-10-percent"]


def test_action_lines_among_documents_are_reported_and_other_archives_must_be_unpacked(written, loaded):
    documents = [
        {"source-file": "x.json.zip", "includes-action-and-meta-data": True, "base-url": "https://example.org"}
    ]
    bulk = {"operation-type": "bulk", "bulk-size": 5}
    path = written("track.json", simple(bulk, corpora=[{"name": "x", "documents": documents}]))
    imported = import_rally(path, None, {})
    corpus = loaded(imported).file.corpora["x"]
    assert (corpus.files, corpus.actions) == (("./x.json",), True)
    assert "Download https://example.org/x.json.zip and unpack it to x.json." in imported.remarks


@pytest.mark.slow
def test_action_lines_name_the_index_that_documents_go_to(written, loaded):
    written("x.json", '\n{"create": {"_index": "b", "_id": "k"}}\n{"n": 1}\n')
    documents = {"source-file": "x.json", "includes-action-and-meta-data": True}

    def imported(**more):
        track = simple(
            {"operation-type": "bulk", "bulk-size": 5}, {"operation-type": "search", "index": "a", "body": {}}
        )
        corpora = [{"name": "x", "documents": [{**documents, **more}]}]
        return import_rally(
            written("t.json", {**track, "indices": [{"name": "a"}, {"name": "b"}], "corpora": corpora}), None, {}
        )

    for more in ({}, {"target-index": "b"}):
        assert loaded(imported(**more)).file.operations["o0"].bulk.collection == "b"
    other = imported(**{"target-index": "a"})
    assert list(loaded(other).file.operations) == ["o1"]
    assert any("its action lines write to the index b, not to a" in entry for entry in other.left_out)


def test_the_words_of_opensearch_benchmark_are_understood(written, loaded):
    path = written(
        "w/workload.json",
        """{% import "benchmark.helpers" as benchmark with context %}
        {"indices": [{"name": "a"}], "operations": [{{ benchmark.collect(parts="ops.json") }}],
         "test_procedures": [{"name": "p", "schedule": [{"operation": "look"}]}]}""",
    )
    written("w/ops.json", '{"name": "look", "operation-type": "search", "body": {}}')
    (phase,) = loaded(import_rally(path.parent, "p", {})).file.phases
    assert (phase.operation, phase.clients, phase.requests) == ("look", 1, 1)


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ("{\n{% if %}", "track.json:2", "invalid template"),
        ("{\n\n{{ 1/0 }}", "track.json:3", "division"),
        ('{"a": {{ "x" | shout }}}', "track.json:1", "No filter named"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "track.json:1", "unsafe"),
        ('{% include "../../etc/passwd" %}', "", "passwd, which is outside"),
        ('{{ rally.collect(parts="../outside.json") }}', "", "which is outside"),
        ('{{ rally.collect(parts="track.json") }}', "track.json", "rally.collect is recursive"),
        ("{% include 'track.json' %}", "track.json", "recursion"),
        ("{% for i in range(10**9) %}x{% endfor %}", "track.json:1", "[Rr]ange"),
        ('{"a": 1,\n}', "track.json:2", "invalid JSON after rendering"),
        ("[" * 5000, "track.json", "nested deeper"),
        ("[]", "track.json", "expected a JSON object"),
        ("{}", "track.json", "lacks a challenge and a schedule"),
        ('{"schedule": 3}', "track.json:1", "no task of the schedule"),
        ('{"schedule": [{"operation": 3}]}', "track.json:1", "no task of the schedule"),
        ('{"schedule": [{"operation": "nothing-like-it"}]}', "track.json", "no task of the schedule"),
        ('{"schedule": [{"operation": {"operation-type": "bulk"}}]}', "track.json:1", "no task of the schedule"),
        ('{"indices": [{"name": "a", "body": "none.json"}], "schedule": []}', "none.json", "does not exist"),
        ('{"indices": [{"name": "a", "body": "/etc/passwd"}], "schedule": []}', "", "which is outside"),
        ('{"challenges": [{"name": "a"}, {"name": "b"}]}', "track.json", "several challenges and no default"),
    ],
)
def test_a_track_that_is_wrong_is_refused_with_its_place(written, content, where, what):
    written("outside.json", "{}")
    with pytest.raises(BadInput, match=what) as caught:
        import_rally(written("t/track.json", content), None, {})
    assert where in str(caught.value.where)
    assert caught.value.remedy


def test_unknown_parameters_and_challenges_get_a_suggestion(track):
    with pytest.raises(BadInput, match="does not use this parameter") as caught:
        import_rally(track, None, {"bulk_sise": "3"})
    assert "bulk_size" in str(caught.value.remedy)
    with pytest.raises(BadInput, match="unknown challenge 'usul'") as caught:
        import_rally(track, "usul", {})
    assert "usual" in str(caught.value.remedy)


@pytest.mark.slow
def test_a_template_without_end_is_ended(written):
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i %}{% endfor %}{% endfor %}"
    with pytest.raises(BadInput, match="the templates need more than 1 s of CPU time") as caught:
        import_rally(written("track.json", loop), None, {}, limits=isolated.Limits(cpu=1))
    assert "--time-limit" in caught.value.remedy
    with pytest.raises(BadInput, match="the templates need more than 256 MiB of memory") as caught:
        large = written("track.json", "{{ 'a' * 10 ** 10 }}")
        import_rally(large, None, {}, limits=isolated.Limits(memory=2**28))
    assert "--memory-limit" in caught.value.remedy


@pytest.mark.slow
def test_a_damaged_track_is_imported_or_refused_and_nothing_else(written, monkeypatch):
    """In this process, for speed: damage hardly ever makes a loop without end."""
    from loadframe.workload.importers.rally import template

    monkeypatch.setattr(isolated, "expand", lambda path, root, values, _: template.expand(path, root, values))
    monkeypatch.setattr(isolated, "locate", lambda path, root, values, _: template.locate(path, root, values))
    written("shop/index.json", INDEX)
    sound = TRACK.replace('{{ rally.collect(parts="operations/*.json") }}', OPERATIONS)
    sound = sound.replace('{{ rally.collect(parts="challenges/*.json") }}', CHALLENGES)
    path = written("shop/track.json", sound)
    assert len(import_rally(path, None, {}).text()) > 500
    words = ["3", "-1", "null", "[]", "{}", "true", '"x"', "1e99", '"${"', "{{ x }}", '"/"', '["a"]', '"_all"']
    refused = 0
    for text in damaged(sound, words, times=300):
        path.write_text(text)
        try:
            import_rally(path, None, {}).text()
        except BadInput as error:
            refused += 1
            assert "shop" in str(error.where)
    assert 50 < refused < 300


def test_broken_parts_are_reported_with_file_and_line(track: Path, written):
    written("shop/operations/more.json", '{"name": "a"\n\n{% nothing %}}')
    with pytest.raises(BadInput) as caught:
        import_rally(track, None, {})
    assert str(caught.value.where).endswith("operations/more.json:3")


def test_bytes_that_are_not_text_are_refused(track: Path):
    (track.parent / "index.json").write_bytes(b"{\n\xff}")
    with pytest.raises(BadInput, match="not UTF-8 text") as caught:
        import_rally(track, None, {})
    assert str(caught.value.where).endswith("index.json:2")


def test_json_without_templates_is_a_track_too(written, loaded):
    path = written("plain.json", json.dumps(simple({"operation-type": "search", "body": {}})))
    assert loaded(import_rally(path, None, {})).name == "plain"


@pytest.mark.slow
def test_tracks_of_a_checkout_share_what_lies_beside_them(written, loaded):
    written("repo/common_operations/look.json", '{"operation": {"operation-type": "search", "body": {}}}')
    collect = '{{ benchmark.collect(parts="../../common_operations/look.json") }}'
    written("repo/a/procedures/p.json", f'{{"name": "p", "schedule": [{collect}]}}')
    track = written(
        "repo/a/workload.json",
        '{"indices": [{"name": "i", "body": ""}],'
        ' "test_procedures": [{{ benchmark.collect(parts="procedures/*.json") }}]}',
    )
    assert list(loaded(import_rally(track.parent, None, {})).file.operations) == ["search"]
    with pytest.raises(BadInput, match="which is outside") as caught:
        import_rally(track.parent, None, {}, root=track.parent)
    assert "--root" in caught.value.remedy
    secret = written("repo/.git/config", "{}")
    track.write_text('{{ rally.collect(parts="../.git/config") }}')
    with pytest.raises(BadInput, match="which is hidden"):
        import_rally(track, None, {})
    assert secret.exists()


@pytest.mark.slow
def test_templates_whose_names_start_with_a_dot_are_read_and_other_hidden_files_are_not(written, loaded):
    body = '{"template": {"settings": {"number_of_shards": %d}}}'
    written("t/parts/.fleet_globals-1.json", body % 3)
    written("t/parts/one.json", '{"name": "one", "template": "parts/.fleet_globals-1.json"}')
    written("t/parts/.hidden.json", "not collected by *")
    collected = '{{ rally.collect(parts="parts/*.json") }}'
    track = simple({"operation-type": "create-component-template"}, {"operation-type": "search", "body": {}})
    text = json.dumps({**track, "component-templates": []})
    path = written("t/track.json", text.replace('"component-templates": []', f'"component-templates": [{collected}]'))
    made = loaded(import_rally(path, None, {})).file.operations["o0"].request
    assert (made.path, made.body["template"]["settings"]) == ("/_component_template/one", {"number_of_shards": 3})
    for name in (".secret", ".git/config.json"):
        written(f"t/{name}", "{}")
        path.write_text(json.dumps({"indices": [{"name": "a", "body": name}], "schedule": []}))
        with pytest.raises(BadInput, match="which is hidden"):
            import_rally(path, None, {})


def test_a_root_holds_the_track(written):
    track = written("a/track.json", simple({"operation-type": "search", "body": {}}))
    with pytest.raises(BadInput, match="the folder does not contain"):
        import_rally(track, None, {}, root=written("b/x.json", {}).parent)


def test_unsupported_parts_are_left_out_with_their_lines_and_the_rest_is_imported(written, loaded):
    written(
        "t/operations/all.json",
        """{"name": "merge", "operation-type": "force-merge", "max-num-segments": -1},
{
  "name": "odd",
  "operation-type": "bulk",
  "bulk-size": "many"
},
{"name": "look", "operation-type": "search", "body": {}},
{"name": "sized", "operation-type": "search", "results-per-page": 0.5, "body": {}}""",
    )
    track = written(
        "t/track.json",
        """{% set shards = 2 %}
{"indices": [{"name": "a"}, {"name": 3}], "data-streams": [{"name": "logs-*"}],
 "operations": [{{ rally.collect(parts="operations/*.json") }}],
 "schedule": [{"operation": "merge"}, {"operation": "odd"},
   {"clients": 2},
   {"operation": "look"}, {"operation": "sized"}, {"operation": "look", "clients": "two"}]}""",
    )
    imported = import_rally(track, None, {})
    assert list(loaded(imported).file.operations) == ["merge", "look"]
    place = str(track.parent)
    assert imported.left_out[0] == f"index 3: name: expected a text, not 3 ({place}/track.json:2)"
    assert imported.left_out[1].startswith("data stream logs-*: it is a pattern")
    assert f"operation odd: bulk-size: expected a number of at least 0, not 'many' ({place}/operations/all.json:5)" in (
        entry.replace('"', "'") for entry in imported.left_out
    )
    assert any("sized" in entry and "all.json:8" in entry for entry in imported.left_out)
    assert any("task look" in entry and "track.json:6" in entry for entry in imported.left_out)


def test_parts_that_the_workload_language_refuses_are_left_out_with_their_lines(written, loaded):
    # For example a repeated search_after without a size: the language has stricter bounds.
    track = written(
        "track.json",
        simple(
            {"operation-type": "search", "body": {}},
            {"operation-type": "create-snapshot-repository", "repository": "r/../x", "body": {"type": "fs"}},
            {"operation-type": "composite-agg", "body": {"size": 0, "aggs": {"a": {"composite": {"sources": 5}}}}},
        ),
    )
    imported = import_rally(track, None, {})
    text, valid = imported.valid()
    assert "o0" in loaded(imported).file.operations
    (refused,) = [entry for entry in valid.left_out if entry.startswith("operation o2")]
    assert f"{track}:1" in refused
    assert refused.split(" (")[0] in " ".join(text.replace("#", "").split())


def test_a_track_can_be_tried_small(written, loaded):
    track = bulk_of({}, **{"document-count": 5000, "base-url": "https://example.org/x"})
    track["schedule"].append({"name": "a", "operation": {"operation-type": "search", "body": {}}, "clients": 2})
    track["schedule"][-1] |= {"warmup-iterations": 50, "iterations": 100, "target-throughput": 3}
    timed = {"name": "b", "operation": "search", "warmup-time-period": 60, "time-period": 600}
    path = written("track.json", track | {"schedule": [*track["schedule"], timed]})
    small = loaded(import_rally(path, None, {}, test_mode=True)).file
    (corpus,) = small.corpora.values()
    assert (corpus.url, corpus.documents) == ("https://example.org/x/x-1k.json", 1000)
    phases = {phase.name: phase for phase in small.phases}
    assert (phases["a"].requests, phases["a"].rate, phases["a"].warmup) == (2, None, 0)
    assert "a-warmup" not in phases
    large = loaded(import_rally(path, None, {}), documents="300").file
    (corpus,) = large.corpora.values()
    assert (corpus.documents, corpus.at_most) == (5000, 300)


def test_typing_errors_are_named_with_line_and_suggestion(written):
    file = written(
        "track.json",
        """{
  "indices": [{"name": "a"}],
  "operations": [
    {"name": "look", "operation-type": "search", "index": "a", "body": {}, "cahce": true},
    {"name": "typo", "operation-type": "serach", "index": "a"}
  ],
  "schedule": [
    {"operation": "look", "target-througput": 10},
    {"operation": "typo"},
    {"operation": "lok"},
    {"operation": "juggle"}
  ]
}""",
    )
    left_out = import_rally(file, None, {}).left_out
    assert f"operation typo: unsupported type serach; did you mean 'search'? ({file}:5)" in left_out
    assert f"operation lok: unsupported type lok; did you mean 'look'? ({file}:10)" in left_out
    assert f"task look: target-througput, did you mean 'target-throughput'? ({file}:8)" in left_out
    assert f"operation look: cahce, did you mean 'cache'? ({file}:4)" in left_out
    assert "operation juggle: unsupported type juggle" in left_out


@pytest.mark.slow
def test_documents_beside_the_track_are_read_where_they_are(written):
    file = written("track.json", bulk_of({}))
    assert import_rally(file, None, {}).data["parameters"]["data"] == "."
    written("x.json", '{"price": 1}\n')
    assert import_rally(file, None, {}).data["parameters"]["data"] == str(file.parent)
