"""Published figures: read from the CSV file of an experiment, with line numbers in errors."""

import json

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.runner.folder import ExperimentFolder

EXPERIMENT = """\
experiment: e
published: paper.csv
store: {kind: opensearch}
workload: small.yaml
kind: scale
factors: {nodes: [1, 2, 4], clients: [1, 8]}
"""
ELASTIC = """\
experiment: e
published: paper.csv
store: {kind: opensearch}
workload: small.yaml
kind: elastic
duration: 60s
measure: look
transitions: {grow: {timeline: [{at: 20s, add: 1}]}}
loads: {steady: {clients: 4}}
"""
CAPACITY = """\
experiment: e
published: paper.csv
store: {kind: opensearch}
workload: small.yaml
kind: capacity
measure: look
slo: {response: 100ms}
factors: {nodes: [1, 2]}
"""
HEADER = "series,phase,nodes,clients,measure,value,unit,against,source"


@pytest.fixture
def figures(load, tmp_path):
    """Return the published figures of an experiment from a file with these lines."""

    def figures(*lines, header=HEADER, text=EXPERIMENT):
        (tmp_path / "paper.csv").write_text("\n".join(["# from a paper", header, *lines, ""]))
        return load(text).published

    return figures


def test_absolute_figures_are_changes_against_the_first_of_their_series(figures):
    first, second, third, other = figures(
        'small,look,1,,documents,100,inserts/5s,,"Table 1, page 3"',
        "small,look,2,,documents,150,inserts/5s,,Table 1",
        "small,look,4,,documents,300,inserts/5s,nodes=2,Table 1",
        "large,look,1,,documents,700,inserts/5s,,Table 1",
    )
    assert (first.value, first.change, first.source) == (20.0, 0.0, "Table 1, page 3")
    assert (second.levels, second.against, second.change) == ({"nodes": 2}, {"nodes": 1}, 0.5)
    assert (third.against, third.change) == ({"nodes": 2}, 1.0)
    assert (other.value, other.change) == (140.0, None), "it stands alone in its series"


def test_a_change_alone_keeps_its_reference(figures):
    (change,) = figures("Cassandra,look,8,80,mean,-35,%,nodes=4 clients=40,p. 7")
    assert (change.value, change.change) == (None, -0.35)
    assert change.levels == {"nodes": 8, "clients": 80}
    assert change.against == {"nodes": 4, "clients": 40}


def test_a_distribution_is_read_in_the_unit_of_its_figure(figures):
    header = f"{HEADER},min,q1,median,q3,max"
    first, second = figures(
        "small,look,1,,documents,100,inserts/5s,,A.1,,,,,",
        "small,look,2,,documents,150,inserts/5s,,A.2,20,100,140,200,300",
        header=header,
    )
    assert (first.spread, first.quartiles) == ({}, None)
    assert second.spread == {"min": 4.0, "q1": 20.0, "median": 28.0, "q3": 40.0, "max": 60.0}
    assert second.quartiles == pytest.approx((0.0, 1.0)), "100 and 200 against the figure 100 at one node"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("150,inserts/5s,,x,,200,,100,", "the distribution does not ascend: q1 200, q3 100"),
        ("150,inserts/5s,,x,,100,,,", "q1 and q3 are needed together"),
        ("150,inserts/5s,,x,,few,,100,", "'few' is not a number"),
        ("50,%,nodes=1,x,,40,,60,", "q1 is given for a change in %"),
        ("150,inserts/5s,,x,-1,,,,", "min must be finite and at least 0; got -1"),
        ("150,inserts/us,,x,,100,,1e308,", "q3 must be finite and at least 0; got 1e+308"),
        ("150,inserts/5s,,x,200,,,,300", "the value 150 is outside its distribution: min 200, max 300"),
    ],
)
def test_a_distribution_that_cannot_be_one_is_refused(figures, cells, words):
    with pytest.raises(BadInput) as caught:
        figures(f"small,look,2,,documents,{cells}", header=f"{HEADER},min,q1,median,q3,max")
    assert words in str(caught.value)
    assert "paper.csv:3" in str(caught.value)


def test_a_change_beyond_all_numbers_is_refused(figures):
    with pytest.raises(BadInput, match="the change relative to the reference is too large"):
        figures(",look,1,,throughput,1e-300,requests/s,,x", ",look,2,,throughput,1e300,requests/s,,x")


def test_the_reference_can_be_another_phase(figures):
    alone, busy = figures(
        ",fill,1,,documents_mean_10s,200,logs/s,,x", ",look,1,,documents_mean_10s,150,logs/s,phase=fill,x"
    )
    assert (alone.value, busy.change, busy.against) == (200.0, -0.25, {"phase": "fill"})


def test_units_of_time_and_shares_are_read(figures):
    p99, errors = figures(",look,1,,p99,421,ms,,x", ",look,1,,errors,2,%,,x")
    assert (p99.value, errors.value) == (0.421, 0.02)


def test_a_reference_with_two_values_is_refused(figures):
    table, text = ",look,1,,throughput,100,requests/s,,Table 1", ",look,1,,throughput,200,requests/s,,p. 9"
    with pytest.raises(BadInput, match="the reference has 2 figures of the same measure, phase, series and levels"):
        figures(table, text, ",look,2,,throughput,300,requests/s,nodes=1,Table 1")
    *_, larger = figures(table, table, f"other{text}", ",look,2,,throughput,300,requests/s,nodes=1,Table 1")
    assert larger.change == 2.0


