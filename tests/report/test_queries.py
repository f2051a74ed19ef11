"""The MPI benchmarker's result format: the requests of a run, at the resolution of histograms."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadframe.analyze.publication_figures import RequestTime, request_time
from loadframe.record import Run
from loadframe.record.reader import SAMPLES_SCHEMA
from loadframe.record.schema import ERROR_CLASSES
from loadframe.report.run.queries import CODES, _query, appendix, queries
from simulated import Truth, write_run

CLIENTS = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("queries"), "r1", Truth(failed_share=0.1), clients=CLIENTS)


@pytest.fixture(scope="module")
def step(run):
    (step,) = queries(run)
    return step


@pytest.fixture(scope="module")
def requests(step):
    (result,) = step["search_results"]
    return list(itertools.chain(*result["responses"]))


def test_there_is_a_step_for_each_measured_phase_with_its_times(step, run):
    assert list(step) == ["search_results", "warmup_time_secs", "execution_time_secs", "sleep_between_requests_secs"]
    phase = run.summary.phases[0]
    assert (step["warmup_time_secs"], step["execution_time_secs"]) == (phase.warmup, phase.duration)
    assert step["sleep_between_requests_secs"] == 0


def test_a_client_is_a_rank_and_has_its_share_of_the_requests(step, requests):
    (result,) = step["search_results"]
    counts = [len(responses) for responses in result["responses"]]
    assert len(counts) == CLIENTS
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == len(requests)


def test_the_latencies_are_those_of_the_histogram(run, requests):
    latencies = [request["latency"] for request in requests if "latency" in request]
    whole = run.histograms.total("range_100/range_100/service")
    assert len(latencies) == whole.count
    for quantile in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(latencies, quantile) == pytest.approx(whole.quantile(quantile), rel=0.01)


def test_documents_are_those_of_a_request_and_the_warm_up_is_not_in_it(requests):
    assert {request["docs"] for request in requests if "docs" in request} == {100.0}


def test_each_request_that_failed_has_the_code_of_its_class(run, requests):
    failed = [request["error_code"] for request in requests if "error_code" in request]
    assert failed == [-1] * run.summary.phases[0].operations["range_100"].errors["timeout"]
    assert set(CODES) == {error.name for error in ERROR_CLASSES}


def test_requests_that_were_recorded_one_by_one_are_in_the_list_of_their_client(tmp_path):
    run = write_run(tmp_path, "r1", Truth(), clients=2)
    made = [
        # client, sent, done, documents, error, status
        (1, 6.0, 6.5, 100, None, 200),
        (0, 5.0, 6.25, 90, None, 200),
        (0, 6.5, 7.0, 0, "rejected", 429),
        (1, 7.0, 7.5, 0, "timeout", None),
        (1, 8.0, 8.5, 0, "assertion", 200),
    ]
    common = {"phase": "range_100", "stream": "main", "operation": "range_100", "rank": 0, "node": None}
    rows = [
        {**common, "segment": "measure", "scheduled": sent, "sent": sent, "done": done, "client": client}
        | {"documents": documents, "error": error, "status": status}
        for client, sent, done, documents, error, status in made
    ]
    warm = {**rows[0], "segment": "warmup", "client": 0}
    pq.write_table(pa.Table.from_pylist([warm, *rows], SAMPLES_SCHEMA), run.path / "samples.parquet")
    (step,) = queries(run)
    (result,) = step["search_results"]
    assert result["responses"] == [
        [{"latency": 1.25, "docs": 90}, {"error_code": 429}],
        [{"latency": 0.5, "docs": 100}, {"error_code": -1}, {"error_code": 422}],
    ]
    assert request_time(run, run.summary.phases[0]) == RequestTime(1.75, 3.25, exact=True)


def test_the_documents_format_has_the_body_beside_the_responses(run, step):
    (document,) = appendix(run)
    assert list(document) == ["query_result", *list(step)[1:]]
    (result,), (known,) = document["query_result"], step["search_results"]
    assert result == {**known["query"], "responses": known["responses"]}


def test_the_load_is_a_step_if_nothing_else_was_measured(tmp_path):
    path = write_run(tmp_path, "r1", Truth(), clients=CLIENTS).path
    summary = json.loads((path / "summary.json").read_text())
    summary["phases"][0]["prepares"] = True
    for status, steps in (("done", 1), ("failed", 0)):
        (path / "summary.json").write_text(json.dumps(summary | {"status": status}))
        assert len(appendix(Run(path))) == steps


def test_without_single_requests_their_sum_comes_from_the_histograms(tmp_path):
    run = write_run(tmp_path, "r1", Truth(), clients=CLIENTS)
    phase = run.summary.phases[0]
    told = request_time(run, phase)
    assert (told.wall, told.exact) == (phase.duration, False)
    # The simulated histograms have 200 requests in each second.
    assert told.summed == pytest.approx(200 * phase.duration * CLIENTS / Truth().throughput(1, CLIENTS), rel=0.1)


def test_without_single_requests_failures_leave_their_sum_unknown(run):
    """The histogram of failures counts from the scheduled start, so it includes the wait in the generator."""
    phase = run.summary.phases[0]
    assert request_time(run, phase) == RequestTime(phase.duration, None, exact=False)
    assert request_time(run, phase).as_dict()["summed"] is None


def test_a_query_is_the_body_that_was_sent_with_its_number_of_hits():
    search = {"collection": "trips", "size": 100, "body": {"query": {"match_all": {}}}}
    assert _query("all", {"search": search}) == {"body": {"query": {"match_all": {}}, "size": 100}}
    assert _query("fill", {"bulk": {}}) == {"operation": "fill"}
