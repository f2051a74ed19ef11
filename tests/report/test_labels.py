"""Labels for recorded values: load models, also with stages and think times."""

import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.record.schema.summary import StreamSummary
from loadframe.report.labels import pacing_text
from made_up_runs import MadeUp, operation, phase, summary

STAGES = {"from": 1, "stages": [{"to": 8, "over": 30.0}, {"to": 4, "over": 0.0}]}


@pytest.mark.parametrize(
    ("pacing", "words"),
    [
        ({"closed": {"clients": 8}}, "8 clients"),
        ({"source": {"source": "ads", "workers": 1}}, "events of ads on 1 worker"),
        ({"source": {"source": "ads", "workers": 4}}, "events of ads on 4 workers"),
        ({"closed": {"clients": 1, "think_time": 0.25}}, "1 client thinking 250 ms"),
        (
            {"closed": {"clients": 2, "think_time": {"exponential": 0.25}}},
            "2 clients with random think time",
        ),
        ({"closed": {"clients": STAGES, "think_time": 0.0}}, "1 to 8 clients in stages"),
        ({"open": {"rate": 1000.0, "arrivals": "poisson"}}, "1,000/s, Poisson"),
        ({"open": {"rate": {"from": 0.0, "stages": [{"to": 50.0, "over": 9.0}]}}}, "0 to 50/s in stages, constant"),
    ],
    ids=["clients", "worker", "workers", "thinking", "drawn", "stages", "poisson", "ramp"],
)
def test_load_models_are_named_in_words(pacing, words):
    assert pacing_text(StreamSummary("main", pacing)) == words


@pytest.mark.parametrize(("clients", "number"), [(3, 3), (STAGES, None)], ids=["constant", "stages"])
def test_a_number_of_clients_that_changes_is_not_a_number(clients, number):
    run = RecordedRun("r", 1, {}, MadeUp(summary(phase("a", {"read": operation(100.0)}, clients=clients))))
    assert run.clients("a") == number
