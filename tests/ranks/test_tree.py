"""The tree over which ranks talk."""

import pytest

from loadframe.ranks import messages


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 16, 1000])
def test_every_rank_is_below_one_other_and_reached_from_the_top(count):
    reached = {0}
    for position in range(count):
        for below in messages.children(position, count):
            assert messages.parent(below) == position
            assert below not in reached
            reached.add(below)
    assert reached == set(range(count))


def test_nobody_is_far_from_the_top_or_has_many_below():
    assert messages.depth(10_000) == max(bin(position).count("1") for position in range(10_000)) == 13
    assert max(len(messages.children(position, 10_000)) for position in range(10_000)) == 14
