"""The built-in workload ycsb: the shares and laws of YCSB's files workloada to workloadf."""

import pytest

from loadframe.workload import load_workload

SHARES = {
    "a": {"read": 50, "update": 50},
    "b": {"read": 95, "update": 5},
    "c": {"read": 100},
    "d": {"read_recent": 95, "insert": 5},
    "e": {"scan": 95, "insert": 5},
    # Half of the operations are a read and an update each.
    "f": {"read": 200 / 3, "update": 100 / 3},
}


@pytest.mark.parametrize("name", SHARES)
def test_a_phase_has_the_shares_of_its_workload(name):
    phase = next(phase for phase in load_workload("ycsb").file.phases if phase.name == name)
    total = sum(phase.weights.values())
    assert {verb: 100 * weight / total for verb, weight in phase.weights.items()} == pytest.approx(SHARES[name])


def test_keys_are_drawn_and_made_as_ycsb_does():
    variables = load_workload("ycsb", {"records": "5000"}).file.variables
    popular, recent = variables["popular"].zipfian, variables["recent"].latest
    assert (popular.items, popular.form, popular.scrambled, popular.exponent) == (5000, "ycsb", True, 0.99)
    assert (recent.items, recent.form) == (5000, "ycsb")
    assert variables["popular_key"].hash.of == "popular"
    assert variables["inserted"].sequential.from_ == 5000


def test_what_is_loaded_is_what_is_read():
    file = load_workload("ycsb").file
    assert file.phases[0].requests == 1000
    assert file.operations["load"].index.id.replace("loaded", "popular") == file.operations["read"].get.id
