"""Experiment files: their meaning for each treatment, and the errors of invalid ones."""

import json
import re
from pathlib import Path

import pytest

from damage import damaged
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.experiment.design.estimate import estimate
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.existing import not_checked
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.loop import _record_failure
from loadframe.record import Run
from loadframe.report.setup import manifest_facts

EXPERIMENT = """\
experiment: e
store: {kind: opensearch, version: 3.8.0, nodes: 2, limits: {cpus: 0.5, memory: 1g}, settings: {a.b: 1}}
workload: small.yaml
with: {documents: 500}
kind: scale
factors: {nodes: [1, 2, 4], clients: [1, 8]}
"""

NO_DISK_LIMITS = dict.fromkeys(("read", "write", "read_operations", "write_operations"))


def test_missing_keys_have_defaults(load):
    experiment = load(EXPERIMENT)
    assert (experiment.name, experiment.seed, experiment.repetitions) == ("e", 1, 1)
    assert experiment.generator({}).threads == 1
    assert (experiment.prepared, experiment.measured) == (("fill", "settle"), ("look",))


def test_kernel_timestamps_reach_the_plan_and_the_manifest(load):
    for given, switch in (("", {}), ("kernel_timestamps: true\n", {"kernel_timestamps": True})):
        generator = load(EXPERIMENT + given).generator({})
        assert generator.timestamping() == switch
        assert switch.items() <= generator.describe().items()


@pytest.mark.parametrize("factor", [False, True])
def test_kernel_timestamps_of_cassandra_are_refused_in_the_file(load, factor):
    text = "kernel_timestamps: true\n" + EXPERIMENT
    if factor:
        text = text.replace("factors: {nodes: [1, 2, 4]", "factors: {store.kind: [opensearch, cassandra]")
    else:
        text = text.replace("kind: opensearch", "kind: cassandra")
    with pytest.raises(BadInput) as refusal:
        load(text)
    assert refusal.value.what == (
        "cassandra: kernel timestamps do not support the driver cql, whose library hides its connections"
    )
    assert refusal.value.where.endswith(":1")
    assert "remove --kernel-timestamps" in refusal.value.remedy
    load(text.replace("cassandra", "redis"))


def test_a_treatment_makes_the_cluster(load):
    experiment = load(EXPERIMENT.replace("memory: 1g", 'memory: 1g, cores: "0,2"'))
    spec = {"store": "opensearch", "version": "3.8.0", "nodes": 4}
    spec |= {"limits": {"cpus": 0.5, "memory": 2**30, "cores": (0, 2), "cores_each": None, "disk": NO_DISK_LIMITS}}
    spec |= {
        "home": None,
        "host": "local",
        "image": None,
        "runtime": None,
        "machines": (),
        "placement": {"per_machine": None, "share": True, "network": None},
        "racks": (),
        "scratch": None,
        "encryption": "none",
        "link": {"delay": 0.0, "loss": 0.0, "rate": None},
    }
    assert experiment.cluster_spec({"nodes": 4, "clients": 1}) == {**spec, "settings": {"a.b": 1}}


def test_nodes_on_other_machines_say_which_and_how(load):
    placed = "machines: [a, 'b:2'], placement: {per_machine: 3, share: false, network: ib0}, scratch: /scratch"
    experiment = load(EXPERIMENT.replace("limits: {", f"host: ssh, {placed}, limits: {{"))
    spec = experiment.cluster_spec({"nodes": 1})
    assert (spec["machines"], spec["scratch"]) == (("a", "b:2"), "/scratch")
    assert spec["placement"] == {"per_machine": 3, "share": False, "network": "ib0"}
    assert experiment.describe()["store"]["machines"] == ["a", "b:2"]
    assert "machines" not in load(EXPERIMENT).describe()["store"], "folders of before cannot go on"
    with pytest.raises(BadInput, match=r"(?s)e\.yaml:\d+:\d+: .*machines requires nodes on other machines.*host: ssh"):
        load(EXPERIMENT.replace("limits: {", "machines: [a], limits: {"))
    with pytest.raises(BadInput, match=r"(?s)e\.yaml:\d+:\d+: .*'a b' is not a machine name"):
        load(EXPERIMENT.replace("limits: {", "host: ssh, machines: [a b], limits: {"))


