"""Rates in samples of 5 s and 10 s, as publications give them: minimum, quartiles, mean, maximum, deviation."""

import numpy as np
import pytest
from pages import Page

from loadframe.analyze.publication_figures import least_and_p95, rate_samples, rate_samples_by_node
from loadframe.analyze.rates import RATES
from loadframe.report.run.document import run_document
from loadframe.report.run.page import run_page
from simulated import Truth, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    factor = [1.0] * 5 + [0.5] * 5 + [2.0] * 5 + [1.5] * 5 + [9.0] * 3
    truth = Truth(seconds=23, noise=0.0, factor=lambda second: factor[max(second, 0)])
    return write_run(tmp_path_factory.mktemp("samples"), "r1", truth)


def test_samples_are_of_five_seconds_and_a_cut_one_is_left_out(run):
    phase = run.summary.phases[0]
    spread = rate_samples(run, phase)
    rate = spread.least / 0.5
    figures = [spread.q1, spread.median, spread.mean, spread.q3, spread.most]
    expected = [*np.quantile([1, 0.5, 2, 1.5], (0.25, 0.5)), 1.25, np.quantile([1, 0.5, 2, 1.5], 0.75), 2]
    assert spread.samples == 4
    assert figures == pytest.approx([rate * value for value in expected], rel=0.05)
    assert spread.deviation == pytest.approx(rate * np.std([1, 0.5, 2, 1.5], ddof=1), rel=0.05)
    long = rate_samples(run, phase, seconds=10)
    assert long.samples == 2
    assert [long.least, long.most] == pytest.approx([rate * 0.75, rate * 1.75], rel=0.05)
    assert rate_samples(run, phase, RATES["documents"]).mean == pytest.approx(100 * spread.mean)


def test_samples_are_assigned_to_the_serving_node(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=12, noise=0.0), nodes=2)
    phase = run.summary.phases[0]
    by_node = rate_samples_by_node(run, phase)
    assert [spread.samples for spread in by_node.values()] == [2, 2]
    assert sum(spread.mean for spread in by_node.values()) == pytest.approx(rate_samples(run, phase).mean, rel=0.02)
    documents = rate_samples_by_node(run, phase, RATES["documents"])
    assert [spread.q1 for spread in documents.values()] == [100 * spread.q1 for spread in by_node.values()]
    told = run_document(run)["samples"]["range_100"]
    assert set(told["by_node"]) == set(told["documents_by_node"]) == set(by_node)
    assert f"served by {next(iter(by_node))}" in Page(run_page(run)).text
    alone = write_run(tmp_path, "r2", Truth(seconds=12))
    assert rate_samples_by_node(alone, alone.summary.phases[0]) == {}


def test_the_least_response_time_is_below_the_95th_percentile(run):
    least, p95 = least_and_p95(run, run.summary.phases[0], "range_100")
    assert 0 < least < p95


def test_the_page_and_the_document_have_them(run, tmp_path):
    assert "Rates in samples of 5 s and 10 s" in Page(run_page(run)).headings
    assert run_document(run)["samples"]["range_100"]["documents"]["samples"] == 4
    short = write_run(tmp_path, "r2", Truth(seconds=3))
    assert "Rates in samples of 5 s and 10 s" not in Page(run_page(short)).headings
