"""Remaining time of long work: the expected time, scaled by the pace so far."""

import pytest

from loadframe.base.terminal import TimeLeft


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_first_estimate_is_the_expected_time(clock):
    assert TimeLeft({"a": 60, "b": 40}, clock).seconds == 100


def test_the_estimate_counts_down_within_a_part_and_is_unknown_while_the_part_takes_longer(clock):
    left = TimeLeft({"a": 60, "b": 40}, clock)
    left.begin("a")
    clock.now += 20
    assert left.seconds == 80
    clock.now += 40.5
    assert left.seconds == 40
    clock.now += 27
    assert left.seconds is None
    left.begin("b")
    assert left.seconds > 40


def test_parts_that_took_twice_as_long_make_the_rest_longer(clock):
    left = TimeLeft({"a": 600, "b": 600, "c": 600}, clock)
    left.begin("a")
    clock.now += 1200
    left.begin("b")
    assert left.seconds == pytest.approx(2 * 1200, rel=0.06)


def test_the_estimate_is_absent_before_a_part_of_unknown_length(clock):
    left = TimeLeft({"a": 60, "walk": None, "b": 40}, clock)
    assert left.seconds is None
    left.begin("a")
    clock.now += 60
    left.begin("walk")
    clock.now += 650
    assert left.seconds is None
    left.begin("b")
    assert left.seconds == 40, "what took its own time does not change the pace"


def test_unexpected_parts_belong_to_the_part_before(clock):
    left = TimeLeft({"a": 60, "b": 40}, clock)
    left.begin("a")
    clock.now += 10
    left.begin("another trial")
    assert left.seconds == 90
