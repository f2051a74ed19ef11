"""Phases: the engine's plans, and refused contradictions."""

import json

import pytest
from workload_texts import pointed_at

from loadframe import _engine
from loadframe.base.errors import BadInput
from loadframe.experiment.design.estimate import phase_length, resolved_seconds

WORKLOAD = """\
workload: w
collections: {{c: {{}}}}
corpora: {{trips: {{generate: nyc_taxi_trip, documents: 10}}, more: {{generate: nyc_taxi_trip, documents: 20}}}}
variables: {{v: {{uniform: [1, 2]}}, unused: {{constant: 1}}}}
operations:
  a: {{search: {{collection: c}}}}
  b: {{get: {{collection: c, id: "${{v}}"}}}}
  fill: {{bulk: {{collection: c, corpus: trips, size: 5}}}}
phases:
  - {phase}
"""


def plan(load, phase, *, threads=1, began=None, **levels):
    resolved = load(WORKLOAD.format(phase=phase)).for_family("elasticsearch", 1).phases[0].override(**levels)
    return resolved.plan(seed=3, hosts=["a:1", "b:2"], driver="search", threads=threads, began=began)


def test_a_plan_is_complete_and_has_only_parts_that_the_phase_uses(load):
    made = plan(load, "{name: p, operation: a, clients: 4, warmup: 2s, duration: 10s}", threads=2, began=7.5)
    assert json.loads(json.dumps(made)) == {
        "seed": 3, "rank": 0, "ranks": 1, "threads": 2, "phase": "p", "began": 7.5, "warmup": 2.0,
        "target": {"driver": "search", "hosts": ["a:1", "b:2"]},
        "corpora": {}, "variables": {}, "operations": {"a": {"search": {"collection": "c"}}},
        "streams": [{"name": "a", "mix": [["a", 1.0]], "pacing": {"closed": {"clients": 4, "think_time": 0.0}},
                     "stop": {"duration": 10.0}, "retries": 0}],
        "stop_when": [],
    }  # fmt: skip


def test_variables_and_corpora_come_with_the_operations_that_use_them(load):
    assert plan(load, "{name: p, operation: b, clients: 1, requests: 1}")["variables"] == {"v": {"uniform": [1, 2]}}
    corpora = plan(load, "{name: p, operation: fill, clients: 1, until: exhausted}")["corpora"]
    assert corpora == {"trips": {"generate": "nyc_taxi_trip", "documents": 10}}


@pytest.mark.parametrize(
    ("written", "pacing"),
    [
        ("clients: 3", {"closed": {"clients": 3, "think_time": 0.0}}),
        ("clients: 3, think_time: 20ms", {"closed": {"clients": 3, "think_time": 0.02}}),
        ("clients: 3, pacing: 10s", {"closed": {"clients": 3, "think_time": 0.0, "pacing": 10.0}}),
        ("rate: 90/min", {"open": {"rate": 1.5, "arrivals": "poisson"}}),
        ("rate: 90/min, arrivals: constant", {"open": {"rate": 1.5, "arrivals": "constant"}}),
        ("rate: 100, arrivals: poisson, max_in_flight: 5",
         {"open": {"rate": 100.0, "arrivals": "poisson", "max_in_flight": 5}}),
    ],
)  # fmt: skip
def test_pacing_is_closed_or_open(load, written, pacing):
    assert plan(load, f"{{name: p, operation: a, requests: 1, {written}}}")["streams"][0]["pacing"] == pacing


@pytest.mark.parametrize(
    ("written", "stop"),
    [("operation: a, duration: 1m", {"duration": 60.0}), ("operation: a, requests: 7", {"requests": 7}),
     ("operation: fill, until: exhausted", "exhausted")],
)  # fmt: skip
def test_a_phase_ends_in_one_of_three_ways(load, written, stop):
    assert plan(load, f"{{name: p, clients: 1, {written}}}")["streams"][0]["stop"] == stop


