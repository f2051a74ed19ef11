"""Events of a stream that are looked for, on the driver that takes everything at once and sees it at once."""

import pytest

from loadframe.errors import BadInput
from loadframe.load import run_phase

OF_THE_BID = {"id": "/bid_id", "time": "/bid_time"}
EVENTS = {"type": "/type", "kinds": {"bid": {"id": "/id", "time": "/time"}, "win": OF_THE_BID, "click": OF_THE_BID}}


def plan(driver="null", sample=0.1, **parts):
    """The plan of a phase that takes in 500 bids in a second."""
    stream = {"name": "s", "mix": [["take_in", 1]], "pacing": {"source": {"source": "ads", "workers": 2}}}
    made = {"generator": "adbids", "rate": 500, "documents": 500}
    looks = {"every": 0.02, "within": 5.0, "sample": sample}
    return {
        "seed": 1,
        "phase": "p",
        "target": {"driver": driver, "hosts": ["127.0.0.1:1"]},
        "operations": {"take_in": {"take_in": {"collection": "ads"}}},
        "visible": {"take_in": {name: value for name, value in looks.items() if value is not None}},
        "sources": {"ads": {"generate": made, "events": EVENTS, "flush": 0.05}},
        "streams": [stream | {"stop": "exhausted"}],
    } | parts


@pytest.mark.parametrize("threads", [1, 2])
def test_one_event_in_each_stretch_of_time_is_looked_for_until_it_is_seen(tmp_path, threads):
    told = []
    outcome = run_phase(plan(threads=threads), tmp_path, told.append)
    source = outcome["sources"]["ads"]
    looked_for = source["looked_for"]
    assert 8 <= looked_for["sampled"] <= 11
    assert looked_for["seen"] == looked_for["sampled"]
    assert looked_for["unseen"] == 0
    assert source["accepted"] * 0.5 < looked_for["up_to"] <= source["accepted"]
    parts = {part["part"]: part for part in outcome["parts"]}
    assert parts["visible"]["successes"] == looked_for["seen"]
    # Looks are counted apart, and are not among the requests of the phase.
    assert 1 <= parts["look"]["requests"] <= looked_for["sampled"]
    assert [operation["operation"] for operation in outcome["operations"]] == ["take_in"]


def test_which_events_are_looked_for_is_the_same_on_each_run(tmp_path):
    looked_for = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        outcome = run_phase(plan(), tmp_path / name, lambda progress: None)
        looked_for.append(outcome["sources"]["ads"]["looked_for"])
    assert looked_for[0] == looked_for[1]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"driver": "cql"}, "cannot look for the events"),
        ({"sample": None}, "one in how long"),
        ({"operations": {"take_in": {"get": {}}}, "driver": "null"}, "takes in no events"),
    ],
)
def test_what_cannot_be_looked_for_is_refused_before_the_load(tmp_path, parts, words):
    with pytest.raises(BadInput, match=words):
        run_phase(plan(**parts), tmp_path, lambda progress: None)
