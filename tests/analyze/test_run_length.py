"""Automatic warm-up and run length: looks, intervals and steady state, with series of known truth."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from loadframe.analyze.run_length import (
    looks,
    mean_interval_of_series,
    outside_of,
    relative_half_width,
    steady_from,
    widest,
)
from loadframe.experiment.runner import window
from loadframe.simulate import autoregressive


def test_looks_grow_by_half_up_to_the_longest_window():
    assert looks(30, 600) == (30, 45, 68, 102, 153, 230, 345, 518, 600)
    assert looks(10, 10) == (10,)
    assert outside_of(len(looks(30, 600))) == pytest.approx(0.025 / 9)


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_the_final_interval_holds_the_truth_although_it_is_looked_at_repeatedly(rho):
    random = np.random.default_rng(7)
    held = naive = 0
    trials, times = 120, looks(30, 600)
    for _ in range(trials):
        series = 1000 * (1 + 0.1 * autoregressive(random, (times[-1],), rho))
        held += _covers(series, times, outside_of(len(times)))
        naive += _covers(series, times, 0.025)
    assert held >= 0.95 * trials
    # Without the correction it stops when the variance is underestimated.
    assert naive < held


def _covers(series, times, outside):
    for length in times:
        estimate = mean_interval_of_series(series[:length], outside)
        if relative_half_width(estimate.value, estimate.low, estimate.high) <= 0.05:
            break
    return estimate.low <= 1000 <= estimate.high


def test_an_interval_accounts_for_correlation_and_is_unbounded_for_slow_changes():
    random = np.random.default_rng(3)
    widths = []
    for rho in (0.0, 0.6):
        estimate = mean_interval_of_series(1000 * (1 + 0.1 * autoregressive(random, (300,), rho)))
        widths.append(relative_half_width(estimate.value, estimate.low, estimate.high))
    assert widths[1] > 1.4 * widths[0]
    assert not mean_interval_of_series(np.linspace(100, 200, 40)).is_finite
    assert mean_interval_of_series(np.full(20, 50.0)).low == 50


def test_the_widest_interval_decides_and_an_unknown_one_is_infinite():
    assert widest([(100, 95, 105), (10, 9, 11)]) == pytest.approx(0.1)
    assert widest([(100, 95, 105), (10, 9, math.inf)]) == math.inf
    assert widest([]) == math.inf


def test_steady_state_begins_after_the_start_up():
    random = np.random.default_rng(11)
    seconds = np.arange(120)
    start_up = 1 - 0.6 * np.exp(-seconds / 10)
    throughput = 1000 * start_up * (1 + 0.03 * random.standard_normal(120))
    response = 0.01 / start_up * (1 + 0.03 * random.standard_normal(120))
    response[50] = math.nan
    assert steady_from(throughput[:15], response[:15]) is None
    assert steady_from(throughput[:30], response[:30]) is None
    began = steady_from(throughput, response)
    assert began is not None and 10 <= began < 60


def test_a_load_that_keeps_changing_is_never_steady():
    seconds = np.arange(200)
    noise = np.random.default_rng(5).standard_normal((2, 200))
    flat = 1000 * (1 + 0.02 * noise[0])
    growing = 0.01 * (1 + seconds / 100) * (1 + 0.02 * noise[1])
    for length in range(20, 201, 5):
        assert steady_from(flat[:length], growing[:length]) is None, "response times grow"
        assert steady_from(1 / growing[:length], flat[:length]) is None, "throughput falls"
    assert steady_from(flat, np.full(200, math.nan)) is None, "nothing was answered"


@pytest.mark.parametrize(
    ("counts", "judged"),
    [
        ([50] * 12, 6),
        ([900, 40, 20, 20, 20], 1),
        ([110, *[30] * 30], 15),
        ([60, 20, 15, 5], 3),
        ([0, 0], 0),
    ],
)
def test_an_automatic_length_is_decided_by_the_p99_of_the_most_frequent_operations(
    tmp_path, monkeypatch, counts, judged
):
    """At a constant rate the interval of throughput has no width."""
    heads = "second,stream,operation,segment,successes,documents,dropped,unanswered,response_p50"
    rows = [f"{second},main,op{n},measure,{count},0,0,0,0.01" for second in range(40) for n, count in enumerate(counts)]
    (tmp_path / "series.csv").write_text("\n".join([heads, *rows, ""]))
    phase = SimpleNamespace(
        name="p", operations={f"op{n}": {} for n in range(len(counts))}, wait_for_queue=None, auto_warmup=None,
        auto_duration=SimpleNamespace(at_least=30, at_most=600, precision=0.05),
    )  # fmt: skip
    control = window.WindowControl(phase, tmp_path, print)
    control._rows.read(40)
    control._warmup_ends = 0
    tags = []
    p99 = SimpleNamespace(value=0.01, low=0.007, high=0.013)
    monkeypatch.setattr(window, "histogram_log", lambda path: None)
    monkeypatch.setattr(window, "percentiles_of_window", lambda log, tag, *_: tags.append(tag) or {"p99": p99})
    assert control._widest(40) == pytest.approx(0.3 if judged else math.inf)
    assert tags == [f"p/op{n}/response" for n in range(judged)]
    monkeypatch.setattr(window, "percentiles_of_window", lambda *_: {})
    assert control._widest(40) == math.inf, "no p99 is known"