def test_a_mix_keeps_its_weights(load):
    stream = plan(load, "{name: p, mix: {b: 3, a: 1}, clients: 1, requests: 1}")["streams"][0]
    assert (stream["name"], stream["mix"]) == ("mix", [["b", 3], ["a", 1]])


def test_streams_run_at_the_same_time_and_end_with_the_phase(load):
    streams = "[{operation: fill, rate: 10/s}, {mix: {a: 1, b: 1}, clients: 2}, {name: more, operation: a, clients: 1}]"
    made = plan(load, f"{{name: p, duration: 9s, streams: {streams}}}")
    assert [stream["name"] for stream in made["streams"]] == ["fill", "mix", "more"]
    assert {json.dumps(stream["stop"]) for stream in made["streams"]} == {'{"duration": 9.0}'}
    assert set(made["operations"]) == {"a", "b", "fill"}


@pytest.mark.parametrize(
    ("phase", "levels", "pacing"),
    [
        ("operation: a, clients: 3, think_time: 1s", {"clients": 9}, {"closed": {"clients": 9, "think_time": 1.0}}),
        ("operation: a, rate: 5", {"rate": 50.0}, {"open": {"rate": 50.0, "arrivals": "poisson"}}),
        ("operation: a, rate: 5, arrivals: constant", {"rate": 50.0}, {"open": {"rate": 50.0, "arrivals": "constant"}}),
        ("operation: a, rate: 5", {"arrivals": "constant"}, {"open": {"rate": 5.0, "arrivals": "constant"}}),
        ("operation: a, clients: 3", {"arrivals": "constant"}, {"closed": {"clients": 3, "think_time": 0.0}}),
        ("operation: a, rate: 5, arrivals: poisson", {"clients": 2}, {"closed": {"clients": 2, "think_time": 0.0}}),
        ("operation: a, clients: 3", {"rate": 50.0}, {"open": {"rate": 50.0, "arrivals": "poisson"}}),
    ],
)
def test_an_experiments_levels_replace_the_pacing(load, phase, levels, pacing):
    assert plan(load, f"{{name: p, requests: 1, {phase}}}", **levels)["streams"][0]["pacing"] == pacing


def test_among_several_streams_a_level_means_the_one_that_is_paced_so(load):
    phase = "{name: p, duration: 9s, streams: [{operation: a, rate: 10}, {operation: b, clients: 2}]}"
    pacings = [stream["pacing"] for stream in plan(load, phase, clients=5)["streams"]]
    assert [pacing.get("closed", {}).get("clients") for pacing in pacings] == [None, 5]
    pacings = [stream["pacing"] for stream in plan(load, phase, rate=99.0)["streams"]]
    assert [pacing.get("open", {}).get("rate") for pacing in pacings] == [99.0, None]


def test_a_level_that_could_mean_two_streams_or_none_is_refused(load):
    phase = "{name: p, duration: 9s, streams: [{operation: a, clients: 1}, {operation: b, clients: 2}]}"
    for levels in ({"clients": 5}, {"rate": 5.0}, {"clients": 5, "rate": 5.0}):
        with pytest.raises(BadInput):
            plan(load, phase, **levels)


def test_the_rate_of_operations_that_start_together_counts_groups(load):
    workload = load(WORKLOAD.format(phase="{name: p, requests: 600, mix: {a: 2, b: 1}, order: together, rate: 5}"))
    assert phase_length(workload, workload.file.phases[0]).seconds == 600 / (5 * 3)