def test_invalid_cores_are_reported_with_their_place(load):
    with pytest.raises(BadInput, match=r"does not name cores"):
        load(EXPERIMENT.replace("memory: 1g", "cores: some"))


def test_the_links_of_nodes_are_part_of_the_store_and_can_be_factors(load):
    text = EXPERIMENT.replace("limits: {", "home: /opt/os, host: netns, link: {delay: 5ms, loss: 1%}, limits: {")
    factors = "factors: {store.link.rate: [10mbit, 1gbit/s], store.link.delay: [1ms, 0.02]}"
    experiment = load(text.replace("factors: {nodes: [1, 2, 4], clients: [1, 8]}", factors))
    assert [factor.levels for factor in experiment.factors] == [(1.25e6, 1.25e8), (0.001, 0.02)]
    spec = experiment.cluster_spec({"store.link.rate": 1.25e6, "store.link.delay": 0.02})
    assert (spec["home"], spec["host"]) == ("/opt/os", "netns")
    assert spec["link"] == {"delay": 0.02, "loss": 0.01, "rate": 1.25e6}


def test_every_part_of_the_store_can_be_a_factor(load):
    factors = 'factors: {store.limits.cpus: [1, 2], store.limits.memory: [512m, 1g], store.settings.c: ["x", "y"]}'
    experiment = load(EXPERIMENT.replace("factors: {nodes: [1, 2, 4], clients: [1, 8]}", factors))
    assert [factor.levels for factor in experiment.factors] == [(1.0, 2.0), (2**29, 2**30), ("x", "y")]
    assert all(factor.hard for factor in experiment.factors)
    treatment = {"store.limits.cpus": 2.0, "store.limits.memory": 2**29, "store.settings.c": "y"}
    spec = experiment.cluster_spec(treatment)
    assert {key: spec[key] for key in ("store", "version", "nodes", "limits", "settings")} == {
        "store": "opensearch", "version": "3.8.0", "nodes": 2,
        "limits": {"cpus": 2.0, "memory": 2**29, "cores": None, "cores_each": None, "disk": NO_DISK_LIMITS},
        "settings": {"a.b": 1, "c": "y"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "setting", "remedy"),
    [
        ("cassandra", "concurrent_reads", "collections.NAME.KEY as a factor"),
        ("mongodb", "storage.journal.commitIntervalMs", "setParameter.NAME"),
    ],
)
@pytest.mark.parametrize("as_factor", [True, False])
def test_settings_that_an_existing_cluster_never_changes_are_refused(load, kind, setting, remedy, as_factor):
    setting = f"store.settings.{setting}: [1, 2]" if as_factor else f"settings: {{{setting}: 1}}"
    store, factors = (", hosts: a:1", setting) if as_factor else (f", hosts: a:1, {setting}", "clients: [1, 2]")
    text = (
        f"experiment: e\nstore: {{kind: {kind}{store}}}\nworkload: ./small.yaml\nkind: scale\nfactors: {{{factors}}}\n"
    )
    with pytest.raises(BadInput, match=f"running {kind}|while {kind} runs") as refused:
        load(text)
    assert remedy in refused.value.remedy
    assert f"e.yaml:{5 if as_factor else 2}:" in str(refused.value.where)


def test_a_dry_run_names_what_it_does_not_check_of_an_existing_cluster(load):
    text = "experiment: e\nstore: {kind: redis, hosts: a:1, settings: {one: 1}}\nworkload: ./small.yaml\nkind: scale\n"
    experiment = load(text + "factors: {store.settings.other: [1, 2]}\n")
    assert "no node was contacted" in not_checked(experiment)
    assert not_checked(experiment).endswith("the settings one, other")
    assert not_checked(load(EXPERIMENT)) is None


