"""Throughput that approaches a limit does not peak; throughput that falls does."""

import pytest
from benchmarks.simulate_curves import PEAKED, SATURATING, claims, experiment, whole

from loadframe.analyze.scalability import fit, warnings
from loadframe.report.fit import sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", SATURATING)
def test_smooth_saturation_seldom_shows_a_peak(name):
    shown, _ = claims(SATURATING[name], whole(32, 8), 0.02, 24)
    assert shown <= 3 / 24, "5 %, and two standard errors"


@pytest.mark.slow
def test_a_fall_of_13_percent_shows_a_peak():
    shown, denied = claims(PEAKED, whole(48, 8), 0.02, 24)
    assert (shown >= 20 / 24, denied) == (True, 0)


def test_curves_that_may_saturate_are_open_with_a_reason():
    runs, _ = experiment(SATURATING["exponential"], whole(32, 12), 1, noise=0.02, spread=0, seed=1)
    result = fit(runs)
    assert (result.peak, result.standing) == (None, "open")
    assert any(warning.rule == warnings.PERHAPS_SATURATED for warning in result.warnings)
    assert "a curve that levels off without falling fits as well" in sentence(result)
