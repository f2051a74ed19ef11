"""Visibility probes for stream events, on the driver that accepts and shows each event immediately."""

import pytest
from looked_for import plan

from loadframe.base.errors import BadInput
from loadframe.load import run_phase


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
        ({"driver": "cql"}, "cannot query ingested events"),
        ({"sample": None}, 'needs "sample", the probing interval'),
        ({"operations": {"take_in": {"get": {}}}, "driver": "null"}, "does not ingest events"),
    ],
)
def test_impossible_visibility_probes_are_refused_before_the_load(tmp_path, parts, words):
    with pytest.raises(BadInput, match=words):
        run_phase(plan(**parts), tmp_path, lambda progress: None)