def test_an_invalid_number_of_nodes_behind_an_application_is_reported_with_its_place(load):
    example = Path(__file__).parents[2] / "examples" / "selfcare_app"
    store = f"store: {{kind: {example}, settings: {{store: opensearch, opensearch.nodes: '2'}}}}"
    experiment = load(re.sub("store: .*", store, EXPERIMENT))
    with pytest.raises(BadInput, match=r"opensearch\.nodes must be 1 to 64; got '2'") as refused:
        estimate(design(experiment), experiment)
    assert "e.yaml:2:" in str(refused.value.where)


def test_nodes_have_a_price_by_their_size(load):
    prices = "prices: {node_hour: {512m: 0.1, 1g: 0.15}, by: store.limits.memory}"
    factors = f"factors: {{store.limits.memory: [512m, 1g]}}\n{prices}"
    experiment = load(EXPERIMENT.replace("factors: {nodes: [1, 2, 4], clients: [1, 8]}", factors))
    assert experiment.describe()["prices"]["node_hour"] == [0.1, 0.15]
    assert "prices" not in load(EXPERIMENT).describe()


@pytest.mark.parametrize(
    ("prices", "remedy"),
    [
        ("{node_hour: 0.1}", "set by: store.limits.memory"),
        ("{node_hour: {1: 0.1, 2: 0.2}, by: store.limits.cpus}", "write an experiment for each level"),
    ],
)
def test_a_size_of_nodes_without_a_price_is_refused(load, prices, remedy):
    factors = f"factors: {{store.limits.cpus: [1, 2], store.limits.memory: [512m, 1g]}}\nprices: {prices}"
    if "by" not in prices:
        factors = factors.replace("store.limits.cpus: [1, 2], ", "")
    with pytest.raises(BadInput, match=r"no price for each level of store.limits.memory") as refused:
        load(EXPERIMENT.replace("factors: {nodes: [1, 2, 4], clients: [1, 8]}", factors))
    assert remedy in refused.value.remedy


def test_a_varied_number_of_nodes_behind_an_application_has_prices():
    from loadframe.experiment.file.model import Prices

    factor = "store.settings.opensearch.nodes"
    with pytest.raises(ValueError, match=f"no price for each level of {factor}, which changes the number of processes"):
        Prices(node_hour=0.1).of_levels({factor: [1, 3], "nodes": [1, 2]})
    assert Prices(node_hour={"1": 0.1, "3": 0.3}, by=factor).of_levels({factor: [1, 3]}) == [0.1, 0.3]
    assert Prices(node_hour=0.1).of_levels({factor: [3], "store.settings.x": [1, 2]}) is None
    with pytest.raises(ValueError, match="a price is multiplied by nodes"):
        Prices(node_hour={"1": 0.1, "3": 0.3}, by=factor).of_levels({factor: [1, 3], "nodes": [1, 2]})
    with pytest.raises(ValueError, match="members, which changes the number of processes"):
        Prices(node_hour=0.1).of_levels({"store.settings.members": [1, 3]})