@pytest.mark.parametrize(
    ("end", "first", "second", "seconds"),
    [
        ("", "duration: 60s", "duration: 90s", 92),
        ("ends_with: a, ", "duration: 60s", "duration: 90s", 62),
        ("ends_with: any, ", "duration: 60s", "duration: 30s", 32),
        ("ends_with: a, ", "duration: 60s", "think_time: 1s", 62),
        ("requests: 5000, ", "duration: 60s", "think_time: 1s", 62),
        ("", "duration: 60s", "requests: 5000", 62),
        ("", "requests: 7000", "requests: 5000", 9),
        ("duration: 90s, ", "duration: 60s", "think_time: 1s", 92),
    ],
)
def test_a_phase_lasts_as_long_as_its_streams(load, end, first, second, seconds):
    streams = f"[{{name: a, operation: a, clients: 1, {first}}}, {{name: b, operation: b, clients: 1, {second}}}]"
    workload = load(WORKLOAD.format(phase=f"{{name: p, warmup: 2s, {end}streams: {streams}}}"))
    assert phase_length(workload, workload.file.phases[0]).seconds == seconds
    assert resolved_seconds(workload.for_family("elasticsearch", 1).phases[0]) == seconds


def test_operations_that_start_together_keep_their_rate(load):
    phase = "{name: p, requests: 6, mix: {a: 2, b: 1}, order: together, rate: 5}"
    (stream,) = plan(load, phase, rate=50.0)["streams"]
    assert (stream["mix"], stream["order"]) == ([["a", 2.0], ["b", 1.0]], "together")
    assert stream["pacing"]["open"]["rate"] == 50.0
    with pytest.raises(BadInput, match="cannot set clients of the phase 'p': its order: together requires rate"):
        plan(load, phase, clients=5)


def test_operations_in_a_permuted_order_keep_their_clients(load):
    phase = "{name: p, requests: 6, mix: {a: 2, b: 1}, order: permuted, clients: 2}"
    with pytest.raises(BadInput, match="cannot set rate of the phase 'p': its order: permuted requires clients"):
        plan(load, phase, rate=5.0)


def test_values_without_an_override_stay(load):
    phase = "{name: p, operation: a, clients: 3, warmup: 5s, duration: 9}"
    assert plan(load, phase, clients=None, rate=None, warmup=None, duration=None) == plan(load, phase)


def test_an_experiments_times_replace_the_phases(load):
    made = plan(load, "{name: p, operation: a, clients: 1, warmup: 5s, requests: 9}", warmup=0.0, duration=4.0)
    assert (made["warmup"], made["streams"][0]["stop"]) == (0.0, {"duration": 4.0})


