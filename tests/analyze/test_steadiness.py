"""Throughput that had settled is distinguished from throughput that moved."""

import numpy as np
import pytest

from loadframe.analyze.verdict.trends import steadiness
from loadframe.simulate import autoregressive


def noise(seconds, seed=0, level=1000.0, spread=0.03):
    return level * (1 + spread * np.random.default_rng(seed).standard_normal(seconds))


@pytest.mark.parametrize("seconds", [20, 60, 300])
def test_noise_around_a_level_is_steady(seconds):
    assert all(steadiness(noise(seconds, seed)).steady for seed in range(20))


def test_a_run_under_twenty_seconds_is_not_judged():
    assert steadiness(noise(19)) is None


def test_throughput_that_grows_all_the_time_is_not_steady():
    judged = steadiness(noise(60) * np.linspace(0.8, 1.2, 60))
    assert not judged.steady
    assert judged.change == pytest.approx(0.4, abs=0.06)


def test_a_late_step_has_not_settled():
    judged = steadiness(np.concatenate([noise(90, 1), noise(110, 2, level=1300)]))
    assert not judged.settled


def test_a_short_warm_up_inside_the_window_is_found_and_forgiven():
    judged = steadiness(np.concatenate([noise(20, 3, level=400), noise(280, 4)]))
    assert judged.warmup == pytest.approx(20, abs=5)
    assert judged.settled


def test_one_bad_second_does_not_make_a_trend():
    series = noise(120)
    series[100] = 0
    assert steadiness(series).steady


def test_a_slow_change_below_five_percent_is_let_pass():
    assert steadiness(noise(300, spread=0.001) * np.linspace(0.985, 1.015, 300)).steady


def dependent(seconds, rho, seed, spread=0.1, runs=100):
    return 1000.0 * (1 + spread * autoregressive(np.random.default_rng(seed), (runs, seconds), rho))


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("seconds", [20, 60, 99])
def test_seconds_that_depend_on_each_other_are_seldom_taken_for_a_drift(seconds, rho):
    # At most 6 % by benchmarks/simulate_steadiness.py. It was a third at rho 0.8 when they counted as independent.
    assert sum(not steadiness(series).steady for series in dependent(seconds, rho, seed=1)) <= 9


@pytest.mark.parametrize(("seconds", "rho", "least"), [(20, 0.0, 75), (60, 0.4, 90), (99, 0.4, 97), (300, 0.8, 97)])
def test_a_true_trend_is_found_in_them(seconds, rho, least):
    trend = np.linspace(0.85, 1.15, seconds)
    drifting = dependent(seconds, rho, seed=2, spread=0.05) * trend
    assert sum(not steadiness(series).steady for series in drifting) >= least


@pytest.mark.parametrize("rate", [0.7, 1.05, 1.95, 2.03, 5.4])
def test_a_few_requests_a_second_that_come_evenly_are_steady_wherever_the_seconds_begin(rate):
    counts = [np.diff(np.floor(rate * np.arange(21) + phase)) for phase in np.linspace(0.0, 0.99, 34)]
    assert all(steadiness(one).steady for one in counts)
    first = np.array([2.0, 1, 2, 2, 2, 2, 2, 2, 1, *[2] * 11])
    assert steadiness(first).steady, "rounding explains two missing requests"
