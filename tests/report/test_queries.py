"""The MPI benchmarker's result format: what a run recorded, request by request, as far as histograms tell."""

import numpy as np
import pytest

from loadframe.report.run.queries import queries
from simulated import Truth, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("queries"), "r1", Truth(failed_share=0.1))


def test_there_is_a_mapping_of_queries_and_ranks_for_each_measured_phase(run):
    (phase,) = queries(run)
    assert list(phase) == ["range_100"]
    assert list(phase["range_100"]) == ["0"]


def test_the_latencies_are_those_of_the_histogram(run):
    (phase,) = queries(run)
    latencies = [request["latency"] for request in phase["range_100"]["0"] if "latency" in request]
    whole = run.histograms.total("range_100/range_100/service")
    assert len(latencies) == whole.count
    for quantile in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(latencies, quantile) == pytest.approx(whole.quantile(quantile), rel=0.01)


def test_documents_are_those_of_a_request_and_the_warm_up_is_not_in_it(run):
    (phase,) = queries(run)
    assert {request["docs"] for request in phase["range_100"]["0"] if "docs" in request} == {100.0}


def test_each_request_that_failed_has_its_class(run):
    (phase,) = queries(run)
    failed = [request["error_code"] for request in phase["range_100"]["0"] if "error_code" in request]
    assert failed == ["timeout"] * run.summary.phases[0].operations["range_100"].errors["timeout"]
