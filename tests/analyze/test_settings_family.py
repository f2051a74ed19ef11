"""Simulated settings experiments in which nothing matters: the false claims of a whole report, and of its ranking."""

import itertools

import numpy as np
import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.settings.analysis import analyse
from loadframe.analyze.settings.ranking import rank
from loadframe.record.schema.figures import Latency
from made_up_runs import MadeUp, operation, phase, summary

FACTORS = {"cache": [0, 1], "threads": [2, 4]}
DESCRIPTION = {
    "factors": {"nodes": [1, 2], **FACTORS},
    "at": {"nodes": [1, 2]},
    "measure": ["look"],
    "objective": "throughput",
    "scheme": "full",
    "hard": [],
}


def null_runs(random, repetitions=3, noise=0.05):
    """Return the runs of a full factorial at two sizes; throughput, p50 and p99 are independent noise."""
    runs = []
    for block, nodes, cache, threads in itertools.product(range(1, repetitions + 1), (1, 2), (0, 1), (2, 4)):
        rate, middle, tail = np.exp(noise * random.standard_normal(3))
        figures = operation(100 * rate, response=Latency(p50=0.01 * middle, p99=0.05 * tail))
        treatment = {"nodes": nodes, "cache": cache, "threads": threads}
        name = f"b{block}-{nodes}-{cache}-{threads}"
        runs.append(RecordedRun(name, block, treatment, MadeUp(summary(phase("look", {"read": figures})))))
    return runs


@pytest.mark.slow
def test_a_report_on_settings_that_do_nothing_claims_something_in_5_percent_of_experiments():
    """Measures and sizes share the level: adjusted only within measures, 27 % of the reports would claim an effect."""
    random = np.random.default_rng(28)
    claims, trials = 0, 200
    for _ in range(trials):
        results = analyse(DESCRIPTION, null_runs(random), costs=False)
        assert sum(len(result.responses) for result in results) == 6
        responses = [response for result in results for response in result.responses]
        claims += any(response.claimed(term) for response in responses for term in response.adjusted)
    # 5 % and three standard errors.
    assert claims <= 0.097 * trials


@pytest.mark.trial
def test_a_ranking_without_differences_claims_better_ones_at_most_at_the_nominal_rate():
    """Four sizes with four combinations each: without the adjustment, 11 % of the reports call one better."""
    random = np.random.default_rng(29)
    numbers, blocks = np.tile(np.arange(4), 2), np.repeat([1, 2], 4)
    called, trials = 0, 400
    for _ in range(trials):
        standings = [
            standing
            for _ in range(4)
            for standing in rank(numbers, blocks, 0.1 * random.standard_normal(8), higher=True, results=4)
        ]
        called += any(standing.better is not None and standing.better > 0.975 for standing in standings)
    # 2.5 % and three standard errors.
    assert called <= 0.049 * trials