@pytest.mark.parametrize(
    ("prices", "what"),
    [
        ("{node_hour: {1: 0.1}, by: nodes}", "node_hour lacks a price for nodes 2, 4"),
        ("{node_hour: {1: 0.1}, by: node}", "node is not a factor"),
        ("{node_hour: {1: 0.1}}", "give both or neither"),
        ("{node_hour: 0.1, by: nodes}", "give both or neither"),
        ("{node_hour: 0}", "above 0"),
        ("{node_hour: 0.1, storage: 10g}", "storage requires gb_month"),
        ("{node_hour: 0.1, gb_month: 0.1}", "gb_month requires storage"),
    ],
)
def test_prices_that_are_missing_are_refused_at_their_place(load, prices, what):
    with pytest.raises(BadInput) as refused:
        load(f"{EXPERIMENT}prices: {prices}\n")
    text = f"{refused.value.where}: {refused.value.what}; {refused.value.remedy}"
    assert what in text
    assert f"e.yaml:{EXPERIMENT.count(chr(10)) + 1}:" in text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "kind: compare\nvariants: {a: {clients: 1}, b: {clients: 2}}\nprices: {node_hour: 1}\n",
            "experiments of kind compare do not support prices",
        ),
        (
            "kind: capacity\nslo: {response: 1s}\nsearch: {start: 10}\nprices: {node_hour: 1, slo: {p99: 1s}}\n",
            "a capacity experiment has an slo of its own",
        ),
        (
            "kind: capacity\nslo: {response: 1s}\nsearch: {over: users, start: 10}\nprices: {node_hour: 1}\n",
            "prices require a search over the rate, because costs are per request; search has over: users",
        ),
    ],
)
def test_prices_that_a_report_does_not_use_are_refused(load, text, what):
    with pytest.raises(BadInput, match=what) as refused:
        load(f"experiment: e\nstore: {{kind: redis}}\nworkload: ./small.yaml\n{text}")
    assert str(refused.value.where).endswith(f"e.yaml:{3 + text.count(chr(10))}:1")


def test_disk_cores_and_encryption_are_factors_too(load):
    factors = (
        'store.limits.disk.write: [10m/s, 20m/s], store.limits.cores: [1, "2 each"], store.encryption: [none, both]'
    )
    factors = f"factors: {{{factors}}}"
    experiment = load(EXPERIMENT.replace("factors: {nodes: [1, 2, 4], clients: [1, 8]}", factors))
    assert [factor.levels for factor in experiment.factors] == [
        (10 * 2**20, 20 * 2**20), ("1", "2 each"), ("none", "both"),
    ]  # fmt: skip
    assert all(factor.hard for factor in experiment.factors)
    treatment = {"store.limits.disk.write": 2**20, "store.limits.cores": "2 each", "store.encryption": "both"}
    spec = experiment.cluster_spec(treatment)
    assert spec["limits"]["disk"] == NO_DISK_LIMITS | {"write": 2**20}
    assert (spec["limits"]["cores"], spec["limits"]["cores_each"], spec["encryption"]) == (None, 2, "both")


def test_clients_and_rates_change_the_load_and_nothing_else(load):
    experiment = load(EXPERIMENT)
    assert experiment.overrides({"nodes": 4, "clients": 8}) == {"clients": 8}
    experiment = load(EXPERIMENT.replace("clients: [1, 8]", "rate: [90/min, 2]"))
    assert experiment.factors[1].levels == (1.5, 2.0)
    assert experiment.overrides({"nodes": 4, "rate": 1.5}) == {"rate": 1.5}
    assert [factor.hard for factor in experiment.factors] == [True, False]
    assert experiment.describe()["arrivals"] == ["poisson"]
    even = load(EXPERIMENT.replace("clients: [1, 8]", "rate: [90/min, 2]") + "arrivals: constant\n")
    assert even.overrides({"nodes": 4, "rate": 1.5}) == {"rate": 1.5, "arrivals": "constant"}
    assert even.describe()["arrivals"] == ["constant"]
    assert load(EXPERIMENT).describe()["arrivals"] is None, "clients do not arrive"


def test_the_experiments_times_replace_those_of_the_measured_phase(load):
    experiment = load(EXPERIMENT + "warmup: 0s\nduration: 1m\n")
    treatment = {"nodes": 1, "clients": 8}
    phase = experiment.resolve(treatment, "elasticsearch").phase("look").override(**experiment.overrides(treatment))
    plan = phase.plan(seed=1, hosts=[], driver="null")
    assert (plan["warmup"], plan["streams"][0]["stop"]) == (0.0, {"duration": 60.0})
    assert plan["streams"][0]["pacing"]["closed"]["clients"] == 8


