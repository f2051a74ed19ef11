"""Shares of requests by latency bucket, in recorded runs with known truth."""

from dataclasses import replace
from statistics import fmean

import pytest

from loadframe.analyze.experiment import read_experiment
from loadframe.analyze.percentiles import Bands, band_names, bands_at, bands_of, check_bounds
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.report.run.document import run_document
from loadframe.report.run.page import run_page
from simulated import Truth, write_experiment, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs"), "r1", Truth(failed_share=0.1))


def test_each_request_is_in_one_band_or_failed(run):
    [phase] = run.summary.phases
    [(name, operation)] = phase.operations.items()
    latency = operation.response
    bands = bands_of(run, (latency.p50, latency.p99, 2 * latency.max))[phase.name][name]
    # The recording's histogram has a sample of its successes.
    answered = run.histograms.total(f"{phase.name}/{name}/response").count
    assert bands.failed == operation.requests - operation.successes > 0
    assert sum(bands.counts) == answered
    below, between, slow, never = bands.counts
    assert below == pytest.approx(answered / 2, rel=0.1)
    assert below + between == pytest.approx(0.99 * answered, rel=0.02)
    assert (slow > 0, never) == (True, 0)
    assert sum(bands.shares) == pytest.approx(1)


def test_a_band_ends_with_its_bound():
    assert band_names((0.1, 1.0, 10.0)) == ["up to 100 ms", "100 ms to 1 s", "1 s to 10 s", "above 10 s"]
    assert band_names((2.0,)) == ["up to 2 s", "above 2 s"]


def test_without_answers_shares_are_absent():
    assert Bands((1.0,), (0, 0), 0).shares == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)])
def test_bounds_rise_from_above_zero(bounds):
    with pytest.raises(BadInput, match="must be above 0 and ascending"):
        check_bounds(bounds)


def test_a_report_has_them_where_they_are_asked_for(run):
    assert "Latency buckets" not in run_page(run)
    assert "Latency buckets" in run_page(run, (0.1, 1.0))
    [operations] = run_document(run, (0.1, 1.0))["bands"].values()
    [bands] = operations.values()
    assert bands["bounds"] == (0.1, 1.0)
    assert 0 < bands["failed_share"] < 1
    assert "bands" not in run_document(run)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("experiment") / "e"
    options = {"nodes": (1, 2), "clients": (4, 8), "repetitions": 3, "invalid": ["b1-nodes2-clients4"]}
    return read_experiment(write_experiment(path, Truth(failed_share=0.1), **options))


def test_an_experiment_has_the_mean_share_of_its_valid_runs_at_each_treatment(folder):
    rows = bands_at(folder, (0.05, 10.0))
    assert [(row.treatment["nodes"], row.treatment["clients"], row.runs) for row in rows] == [
        (1, 4, 3), (1, 8, 3), (2, 4, 2), (2, 8, 3)
    ]  # fmt: skip
    for row in rows:
        runs = [run.run for run in folder.used if run.treatment == row.treatment]
        several = [bands_of(run, (0.05, 10.0))[row.phase][row.operation] for run in runs]
        assert row.requests == sum(bands.requests for bands in several)
        for place, share in enumerate(row.shares):
            assert share.value == pytest.approx(fmean(bands.shares[place] for bands in several))
            assert 0 <= share.low <= share.value <= share.high <= 1
        assert sum(share.value for share in row.shares) == pytest.approx(1)


def test_a_share_that_is_the_same_in_all_runs_is_not_known_exactly(folder):
    row = bands_at(folder, (1e-6, 10.0))[0]
    never = row.shares[0]
    assert never.value == 0
    assert 0 < never.high < 0.01, "of a few thousand requests"


def test_one_run_of_a_treatment_does_not_give_an_interval(tmp_path):
    folder = read_experiment(write_experiment(tmp_path / "e", nodes=(1,), clients=(4,), repetitions=1))
    [row] = bands_at(folder, (0.05,))
    assert not row.shares[0].is_finite
    assert row.as_dict()["shares"][0]["low"] is None


def test_dropped_and_unanswered_requests_count_as_failed(run):
    lost = Run(run.path)
    [phase] = run.summary.phases
    [(name, operation)] = phase.operations.items()
    late = replace(operation, dropped=operation.requests, in_flight_at_end=5)
    lost.__dict__["summary"] = replace(run.summary, phases=(replace(phase, operations={name: late}),))
    before, after = (bands_of(of, (1.0,))[phase.name][name] for of in (run, lost))
    assert after.failed == before.failed + operation.requests + 5
