"""Order effects of capacity searches: a store that slows from trial to trial is reported, others seldom are."""

import math
from dataclasses import replace

import numpy as np

from loadframe.analyze.capacity import Bounds, Judgement, Next, Outcome, Trial, capacities_of, search
from loadframe.analyze.capacity.answers import Attempt, Search
from loadframe.analyze.estimate import Estimate
from loadframe.report.capacity_words import sentence

BOUNDS = Bounds(start=100, least=1, most=1e6)


def searched(random, block, *, slows):
    """Search on a queue of 10 ms; its capacity falls by a share per trial; p99 within 100 ms, noise 5 %."""
    attempts = []
    while isinstance(step := search(BOUNDS, [Trial(it.rate, it.judgement.outcome) for it in attempts]), Next):
        load = min(step.rate / (1000 * (1 - slows) ** len(attempts)), 0.999)
        response = 0.01 / (1 - load) * np.exp(0.05 * random.standard_normal())
        outcome = Outcome.PASSED if response <= 0.1 else Outcome.FAILED
        judgement = Judgement(outcome, ("slow",), float(response), 0.0, 1.0, 0.0, 0.1)
        attempts.append(Attempt(f"t{len(attempts)}", step.rate, judgement))
    return Search(block, {}, tuple(attempts), step)


def reported(slows, trials=60):
    """Return the share of experiments of three searches in which an order effect is reported."""
    random = np.random.default_rng(9)
    reports = 0
    for _ in range(trials):
        (capacity,) = capacities_of([[searched(random, block, slows=slows) for block in range(3)]], 1)
        reports += capacity.order.is_slower
    return reports / trials


def test_a_store_that_slows_by_1_percent_per_trial_is_reported():
    assert reported(0.01) > 0.9


def test_a_store_that_does_not_slow_is_seldom_reported():
    assert reported(0.0) <= 0.1


def test_the_report_warns_that_the_capacity_depends_on_the_order():
    random = np.random.default_rng(1)
    (capacity,) = capacities_of([[searched(random, block, slows=0.01) for block in range(3)]], 1)
    assert "the store slows down during the search" in sentence(capacity)
    assert "Its interval covers all rates from the lowest that failed" in sentence(capacity)
    without_interval = replace(capacity, rate=Estimate(capacity.rate.value, 0.0, math.inf))
    assert "the store slows down during the search" in sentence(without_interval)
    assert "interval covers" not in sentence(without_interval)
    (steady,) = capacities_of([[searched(random, block, slows=0.0) for block in range(3)]], 1)
    assert "slows down" not in sentence(steady)


def test_the_interval_holds_the_capacity_from_the_middle_of_the_searches_to_their_end():
    random = np.random.default_rng(2)
    held = []
    for _ in range(40):
        searches = [searched(random, block, slows=0.01) for block in range(3)]
        (capacity,) = capacities_of([searches], 1)
        trials = np.mean([len(made.attempts) for made in searches])
        middle, last = 900 * 0.99 ** (trials / 2), 900 * 0.99**trials
        held.append(capacity.rate.low <= last * 1.05 and capacity.rate.high >= middle)
    assert np.mean(held) >= 0.85
