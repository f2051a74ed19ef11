"""YCSB's properties files become workloads that run, with CoreWorkload's defaults."""

import math

import pytest

from damage import damaged
from loadframe.base.errors import BadInput
from loadframe.workload.importers.ycsb import import_ycsb

A = """\
# Updates as often as reads.
recordcount=5000
operationcount = 20000
workload=site.ycsb.workloads.CoreWorkload

readproportion: 0.5
updateproportion=0.5
scanproportion=0
requestdistribution=zipfian
"""


@pytest.fixture
def imported(written):
    def imported(text: str, **overrides: str):
        return import_ycsb(written("workloada", text), overrides)

    return imported


def test_reads_and_updates_keep_their_shares(imported, loaded):
    workload = loaded(imported(A))
    load, refresh, transactions = workload.file.phases
    assert (load.operation, load.requests, load.prepares) == ("load", 5000, True)
    assert refresh.prepares
    assert transactions.weights == {"read": 0.5, "update": 0.5}
    assert (transactions.clients, transactions.requests) == (1, 20000)
    assert workload.for_family("elasticsearch", 2).phases


def test_a_file_of_one_property_has_the_defaults_of_core_workload(imported, loaded):
    file = loaded(imported("", operationcount="1000")).file
    assert loaded(imported("workload=site.ycsb.workloads.CoreWorkload")).file.phases == file.phases
    assert file.phases[-1].weights == {"read": 0.95, "update": 0.05}
    assert file.variables["chosen"].uniform == (0, 999)
    assert file.variables["text9"].text.length == 100
    document = file.operations["load"].insert.document
    assert sorted(document) == [*(f"field{index}" for index in range(10)), "key", "number"]
    assert list(file.operations["update"].update.document) == ["field${field}"]


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("", "this is not a YCSB properties file", "recordcount"),
        ("table: t\ntarget: 5\nmappings:\n  read: all\n", "this is not a YCSB properties file", "recordcount"),
        (
            "keyspace: ks\ntable: t\ncolumnspec:\n  - name: body\n",
            "profiles of cassandra-stress",
            "as a cql operation",
        ),
    ],
)
def test_a_file_of_another_format_is_refused(imported, text, what, remedy):
    with pytest.raises(BadInput, match=what) as caught:
        imported(text)
    assert remedy in caught.value.remedy


def test_properties_of_the_command_line_go_first(imported, loaded):
    file = loaded(imported(A, recordcount="7", threadcount="16", target="250", writeallfields="true")).file
    assert file.phases[0].requests == 7
    assert file.phases[0].clients == 16
    assert file.phases[-1].rate == 250
    assert len(file.operations["update"].update.document) == 10


def test_inserts_continue_after_the_loaded_ids(imported, loaded):
    file = loaded(imported("recordcount=50\nreadproportion=.95\ninsertproportion=.05\nupdateproportion=0")).file
    assert file.phases[-1].weights == {"read": 0.95, "insert": 0.05}
    assert file.variables["inserted"].counter.from_ == 50
    assert file.operations["insert"].insert.id == "user${inserted_key}"
    assert file.variables["inserted_key"].hash.of == "inserted"


def test_scans_begin_at_a_key_and_have_their_length(imported, loaded):
    file = loaded(imported("scanproportion=1\nreadproportion=0\nupdateproportion=0\nmaxscanlength=100")).file
    assert file.phases[-1].operation == "scan"
    assert file.variables["length"].uniform == (1, 100)
    scan = file.operations["scan"].scan
    assert (scan.from_, scan.count, scan.by) == ("user${chosen_key}", "${length}", "key")
    assert "key" in file.operations["load"].insert.document


def test_a_read_modify_write_is_one(imported, loaded):
    file = loaded(imported("readproportion=.5\nreadmodifywriteproportion=.5\nupdateproportion=0")).file
    assert file.phases[-1].weights == {"read": 0.5, "readmodifywrite": 0.5}
    assert file.operations["readmodifywrite"].read_modify_write.id == file.operations["read"].read.id


def test_a_read_of_one_field_draws_which(imported, loaded):
    made = imported("readallfields=false\nfieldcount=7\nfieldnameprefix=f\nscanproportion=.1\nmaxscanlength=5")
    file = loaded(made).file
    assert file.operations["read"].read.fields == ["f${read_field}"]
    assert file.variables["read_field"].uniform == (0, 6)
    assert file.operations["update"].update.document == {"f${field}": "${text0}"}
    assert [entry for entry in made.left_out if "scan" in entry] == [
        "readallfields=false for scan: it reads all fields"
    ]