def test_a_treatment_makes_the_workload_with_its_nodes_and_parameters(load):
    experiment = load(EXPERIMENT.replace("clients: [1, 8]", "with.hits: [1, 100]"))
    workload = experiment.resolve({"nodes": 4, "with.hits": 100}, "elasticsearch")
    assert workload.collections["things"]["settings"] == {"shards": 4}
    assert workload.corpora["things"]["documents"] == 500
    assert workload.phase("look").operations["look"]["search"]["size"] == 100


def test_a_parameter_is_hard_to_change_when_it_shapes_the_data(load):
    text = EXPERIMENT.replace("clients: [1, 8]", "with.hits: [1, 100], with.documents: [10, 20]")
    assert {factor.name: factor.hard for factor in load(text).factors} == {
        "nodes": True, "with.hits": False, "with.documents": True
    }  # fmt: skip


def test_in_weak_scaling_the_data_grow_with_the_nodes(load):
    experiment = load(EXPERIMENT + "scaling: weak\ngrows: documents\n")
    assert [experiment.workload_parameters({"nodes": n, "clients": 1}) for n in (1, 4)] == [
        {"documents": 500},
        {"documents": 2000},
    ]
    assert experiment.resolve({"nodes": 4, "clients": 1}, "elasticsearch").corpora["things"]["documents"] == 2000


def test_phases_that_finish_a_run_are_not_measured(load):
    experiment = load(EXPERIMENT + "finish: settle\n")
    assert (experiment.prepared, experiment.measured, experiment.finished) == (("fill",), ("look",), ("settle",))
    told = experiment.describe()
    assert (told["prepare"], told["measure"], told["finish"]) == (["fill"], ["look"], ["settle"])
    assert "finish" not in load(EXPERIMENT).describe(), "folders of earlier versions cannot be resumed"
    run = experiment.kind.design(experiment).runs[0]
    workload = experiment.workload_at(run.treatment)
    resolved = workload.for_family("elasticsearch", 1)
    phases = experiment.kind.phases(experiment, resolved, run.treatment)
    assert [(phase.name, phase.finishes) for phase in phases] == [("look", False), ("settle", True)]


def test_without_measure_the_phases_that_do_not_prepare_are_offered(tmp_path, refused):
    text = """\
        experiment: e
        kind: scale
        store: {kind: http, hosts: "127.0.0.1:9"}
        workload: ./several.yaml
        factors: {clients: [1, 2]}
        """
    phases = "".join(
        f"  - {{name: {name}, operation: ask, clients: 1, requests: 1{more}}}\n"
        for name, more in (("fill", ", prepares: true"), ("look", ""), ("seek", ""))
    )
    (tmp_path / "several.yaml").write_text(
        f"workload: several\noperations: {{ask: {{http: {{method: GET, path: /}}}}}}\nphases:\n{phases}"
    )
    error, _ = refused(text)
    assert (error.what, error.remedy) == (
        "the workload several has 2 phases that could be measured",
        "set measure to some of look, seek",
    )


def test_phases_to_measure_and_prepare_can_be_chosen(load):
    experiment = load(EXPERIMENT + "measure: fill\nprepare: []\n")
    assert (experiment.prepared, experiment.measured) == ((), ("fill",))
    experiment = load(EXPERIMENT + "measure: [settle, look]\n")
    assert (experiment.prepared, experiment.measured) == (("fill",), ("settle", "look"))


def test_a_file_in_the_parameters_begins_at_the_experiments_folder(load, tmp_path):
    (tmp_path / "d.json").write_text("{}\n")
    experiment = load(EXPERIMENT.replace("documents: 500", "file: d.json"))
    files = experiment.resolve({"nodes": 1, "clients": 1}, "elasticsearch").corpora["things"]["files"]
    assert files == [str(tmp_path / "d.json")]


