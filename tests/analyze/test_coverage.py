"""Simulated experiments with known truth: nominal coverage of intervals, and no spurious peaks.

The bounds on counts allow correct code to fail with another seed with probability below 1 in 1000. Seeds are fixed.
"""

import pytest
from usl_data import simulate

from loadframe.analyze.scalability import fit

pytestmark = pytest.mark.slow

SIZES = [1, 2, 4, 8, 16, 32]
EXPERIMENTS = 60


def covered(repetitions):
    """Count the intervals that contain the true sigma, kappa and lambda."""
    truth = {"lambda": 1000.0, "sigma": 0.03, "kappa": 1.5e-3}
    hits = dict.fromkeys(truth, 0)
    for seed in range(EXPERIMENTS):
        data = simulate(SIZES, lam=1000, sigma=0.03, kappa=1.5e-3, noise=0.03, repetitions=repetitions, seed=seed)
        parameters = fit(data).models["usl"].parameters
        for name, value in truth.items():
            hits[name] += parameters[name].low <= value <= parameters[name].high
    return hits


@pytest.mark.trial
def test_intervals_from_repeated_runs_cover_the_truth():
    for name, hits in covered(repetitions=3).items():
        assert hits >= 0.85 * EXPERIMENTS, name


def test_intervals_from_single_runs_cover_the_truth():
    for name, hits in covered(repetitions=1).items():
        assert hits >= 0.85 * EXPERIMENTS, name


@pytest.mark.trial
def test_linear_clusters_hardly_ever_get_a_peak():
    claims = 0
    for seed in range(EXPERIMENTS):
        data = simulate(SIZES, lam=1000, sigma=0, kappa=0, noise=0.05, repetitions=3, seed=seed)
        claims += fit(data).peak is not None
    assert claims <= 1


def test_the_peak_of_a_curve_that_is_measured_past_it_is_found():
    result = covering = 0
    for seed in range(40):
        # The peak is at 25.4. Sizes up to 32 show a fall of 3 %, which a curve that levels off fits as well.
        data = simulate([*SIZES, 48], lam=1000, sigma=0.03, kappa=1.5e-3, noise=0.02, repetitions=3, seed=seed)
        peak = fit(data).peak
        if peak:
            result += 1
            covering += peak.n.low <= 25.43 <= peak.n.high
    assert result >= 36
    assert covering >= 0.85 * result
