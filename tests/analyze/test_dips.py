"""Recurring dips are found with their true period and depth, and noise is not taken for them."""

import numpy as np
import pytest

from loadframe.analyze.dips import irregular_dips, periodic_dips


def noisy(seconds, seed, *, share=0.05, rho=0.0, level=1000.0):
    random = np.random.default_rng(seed)
    noise = random.standard_normal(seconds)
    for index in range(1, seconds):
        noise[index] = rho * noise[index - 1] + np.sqrt(1 - rho**2) * noise[index]
    return level * (1 + share * noise)


def with_dips(series, period, length, depth, first=0.0):
    at = (np.arange(len(series)) - first) % period
    return np.where(at < length, series * (1 - depth), series)


@pytest.mark.parametrize(("period", "length", "depth"), [(10, 2, 0.5), (30, 3, 0.6), (60, 6, 0.3), (15, 5, 0.8)])
@pytest.mark.parametrize("seed", range(3))
def test_the_period_and_the_depth_are_those_of_the_truth(period, length, depth, seed):
    dips = periodic_dips(with_dips(noisy(300, seed), period, length, depth, first=4))
    assert dips is not None
    assert dips.period == pytest.approx(period, rel=0.02)
    assert dips.length == length
    assert dips.depth == pytest.approx(depth, abs=0.06)
    assert dips.level == pytest.approx(1000, rel=0.03)
    assert dips.begins[0] in (0, 4)
    assert dips.share == pytest.approx(depth * dips.inside.mean(), rel=0.1)


def test_the_period_may_lie_between_whole_seconds():
    dips = periodic_dips(with_dips(noisy(400, 5), 20.5, 4, 0.5))
    assert dips.period == pytest.approx(20.5, abs=0.1)


def test_a_trend_does_not_hide_dips():
    rising = noisy(240, 7) * np.linspace(1, 2, 240)
    dips = periodic_dips(with_dips(rising, 24, 4, 0.5))
    assert dips.period == pytest.approx(24, rel=0.02)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_a_period_is_not_found_in_noise(rho):
    false = [seed for seed in range(30) if periodic_dips(noisy(200, seed, share=0.1, rho=rho))]
    assert len(false) <= 2


def test_a_single_stop_and_stops_at_irregular_distances_are_not_dips_that_come_again():
    once = noisy(200, 1)
    once[80:90] *= 0.2
    assert periodic_dips(once) is None
    assert irregular_dips(once) is None
    irregular, starts = noisy(200, 2), (20, 33, 71, 110, 118, 177)
    for at in starts:
        irregular[at : at + 3] *= 0.3
    assert periodic_dips(irregular) is None
    dips = irregular_dips(irregular)
    assert (dips.period, dips.length, dips.begins) == (None, 3, list(starts))
    assert dips.depth == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_irregular_dips_are_not_found_in_noise(rho):
    assert not any(irregular_dips(noisy(300, seed, share=0.1, rho=rho)) for seed in range(50))


def test_short_constant_or_shallow_courses_are_inconclusive():
    assert periodic_dips(with_dips(noisy(39, 1), 8, 2, 0.5)) is None
    assert periodic_dips(np.full(100, 50.0)) is None
    assert periodic_dips(np.zeros(100)) is None
    assert periodic_dips(with_dips(noisy(300, 1, share=0.001), 10, 2, 0.01)) is None
