"""A checkout with an OpenSearch Benchmark workload and a Rally track, with the features of public ones."""

import json
import shutil
from pathlib import Path

import pytest

from loadframe.workload import load_workload
from loadframe.workload.importers.rally import import_rally

CHECKOUT = Path(__file__).parents[2] / "data" / "checkout"


@pytest.fixture(scope="module")
def rides(tmp_path_factory):
    """The workload of rides, imported with its code, and the folder of its workload file."""
    folder = tmp_path_factory.mktemp("rides")
    imported = import_rally(CHECKOUT / "rides", None, {}, allow_code=True, requests="requests")
    text, valid = imported.valid()
    (folder / "rides.yaml").write_text(text)
    (folder / "requests").mkdir()
    for name, lines in valid.files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return valid, load_workload(str(folder / "rides.yaml")), folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Import the track of logs next to its documents."""
    folder = tmp_path_factory.mktemp("logs")
    text, valid = import_rally(CHECKOUT / "logs", None, {}).valid()
    (folder / "logs.yaml").write_text(text)
    shutil.copy(CHECKOUT / "logs" / "lines.json", folder)
    return valid, load_workload(str(folder / "logs.yaml"))


@pytest.mark.slow
def test_a_workload_with_common_operations_is_imported(rides):
    _, workload, _ = rides
    assert [phase.name for phase in workload.file.phases] == [
        *("cluster-health", "index", "force-merge", "refresh-after-force-merge", "wait-until-merges-finish"),
        *("cheap-warmup", "cheap", "random-fare", "append_1_clients", "append_4_clients"),
    ]
    assert workload.file.collections["rides"].elasticsearch.settings["index.refresh_interval"] == "30s"
    assert workload.file.collections["empty"].elasticsearch.mappings == {}
    assert workload.parameters["documents"] == 165_000


def test_unsupported_parts_of_a_workload_are_named_with_their_lines(rides):
    imported, _, _ = rides
    (broken,) = [entry for entry in imported.left_out if entry.startswith("operation broken")]
    assert f"{CHECKOUT}/rides/operations/default.json:8" in broken
    assert "operations of the runner delete-snapshot of workload.py" in imported.left_out
    assert any("cheap (fare)" in remark for remark in imported.remarks)


def test_the_code_of_a_workload_draws_as_many_requests_as_its_task_needs(rides):
    _, workload, folder = rides
    (file,) = (folder / "requests").iterdir()
    drawn = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(drawn) == 600
    assert len({tuple(row.values()) for row in drawn}) > 200
    body = workload.file.operations["random-fare"].dump()["search"]["body"]
    assert set(body["query"]["range"]["fare"]) == {"gte", "lte"}
    assert body["query"]["range"]["fare"]["gte"].startswith("${")
    assert workload.for_family("elasticsearch", 1, offline=True).phase("random-fare").corpora


def test_waiting_for_merges_is_repeated_until_there_are_none(rides):
    _, workload, _ = rides
    merged = workload.file.operations["index-stats"].dump()
    assert merged["request"]["path"] == "/_all/_stats"
    assert merged["repeat"]["until"] == {"_all.total.merges.current": 0}
    # -1 is the store's own default. The two indices are merged by one request.
    assert workload.file.operations["force-merge"].dump()["request"] == {"method": "POST", "path": "/_all/_forcemerge"}


def test_a_data_stream_is_one_with_what_its_templates_say(logs):
    _, workload = logs
    stream = workload.file.collections["logs-shop-default"].elasticsearch
    assert stream.data_stream
    assert stream.settings == {"index.number_of_shards": 2}
    assert set(stream.mappings["properties"]) == {"@timestamp", "level"}
    assert workload.file.operations["write"].dump()["bulk"]["action"] == "create"
    template = workload.file.operations["create-composable-template"].dump()["put_template"]
    assert (template["data_stream"], template["composed_of"]) == (True, ["logs-settings"])


def test_a_pattern_of_data_streams_is_left_out_by_name_and_the_rest_is_imported(logs):
    imported, _ = logs
    assert [entry for entry in imported.left_out if "logs-*" in entry] == [
        "data stream logs-*: it is a pattern; writes create the matching streams"
    ]


def test_searches_continue_while_documents_are_written(logs):
    _, workload = logs
    (phase,) = [phase for phase in workload.file.phases if phase.streams]
    write, newest, few = phase.named_streams
    assert phase.ends_with == "write"
    assert (write.until, newest.duration, newest.rate, few.requests) == ("exhausted", 3600, 5, 3)


def test_queries_in_other_languages_keep_all_of_their_bodies(logs):
    _, workload = logs
    forms = {name: form.dump() for name, form in workload.file.operations.items()}
    assert forms["piped"]["esql"]["body"] == {"columnar": True, "filter": {"term": {"level": "error"}}}
    assert forms["events"]["eql"]["body"] == {"size": 5, "event_category_field": "level"}
    assert forms["rows"]["sql"]["body"] == {"filter": {"match_all": {}}}


def test_a_corpus_with_fewer_documents_than_are_asked_for_is_taken(logs):
    _, workload = logs
    resolved = workload.with_parameters({"documents": 1000}).for_family("elasticsearch", 1)
    assert (resolved.corpora["lines"]["documents"], resolved.corpora["lines"]["at_most"]) == (300, 1000)
