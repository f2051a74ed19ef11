"""Response times and sizes derived from a curve invert each other, with and without coherency."""

import math

import pytest

from loadframe.analyze.scalability.latency import (
    response_at_size,
    response_at_throughput,
    size_at_response,
    size_at_throughput,
)

CURVES = [(100.0, 0.05, 0.002), (100.0, 0.05, 0.0), (40.0, 0.0, 0.01), (40.0, 0.3, 1e-15), (7.0, 0.01, 0.2)]


def throughput(n, lam, sigma, kappa):
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("n", [1.0, 2.0, 5.0, 20.0])
def test_littles_law_joins_size_throughput_and_response(curve, n):
    assert n == pytest.approx(throughput(n, *curve) * response_at_size(n, *curve))


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("n", [1.5, 2.0, 5.0, 20.0])
def test_the_size_at_a_response_time_is_the_size_that_has_it(curve, n):
    assert size_at_response(response_at_size(n, *curve), *curve) == pytest.approx(n)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_the_size_at_a_throughput_is_on_the_stable_branch(curve, share):
    _, sigma, kappa = curve
    peak = math.sqrt((1 - sigma) / kappa) if kappa else 1e6
    target = share * throughput(max(peak, 1.0), *curve)
    n = size_at_throughput(target, *curve)
    assert throughput(n, *curve) == pytest.approx(target)
    assert n <= peak
    assert response_at_throughput(target, *curve) == pytest.approx(response_at_size(n, *curve))


def test_above_the_peak_there_is_no_size():
    assert math.isnan(size_at_throughput(1e6, 100.0, 0.05, 0.002))


def test_without_contention_and_coherency_the_response_time_never_grows():
    assert size_at_response(1.0, 100.0, 0.0, 0.0) == math.inf