@pytest.mark.parametrize(
    ("phase", "where", "what"),
    [
        ("{name: p, operation: c, clients: 1, requests: 1}", "c", "unknown operation 'c'"),
        ("{name: p, mix: {a: 1, bb: 1}, clients: 1, requests: 1}", "bb", "unknown operation 'bb'"),
        ("{name: p, mix: {a: 0}, clients: 1, requests: 1}", "0", "above 0"),
        ("{name: p, mix: {}, clients: 1, requests: 1}", "{", "at least one entry"),
        ("{name: p, mix: {fill: 1, a: 1}, clients: 1, requests: 1}", "fill", "cannot be part of a mix or journey"),
        ("{name: p, mix: {a: 1}, operation: a, clients: 1, requests: 1}", "{name", "operation and mix"),
        ("{name: p, clients: 1, requests: 1}", "{name", "operation, mix or journey is missing"),
        ("{name: p, operation: a, requests: 1}", "{name", "clients or rate is missing"),
        ("{name: p, operation: a, clients: 1, rate: 5, requests: 1}", "{name", "clients (closed loop) and rate"),
        ("{name: p, operation: a, rate: 5, think_time: 1s, requests: 1}", "think_time", "think_time requires clients"),
        ("{name: p, operation: a, order: permuted, clients: 2, requests: 1}", "order", "order: permuted requires mix"),
        ("{name: p, mix: {a: 1}, order: permuted, rate: 5, requests: 1}", "order", "permuted requires mix and clients"),
        ("{name: p, mix: {a: 1}, order: together, clients: 5, requests: 1}", "order", "together requires mix and rate"),
        ("{name: p, mix: {a: 0.5}, order: together, rate: 5, requests: 1}", "mix", "must be whole numbers"),
        ("{name: p, mix: {a: 3}, order: together, rate: 5, max_in_flight: 2, requests: 3}", "max_in_flight",
         "max_in_flight must be at least the 3 requests of a group; got 2"),
        ("{name: p, mix: {a: 1025}, order: together, rate: 5, requests: 1025}", "mix",
         "max_in_flight must be at least the 1025 requests of a group; got 1024"),
        ("{name: p, mix: {a: 3}, order: together, rate: 5, requests: 4}", "requests",
         "requests must be a multiple of the 3 requests of a group; got 4"),
        ("{name: p, mix: {fill: 2}, order: together, rate: 5, requests: 4}", "fill", "cannot be part of a mix"),
        ("{name: p, mix: {a: 0.5, b: 1}, order: permuted, clients: 2, requests: 1}", "mix", "must be whole numbers"),
        ("{name: p, operation: a, clients: 1, arrivals: poisson, requests: 1}", "arrivals", "arrivals requires rate"),
        ("{name: p, operation: a, rate: 5, arrivals: poison, requests: 1}", "poison", "not valid"),
        ("{name: p, operation: a, clients: 1}", "{name", "a phase needs exactly one end condition; got none"),
        ("{name: p, operation: a, clients: 1, requests: 1, duration: 1s}", "{name", "duration and requests"),
        ("{name: p, operation: a, clients: 1, until: exhausted}", "exhausted", "requires an operation that reads"),
        ("{name: p, operation: fill, clients: 1, until: exausted}", "exausted", "not valid"),
        ("{name: p, operation: a, clients: 0, requests: 1}", "0", "at least 1"),
        ("{name: p, operation: a, clients: 1.5, requests: 1}", "1.5", "expected a whole number"),
        ("{name: p, operation: a, clients: 1, duration: 0s}", "0s", "above 0"),
        ("{name: p, operation: a, rate: 0, requests: 1}", "0", "above 0"),
        ("{name: p p, operation: a, clients: 1, requests: 1}", "p", "is not a name"),
        ("{operation: a, clients: 1, requests: 1}", "{operation", "'name' is missing"),
        ("{name: p, operation: a, clients: 1, requests: 1, prepares: yes}", "yes", "true or false"),
        ("{name: p, requests: 1, streams: []}", "[", "at least one entry"),
        ("{name: p, requests: 1, clients: 1, streams: [{operation: a, clients: 1}]}", "clients", "streams and clients"),
        ("{name: p, requests: 1, streams: [{operation: a, rate: 1}, {operation: a, rate: 1}]}", "streams", "duplicate"),
        ("{name: p, requests: 1, streams: [{operation: z, clients: 1}]}", "z", "unknown operation 'z'"),
        ("{name: p, requests: 1, streams: [{operation: a, warmup: 1}]}", "warmup", "unknown key 'warmup'"),
        ("{name: p, requests: 1, streams: [{operation: a, clients: 1, duration: 1}]}", "requests", "has no effect"),
        ("{name: p, streams: [{operation: a, clients: 1, duration: 1, requests: 1}]}", "{oper", "duration and"),
        ("{name: p, ends_with: a, clients: 1, operation: a}", "ends_with", "unknown stream 'a'"),
        ("{name: p, ends_with: b, streams: [{operation: a, clients: 1}]}", "ends_with", "unknown stream 'b'"),
        ("{name: p, ends_with: a, streams: [{operation: a, clients: 1}]}", "ends_with", "'a' lacks an end condition"),
        ("{name: p, ends_with: any, streams: [{operation: a, clients: 1}]}", "ends_with", "streams lack an end"),
        ("{name: p, ends_with: a, duration: 1, streams: [{operation: a, clients: 1, requests: 1}]}", "duration",
         "ends_with and duration exclude each other"),
        ("{name: p, until: exhausted, streams: [{operation: fill, clients: 1}, {operation: a, rate: 1}]}", "exhausted",
         "until: exhausted requires an operation that reads a corpus; 'a' does not"),
        ("3", "3", "expected a mapping"),
    ],
)  # fmt: skip
def test_a_contradiction_is_refused_at_its_place(refused, phase, where, what):
    text = WORKLOAD.format(phase=phase)
    error = refused(text)
    assert what in error.what
    assert pointed_at(text, error).startswith(where)


