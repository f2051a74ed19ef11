"""How sure percentiles are: coverage of their intervals, correlated seconds, and percentiles of few requests."""

import math
from itertools import pairwise

import numpy as np
import pytest

from loadframe.analyze import percentiles
from loadframe.analyze.percentiles import Percentile, is_too_short, mean_arrivals, monotone, percentiles_of, ranks
from simulated import Truth, write_run


def coverage(quantile, *, rate, seconds, spread, rho=0.0, trials=100):
    """Return how often the interval holds the truth: latencies that a second's own slowness and chance make."""
    random = np.random.default_rng(1)
    held = 0
    for _ in range(trials):
        times = spread * levels(rho, seconds, random)[:, None] + random.exponential(size=(seconds, rate))
        ordered = np.sort(times.ravel())
        value = ordered[math.ceil(quantile * ordered.size) - 1]
        low, high = ranks((times > value).sum(axis=1).astype(float), np.full(seconds, float(rate)), quantile)
        ends = (
            ordered[max(math.ceil(low * ordered.size) - 1, 0)] if low else -math.inf,
            ordered[math.ceil(high * ordered.size) - 1] if math.isfinite(high) else math.inf,
        )
        held += ends[0] <= TRUTH[quantile, spread] <= ends[1]
    return held / trials


_LARGE = np.random.default_rng(7)
_NOISE, _OWN = _LARGE.exponential(size=2_000_000), _LARGE.standard_normal(2_000_000)
TRUTH = {(q, spread): float(np.quantile(_NOISE + spread * _OWN, q)) for q in (0.5, 0.99) for spread in (0.0, 0.3)}


@pytest.mark.parametrize("quantile", [0.5, 0.99])
@pytest.mark.parametrize(("spread", "rho"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.5)])
def test_the_interval_holds_the_truth(quantile, spread, rho):
    assert coverage(quantile, rate=100, seconds=60, spread=spread, rho=rho) >= 0.89, "95 %, less three standard errors"


def levels(rho, seconds, random):
    """Return an autoregressive series of variance 1."""
    values = random.standard_normal(seconds)
    for second in range(1, seconds):
        values[second] = rho * values[second - 1] + math.sqrt(1 - rho**2) * values[second]
    return values


@pytest.mark.parametrize(("rho", "least", "most"), [(0.0, 0.0, 0.03), (0.95, 0.85, 1.0)])
def test_changes_as_long_as_the_run_make_it_too_short(rho, least, most):
    random, counts = np.random.default_rng(2), np.full(60, 100.0)
    short = []
    for _ in range(100):
        times = 0.3 * levels(rho, 60, random)[:, None] + 0.5 * random.standard_normal((60, 100))
        slow = [(times > np.quantile(times, quantile)).sum(axis=1).astype(float) for quantile in (0.5, 0.9, 0.99)]
        short.append(is_too_short(slow, counts))
    assert least <= np.mean(short) <= most


def test_a_run_of_few_seconds_is_too_short():
    assert is_too_short([np.ones(4)], np.full(4, 1000.0))
    assert not is_too_short([np.ones(5)], np.full(5, 1000.0))


def test_seconds_that_differ_make_a_run_worth_less():
    counts = np.full(60, 100.0)
    even, bursts = np.full(60, 1.0), np.zeros(60)
    bursts[::20] = 20.0
    widths = [np.diff(ranks(slow, counts, 0.99))[0] for slow in (even, bursts)]
    assert widths[1] > 2 * widths[0]


def test_percentiles_that_few_requests_cannot_bound_are_open():
    counts, slow = np.full(50, 10.0), np.zeros(50)
    assert ranks(slow, counts, 0.999)[1] == math.inf
    assert math.isfinite(ranks(slow, counts, 0.9)[1])


def test_bounds_ascend_with_the_quantile_and_no_interval_is_narrowed():
    bounds = {"p50": (1.0, 5.0), "p90": (4.0, 9.0), "p99": (8.0, math.inf), "p999": (7.0, 30.0)}
    crossing = {name: Percentile(low, low, high, 100.0) for name, (low, high) in bounds.items()}
    given = {name: (percentile.low, percentile.high) for name, percentile in monotone(crossing).items()}
    assert given == {"p50": (1.0, 5.0), "p90": (4.0, 9.0), "p99": (7.0, math.inf), "p999": (7.0, math.inf)}


def test_bounds_of_a_run_ascend_although_those_of_single_percentiles_cross(tmp_path, monkeypatch):
    crossing = {0.5: (0.45, 0.55), 0.9: (0.85, 0.95), 0.99: (0.98, 0.9999), 0.999: (0.3, 0.9995)}
    monkeypatch.setattr(percentiles, "ranks", lambda slow, counts, quantile, *_: crossing[quantile])
    result = list(percentiles_of(write_run(tmp_path, "r", Truth()))["range_100"]["range_100"].values())
    for lower, higher in pairwise(result):
        assert lower.low <= higher.low
        assert lower.high <= higher.high


def test_a_percentile_of_few_requests_is_marked(tmp_path):
    run = write_run(tmp_path, "r", Truth(lam=12.5, sigma=0.0, kappa=0.0, noise=0.0, seconds=5))
    result = percentiles_of(run)["range_100"]["range_100"]
    count = run.summary.phases[0].operations["range_100"].response.count
    assert count < 10 / 0.001
    assert result["p999"].few
    assert result["p999"].high == math.inf
    assert not result["p90"].few
    response = run.summary.phases[0].operations["range_100"].response
    for name, percentile in result.items():
        assert percentile.low <= percentile.value == response.at(name) <= percentile.high


@pytest.mark.parametrize("needed", [20, 1000, 10_000])
def test_a_proposed_duration_gives_enough_poisson_arrivals_in_each_of_ten_runs(needed):
    random = np.random.default_rng(3)
    short = [min(random.poisson(mean_arrivals(needed), 10)) < needed for _ in range(200)]
    assert np.mean(short) < 0.01
    assert mean_arrivals(needed) < needed + 4 * math.sqrt(needed) + 16
