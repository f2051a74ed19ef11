"""Seconds of several ranks, added when they are complete."""

from loadframe.ranks.phase_participant import Reduction


def joined(parts):
    return b"".join(sorted(parts))


def test_seconds_are_complete_when_every_source_has_reported():
    reduction = Reduction(["a", "b"], joined)
    reduction.take("a", 0, b"a0")
    reduction.take("a", 1, b"a1")
    assert reduction.complete() == []
    reduction.take("b", 0, b"b0")
    assert reduction.complete() == [(0, b"a0b0")]
    reduction.take("b", 1, b"b1")
    assert reduction.complete() == [(1, b"a1b1")]


def test_a_source_that_has_ended_is_not_waited_for_and_what_it_sent_counts():
    reduction = Reduction(["a", "b"], joined)
    reduction.take("b", 0, b"b0")
    reduction.end("b")
    reduction.take("b", 1, b"too late")
    reduction.take("a", 0, b"a0")
    reduction.take("a", 1, b"a1")
    assert reduction.complete() == [(0, b"a0b0"), (1, b"a1")]
    assert reduction.open == {"a"}
    reduction.end("a")
    assert not reduction.open and reduction.complete() == []


def test_what_is_left_when_all_have_ended_is_given():
    reduction = Reduction(["a"], joined)
    reduction.take("a", 3, b"a3")
    reduction.end("a")
    assert reduction.complete() == [(3, b"a3")]
