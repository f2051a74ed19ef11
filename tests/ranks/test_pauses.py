"""Sleep time of a phase participant: short while an event is due, longer during steady load."""

import time

import pytest

from loadframe.ranks.messages import BRISK
from loadframe.ranks.phase_participant import ALERT, CALM, Participant, Reduction


class Quiet:
    """A world in which no rank sends messages."""

    rank, size = 1, 2

    def send(self, rank, header, payload=b""):
        pass

    def receive(self):
        return None


@pytest.fixture
def member():
    return Participant(Quiet(), {"id": 0, "members": [0, 1], "boots": ["a", "a"], "cores": None}, {"target": {}})


def test_a_member_sleeps_longer_until_its_next_second_is_due(member):
    assert member.pause == ALERT
    # A phase that is over within its first second is not made longer.
    member.begins = time.monotonic() - 0.5
    assert member.pause == ALERT
    member._reduction.take("self", 0, b"")
    assert member._reduction.awaited == 1
    member.begins = time.monotonic() + 1000
    assert member.pause == CALM
    member.begins = time.monotonic() - 1000
    assert member.pause == ALERT
    member.begins = time.monotonic() + 1000
    member._tight_until = time.monotonic() + 1000
    assert member.pause == BRISK
    member._tight_until = 0.0
    member._reduction.end("self")
    assert member.pause == ALERT


def test_the_awaited_second_is_that_of_the_slowest_source():
    reduction = Reduction(["a", "b"], b"".join)
    reduction.take("a", 4, b"")
    assert reduction.awaited == 0
    reduction.take("b", 2, b"")
    assert reduction.awaited == 3
    reduction.end("b")
    assert reduction.awaited == 5
