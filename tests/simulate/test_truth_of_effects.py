"""Effects and comparisons on simulated stores: real effects are found, absent ones are not claimed.

Bounds on counts allow correct code to fail with other seeds once in hundreds of times. Seeds are fixed.
"""

import itertools
import math

import numpy as np
import pytest

from loadframe.analyze.compare.estimate_ratio import Observation, estimate_ratio
from loadframe.analyze.settings.model import Data, fit_model
from loadframe.simulate import closed
from loadframe.store.sim.model import SimModel

pytestmark = pytest.mark.slow

TRIALS = 100
NOISE = 0.03
CORNERS = np.array(list(itertools.product((0, 1), repeat=3)))
#: Factor of each setting on the mean service time at its second level; the third has no effect.
EFFECTS = (1.0 / 1.10, 1.06, 1.0)


def fit_of(model, term):
    return {fit.term: fit for fit in model.terms}[term]


def throughput(service, seed):
    return closed(
        SimModel(service=service, distribution="constant"), 1, 2, duration=20, seed=seed, noise=NOISE
    ).throughput


def experiment(seed, blocks=3):
    """Run a blocked 2^3 design on one store; the factors change its service time."""
    rows = np.vstack([CORNERS] * blocks)
    services = [0.005 * math.prod(f**level for f, level in zip(EFFECTS, row, strict=True)) for row in rows]
    speeds = [throughput(service, 1000 * seed + index) for index, service in enumerate(services)]
    return Data(
        rows=rows,
        response=np.log(speeds),
        blocks=[block for block in range(blocks) for _ in CORNERS],
        plots=list(range(len(rows))),
        levels=[2, 2, 2],
        hard=[False, False, False],
    )


@pytest.fixture(scope="module")
def models():
    return [fit_model(experiment(seed)) for seed in range(TRIALS)]


def test_real_effects_are_found(models):
    for factor in (0, 1):
        assert sum(fit_of(model, (factor,)).p < 0.05 for model in models) >= 0.95 * TRIALS


def test_absent_effects_are_claimed_at_most_at_the_nominal_rate(models):
    absent = [(2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    claims = sum(fit_of(model, term).p < 0.05 for model in models for term in absent)
    # 25 of 500 are due; correct code stays below 42 in 999 of 1,000 times.
    assert claims <= 41


def test_the_size_of_an_effect_lies_within_its_interval(models):
    for factor in (0, 1, 2):
        truth = -math.log(EFFECTS[factor])
        held = 0
        for model in models:
            [contrast] = [contrast for contrast in model.contrasts if contrast.term == (factor,)]
            held += abs(contrast.value - truth) <= contrast.half_width
        assert held >= 0.88 * TRIALS


@pytest.fixture(scope="module")
def pairs():
    """Six runs each of a store, an equal store, and a store that is 10 % slower."""
    return [
        [[throughput(service, 100_000 + 100 * trial + 10 * group + run) for run in range(6)]
         for group, service in enumerate((0.005, 0.005, 0.0055))]
        for trial in range(TRIALS)
    ]  # fmt: skip


def ratio(one, other):
    observations = [Observation(value, side) for side, values in enumerate((one, other)) for value in values]
    return estimate_ratio(observations, 0, 1)


def test_equal_versions_differ_at_most_at_the_nominal_rate(pairs):
    # 5 of 100 are due.
    assert sum(ratio(one, same).p < 0.05 for one, same, _ in pairs) <= 12


def test_a_version_that_is_a_tenth_slower_is_found_and_its_ratio_held(pairs):
    ratios = [ratio(one, slow) for one, _, slow in pairs]
    assert sum(comparison.p < 0.05 for comparison in ratios) >= 0.9 * TRIALS
    assert sum(comparison.ratio.low <= 1 / 1.1 <= comparison.ratio.high for comparison in ratios) >= 0.88 * TRIALS