def test_instants_are_those_of_elastic_experiments(figures):
    (fired,) = figures("trigger_fired,110,s,p. 9", header="measure,value,unit,source", text=ELASTIC)
    assert (fired.value, fired.change, dict(fired.against)) == (110.0, None, {})
    with pytest.raises(BadInput, match=r"paper\.csv:3: trigger_fired is only valid in elastic experiments"):
        figures("trigger_fired,110,s,p. 9", header="measure,value,unit,source")


def test_a_capacity_is_the_result_of_a_search_over_its_quantity(figures):
    header = "phase,nodes,measure,value,unit,against,source"

    def read(*lines, text=CAPACITY):
        return figures(*lines, header=header, text=text)

    one, two = read(",1,capacity,500,requests/s,,x", ",2,capacity,800,requests/s,,x")
    assert (one.value, two.change, two.against) == (500.0, pytest.approx(0.6), {"nodes": 1})
    journeys = "workload: selfcare\nwith: {users: 8, weeks: 1}\nprepare: [static, merge, reset, make, register]"
    over_users = (
        CAPACITY.replace("workload: small.yaml", journeys).replace("look", "weeks").replace("opens", "elastics")
    )
    over_users += "search: {over: users, start: 8}\n"
    (users,) = read(",1,users,60,users,,x", text=over_users)
    assert (users.measure, users.value) == ("users", 60.0)
    for line, words in (
        (",1,users,60,users,,x", "a capacity experiment that searches over the rate has no single users"),
        (",1,p99,60,ms,,x", "a capacity experiment that searches over the rate has no single p99"),
        ("look,1,capacity,60,requests/s,,x", "capacity is of all measured phases"),
        (",1,capacity,60,users,,x", "'users' is not a unit of throughput"),
    ):
        with pytest.raises(BadInput, match=words) as refused:
            read(line)
        assert str(refused.value.where).endswith("paper.csv:3")
    with pytest.raises(BadInput, match="capacity is only valid in capacity experiments; this one is of kind scale"):
        figures(",look,1,,capacity,1,requests/s,,x")


@pytest.mark.parametrize(
    ("line", "number", "words"),
    [
        (",look,1,,througput,1,requests/s,,x", 3, "unknown measure 'througput'"),
        (",lok,1,,throughput,1,requests/s,,x", 3, "unknown phase 'lok' of the workload"),
        (",look,1,,throughput,much,requests/s,,x", 3, "'much' is not a number"),
        (",look,1,,throughput,nan,requests/s,,x", 3, "'nan' is not a number"),
        (",look,1,,throughput,1,requests,,x", 3, "'requests' is not a unit of throughput"),
        (",look,1,,p99,1,hours,,x", 3, "'hours' is not a unit of time"),
        (",look,1,,throughput,26,%,,x", 3, "a change needs a reference figure"),
        (",look,1,,throughput,-100,%,nodes=1,x", 3, "a change must be above -100 %"),
        (",look,1,,throughput,-5,requests/s,,x", 3, "value must be finite and at least 0; got -5"),
        (",look,1,,p99,1e308,min,,x", 3, "value must be finite and at least 0; got 1e+308"),
        (",look,1,,errors,101,%,,x", 3, "value must be a share from 0 to 100 %; got 101"),
        (",look,1,,throughput,26,%,nodes=1 nodes=2,x", 3, "against names a factor twice"),
        (",look,1,,throughput,26,%,nodes,x", 3, "'nodes' is not NAME=LEVEL"),
        (",look,1,,throughput,26,%,node=1,x", 3, "unknown factor 'node'"),
        (",look,1,,throughput,26,%,phase=lok,x", 3, "unknown phase 'lok' of the workload"),
        (",look,1,,throughput,26,requests/s,nodes=7,x", 3, "the reference nodes=7 has no figure"),
        (",look,1,,throughput,26", 3, "the line has 6 columns, but the header has 9"),
        ('\n\n,look,1,,"throughput', 5, "the file is not CSV"),
    ],
)
def test_errors_of_a_line_give_its_number(figures, line, number, words):
    with pytest.raises(BadInput) as caught:
        figures(line)
    assert str(caught.value.where).endswith(f"paper.csv:{number}")
    assert words in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("measure,value,unit", "the column source is missing"),
        ("measure,value,unit,source,node", "unknown column 'node'"),
        ("measure,value,unit,source,unit", "duplicate column unit"),
    ],
)
def test_a_header_has_known_columns(figures, header, words):
    with pytest.raises(BadInput, match=words) as caught:
        figures(header=header)
    assert str(caught.value.where).endswith("paper.csv:2")


def test_a_file_without_figures_or_that_is_not_there_is_refused(figures, refused):
    with pytest.raises(BadInput, match="the file contains only a header"):
        figures()
    error, place = refused(EXPERIMENT.replace("paper.csv", "other.csv"))
    assert place.startswith("other.csv")
    assert "other.csv: cannot read the file" in error.what


def test_figures_come_to_the_folder_even_when_runs_are_there(figures, load, tmp_path):
    figures("Cassandra,look,2,,throughput,26,%,nodes=1,p. 7")
    plain = load(EXPERIMENT.replace("published: paper.csv\n", ""))
    told = describe(plain, design(plain))
    assert "published" not in told, "folders of before cannot go on"
    folder = ExperimentFolder(tmp_path / "results", told)
    (folder.runs_path / "b1").mkdir()
    del folder
    again = load(EXPERIMENT)
    ExperimentFolder(tmp_path / "results", describe(again, design(again)))
    known = json.loads((tmp_path / "results" / "experiment.json").read_text())["published"]
    assert known["file"] == "paper.csv"
    assert known["figures"][0]["change"] == 0.26
