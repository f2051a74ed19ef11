"""First executions of a request, later ones, and how old answers are, on the driver that answers at once."""

import pytest
from looked_for import plan

from loadframe.base.errors import BadInput
from loadframe.load import run_phase


def asking(variables, requests, **parts):
    """The plan of a phase in which two clients ask."""
    stream = {"name": "s", "mix": [["ask", 1]], "pacing": {"closed": {"clients": 2}}, "stop": {"requests": requests}}
    return {
        "seed": 1,
        "phase": "p",
        "target": {"driver": "null", "hosts": ["127.0.0.1:1"]},
        "operations": {"ask": {"search": {"collection": "c", "body": "${ad} ${day}"}}},
        "variables": variables,
        "first": ["ask"],
        "streams": [stream],
    } | parts


@pytest.mark.parametrize("threads", [1, 2])
def test_each_request_is_first_once_and_then_executed_again(tmp_path, threads):
    variables = {"ad": {"uniform": [0, 6]}, "day": {"constant": "monday"}}
    outcome = run_phase(asking(variables, 100, threads=threads), tmp_path, lambda progress: None)
    parts = {part["part"]: part["successes"] for part in outcome["parts"]}
    assert parts == {"first": 7, "again": 93}
    assert [operation["requests"] for operation in outcome["operations"]] == [100], "parts are not counted twice"


def test_several_generators_are_refused(tmp_path):
    with pytest.raises(BadInput, match="ranks do not know each other"):
        run_phase(asking({"ad": {"constant": 1}, "day": {"constant": 1}}, 10, ranks=2), tmp_path, lambda _: None)


@pytest.mark.slow
def test_an_answer_is_as_old_as_the_newest_event_that_was_seen_before_it_was_asked_for(tmp_path):
    phase = plan(sample=0.05)
    ask = {"name": "asked", "mix": [["ask", 1]], "pacing": {"open": {"rate": 50}}, "stop": {"duration": 4}}
    phase["operations"] |= {"ask": {"search": {"collection": "ads"}}}
    phase |= {"shows": {"ask": "take_in"}, "streams": [*phase["streams"], ask]}
    outcome = run_phase(phase, tmp_path, lambda progress: None)
    (asked,) = (operation for operation in outcome["operations"] if operation["operation"] == "ask")
    (age,) = (part for part in outcome["parts"] if part["part"] == "age")
    assert asked["requests"] > 150
    # The age is unknown before the first event is visible; after the last event no answer can be fresher.
    assert 10 < age["successes"] < 0.6 * asked["requests"]


def test_answers_show_events_only_where_some_are_looked_for(tmp_path):
    phase = plan()
    phase |= {"shows": {"take_in": "take_in"}, "visible": {}}
    with pytest.raises(BadInput, match="does not ingest events with visibility probes"):
        run_phase(phase, tmp_path, lambda progress: None)
