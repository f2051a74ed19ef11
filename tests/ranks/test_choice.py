"""Which of the ranks that were started take part."""

from loadframe.ranks.coordinator import Rank, evenly


def rank(number, machine):
    return Rank(number, machine, machine, (0,), "1", 1)


def test_machines_take_turns():
    ranks = [rank(number, f"m{number // 4}") for number in range(12)]
    assert [r.rank for r in evenly(ranks, 3)] == [0, 4, 8]
    assert [r.rank for r in evenly(ranks, 5)] == [0, 1, 4, 5, 8]
    assert [r.rank for r in evenly(ranks, 1)] == [0]
    assert list(evenly(ranks, 12)) == ranks