@pytest.mark.parametrize("name", ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"])
def test_core_workload_is_known_by_both_of_its_packages(imported, name):
    assert imported("", workload=name).data["phases"]


def test_another_workload_class_is_refused(imported):
    with pytest.raises(BadInput) as caught:
        imported("recordcount=10\nworkload=site.ycsb.workloads.TimeSeriesWorkload")
    assert "only CoreWorkload is supported" in str(caught.value)
    assert str(caught.value.where).endswith("workloada:2")


def test_a_phase_without_an_end_is_refused(imported, loaded):
    with pytest.raises(BadInput, match="lacks an end"):
        imported("operationcount=0")
    assert loaded(imported("operationcount=0\nmaxexecutiontime=5")).file.phases[-1].duration == 5


@pytest.mark.parametrize("family", ["elasticsearch", "cassandra", "mongodb", "redis", "couchbase"])
def test_the_workload_serves_every_family(imported, loaded, family):
    every = "scanproportion=.1\nreadmodifywriteproportion=.1\ninsertproportion=.1"
    assert loaded(imported(every)).for_family(family, 1).phase("transactions").operations


@pytest.mark.parametrize("distribution", ["uniform", "zipfian", "latest", "hotspot", "exponential", "sequential"])
def test_every_distribution_of_requests_is_drawn_by_its_law(imported, loaded, distribution):
    chosen = loaded(imported("recordcount=100", requestdistribution=distribution)).file.variables["chosen"]
    assert chosen.model_fields_set == {"counter" if distribution == "sequential" else distribution}


@pytest.mark.parametrize("distribution", ["zipfian", "latest", "exponential"])
def test_inserted_records_are_chosen_as_far_as_they_are_there(imported, loaded, distribution):
    made = imported("insertproportion=.1\nrecordcount=100", requestdistribution=distribution)
    assert loaded(made).file.variables["chosen"].inserted == "inserted"
    assert (
        loaded(imported("recordcount=100", requestdistribution=distribution)).file.variables["chosen"].inserted is None
    )


def test_the_laws_have_the_parameters_of_core_workload(imported, loaded):
    zipfian = loaded(imported("recordcount=100\nrequestdistribution=zipfian")).file.variables["chosen"].zipfian
    assert (zipfian.items, zipfian.form, zipfian.scrambled, zipfian.exponent) == (100, "ycsb", True, 0.99)
    assert zipfian.expected == 1
    inserts = imported("recordcount=100\nrequestdistribution=zipfian\ninsertproportion=0.05\noperationcount=5000")
    assert loaded(inserts).file.variables["chosen"].zipfian.expected == 501
    exponential = loaded(imported("recordcount=100\nrequestdistribution=exponential")).file.variables["chosen"]
    # 85.7 of 100 records get 95 % of the requests: 1 - exp(-85.7 / mean) = 0.95.
    assert 1 - math.exp(-85.71428571 / exponential.exponential.mean) == pytest.approx(0.95)


def test_ordered_keys_are_their_numbers_and_lengths_may_vary(imported, loaded):
    made = imported("insertorder=ordered\nfieldlengthdistribution=uniform\nfieldlength=7\nfieldcount=1")
    file = loaded(made).file
    assert file.operations["load"].insert.id == "user${loaded}"
    assert file.variables["text0"].text.length == [1, 7]
    uniform = imported("fieldlengthdistribution=uniform\nfieldlength=7\nminfieldlength=3")
    assert loaded(uniform).file.variables["text0"].text.length == [3, 7]


def test_a_time_limit_ends_the_phase(imported, loaded):
    made = imported(A, maxexecutiontime="90")
    assert (loaded(made).file.phases[-1].duration, loaded(made).file.phases[-1].requests) == (90, None)
    assert any(entry.startswith("operationcount") for entry in made.left_out)


def test_every_other_property_is_named(imported):
    known = "insertorder=ordered\nthreadcount=2\nwriteallfields=true\nworkload=site.ycsb.workloads.CoreWorkload"
    made = imported(f"elasticsearch.cluster.name=x\ndataintegrity=true\n{known}")
    assert {"elasticsearch.cluster.name=x", "dataintegrity=true"} <= set(made.left_out)
    assert not any(entry.split("=")[0] in known for entry in made.left_out)
    for entry in made.left_out:
        assert entry.split(":")[0] in made.text()


def test_continuation_lines_and_comments_are_read_as_in_java(imported, loaded):
    made = imported("! a remark\\\nrecordcount \\\n  = 12\n  # another\\\nthreadcount 3\nrecordcount=13\n")
    file = loaded(made).file
    assert (file.phases[0].requests, file.phases[0].clients) == (13, 3)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("recordcount=many", 1, "recordcount=many: expected a number"),
        ("\nrecordcount=0", 2, "at least 1"),
        ("recordcount=1.5", 1, "whole number"),
        ("recordcount=1e300", 1, "whole number"),
        ("readproportion=nan", 1, "expected a number"),
        ("readproportion=-1", 1, "expected a number"),
        ("readproportion=0\nupdateproportion=0", 1, "all proportions are 0"),
        ("requestdistribution=zipfain", 1, "expected one of"),
        ("writeallfields=maybe", 1, "expected one of"),
        ("fieldcount=100000", 1, "expected at most"),
        ("exponential.percentile=100", 1, "above 0 and below 100"),
        ("threadcount=0", 1, "at least 1"),
        ("recordcount", 1, "is not a property"),
    ],
)
def test_a_wrong_property_is_refused_at_its_line(imported, text, line, what):
    with pytest.raises(BadInput) as caught:
        imported(text)
    assert what in str(caught.value)
    assert str(caught.value.where).endswith(f"workloada:{line}")
    assert caught.value.remedy


def test_a_wrong_override_is_refused_at_the_option(imported):
    with pytest.raises(BadInput) as caught:
        imported(A, recordcount="x")
    assert caught.value.where == "-p recordcount"


def test_a_damaged_file_is_imported_or_refused_and_nothing_else(imported):
    refused = 0
    for text in damaged(A.replace("=", ": "), ["3", "-1", "", "zipfian", "1e99", "nan", "\\", "true"], times=200):
        try:
            imported(text).text()
        except BadInput as error:
            refused += 1
            assert "workloada" in str(error.where)
    assert refused > 20
