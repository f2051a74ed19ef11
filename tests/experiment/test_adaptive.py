"""Optimisers: they find what is better, plan the same from the same results, and live with trials that fail."""

import itertools

import numpy as np
import pytest

from loadframe.experiment.design.plans import spsa, tpe

LEVELS = [4, 4, 4, 4]


def loss(row, random=None):
    """Each factor's best level is its last but one; noise is 2 %."""
    distance = sum((level - 2) ** 2 for level in row)
    return 0.1 * distance + (0.02 * random.standard_normal() if random else 0.0)


def searched(propose, trials, seed):
    random = np.random.default_rng(seed)
    results = [((0, 0, 0, 0), loss((0, 0, 0, 0), random))]
    for _ in range(trials):
        row = propose(results, seed)
        results.append((row, loss(row, random)))
    return results


def by_tpe(results, seed):
    return tpe(LEVELS, results, seed)


def by_spsa(results, seed):
    return spsa(LEVELS, results[1:], seed, 60)


@pytest.mark.parametrize("propose", [by_tpe, by_spsa])
def test_an_optimiser_does_better_than_as_many_trials_at_random(propose):
    everything = sorted(loss(row) for row in itertools.product(range(4), repeat=4))
    losses = [min(loss(row) for row, _ in searched(propose, 60, seed)) for seed in range(12)]
    # The median of the best of 60 out of 256 at random is near the third best.
    assert np.median(losses) <= everything[3]
    assert (
        np.mean([loss(row) for seed in range(4) for row, _ in searched(propose, 60, seed)[-20:]])
        < np.mean(everything) * 2 / 3
    )


@pytest.mark.parametrize("propose", [by_tpe, by_spsa])
def test_the_same_results_and_seed_give_the_same_next_trial(propose):
    results = searched(propose, 21, 5)
    for made in (1, 9, 14, 21):
        assert propose(results[:made], 5) == results[made][0]


@pytest.mark.parametrize("propose", [by_tpe, by_spsa])
def test_a_trial_that_failed_tells_nothing_and_stops_nothing(propose):
    results = [((0, 0, 0, 0), 1.0)]
    for _ in range(30):
        row = propose(results, 1)
        assert len(row) == 4 and all(0 <= level < 4 for level in row)
        results.append((row, None))


def test_tpe_tries_what_was_not_tried():
    results = searched(by_tpe, 40, 3)
    assert len({row for row, _ in results}) >= 36


def test_spsa_moves_every_factor_at_once_and_against_its_last_trial():
    plus = spsa([2, 2, 2], [], 1, 10)
    minus = spsa([2, 2, 2], [(plus, 0.0)], 1, 10)
    assert all(a != b for a, b in zip(plus, minus, strict=True))


@pytest.mark.parametrize("propose", [by_tpe, by_spsa])
def test_failed_trials_are_the_worst_and_are_left_behind(propose):
    """The first factor's upper levels give the best figures, until the store fails there."""
    shares = []
    for seed in range(8):
        results = [((0, 0, 0, 0), 1.0)]
        for _ in range(60):
            row = propose(results, seed)
            results.append((row, float("inf") if row[0] > 1 else 0.1 * (3 - row[1])))
        shares.append(np.mean([row[0] > 1 for row, _ in results[-20:]]))
    assert np.mean(shares) < 0.4


def test_trials_of_spsa_that_all_failed_move_nothing():
    dead = [((0, 0, 0, 0), float("inf"))] * 9
    assert spsa(LEVELS, dead, 1, 60) == spsa(LEVELS, [(row, None) for row, _ in dead], 1, 60)
