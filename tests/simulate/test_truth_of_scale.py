"""The scalability fit on simulated stores with known sigma and kappa.

95 % intervals must cover each parameter in at least 93 of 100 trials. Seeds are fixed; other seeds may fall below 93 by
chance. `python -m benchmarks truth_of_scale` runs 400 trials.
"""

import pytest

from loadframe.analyze.scalability import fit
from loadframe.simulate import closed
from loadframe.store.sim.model import SimModel

pytestmark = pytest.mark.slow

TRIALS = 100


@pytest.mark.trial
def test_sigma_and_kappa_lie_within_their_intervals():
    model = SimModel(service=0.01, distribution="constant", sigma=0.03, kappa=5e-4)
    held = {"sigma": 0, "kappa": 0}
    for trial in range(TRIALS):
        runs = [
            (nodes, closed(model, nodes, 2 * nodes, duration=20, seed=1000 * trial + 10 * nodes + run, noise=0.03))
            for nodes in (1, 2, 4, 8, 16, 32, 48)
            for run in range(3)
        ]
        result = fit([(nodes, load.throughput) for nodes, load in runs], seed=trial).models["usl"].parameters
        for name in held:
            held[name] += result[name].low <= getattr(model, name) <= result[name].high
    assert min(held.values()) >= 93
