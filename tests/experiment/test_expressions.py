"""Expressions in experiment files: their value in each run, and the errors of invalid ones."""

import json
from types import SimpleNamespace

import pytest

from commands import loadframe
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster
from loadframe.experiment.design.plans import design
from loadframe.experiment.file.factors import expression, is_expression
from loadframe.experiment.power import shape_of_file
from loadframe.experiment.runner import loop
from loadframe.experiment.runner.listener import Listener

SCALE = """\
experiment: e
store: {kind: opensearch, nodes: 2, settings: {a.routers: "${nodes}", a.b: 1}}
workload: small.yaml
with:
  documents: ${100 * nodes}
kind: scale
clients: ${10 * nodes}
factors: {nodes: [1, 2, 4]}
"""
ELASTIC = """\
experiment: e
store: {kind: opensearch, nodes: 2}
workload: small.yaml
kind: elastic
duration: 60s
transitions: {grow: {timeline: [{at: 20s, add: 1}]}, larger: {nodes: 4, timeline: [{at: 20s, add: 1}]}}
loads:
  busy: {clients: "${10 * nodes}"}
  users: {rate: "${max(50, 20 * nodes)}"}
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${10 * nodes}", 40),
        ("${nodes / 8}", 0.5),
        ("${nodes // 3 + nodes % 3}", 2),
        ("${-(2 - nodes)}", 2),
        ("${max(1, min(nodes, 3), 2)}", 3),
        ("${store.limits.cpus * nodes}", 2),
        ("${1e3}", 1000),
    ],
)
def test_arithmetic(text, value):
    number = expression(text).value({"nodes": 4, "store.limits.cpus": 0.5})
    assert (number, type(number)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "${nodes ** nodes}",
        "${__import__('os')}",
        "${nodes.__class__()}",
        "${max()}",
        "${max(*nodes)}",
        "${[1, 2]}",
        "${'a' * 3}",
        "${nodes if nodes else 1}",
        "${nodes := 3}",
        "${10 *}",
        "${}",
        "${True}",
        "${1j}",
        "${" + "(" * 150 + "1" + ")" * 40 + "}",
        "${" + "1 + " * 100 + "1}",
    ],
)
def test_nothing_but_arithmetic_is_read(text):
    assert is_expression(text)
    with pytest.raises(BadInput):
        expression(text)


@pytest.mark.parametrize("text", ["nodes", "$${nodes}", "${a} and ${b}", 3, None])
def test_non_expressions_stay_unchanged(text):
    assert not is_expression(text)


@pytest.mark.parametrize(
    ("text", "what"), [("${1 / (nodes - 2)}", "divides by zero at nodes = 2"), ("${nodes * 1e300}", "exceeds 1e")]
)
def test_impossible_numbers_are_reported_with_their_operands(text, what):
    with pytest.raises(BadInput, match=what):
        expression(text).value({"nodes": 2})


def test_load_data_and_settings_follow_the_nodes(load):
    experiment = load(SCALE)
    treatments = {run.treatment["nodes"]: run.treatment for run in design(experiment).runs}
    for nodes, treatment in treatments.items():
        assert treatment == {"nodes": nodes}, "the load is a part of the treatment, which would hide the curve"
        assert experiment.overrides(treatment) == {"clients": 10 * nodes}
        assert experiment.workload_at(treatment).parameters["documents"] == 100 * nodes
        assert experiment.cluster_spec(treatment)["settings"] == {"a.routers": nodes, "a.b": 1}


def test_a_rate_may_follow_the_nodes_and_so_is_open(load):
    experiment = load(SCALE.replace("clients: ${10 * nodes}", "rate: ${50 * nodes}"))
    assert experiment.overrides({"nodes": 4}) == {"rate": 200.0}
    assert experiment.arrivals == ["poisson"]


def test_numbers_for_all_runs_need_no_factor(load):
    assert load(SCALE.replace("${10 * nodes}", "40")).overrides({"nodes": 4}) == {"clients": 40}


def test_other_factors_may_be_named(load):
    factors = "{nodes: [1, 2], with.hits: [10, 20], store.limits.cpus: [0.5, 1]}"
    experiment = load(
        SCALE.replace("{nodes: [1, 2, 4]}", factors).replace("10 * nodes", "4 * store.limits.cpus * nodes + with.hits")
    )
    treatment = {"nodes": 2, "with.hits": 20, "store.limits.cpus": 0.5}
    assert experiment.overrides(treatment) == {"clients": 24}


def test_software_is_found_if_expressions_name_other_factors(load, monkeypatch):
    text = SCALE.replace("clients: ${10 * nodes}\n", "").replace("100 * nodes", "100 * clients")
    experiment = load(text.replace("{nodes: [1, 2, 4]}", "{clients: [2, 4]}"))
    software = SimpleNamespace(store=SimpleNamespace(family="search", driver="search"), identity="opensearch 3")
    monkeypatch.setattr(Cluster, "software", lambda spec, report: software)
    stores, versions = loop._find_software(experiment, design(experiment), Listener())
    assert list(stores.values()) == [("search", "search")]
    assert list(versions.values()) == ["opensearch 3"]


def test_a_gate_checks_only_treatments_of_the_design(load):
    text = SCALE.replace("clients: ${10 * nodes}\n", "")
    experiment = load(text.replace("{nodes: [1, 2, 4]}", '{nodes: [1, 2, 4], clients: ["${10 * nodes}"]}'))
    shape = shape_of_file(experiment)
    assert shape is not None
    assert shape.treatments == len(design(experiment).runs) == 3


def test_a_factor_that_the_data_follow_needs_a_cluster_of_its_own(load):
    text = SCALE.replace("clients: ${10 * nodes}\n", "").replace("{nodes: [1, 2, 4]}", "{nodes: [1], clients: [2, 4]}")
    easy = {factor.name: factor.hard for factor in load(text).factors}
    assert easy["clients"] is False
    followed = load(text.replace("100 * nodes", "100 * clients"))
    assert {factor.name: factor.hard for factor in followed.factors}["clients"] is True
    assert len({run.state for run in design(followed).runs}) == 2


def test_levels_of_settings_and_parameters_may_follow_the_nodes(load):
    levels = '{nodes: [1, 4], store.settings.a.routers: [1, "${nodes}"], with.hits: [10, "${10 * nodes}"]}'
    experiment = load(SCALE.replace("{nodes: [1, 2, 4]}", levels))
    treatment = {"nodes": 4, "store.settings.a.routers": "${nodes}", "with.hits": "${10 * nodes}"}
    assert experiment.cluster_spec(treatment)["settings"]["a.routers"] == 4
    assert experiment.workload_at(treatment).parameters["hits"] == 40
    assert len(design(experiment).runs) == 8


def test_levels_of_clients_may_be_there_at_some_sizes_alone(load):
    """A fixed load on all sizes, and besides on the largest another."""
    text = SCALE.replace("clients: ${10 * nodes}\n", "").replace(
        "{nodes: [1, 2, 4]}", '{nodes: [1, 2, 4, 8], clients: [40, "${max(40, 10 * nodes)}"]}'
    )
    experiment = load(text)
    made = sorted((run.treatment["nodes"], run.treatment["clients"]) for run in design(experiment).runs)
    assert made == [(1, 40), (2, 40), (4, 40), (8, 40), (8, 80)]
    assert experiment.describe()["factors"]["clients"] == [40, 80]


def test_loads_of_an_elastic_experiment_follow_the_nodes_that_it_begins_with(load):
    experiment = load(ELASTIC)
    workload = experiment.resolve({"nodes": 2}, "elasticsearch")
    paced = {}
    for run in design(experiment).runs:
        (phase,) = experiment.kind.phases(experiment, workload, run.treatment)
        (stream,) = phase.streams
        paced[run.treatment["nodes"], run.treatment["load"]] = stream.clients or stream.rate
    assert paced == {(2, "busy"): 20, (4, "busy"): 40, (2, "users"): 50.0, (4, "users"): 80.0}


@pytest.mark.parametrize(
    ("old", "new", "place", "what", "remedy"),
    [
        ("10 * nodes", "10 * noodes", "${10 * noodes}", "unknown factor 'noodes'", "did you mean 'nodes'"),
        ("10 * nodes", "10 ^ nodes", "${10 ^ nodes}", "not arithmetic", "+ - * / // %"),
        ("10 * nodes", "nodes / 8", "${nodes / 8}", "at nodes = ", "//"),
        ("10 * nodes", "nodes - 2", "${nodes - 2}", "must be a whole number of at least 1", "max"),
        ("100 * nodes", "nodes / 8", "${nodes / 8}", "must be a whole number; got 0.", "its default is 1000"),
        ("documents", "document", "document: ", "unknown parameter 'document'", "did you mean 'documents'"),
        ('"${nodes}"', '"${clients}"', '"${clients}"', "unknown factor 'clients'", "valid here: nodes"),
        ("{nodes: [1, 2, 4]}", "{nodes: [1], clients: [1, 2]}", "clients: ", "is set for all runs", "remove one"),
        ("{nodes: [1, 2, 4]}", "{nodes: [1], ranks_per_node: [1, 2]}", "clients: ", "is set for", "remove one"),
        ("factors:", "rate: 5/s\nfactors:", "rate: ", "closed", "remove one"),
        (
            "factors:",
            "scaling: weak\ngrows: documents\nfactors:",
            "${100",
            "both in grows and an expression",
            "remove one",
        ),
    ],
)
def test_invalid_expressions_are_reported_with_their_place(refused, old, new, place, what, remedy):
    assert old in SCALE
    text = SCALE.replace(old, new)
    error, rest = refused(text)
    assert rest.startswith(place)
    assert what in error.what
    assert remedy in str(error.remedy)


def test_settings_experiments_take_each_level_everywhere(refused):
    text = SCALE.replace("kind: scale", "kind: settings").replace("clients: ${10 * nodes}\n", "")
    error, rest = refused(text.replace("{nodes: [1, 2, 4]}", '{nodes: [1, 2], clients: [1, "${5 * nodes}"]}'))
    assert "cannot have an expression" in error.what
    assert rest.startswith("clients")
    error, _ = refused(
        SCALE.replace("kind: scale", "kind: settings").replace("clients:", "objective: throughput\nrate:")
    )
    assert "open load" in error.what


@pytest.mark.slow
def test_a_dry_run_shows_their_values(load, tmp_path):
    load(SCALE)
    shown = loadframe("run", tmp_path / "e.yaml", "--dry-run").stdout
    header, *rows = shown.splitlines()[1:]
    assert header.split() == [
        "run",
        "block",
        "nodes",
        "clients",
        "with.documents",
        "store.settings.a.routers",
        "cluster",
    ]
    assert sorted(row.split()[2:6] for row in rows) == [[n, f"{n}0", f"{n}00", n] for n in "124"]
    described = json.loads(loadframe("run", tmp_path / "e.yaml", "--dry-run", "--json").stdout)
    follows = {entry["treatment"]["nodes"]: entry["follows"] for entry in described["design"]}
    assert follows[4] == {"clients": 40, "with.documents": 400, "store.settings.a.routers": 4}