def test_an_experiment_describes_itself_for_its_folder(load):
    told = json.loads(json.dumps(load(EXPERIMENT + "measure: look\nquestion: Why?\n").describe()))
    assert told["factors"] == {"nodes": [1, 2, 4], "clients": [1, 8]}
    assert (told["prepare"], told["measure"], told["question"]) == (["fill", "settle"], ["look"], "Why?")
    assert told["with"] == {"documents": 500}


@pytest.mark.parametrize(
    ("old", "new", "at", "what", "remedy"),
    [
        ("experiment: e", "experiment: a/b", "a/b", "is not a name", ""),
        ("kind: scale", "kind: scael", "scael", "not valid here", "did you mean 'scale'?"),
        ("kind: scale\n", "", "experiment", "'kind' is missing", ""),
        ("version: 3.8.0", "version: 3.8", "3.8", "expected a text, not 3.8", "quotes"),
        ("cpus: 0.5", "cpu: 0.5", "cpu", "unknown key 'cpu'", "'cpus'"),
        ("cpus: 0.5", "cpus: 0", "0", "above 0", ""),
        ("memory: 1g", "memory: 1x", "1x", "is not a size", "512m"),
        ("nodes: 2", "nodes: 0", "0", "at least 1", ""),
        ("small.yaml", "nyc_taxs", "nyc_taxs", "unknown workload 'nyc_taxs'", "'nyc_taxis'"),
        ("documents: 500", "docments: 500", "docments", "unknown parameter 'docments'", "'documents'"),
        ("documents: 500", "documents: many", "many", "a whole number", "default is 1000"),
        ("documents: 500", "documents: 0", "0", "at least 1", ""),
        ("documents: 500", "documents: [5]", "[5]", "single value", ""),
        ("nodes: [1", "node: [1", "node", "unknown factor 'node'", "did you mean 'nodes'?"),
        ("clients: [", "documents: [", "documents", "unknown factor 'documents'", "write with.documents"),
        ("clients: [", "with.docments: [", "with.docments", "unknown factor", "with.documents"),
        ("clients: [", "store.limits.cpu: [", "store.limits.cpu", "unknown factor", "store.limits.cpus"),
        ("clients: [", "store.settings.: [", "store.settings.", "unknown factor", "store.settings.NAME"),
        ("[1, 2, 4]", "3", "3", "expected a list", ""),
        ("[1, 2, 4]", "[]", "[]", "at least one entry", ""),
        ("[1, 2, 4]", "[1, two]", "two", "a whole number", ""),
        ("[1, 2, 4]", "[1, 0]", "0", "at least 1", ""),
        ("[1, 2, 4]", "[1, 1.5]", "1.5", "a whole number", ""),
        ("[1, 2, 4]", "[1, true]", "true", "a whole number", ""),
        ("[1, 2, 4]", "[1, [2]]", "[2]", "single value", ""),
        ("[1, 2, 4]", "[1, 2, 1]", "1", "duplicate", "remove one"),
        ("clients: [1, 8]", "store.settings.x: [1, true, 1.0]", "1.0", "duplicate", ""),
        ("clients: [1, 8]", "rate: [1/s, fast]", "fast", "is not a rate", "1000/s"),
        ("clients: [1, 8]", "rate: [1/s, 0]", "0", "above 0", ""),
        ("clients: [1, 8]", "rate: [1/s, 60/min]", "60/min", "duplicate", ""),
        ("kind: scale", "kind: scale\narrivals: constant", "arrivals", "all loads are closed loop", "set a rate"),
        ("kind: scale", "kind: scale\narrivals: often", "often", "not valid", ""),
        ("clients: [1, 8]", "clients: [1], rate: [1]", "rate", "both factors", "remove one"),
        ("clients: [1, 8]", "store.limits.cpus: [1, half]", "half", "above 0", ""),
        ("clients: [1, 8]", "store.limits.memory: [1g, true]", "true", "with its unit", ""),
        ("clients: [1, 8]", "with.documents: [10, 0]", "0", "at least 1", ""),
        ("clients: [1, 8]", "with.documents: [10, few]", "few", "a whole number", ""),
        ("[1, 2, 4], clients: [1, 8]", "[2], clients: [8]", "factors", "only one level", "more levels"),
        ("factors: {nodes: [1, 2, 4], clients: [1, 8]}", "factors: {}", "{}", "at least one entry", ""),
        ("kind: scale", "kind: scale\nmeasure: loko", "loko", "unknown phase 'loko'", "'look'"),
        ("kind: scale", "kind: scale\nmeasure: [look, look]", "[look", "duplicate", "remove"),
        ("kind: scale", "kind: scale\nmeasure: []", "[]", "at least one entry", ""),
        ("kind: scale", "kind: scale\nmeasure: look\nfinish: look", "look", "in measure and finish", "remove"),
        ("kind: scale", "kind: scale\nfinish: loko", "loko", "unknown phase 'loko'", "'look'"),
        ("kind: scale", "kind: scale\nrepetitions: 0", "0", "at least 1", ""),
        ("kind: scale", "kind: scale\nduration: 0s", "0s", "above 0", ""),
        ("kind: scale", "kind: scale\nseed: -1", "-1", "at least 0", ""),
        ("kind: scale", "kind: scale\nthreads: 0", "0", "at least 1", ""),
        ("kind: scale", "kind: scale\nobjective: p99", "p99", "not valid", ""),
        ("kind: scale", "kind: scale\naxes: {node: log}", "axes", "node is not a factor", "'nodes'"),
        ("kind: scale", "kind: scale\naxes: {nodes: log}", "axes", "axis of nodes is fixed", "remove"),
        (
            "clients: [1, 8]}",
            "store.settings.x: [a, b]}\naxes: {store.settings.x: log}",
            "axes",
            "needs at least two numeric levels",
            "",
        ),
        (
            "clients: [1, 8]}",
            "store.settings.x: [0, 8]}\naxes: {store.settings.x: log}",
            "axes",
            "a level of 0 or below",
            "linear",
        ),
        ("{kind: opensearch,", "{kind: sim, host: slurm,", "sim", "sim run only on this machine", "omit store.host"),
        ("experiment: e", "phases: []", "phases", "this is a workload file", "loadframe bench"),
        ("kind: scale", "kind: scale\ngrows: documents", "grows", "requires weak scaling", "weak"),
        ("kind: scale", "kind: scale\nscaling: weak", "scaling", "requires grows", "grows"),
        ("kind: scale", "kind: scale\nscaling: weak\ngrows: docs", "docs", "unknown parameter 'docs'", "documents"),
        ("kind: scale", "kind: scale\nscaling: weak\ngrows: share", "share", "not a whole number", "documents"),
    ],
)
def test_invalid_values_are_refused_with_their_place(refused, old, new, at, what, remedy):
    assert old in EXPERIMENT
    error, text = refused(EXPERIMENT.replace(old, new))
    assert what in error.what
    assert remedy in (error.remedy or "")
    assert text.startswith(at)