@pytest.mark.parametrize(
    ("written", "pacing"),
    [
        ("clients: {from: 1, stages: [{to: 8, over: 30s}, {to: 8, over: 1m}, {to: 0, over: 0s}]}",
         {"closed": {"clients": {"from": 1, "stages": [{"to": 8, "over": 30.0}, {"to": 8, "over": 60.0},
                                                       {"to": 0, "over": 0.0}]}, "think_time": 0.0}}),
        ("rate: {from: 5, stages: [{to: 9, over: 5s}], repeats: true}, arrivals: constant",
         {"open": {"rate": {"from": 5.0, "stages": [{"to": 9.0, "over": 5.0}], "repeats": True},
                   "arrivals": "constant"}}),
        ("rate: {from: 0, stages: [{to: 600/min, over: 5s}]}, arrivals: poisson",
         {"open": {"rate": {"from": 0.0, "stages": [{"to": 10.0, "over": 5.0}]}, "arrivals": "poisson"}}),
        ("clients: 2, think_time: {exponential: 250ms}",
         {"closed": {"clients": 2, "think_time": {"exponential": 0.25}}}),
        ("clients: 2, think_time: {uniform: [100ms, 1s]}",
         {"closed": {"clients": 2, "think_time": {"uniform": [0.1, 1.0]}}}),
    ],
)  # fmt: skip
def test_levels_step_and_ramp_and_think_times_are_drawn(load, written, pacing, tmp_path):
    made = plan(load, f"{{name: p, operation: a, duration: 0.1s, {written}}}")
    assert json.loads(json.dumps(made["streams"][0]["pacing"])) == pacing
    accepted({**made, "target": {"driver": "null"}}, tmp_path)


def test_a_journey_is_walked_with_its_own_think_times(load, tmp_path):
    journey = "[a, {operation: b, think_time: {normal: [10ms, 2ms]}}, a]"
    made = plan(load, f"{{name: p, journey: {journey}, rate: 20, duration: 0.1s, retries: 2}}")
    stream = made["streams"][0]
    assert (stream["name"], [step["operation"] for step in stream["journey"]]) == ("journey", ["a", "b", "a"])
    assert "mix" not in stream
    assert stream["retries"] == 2
    assert set(made["operations"]) == {"a", "b"}
    accepted({**made, "target": {"driver": "null"}}, tmp_path)


def test_retries_have_pauses_and_limits(load, tmp_path):
    retry = "{attempts: 4, backoff: constant, base: 20ms, cap: 1s, jitter: 0, budget: 10 %, on: [rejected]}"
    made = plan(load, f"{{name: p, operation: a, clients: 1, duration: 0.1s, retry: {retry}}}")
    stream = made["streams"][0]
    assert stream["retries"] == 3
    assert stream["back_off"] == {
        "base": 0.02, "factor": 1, "cap": 1.0, "jitter": 0.0, "budget": 0.1, "on": ["rejected"],
        "respect_retry_after": True,
    }  # fmt: skip
    accepted({**made, "target": {"driver": "null"}}, tmp_path)


def test_a_condition_can_end_a_phase_early(load, tmp_path):
    condition = "{metric: error_share, above: 0.1, seconds: 3}"
    made = plan(load, f"{{name: p, operation: a, clients: 1, duration: 0.1s, stop_when: [{condition}]}}")
    assert made["stop_when"] == [{"metric": "error_share", "above": 0.1, "seconds": 3}]
    accepted({**made, "target": {"driver": "null"}}, tmp_path)


