"""Offsets between the clocks of machines."""

import random

from loadframe.ranks.messages import Offset, offset


def test_the_true_offset_lies_within_the_uncertainty_whatever_the_ways_take():
    draw = random.Random(4)
    for true in (0.0, -3.25, 86_400.0):
        trips = []
        now = 1000.0
        for _ in range(30):
            there, back = draw.expovariate(1e3), draw.expovariate(1e4)
            trips.append((now, now + there + true, now + there + back))
            now += 1
        seen = offset(trips)
        assert abs(seen.seconds - true) <= seen.uncertainty + 1e-9
        assert seen.uncertainty == min(received - sent for sent, _, received in trips) / 2


def test_offsets_add_up_along_the_way_and_so_do_their_uncertainties():
    assert Offset(1.0, 0.25).behind(Offset(-3.0, 0.5)) == Offset(-2.0, 0.75)
