"""Recurring dips on the page of a run, with the store's activity in them."""

import json
from dataclasses import replace

import pytest
from pages import Page

from loadframe.analyze.dips import dips_of
from loadframe.record import Run
from loadframe.report.run.document import run_document
from loadframe.report.run.page import run_page
from simulated import Truth, write_run

PERIOD, LENGTH = 12, 3
#: When dips begin that come at uneven distances.
UNEVEN = (5, 12, 34, 41, 58, 77, 96, 103)


def merging(second):
    """Return the number of active merges at the end of a second: two in a dip."""
    return 2.0 * (second % PERIOD < LENGTH)


def dips_unevenly(second):
    return any(begin <= second < begin + LENGTH for begin in UNEVEN)


def checkpointed(second):
    """Return the ms of checkpoints by the end of a second: 500 in each second of an uneven dip."""
    return 500.0 * sum(dips_unevenly(earlier) for earlier in range(second + 1))


# The first second of the window is the one after the warm-up of 1 s.
DIPPING = Truth(
    seconds=120,
    noise=0.0,
    factor=lambda second: 0.4 if second % PERIOD < LENGTH else 1.0,
    totals={"merges_current": merging, "refresh_ms": lambda second: 50.0 * second},
)


UNEVENLY = Truth(
    seconds=120,
    noise=0.0,
    factor=lambda second: 0.3 if dips_unevenly(second) else 1.0,
    totals={"checkpoint_ms": checkpointed, "merges_current": merging},
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("dips"), "r1", DIPPING)


def test_the_page_names_period_depth_and_activities_of_the_dips(run):
    page = Page(run_page(run))
    assert "Recurring dips" in page.headings
    assert "throughput fell by 60 % every 12 s, for 3 s each time" in page.text
    # Both come every 12 s, so a run tells no more than that they lie at the same place of these.
    assert "seconds with more merges than average" in page.text
    assert "Inconclusive: " in page.text


def test_what_dips_fall_into_at_uneven_distances_is_claimed_with_its_chance_and_marked(tmp_path):
    run = write_run(tmp_path, "r1", UNEVENLY)
    (told,) = run_document(run)["dips"]
    assert told["period"] is None
    first = told["activities"][0]
    assert (first["metric"], first["lost"]) == ("checkpoint_ms", pytest.approx(1.0, abs=0.02))
    assert first["p"] < 0.05
    assert told["explained"]["seconds"] == pytest.approx(len(UNEVEN) * LENGTH / 120, abs=0.02)
    page = Page(run_page(run))
    assert "in 8 dips at irregular intervals, for 3 s on average" in page.text
    assert "of the loss fell in seconds with more time of checkpoints than average" in page.text
    assert "bars mark seconds of measured phases" in page.text
    assert ">time of checkpoints</text>" in run_page(run)


def test_most_of_the_loss_falls_into_merges(run):
    (told,) = run_document(run)["dips"]
    assert told["period"] == pytest.approx(PERIOD, rel=0.01)
    merges = told["activities"][0]
    assert merges["metric"] == "merges_current"
    assert merges["lost"] > 0.95
    assert merges["seconds"] == pytest.approx(LENGTH / PERIOD, abs=0.05)
    assert merges["inside"] == pytest.approx(2, rel=0.1)
    assert "refresh_ms" not in [other["metric"] for other in told["activities"] if other["lost"] > 2 * other["seconds"]]
    begins = told["begins"]
    assert begins[1] - begins[0] == PERIOD
    json.dumps(told, allow_nan=False)


def test_dips_and_activities_are_of_the_same_seconds_if_the_warm_up_ends_within_one(run):
    cut = Run(run.path)
    phases = tuple(replace(phase, warmup=0.4) for phase in run.summary.phases)
    cut.__dict__["summary"] = replace(run.summary, phases=phases)
    (whole,), (shorter,) = dips_of(run), dips_of(cut)
    assert shorter.begins == whole.begins
    assert shorter.activities[0].inside == pytest.approx(whole.activities[0].inside, rel=0.05)


def test_runs_without_dips_do_not_mention_them(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=60))
    assert dips_of(run) == []
    assert "dips" not in run_document(run)
    assert "Recurring dips" not in Page(run_page(run)).headings
