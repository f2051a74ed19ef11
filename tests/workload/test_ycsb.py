"""The built-in workload ycsb: the shares and laws of YCSB's files workloada to workloadf."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.workload import load_workload

SHARES = {
    "a": {"read": 50, "update": 50},
    "b": {"read": 95, "update": 5},
    "c": {"read": 100},
    "d": {"read_recent": 95, "insert": 5},
    "e": {"scan": 95, "insert": 5},
    "f": {"read": 50, "read_modify_write": 50},
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
    assert popular.expected == 1
    assert (recent.items, recent.form, recent.inserted) == (5000, "ycsb", "inserted")
    assert variables["popular_key"].hash.of == "popular"
    assert (variables["inserted"].counter.from_, variables["inserted"].counter.fresh) == (5000, True)


def test_scans_begin_at_loaded_and_at_inserted_records():
    file = load_workload("ycsb", {"expected": "501"}).file
    first = file.variables["first"].zipfian
    assert (first.items, first.expected, first.inserted, first.scrambled) == (1000, 501, "inserted", True)
    assert file.operations["scan"].scan.from_ == "user${first_key}"


def test_reads_use_the_loaded_ids():
    file = load_workload("ycsb").file
    assert file.phases[0].requests == 1000
    assert file.operations["load"].insert.id.replace("loaded", "popular") == file.operations["read"].read.id


@pytest.mark.parametrize("family", ["elasticsearch", "cassandra", "mongodb", "redis", "couchbase"])
def test_the_same_file_serves_every_family(family):
    resolved = load_workload("ycsb").for_family(family, 3)
    refreshed = ["refresh"] if family == "elasticsearch" else []
    assert [phase.name for phase in resolved.phases] == ["load", *refreshed, *SHARES]
    forms = [form for phase in resolved.phases for form in phase.operations.values()]
    verbs = {kind for form in forms for kind in form} - {"assert"}
    assert verbs == {"insert", "read", "update", "scan", "read_modify_write", *refreshed}


def test_cassandra_has_a_column_for_each_field():
    workload = load_workload("ycsb").for_family("cassandra", 1)
    document = workload.phase("load").operations["load"]["insert"]["document"]
    assert workload.collections["usertable"]["columns"].keys() == {"id", *document}


def test_scans_of_couchbase_can_have_the_index_that_they_need():
    workload = load_workload("ycsb/e", {"index": "true"}).for_family("couchbase", 1)
    assert workload.collections["usertable"]["index"] is True


def test_copies_and_who_has_to_agree_are_parameters_of_cassandra_and_of_no_other():
    asked = {"replication_factor": 2, "consistency": "all"}
    workload = load_workload("ycsb/a", asked).for_family("cassandra", 2)
    assert workload.collections["usertable"]["replication"] == {"replication_factor": 2}
    operations = workload.phases[-1].operations
    assert {name: form["consistency"] for name, form in operations.items()} == {"read": "all", "update": "all"}
    usual = load_workload("ycsb/a").for_family("cassandra", 2)
    assert not any(form.get("consistency") for form in usual.phases[-1].operations.values())
    with pytest.raises(
        BadInput, match="the operation 'read' does not support stores of the family 'redis'; it has only read"
    ):
        load_workload("ycsb/a", {"consistency": "all"}).for_family("redis", 1)


def test_one_of_the_six_is_had_by_its_name():
    phases = load_workload("ycsb/a").for_family("elasticsearch", 1).phases
    assert [phase.name for phase in phases] == ["load", "refresh", "a"]
    assert [phase.name for phase in load_workload("ycsb/c,a").file.phases] == ["load", "refresh", "a", "c"]
    assert [phase.name for phase in load_workload("ycsb/a", {"records": "10"}).file.phases][-1] == "a"


def test_an_unknown_phase_gets_its_nearest_neighbour():
    with pytest.raises(BadInput, match="unknown phase 'g' of the workload ycsb"):
        load_workload("ycsb/g")


@pytest.mark.slow
def test_a_path_is_not_a_name_with_a_phase(tmp_path):
    with pytest.raises(BadInput, match="other/a"):
        load_workload("other/a", folder=tmp_path)