def test_an_automatic_window_is_planned_with_its_limits(load, tmp_path):
    made = plan(load, "{name: p, operation: a, clients: 1, warmup: auto, duration: {precision: 2 %, at_most: 90s}}")
    assert (made["warmup"], made["streams"][0]["stop"], made["adjustable"]) == (300, {"duration": 90}, True)
    waiting = plan(load, "{name: p, operation: a, rate: 5/s, warmup: 2s, duration: 9s, wait_for_queue: 30s}")
    assert (waiting["warmup"], waiting["pause_after"], waiting["adjustable"]) == (32, 2, True)
    assert "adjustable" not in plan(load, "{name: p, operation: a, rate: 5/s, warmup: 2s, duration: 9s}")


def test_a_missed_rate_can_end_a_phase_early(load, tmp_path):
    condition = "{metric: missed_share, above: 0.1, seconds: 5}"
    made = plan(load, f"{{name: p, operation: a, rate: 9/s, duration: 0.1s, stop_when: [{condition}]}}")
    assert made["stop_when"] == [{"metric": "missed_share", "above": 0.1, "seconds": 5}]
    accepted({**made, "target": {"driver": "null"}}, tmp_path)
    made = plan(load, f"{{name: p, operation: fill, rate: 90/s, until: exhausted, stop_when: [{condition}]}}")
    assert made["streams"][0]["stop"] == "exhausted"


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("metric: response_p99, above: 1h", 'no response time is above "1h"'),
        ("metric: error_share, above: 100%", 'no share is above "100%"'),
    ],
)
def test_a_condition_that_is_never_met_is_refused(load, condition, what):
    with pytest.raises(BadInput, match=what):
        plan(load, f"{{name: p, operation: a, rate: 9/s, duration: 1s, stop_when: [{{{condition}}}]}}")


@pytest.mark.parametrize(
    ("condition", "above"),
    [
        ("metric: missed_share, above: 5%", 0.05),
        ("metric: error_share, above: 0.5 %", 0.005),
        ("metric: error_share, above: 0", 0),
        ("metric: response_p99, above: 500ms", 0.5),
        ("above: 2, metric: response_p99", 2),
        ("metric: dropped, above: 20", 20),
    ],
)
def test_the_bound_of_a_condition_has_the_unit_of_its_metric(load, condition, above):
    made = plan(load, f"{{name: p, operation: a, rate: 9/s, duration: 1s, stop_when: [{{{condition}}}]}}")
    assert made["stop_when"][0]["above"] == above


def accepted(made, folder):
    """The engine takes the plan, and runs it."""
    handle = _engine.start(json.dumps(made), folder)
    assert handle.wait(10)
    assert not json.loads(handle.outcome())["interrupted"]