def test_a_factor_of_stores_is_refused_on_a_host_where_one_cannot_run(refused):
    text = EXPERIMENT.replace("nodes: 2,", "host: mpi,").replace(
        "clients: [", "store.kind: [opensearch, sim], clients: ["
    )
    error, rest = refused(text)
    assert "nodes of sim run only on this machine" in error.what
    assert rest.startswith("sim]")


def test_in_weak_scaling_nodes_are_a_factor_and_growing_parameters_are_not(refused):
    weak = EXPERIMENT + "scaling: weak\ngrows: documents\n"
    error, _ = refused(weak.replace("nodes: [1, 2, 4], ", ""))
    assert error.remedy == "add nodes to factors"
    error, text = refused(weak.replace("clients: [1, 8]", "with.documents: [1, 8]"))
    assert "both in grows and a factor" in error.what
    assert text == "documents"


def test_a_phase_must_be_chosen_when_the_workload_has_several(refused):
    error, _ = refused(EXPERIMENT.replace("small.yaml", "nyc_taxis"))
    assert "18 phases" in error.what
    assert "range_100" in str(error.remedy)


def test_a_factor_that_a_phase_cannot_take_is_refused(load, refused, tmp_path):
    load(EXPERIMENT)
    text = (tmp_path / "small.yaml").read_text()
    streams = "streams: [{operation: look, clients: 1}, {name: b, operation: look, clients: 1}]"
    (tmp_path / "two.yaml").write_text(text.replace("operation: look, clients: 2", streams))
    error, at = refused(EXPERIMENT.replace("small.yaml", "two.yaml"))
    assert "cannot set clients" in error.what
    assert at.startswith("clients:")


