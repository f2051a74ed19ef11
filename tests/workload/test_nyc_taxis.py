"""The built-in workload nyc_taxis: the study's steps, in plans that the engine takes."""

import json

import pytest

from loadframe import _engine
from loadframe.workload import load_workload

SIZES = ["default", "100", "1000", "10000"]
PAUSES = ["20ms", "50ms", "100ms", "200ms", "500ms", "1s"]
STEPS = [
    *(f"match_all_{size}" for size in SIZES), *(f"range_{size}" for size in SIZES), "alternate_1000",
    *(f"match_all_1000_sleep_{pause}" for pause in PAUSES),
    "distance_histogram", "auto_date_histogram", "date_histogram",
]  # fmt: skip


@pytest.fixture(scope="module")
def resolved():
    return load_workload("nyc_taxis", {"documents": "20"}).for_family("elasticsearch", 3)


def test_the_18_steps_follow_the_preparation(resolved):
    assert len(STEPS) == 18
    assert [phase.name for phase in resolved.phases if not phase.prepares] == STEPS
    assert [phase.name for phase in resolved.phases if phase.prepares] == ["load", "merge", "refresh"]


def test_deep_scans_run_only_when_they_are_named():
    chosen = load_workload("nyc_taxis/deep_scroll,deep_search_after").for_family("elasticsearch", 1)
    scans = [phase for phase in chosen.phases if not phase.prepares]
    assert [phase.name for phase in scans] == ["deep_scroll", "deep_search_after"]
    assert [form["size"] for phase in scans for op in phase.operations.values() for key, form in op.items()
            if key != "assert"] == [1000, 1000]  # fmt: skip


def test_the_index_is_as_in_the_study(resolved):
    index = resolved.collections["nyc_taxis"]
    assert index["settings"]["index"] == {
        "number_of_shards": 3, "number_of_replicas": 0, "requests.cache.enable": False
    }  # fmt: skip
    assert index["mappings"]["dynamic"] == "strict"
    types = {name: field["type"] for name, field in index["mappings"]["properties"].items()}
    of = {kind: {name for name, type_ in types.items() if type_ == kind} for kind in set(types.values())}
    assert of == {
        "scaled_float": {"total_amount", "improvement_surcharge", "surcharge", "mta_tax", "tolls_amount", "extra",
                         "ehail_fee", "trip_distance"},
        "double": {"tip_amount", "fare_amount"}, "date": {"pickup_datetime", "dropoff_datetime"},
        "geo_point": {"pickup_location", "dropoff_location"}, "integer": {"passenger_count"},
        "keyword": {"trip_type", "rate_code_id", "payment_type", "vendor_id", "store_and_fwd_flag", "cab_color"},
        "text": {"vendor_name"},
    }  # fmt: skip


def search(resolved, phase):
    (operation,) = resolved.phase(phase).operations.values()
    return operation["search"]


@pytest.mark.parametrize("size", SIZES)
def test_searches_differ_in_their_size_alone(resolved, size):
    expected = None if size == "default" else int(size)
    for kind, query in (("match_all", {"match_all": {}}), ("range", {"range": {"total_amount": {"gte": 5, "lt": 15}}})):
        assert search(resolved, f"{kind}_{size}").get("size") == expected
        assert search(resolved, f"{kind}_{size}")["body"] == {"query": query}


def test_aggregations_return_no_hits(resolved):
    for step in STEPS[-3:]:
        assert search(resolved, step)["size"] == 0


def test_the_alternating_step_has_both_searches_equally_often(resolved):
    plan = resolved.phase("alternate_1000").plan(seed=1, hosts=[], driver="null")
    assert plan["streams"][0]["mix"] == [["range_1000", 1], ["match_all_1000", 1]]


def test_the_pauses_are_think_times_of_one_and_the_same_search(resolved):
    steps = [resolved.phase(f"match_all_1000_sleep_{pause}") for pause in PAUSES]
    assert [step.streams[0].think_time for step in steps] == [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert {json.dumps(step.operations) for step in steps} == {json.dumps(resolved.phase("match_all_1000").operations)}


def test_the_defaults_take_about_two_minutes(resolved):
    seconds = sum(phase.warmup + phase.duration for phase in resolved.phases if not phase.prepares)
    assert 100 <= seconds <= 130


def test_the_studys_own_figures_can_be_set():
    study = {"warmup": "60s", "duration": "300s", "bulk_size": "10000", "documents": "165346692", "shards": "5"}
    resolved = load_workload("nyc_taxis", study).for_family("elasticsearch", 3)
    assert (resolved.phase("range_100").warmup, resolved.phase("range_100").duration) == (60.0, 300.0)
    assert resolved.collections["nyc_taxis"]["settings"]["index"]["number_of_shards"] == 5
    assert resolved.phase("load").corpora["nyc_taxis"]["documents"] == 165_346_692


@pytest.mark.parametrize("phase", ["load", "merge", "refresh", *STEPS])
def test_the_driver_takes_every_phases_plan(resolved, phase, tmp_path):
    """The driver accepts the plan; each request then fails to connect, because the address has no listener."""
    phase = resolved.phase(phase)
    if not phase.prepares:
        phase = phase.override(clients=1, warmup=0.0, duration=0.1)
    handle = _engine.start(json.dumps(phase.plan(seed=1, hosts=["127.0.0.1:1"], driver="search")), tmp_path)
    assert handle.wait(10)
    assert {error["class"] for error in json.loads(handle.outcome())["operations"][0]["errors"]} == {"connect"}
