"""The optimiser finds good combinations, is deterministic, and tolerates failed trials."""

import itertools

import numpy as np

from loadframe.experiment.design.plans import tpe

LEVELS = [4, 4, 4, 4]


def loss(row, random=None):
    """Each factor's best level is its last but one; noise is 2 %."""
    distance = sum((level - 2) ** 2 for level in row)
    return 0.1 * distance + (0.02 * random.standard_normal() if random else 0.0)


def searched(trials, seed):
    random = np.random.default_rng(seed)
    results = [((0, 0, 0, 0), loss((0, 0, 0, 0), random))]
    for _ in range(trials):
        row = by_tpe(results, seed)
        results.append((row, loss(row, random)))
    return results


def by_tpe(results, seed):
    return tpe(LEVELS, results, seed)


def test_an_optimiser_does_better_than_as_many_trials_at_random():
    everything = sorted(loss(row) for row in itertools.product(range(4), repeat=4))
    losses = [min(loss(row) for row, _ in searched(60, seed)) for seed in range(12)]
    # The median of the best of 60 out of 256 at random is near the third best.
    assert np.median(losses) <= everything[3]
    assert (
        np.mean([loss(row) for seed in range(4) for row, _ in searched(60, seed)[-20:]]) < np.mean(everything) * 2 / 3
    )


def test_the_same_results_and_seed_give_the_same_next_trial():
    results = searched(21, 5)
    for made in (1, 9, 14, 21):
        assert by_tpe(results[:made], 5) == results[made][0]


def test_a_trial_that_failed_tells_nothing_and_stops_nothing():
    results = [((0, 0, 0, 0), 1.0)]
    for _ in range(30):
        row = by_tpe(results, 1)
        assert len(row) == 4 and all(0 <= level < 4 for level in row)
        results.append((row, None))


def test_tpe_tries_untried_combinations():
    results = searched(40, 3)
    assert len({row for row, _ in results}) >= 36


def test_failed_trials_are_the_worst_and_are_left_behind():
    """The first factor's upper levels give the best figures, until the store fails there."""
    shares = []
    for seed in range(8):
        results = [((0, 0, 0, 0), 1.0)]
        for _ in range(60):
            row = by_tpe(results, seed)
            results.append((row, float("inf") if row[0] > 1 else 0.1 * (3 - row[1])))
        shares.append(np.mean([row[0] > 1 for row, _ in results[-20:]]))
    assert np.mean(shares) < 0.4
