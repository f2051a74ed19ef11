"""Power analysis in virtual time: more runs and wider ranges improve precision; without runs it is unknown."""

import math

import pytest

from loadframe import simulate as module
from loadframe.simulate import Law, candidates, least_effect, outlook

LAW = Law(sigma=0.03, kappa=5e-4, noise=0.03)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "TRIALS", 8)


def width(estimate):
    return estimate.high - estimate.low


@pytest.mark.slow
def test_a_design_that_reaches_past_the_peak_names_it_and_one_that_ends_early_does_not():
    short = outlook("short", (1, 2, 4, 8), 3, LAW)
    far = outlook("far", (1, 4, 16, 48, 96), 3, LAW)
    assert short.claimed == 0
    assert far.claimed >= 0.9
    assert math.isinf(short.peak.high)
    assert far.peak.low <= 44.05 <= far.peak.high
    assert width(far.kappa) < width(short.kappa) / 5
    assert (short.runs, far.runs) == (12, 15)


def test_a_store_without_coherency_has_no_peak():
    seen = outlook("linear", (1, 4, 16, 32), 3, Law(sigma=0.05, kappa=0.0, noise=0.03))
    assert math.isinf(seen.peak.value)
    assert seen.claimed == 0


def test_designs_keep_within_the_budget_and_are_each_weighed_once():
    result = candidates((1, 2, 4), 3, budget=12)
    assert result[0] == ("as it is", (1, 2, 4), 3)
    assert all(len(sizes) * repetitions <= 12 for _, sizes, repetitions in result)
    assert len({(sizes, repetitions) for _, sizes, repetitions in result}) == len(result)
    assert candidates((1, 2, 4), 3, budget=2) == [], "no curve of two runs"
    two = candidates((1, 2, 4), 3, budget=17, others=2)
    assert [(sizes, repetitions) for _, sizes, repetitions in two] == [((1, 2, 4), 2), ((1, 2, 3, 4), 2)]


def test_the_least_effect_shrinks_with_runs_and_grows_with_scatter():
    # Two groups of 17: t(32) is 2.037 at 0.975 and 0.853 at 0.8, so exp(2.890 x 0.05 sqrt(2/17)) - 1.
    assert least_effect(0.05, 17, 17) == pytest.approx(0.0508, abs=0.0005)
    assert least_effect(0.05, 40, 40) < least_effect(0.05, 17, 17) < least_effect(0.1, 17, 17)
    assert math.isinf(least_effect(0.05, 1, 1)), "one run of each says nothing of its scatter"