@pytest.mark.parametrize(
    ("phase", "where", "what"),
    [
        ("clients: {from: 0, stages: [{to: 0, over: 5s}]}", "stages", "sends nothing"),
        ("clients: {from: 1, stages: []}", "[", "at least one entry"),
        ("clients: {from: 1, stages: [{to: -1, over: 5s}]}", "-1", "at least 0"),
        ("clients: {from: 1, stages: [{to: 1, ovr: 5s}]}", "ovr", "unknown key"),
        ("rate: {from: 1, stages: [{to: 1, over: -5s}]}", "-5s", "not a duration"),
        (
            "rate: {from: 1, stages: [{to: 2, over: 0s}], repeats: true}",
            "repeats",
            "a repeating profile must last longer than 0s",
        ),
        ("rate: {from: 1, stages: [{to: 2, over: 5s}], repeats: 3}", "3", "not valid"),
        ("rate: {from: -1, stages: [{to: 2, over: 5s}]}", "-1", "negative"),
        ("rate: {from: 1, stages: [{to: 2, over: 5s}], form: 3}", "form", "unknown key"),
        ("clients: {from: 1, stages: 5s}", "5s", "a list"),
        ("clients: {from: 1, stages: [{to: 2, over: 5s}], repeats: true}", "repeats", "unknown key"),
        ("clients: 1, think_time: {uniform: [2s, 1s]}", "uniform", "above the upper"),
        (
            "clients: 1, think_time: {uniform: [1s, 2s], exponential: 1s}",
            "{uniform",
            'a think time needs exactly one distribution; got ["exponential", "uniform"]',
        ),
        ("clients: 1, think_time: -1s", "-1s", "not a duration"),
        ("clients: 1, retries: -1", "-1", "at least 0"),
        ("clients: 1, retry: {attempts: 1}", "1", "at least 2"),
        ("clients: 1, retry: {attempts: 3, base: 3s}", "base: 3s", "first pause is longer"),
        ("clients: 1, retry: {attempts: 3, budget: 0}", "0", "above 0"),
        ("clients: 1, retry: {attempts: 3, on: [client]}", "client", "not valid"),
        ("clients: 1, retry: {attempts: 3, jitter: 2}", "2", "not a share"),
        ("clients: 1, retries: 1, retry: {attempts: 3}", "retries: 1", "exclude each other"),
        ("clients: 1, stop_when: [{metric: errors, above: 1}]", "errors", "not valid"),
        ("clients: 1, stop_when: [{metric: missed_share, above: 0.1}]", "stop_when", "missed_share requires a rate"),
        ("rate: 1, stop_when: [{metric: missed_share, above: 5}]", "5}", "5 is not a share"),
        ("rate: 1, stop_when: [{metric: missed_share, above: 1}]", "1}", "no share is above 1"),
        ("rate: 1, stop_when: [{metric: error_share, above: 200%}]", "200%", "'200%' is not a share"),
        ("rate: 1, stop_when: [{metric: error_share, above: [1]}]", "[1]", "is not a share"),
        ("rate: 1, stop_when: [{metric: response_p99, above: 5%}]", "5%", "'5%' is not a duration"),
        ("rate: 1, stop_when: [{metric: dropped, above: 5%}]", "5%", 'expected a number of at least 0, not "5%"'),
        ("rate: 1, stop_when: [{metric: dropped, above: -1}]", "-1", "expected a number of at least 0, not -1"),
        ("rate: 1, pacing: 1s", "pacing", "pacing requires clients or users"),
        ("clients: 1, pacing: 1s, think_time: 1s", "pacing", "pacing and think_time exclude each other"),
        ("clients: 1, wait_for_queue: true", "wait_for_queue", "requires a rate"),
        ("rate: 1, warmup: auto, wait_for_queue: true", "warmup", "exclude each other"),
        ("rate: 1, wait_for_queue: 500ms", "500ms", "at least 1 s"),
        ("clients: {from: 1, stages: [{to: 2, over: 5s}]}, warmup: auto", "warmup", "requires a constant load"),
        ("clients: 1, warmup: {at_most: 5s}", "at_most: 5s", "at_most must be at least 20 s"),
        ("clients: 1, warmup: {at_least: 5s}", "5s", 'a duration of at least 20 s, not "5s"'),
    ],
)
def test_a_pacing_that_makes_no_sense_is_refused_at_its_place(refused, phase, where, what):
    text = WORKLOAD.format(phase=f"{{name: p, operation: a, duration: 1s, {phase}}}")
    error = refused(text)
    assert what in error.what
    assert pointed_at(text, error).startswith(where)


def test_two_phases_cannot_have_one_name(refused):
    phase = "{name: p, operation: a, clients: 1, requests: 1}"
    assert "duplicate phase name 'p'" in refused(WORKLOAD.format(phase=f"{phase}\n  - {phase}")).what
