"""Dips that come again on the page of a run, beside what the store did in them."""

import json

import pytest
from pages import Page

from loadframe.analyze.dips import dips_of
from loadframe.report.run.document import run_document
from loadframe.report.run.page import run_page
from simulated import Truth, write_run

PERIOD, LENGTH = 12, 3


def merged(second):
    """Return the ms of merges by the end of a second: 800 in each second of a dip."""
    whole, rest = divmod(max(second + 1, 0), PERIOD)
    return 800.0 * (whole * LENGTH + min(rest, LENGTH))


# The first second of the window is the one after the warm-up of 1 s.
DIPPING = Truth(
    seconds=120,
    noise=0.0,
    factor=lambda second: 0.4 if second % PERIOD < LENGTH else 1.0,
    totals={"merges_ms": merged, "refresh_ms": lambda second: 50.0 * second},
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("dips"), "r1", DIPPING)


def test_the_page_names_period_depth_and_what_falls_into_the_dips(run):
    page = Page(run_page(run))
    assert "Dips that come again" in page.headings
    assert "throughput fell by 60 % every 12 s, for 3 s each time" in page.text
    assert "more merges than on average" in page.text


def test_most_of_the_loss_falls_into_merges(run):
    (told,) = run_document(run)["dips"]
    assert told["period"] == pytest.approx(PERIOD, rel=0.01)
    merges = told["activities"][0]
    assert merges["metric"] == "merges_ms"
    assert merges["lost"] > 0.95
    assert merges["seconds"] == pytest.approx(LENGTH / PERIOD, abs=0.05)
    assert merges["inside"] == pytest.approx(800, rel=0.1)
    assert "refresh_ms" not in [other["metric"] for other in told["activities"] if other["lost"] > 2 * other["seconds"]]
    begins = told["begins"]
    assert begins[1] - begins[0] == PERIOD
    json.dumps(told, allow_nan=False)


def test_a_run_that_does_not_dip_says_nothing_of_it(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=60))
    assert dips_of(run) == []
    assert "dips" not in run_document(run)
    assert "Dips that come again" not in Page(run_page(run)).headings
