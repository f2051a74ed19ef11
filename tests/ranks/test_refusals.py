"""Refusals before a load: the rank, its machine and the remedy."""

import json
import re
import time

import pytest

from loadframe import _engine
from loadframe.base.errors import BadInput
from loadframe.ranks.coordinator import Rank, _alike
from loadframe.ranks.messages import RankLost
from loadframe.ranks.phase_participant import Participant
from loadframe.ranks.phase_top import PhaseOfRanks, RootParticipant

ORDER = {
    "kind": "phase",
    "id": 0,
    "members": [0, 3, 5],
    "boots": ["a", "b", "c"],
    "names": ["m1", "m2", "m3"],
    "cores": None,
}


class Nobody:
    """A world in which the other ranks never answer."""

    rank, size = 0, 6

    def send(self, rank, header, payload=b""):
        pass

    def receive(self):
        return None


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A top of three ranks on three machines that has requested the others' clocks and is ready itself."""
    monkeypatch.setattr(Participant, "_prepare", lambda self: (None, {}))
    top = RootParticipant(Nobody(), ORDER, {"target": {}}, tmp_path)
    top.start()
    return top


def compare_clocks(top, seconds):
    """Answer as ranks with a round trip of `seconds`."""
    for rank in (3, 5):
        while rank in top._unmeasured:
            now = time.monotonic()
            top.heard(rank, {"kind": "pong", "sent": now - seconds, "answered": now - seconds / 2, "door": []}, b"")
        top.heard(rank, {"kind": "clocked", "offsets": []}, b"")


def refusal(top):
    return top.begun.exception(timeout=60)


def test_clocks_that_cannot_be_compared_are_refused(top):
    compare_clocks(top, 30.0)
    error = refusal(top)
    assert isinstance(error, BadInput) and error.exit_status == 2
    assert re.search(r"the clock of rank (3 on m2|5 on m3) can be compared with rank 0's only to 15000 ms", error.what)


def test_a_node_that_some_ranks_do_not_reach_is_named_with_them(top):
    compare_clocks(top, 0.001)
    unreached = {"10.0.0.7:9200": {"why": "EHOSTUNREACH", "ranks": [5], "of": 1}}
    top.heard(3, {"kind": "ready", "refused": [], "unreached": {}}, b"")
    top.heard(5, {"kind": "ready", "refused": [], "unreached": unreached}, b"")
    until = time.monotonic() + 60
    while not top.begun.done() and time.monotonic() < until:
        top.tick()
        time.sleep(0.01)
    words = "1 of 3 ranks cannot reach the node 10.0.0.7:9200: rank 5 on m3: EHOSTUNREACH"
    assert isinstance(refusal(top), BadInput) and words in refusal(top).what


def test_preparation_errors_name_the_rank(top):
    compare_clocks(top, 0.001)
    top.heard(3, {"kind": "ready", "refused": [[3, "PlanRefused", "there is no such file"]], "unreached": {}}, b"")
    top.heard(5, {"kind": "ready", "refused": [], "unreached": {}}, b"")
    until = time.monotonic() + 60
    while not top.begun.done() and time.monotonic() < until:
        top.tick()
        time.sleep(0.01)
    assert "rank 3 on m2: there is no such file" in str(refusal(top))


@pytest.mark.parametrize(
    ("version", "engine", "words"),
    [
        ("0.2.0", 7, "rank 1 on m2 has loadframe 0.2.0"),
        ("0.1.0", 8, "rank 1 on m2 has loadframe another build of 0.1.0"),
    ],
)
def test_ranks_of_other_versions_are_refused(version, engine, words):
    first = Rank(0, "m1", "a", (0,), "0.1.0", 7)
    with pytest.raises(BadInput, match=words):
        _alike((first, Rank(1, "m2", "b", (0,), version, engine)))
    assert _alike((first, Rank(1, "m2", "b", (0,), "0.1.0", 7)))


class _NeverBegins:
    """A prepared engine of rank 0 that records, but cannot start its load."""

    def __init__(self, plan):
        self._prepared = _engine.prepare_rank(json.dumps(plan))

    def recorder(self, folder, at):
        return self._prepared.recorder(folder, at)

    def begin(self, at):
        raise RuntimeError("cannot start a thread")


STREAMS = [{"name": "s", "mix": [["ask", 1]], "pacing": {"open": {"rate": 9}}, "stop": {"duration": 1.0}}]
PLAN = {"seed": 7, "phase": "load", "target": {"driver": "null"}, "operations": {"ask": {}}, "streams": STREAMS}


def top_that_cannot_begin(folder, members):
    """Return the top of a phase on these ranks after its own load failed to start, and the plan of its ranks."""
    plan = PLAN | {"rank": 0, "ranks": len(members), "threads": 1, "began": time.monotonic() - 1}
    order = ORDER | {"members": members, "boots": ["a", "b"][: len(members)], "names": ["m1", "m2"][: len(members)]}
    top = RootParticipant(Nobody(), order, plan, folder)
    top._ready = _NeverBegins(plan)
    top._begin_all()
    return top, plan


def test_a_phase_whose_first_rank_cannot_start_its_load_ends_as_failed(tmp_path):
    top, plan = top_that_cannot_begin(tmp_path, [0, 1])
    other = _engine.prepare_rank(json.dumps(plan | {"rank": 1})).begin(top.begins)
    assert not top.done.done()
    other.stop()
    top.heard(1, {"kind": "ended", "machines": {}}, other.outcome().encode())
    assert PhaseOfRanks(top, lambda work: work()).wait(0)
    outcome = top.done.result(timeout=0)
    assert outcome["failed"] == "rank 0 on m1 could not start: cannot start a thread"
    assert outcome["lost"] == [{"rank": 0, "why": "could not start: cannot start a thread"}]


@pytest.mark.parametrize("members", [[0], [0, 1]])
def test_a_phase_without_an_outcome_of_any_rank_raises_the_first_failure(tmp_path, members):
    top, _ = top_that_cannot_begin(tmp_path, members)
    for rank in members[1:]:
        top.heard(rank, {"kind": "ended", "machines": {}}, b"")
    handle = PhaseOfRanks(top, lambda work: work())
    assert handle.wait(0)
    with pytest.raises(RankLost, match="rank 0 on m1 could not start: cannot start a thread"):
        handle.outcome()
