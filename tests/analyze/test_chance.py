"""Attribution of dips beyond chance: true causes are found, unrelated activities are not claimed."""

import numpy as np
import pytest

from loadframe.analyze.dips import overlaps

SECONDS = 300
_TRIALS = 200


def at_distances(random, mean, *, jitter=0.0, length=3):
    """Seconds of an activity that comes about every `mean` seconds, from a random second on."""
    busy = np.zeros(SECONDS, dtype=bool)
    at = random.uniform(0, mean)
    while at < SECONDS:
        busy[int(at) : int(at) + length] = True
        at += max(mean * (1 + jitter * random.standard_normal()), length + 1)
    return busy


def lost_in(random, busy, *, share=1.0, noise=0.0):
    """A loss in a share of the stretches that are busy, and noise in all seconds."""
    starts = np.flatnonzero(np.diff(np.concatenate([[0], busy.astype(int)])) == 1)
    kept = np.zeros(SECONDS, dtype=bool)
    for start in starts:
        if random.uniform() < share:
            kept[start : start + 3] = True
    return 100.0 * (kept & busy) + noise * np.abs(random.standard_normal(SECONDS))


def others(random, count=4):
    return [at_distances(random, random.uniform(8, 60), jitter=random.choice([0.0, 0.3])) for _ in range(count)]


def claims(lost, cause):
    """Return the share of trials that claim the first activity, with four other candidates."""
    claimed = 0
    for seed in range(_TRIALS):
        random = np.random.default_rng(seed)
        first = cause(random)
        claimed += overlaps(lost(random, first), [first, *others(random)])[0].claimed
    return claimed / _TRIALS


def test_an_activity_at_uneven_distances_that_costs_throughput_is_found():
    rate = claims(
        lambda random, busy: lost_in(random, busy, noise=5), lambda random: at_distances(random, 30, jitter=0.3)
    )
    assert rate > 0.95


def test_it_is_found_where_it_only_costs_something_half_of_the_times():
    rate = claims(
        lambda random, busy: lost_in(random, busy, share=0.5), lambda random: at_distances(random, 30, jitter=0.3)
    )
    assert rate > 0.85


@pytest.mark.parametrize(("every", "jitter"), [(10, 0.0), (30, 0.0), (30, 0.3), (60, 0.1)])
def test_no_more_than_one_in_twenty_is_claimed_where_nothing_has_to_do_with_the_dips(every, jitter):
    false = 0
    for seed in range(_TRIALS):
        random = np.random.default_rng(seed)
        lost = lost_in(random, at_distances(random, every, jitter=jitter), noise=5)
        # One of them comes at the same distance as the dips, as clocks of round numbers do.
        false += any(
            one.claimed for one in overlaps(lost, [at_distances(random, every, jitter=jitter), *others(random)])
        )
    assert false / _TRIALS <= 0.08


def test_a_short_period_that_both_have_decides_nothing():
    busy = np.arange(SECONDS) % 10 < 2
    (one,) = overlaps(100.0 * busy, [busy])
    assert (one.lost, one.seconds, one.claimed) == (pytest.approx(1.0), 0.2, False)
    assert one.p == pytest.approx(0.1)