@pytest.mark.parametrize("text", ["", "experiment: e\n", "[]", "a: [", EXPERIMENT.replace("kind", "\tkind")])
def test_files_without_an_experiment_are_refused(refused, text):
    refused(text)


def test_an_error_in_the_workload_names_the_workloads_file(load, tmp_path):
    (tmp_path / "broken.yaml").write_text("workload: [")
    with pytest.raises(Exception, match=r"broken.yaml:1:12: this is not YAML"):
        load(EXPERIMENT.replace("small.yaml", "broken.yaml"))
    with pytest.raises(Exception, match=r"gone.yaml: no such file"):
        load(EXPERIMENT.replace("small.yaml", "gone.yaml"))


def test_a_damaged_file_is_read_or_refused_and_nothing_else(load):
    """Random damage to a valid file: the result is an experiment or one message."""
    sound = EXPERIMENT + "measure: look\nscaling: weak\ngrows: documents\nduration: 5s\nseed: 7\n"
    load(sound)
    words = ["~", "3", "-1", "[]", "{}", "true", "[~]", "[[1]]", "nodes", "1e99", "'x'", "with.hits"]
    refused = 0
    for text in damaged(sound, words):
        try:
            design(load(text))
        except BadInput as error:
            refused += 1
            assert error.where
    assert refused > 200


def test_ranks_for_each_node_follow_the_nodes_and_each_has_a_client(load):
    text = EXPERIMENT.replace(
        "factors: {nodes: [1, 2, 4], clients: [1, 8]}", "factors: {nodes: [1, 3], ranks_per_node: [2, 8]}"
    )
    experiment = load(text)
    assert [factor.hard for factor in experiment.factors] == [True, True], "changing the factor requires a new cluster"
    treatment = {"nodes": 3, "ranks_per_node": 8}
    assert experiment.generator(treatment).ranks == 24
    phases = experiment.kind.phases(experiment, experiment.resolve(treatment, "elasticsearch"), treatment)
    assert "'clients': 24" in str(phases[0].describe())
    with pytest.raises(BadInput, match="ranks_per_node and clients are both factors"):
        load(text.replace("ranks_per_node", "clients: [1], ranks_per_node"))


def test_failed_runs_name_their_planned_machines(load, tmp_path):
    experiment = load(EXPERIMENT.replace("limits: {", "host: ssh, machines: [a, 'b:2'], limits: {"))
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))
    _record_failure(experiment, folder, planned.runs[0], StoreFailed("no luck"))
    manifest = Run(tmp_path / "results" / "runs" / planned.runs[0].id).manifest
    assert [machine["name"] for machine in manifest.store.machines] == ["a", "b"]
    assert "('machines', 'a, b')" in str(manifest_facts(manifest))


def test_phases_that_fill_the_store_are_measured_on_an_empty_one(load):
    filling = load(EXPERIMENT + "prepare: []\nmeasure: [fill]\n")
    assert all(factor.hard for factor in filling.factors)
    runs = design(filling).runs
    assert len({run.state for run in runs}) == len(runs), "each run has a state that no other run filled"
    assert not all(factor.hard for factor in load(EXPERIMENT).factors)
