"""Labels for recorded values: load models, also with stages and think times."""

from dataclasses import replace

import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.record.schema.figures import GrowthFigures, KernelTimes, Latency
from loadframe.record.schema.summary import StoppedBy, StreamSummary
from loadframe.report.labels import (
    growth_text,
    kernel_times_texts,
    overruns_texts,
    pacing_text,
    stopped_by_texts,
    treatment_text,
)
from made_up_runs import MadeUp, operation, phase, summary

STAGES = {"from": 1, "stages": [{"to": 8, "over": 30.0}, {"to": 4, "over": 0.0}]}


@pytest.mark.parametrize(
    ("pacing", "words"),
    [
        ({"closed": {"clients": 8}}, "8 clients"),
        ({"source": {"source": "ads", "workers": 1}}, "events of ads on 1 worker"),
        ({"source": {"source": "ads", "workers": 4}}, "events of ads on 4 workers"),
        ({"closed": {"clients": 1, "think_time": 0.25}}, "1 client thinking 250 ms"),
        ({"closed": {"clients": 2, "pacing": 10.0}}, "2 clients, starting every 10 s"),
        ({"users": {"users": 90, "clients": 8, "pacing": 10.0}}, "90 users on 8 clients, starting every 10 s"),
        (
            {"closed": {"clients": 2, "think_time": {"exponential": 0.25}}},
            "2 clients with random think time",
        ),
        ({"closed": {"clients": STAGES, "think_time": 0.0}}, "1 to 8 clients in stages"),
        ({"open": {"rate": 1000.0, "arrivals": "poisson"}}, "1,000/s, Poisson"),
        ({"open": {"rate": {"from": 0.0, "stages": [{"to": 50.0, "over": 9.0}]}}}, "0 to 50/s in stages, constant"),
    ],
    ids=["clients", "worker", "workers", "thinking", "pacing", "users", "drawn", "stages", "poisson", "ramp"],
)
def test_load_models_are_named_in_words(pacing, words):
    assert pacing_text(StreamSummary("main", pacing)) == words


def test_the_load_model_names_the_requests_that_start_together():
    stream = StreamSummary("main", {"open": {"rate": 0.5, "arrivals": "constant"}}, group=5)
    assert pacing_text(stream) == "0.5/s, 5 requests together, constant"


@pytest.mark.parametrize(("clients", "number"), [(3, 3), (STAGES, None)], ids=["constant", "stages"])
def test_a_number_of_clients_that_changes_is_not_a_number(clients, number):
    run = RecordedRun("r", 1, {}, MadeUp(summary(phase("a", {"read": operation(100.0)}, clients=clients))))
    assert run.clients("a") == number


def test_iterations_longer_than_the_pacing_and_early_stops_are_reported():
    paced = StreamSummary("main", {"closed": {"clients": 2, "pacing": 10.0}}, iterations=40, overruns=3)
    stop = StoppedBy("missed_share", 0.05, 10)
    made = replace(phase("a", {"read": operation(100.0)}), streams=(paced,), stopped_by=stop)
    assert overruns_texts(made) == [
        "stream main: 3 of 40 iterations took longer than the pacing of 10 s; the next one started at once"
    ]
    assert stopped_by_texts(made) == ["stopped early by stop_when: missed_share was above 0.05 for 10 s"]
    assert overruns_texts(phase("a", {"read": operation(100.0)})) == []


def test_levels_that_are_whole_numbers_have_no_decimals():
    levels = {"nodes": 2, "rate": 2400.0, "store.limits.cpus": 0.1, "skew": 1e6, "store.kind": "redis"}
    assert treatment_text(levels) == "nodes 2, rate 2400/s, cpus 0.1, skew 1000000, kind redis"


def test_factors_with_the_same_last_part_are_told_apart():
    levels = {"nodes": 1, "store.settings.redis.nodes": 2, "store.settings.mongodb.nodes": 3, "store.limits.cpus": 4}
    assert treatment_text(levels) == "nodes 1, redis.nodes 2, mongodb.nodes 3, cpus 4"
    assert treatment_text({"store.settings.redis.nodes": 2}) == "redis.nodes 2"


@pytest.mark.parametrize(
    ("slope", "low", "high", "held", "words"),
    [
        (12e-3, 10e-3, 14e-3, True, "rose by 12 ms [10 ms, 14 ms] with each 1,000 documents held (from 0 to 34,800)"),
        (
            -12e-3,
            -14e-3,
            -11e-3,
            False,
            "fell by 12 ms [11 ms, 14 ms] with each 1,000 documents written (replaced ones included)"
            " (from 0 to 34,800), or with time",
        ),
        (-4.46e-3, -26.7e-3, 17.8e-3, True, None),
    ],
)
def test_changes_of_response_times_with_the_documents_are_sentences_unless_within_noise(slope, low, high, held, words):
    growth = GrowthFigures(slope, low, high, 0.0, 34_800.0, held=held, all=True, apart=held)
    assert growth_text(replace(operation(100.0), growth=growth)) == words


STAMPED = (
    "service time mean 1.1 ms, p50 2 ms, p99 3.5 ms; without the generator's part (a lower bound): mean 1 ms, p50 2 ms,"
    " p99 3 ms; its part: mean 100 us (9 % of the mean), p50 20 us, p99 1 ms; percentiles do not add up"
)


@pytest.mark.parametrize(
    ("count", "without", "receive_only", "words"),
    [
        (9, 0, 0, STAMPED),
        (
            9,
            1,
            2,
            f"{STAMPED} (1 success without timestamps omitted) (2 successes corrected for receiving only)",
        ),
        (0, 4, 0, "none of 4 successes has any"),
        (0, 0, 0, None),
    ],
)
def test_kernel_times_of_an_operation_are_written_with_their_omissions(count, without, receive_only, words):
    some = {"mean": 1e-3, "p50": 2e-3, "p99": 3e-3} if count else {}
    overhead = {"mean": 1e-4, "p50": 2e-5, "p99": 1e-3} if count else {}
    served = Latency(count=count + without, mean=1.1e-3, p50=2e-3, p99=3.5e-3)
    times = KernelTimes(Latency(count=count, **overhead), Latency(count=count, **some), without, receive_only)
    made = phase("p", {"a": operation(100.0, service=served, kernel_times=times), "b": operation(1.0)})
    assert kernel_times_texts(made) == ([f"kernel timestamps of a: {words}"] if words else [])
