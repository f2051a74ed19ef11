"""Files of elastic experiments: their meaning for each run, and refusals of impossible steps."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.design.estimate import estimate
from loadframe.experiment.design.plans import design
from loadframe.experiment.file.elastic import LoadEntry
from loadframe.experiment.kinds.elastic import loaded
from loadframe.workload.phases import Stream

EXPERIMENT = """\
experiment: e
store: {kind: opensearch, nodes: 2}
workload: small.yaml
kind: elastic
warmup: 5s
duration: 5m
window: 30s
slo: {p99: 100ms, errors: 1%}
repetitions: 2
transitions:
  grow:
    timeline:
      - {overloaded: {cpu: 80%, drop: 10%}, within: 2m, add: 1}
      - {balanced: 60s, kill: node-1}
  shrink:
    nodes: 3
    timeline: [{at: 60s, remove: 2}]
loads:
  saturated: {clients: {from: 4, more: 4, every: 10s, most: 18}}
  open: {rate: {share: 75%, of: saturated}, arrivals: poisson}
"""


def test_every_transition_is_made_under_every_load_with_its_event_and_without(load):
    made = design(load(EXPERIMENT))
    expected = {
        f"b{block}-{transition}-{which}{control}"
        for block in (1, 2) for transition in ("grow", "shrink") for which in ("saturated", "open")
        for control in ("", "-control")
    }  # fmt: skip
    assert {run.id for run in made.runs} == expected
    assert [run.block for run in made.runs] == [1] * 8 + [2] * 8
    nodes = {run.treatment["transition"]: run.treatment["nodes"] for run in made.runs}
    assert nodes == {"grow": 2, "shrink": 3}
    assert made == design(load(EXPERIMENT))


def test_a_transition_may_be_made_under_some_loads_only(load):
    text = EXPERIMENT.replace("    nodes: 3\n", "    nodes: 2\n    loads: open\n").replace("remove: 2", "remove: 1")
    experiment = load(text)
    assert {run.id for run in design(experiment).runs if run.treatment["transition"] == "shrink"} == {
        f"b{block}-shrink-open{control}" for block in (1, 2) for control in ("", "-control")
    }


def test_no_two_runs_share_a_cluster_that_one_of_them_changes(load):
    assert all(len(group) == 1 for group in design(load(EXPERIMENT)).groups())


def test_the_base_of_a_relative_rate_is_measured_before(load):
    order = [run.id for run in design(load(EXPERIMENT)).runs if run.block == 1]
    for transition in ("grow", "shrink"):
        base = order.index(f"b1-{transition}-saturated-control")
        assert base < min(order.index(f"b1-{transition}-open{control}") for control in ("", "-control"))


def test_clients_arrive_a_few_at_a_time(load):
    experiment = load(EXPERIMENT)
    treatment = {"transition": "grow", "load": "saturated", "nodes": 2, "event": True}
    (phase,) = experiment.kind.phases(experiment, experiment.resolve(treatment, "elasticsearch"), treatment)
    plan = phase.plan(seed=1, hosts=[], driver="null")
    stages = [(stage["to"], stage["over"]) for stage in plan["streams"][0]["pacing"]["closed"]["clients"]["stages"]]
    assert plan["streams"][0]["pacing"]["closed"]["clients"]["from"] == 4
    assert stages == [(4, 10.0), (8, 0.0), (8, 10.0), (12, 0.0), (12, 10.0), (16, 0.0), (16, 10.0), (18, 0.0)]
    assert (plan["warmup"], plan["streams"][0]["stop"]) == (5.0, {"duration": 300.0})


@pytest.mark.parametrize(
    ("entry", "key", "arrivals"),
    [(", arrivals: poisson", "", "poisson"), ("", "", "poisson"), ("", "arrivals: constant\n", "constant"),
     (", arrivals: constant", "", "constant"), (", arrivals: constant", "arrivals: poisson\n", "constant")],
)  # fmt: skip
def test_an_open_load_has_its_own_arrivals_then_the_files_then_poisson(load, entry, key, arrivals):
    experiment = load(EXPERIMENT.replace(", arrivals: poisson", entry) + key)
    treatment = {"transition": "grow", "load": "open", "nodes": 2, "event": True}
    (phase,) = experiment.kind.phases(experiment, experiment.resolve(treatment, "elasticsearch"), treatment)
    assert phase.streams[0].spacing == arrivals
    assert experiment.describe()["arrivals"] == [arrivals]
    assert phase.streams[0].rate == 0.75


def test_the_expected_time_does_not_depend_on_events(load):
    experiment = load(EXPERIMENT.replace("repetitions: 2", "repetitions: 1").replace(", open: ", ""))
    # 4 runs on 2 nodes and 4 on 3, each with a cluster and its data (2.1 s), 305 s of load and 0.5 s beside it.
    assert estimate(design(experiment), experiment) == pytest.approx(4 * 25 + 4 * 30 + 8 * (2.1 + 305.5))


STEP = "{at: 60s, remove: 2}"
TIMELINE = f"timeline: [{STEP}]"


@pytest.mark.parametrize(
    ("old", "new", "at", "what", "remedy"),
    [
        ("duration: 5m\n", "", "experiment", "'duration' is missing", "duration"),
        ("{at: 60s,", "{at: 300s,", "300s", "ends before this time", "longer duration"),
        (STEP, "{at: 60s}", "{at", "got no change", "add, remove"),
        (STEP, "{remove: 1}", "{remove", "got no trigger", "overloaded"),
        (STEP, "{at: 1s, add: 1, kill: node-0}", "{at", "add and kill", "one of"),
        (STEP, "{at: 1s, within: 5s, add: 1}", "within", "cannot be combined with at", "remove"),
        (STEP, "{balanced: 1s, add: 1}", "balanced", "cannot wait for balancing", "another trigger"),
        (STEP, "{at: 60s, remove: 3}", "3", "cannot remove 3 of 3 nodes", ""),
        (STEP, "{at: 60s, cut: node-1}", "{at", "cut and restore require host: netns", "netns"),
        (STEP, "{at: 60s, kill: node-3}", "node-3", "node-3 does not exist at this step", "up to node-2"),
        (
            STEP,
            "{overloaded: {seconds: 200}, add: 1}",
            "overloaded",
            "never fire: it needs 6 min 40 s",
            "longer duration",
        ),
        (STEP, "{overloaded: true, within: 10s, add: 1}", "10s", "never fire: it needs", "shorten the window"),
        (
            STEP,
            "{overloaded: true, add: 1}, {overloaded: true, within: 5s, add: 1}",
            "5s",
            "never fire: it needs 10 s after the step before",
            "lower the seconds",
        ),
        (STEP, "{slo_broken: 6m, add: 1}", "slo_broken", "the run lasts 5 min", "longer duration"),
        (STEP, "{at: 60s, ad: 3}", "ad", "unknown key 'ad'", "'add'"),
        (STEP, "{overloaded: {cpu: 120%}, add: 1}", "120%", "is not a share", ""),
        (STEP, "{overloaded: {cpu: much}, add: 1}", "much", "is not a share", "percentage"),
        ("slo: {p99: 100ms, errors: 1%}", "slo: {}", "{}", "objective is empty", "p99"),
        (TIMELINE, "timeline: []", "[]", "at least one entry", ""),
        (TIMELINE, "", "nodes: 3", "neither a timeline nor a policy", ""),
        (TIMELINE, "policy: {most: 3}", "{most", "got none", "thresholds"),
        (TIMELINE, "policy: {target: 60%, most: 1}", "most", "most must be above least", ""),
        (
            TIMELINE,
            "policy: {python: 'gone.py:f', most: 3}",
            "'gone.py",
            "does not exist",
            "",
        ),
        (
            TIMELINE,
            "policy: {thresholds: {below: 80%, above: 30%}, most: 3}",
            "below",
            "below must be less than above",
            "",
        ),
        ("    nodes: 3\n", "    nodes: 3\n    loads: opn\n", "opn", "unknown load 'opn'", "'open'"),
        ("    nodes: 3\n", "    nodes: 3\n    loads: open\n", "saturated", "the nodes of 'shrink'", "saturated"),
        ("of: saturated", "of: saturatd", "saturatd", "unknown load 'saturatd'", "'saturated'"),
        ("of: saturated", "of: open", "open", "is open", ""),
        ("share: 75%", "share: 0", "0", "above 0", ""),
        ("share: 75%", "shares: 1, share: 75%", "shares", "unknown key", "share"),
        ("most: 18", "most: 4", "4", "most must be above from (4)", "raise"),
        ("clients: {from", "rate: 5, clients: {from", "{rate", "both clients", "exactly one"),
        ("repetitions: 2", "repetitions: 2\ncontrol: false", "saturated", "control runs", "remove control"),
        ("window: 30s", "window: 1s", "1s", "at least 5 s", ""),
    ],
)
def test_invalid_values_are_refused_with_their_place(refused, old, new, at, what, remedy):
    assert old in EXPERIMENT
    error, text = refused(EXPERIMENT.replace(old, new))
    assert what in error.what
    assert remedy in (error.remedy or "")
    assert text.startswith(at)


def test_a_node_that_was_added_can_be_named_afterwards(load):
    step = "{at: 60s, add: 1}, {balanced: 1s, kill: node-3}"
    assert load(EXPERIMENT.replace(STEP, step)).file.transitions["shrink"].timeline[1].kill == "node-3"


def test_a_broken_objective_needs_one(refused):
    text = EXPERIMENT.replace(STEP, "{slo_broken: 5s, add: 1}")
    error, _ = refused(text.replace("slo: {p99: 100ms, errors: 1%}\n", ""))
    assert "requires an slo" in error.what


def test_a_policy_may_be_a_function_of_the_users_own(load, tmp_path):
    (tmp_path / "mine.py").write_text("def decide(seen):\n    return seen.nodes + 1\n")
    text = EXPERIMENT.replace(TIMELINE, "policy: {python: 'mine.py:decide', most: 3}")
    load(text)
    with pytest.raises(BadInput, match="no function 'other'"):
        load(text.replace("mine.py:decide", "mine.py:other"))


@pytest.mark.parametrize(
    ("transitions", "loads"),
    [
        (("grow",), ("users", "users-control")),
        (("grow", "grow-fast"), ("fast-users", "users")),
        (("grow", "grow-x"), ("control", "x")),
        (("g" * 79 + "1", "g" * 79 + "2"), ("u" * 79 + "1", "u" * 79 + "2")),
    ],
)
def test_no_two_runs_have_one_name_whatever_transitions_and_loads_are_called(load, transitions, loads):
    entries = "".join(f"  {name}: {{timeline: [{{at: 60s, add: 1}}]}}\n" for name in transitions)
    head = EXPERIMENT[: EXPERIMENT.index("transitions:")]
    text = f"{head}transitions:\n{entries}loads:\n" + "".join(f"  {name}: {{clients: 4}}\n" for name in loads)
    made = design(load(text))
    assert len({run.id for run in made.runs}) == len(made.runs) == 2 * 2 * len(transitions) * len(loads)
    assert all(len(run.id) < 128 for run in made.runs)
    assert "b1-grow-users-control" in {run.id for run in made.runs} or "users" not in loads


def test_a_policy_is_not_scored_in_documents(load):
    policy = "  scaled:\n    policy: {target: 60%, most: 3}\n"
    text = EXPERIMENT.replace(
        "transitions:\n", "objective: documents\ncapacity: [{nodes: 1, rate: 500/s}]\ntransitions:\n" + policy
    )
    with pytest.raises(BadInput, match="policies are scored in requests/s"):
        load(text)
    assert load(text.replace("capacity: [{nodes: 1, rate: 500/s}]\n", "")).file.objective == "documents"


@pytest.mark.parametrize(("steps", "rate"), [(1, 750.0), (3, 250.0)])
def test_a_share_of_the_capacity_is_a_rate_of_requests_whatever_each_arrival_sends(steps, rate):
    share = LoadEntry.model_validate({"rate": {"share": "75%", "of": "saturated"}})
    journey = Stream.model_validate({"name": "main", "journey": [{"operation": "look"}] * steps, "clients": 2})
    (stream,) = loaded((journey,), share, 1000.0, None, "look")
    assert stream.rate == rate


def test_a_share_is_refused_for_a_phase_whose_other_stream_keeps_its_load(load, tmp_path):
    small = (tmp_path / "small.yaml").read_text() if load(EXPERIMENT) else ""
    streams = "streams: [{name: a, operation: look, clients: 2}, {name: b, operation: look, rate: 5/s}]"
    assert "operation: look, clients: 2" in small
    (tmp_path / "mixed.yaml").write_text(small.replace("operation: look, clients: 2", streams))
    mixed = EXPERIMENT.replace("small.yaml", "./mixed.yaml")
    with pytest.raises(BadInput, match="a rate share requires a phase with one stream; 'look' has 2") as refused:
        load(mixed)
    assert "set a rate in requests/s" in refused.value.remedy
    assert ":" in refused.value.where
    load(mixed.replace("{share: 75%, of: saturated}", "50/s"))


def test_a_share_of_the_capacity_with_other_parameters_is_refused(load, refused):
    def other(loaded_with, measured_with):
        text = EXPERIMENT.replace("arrivals: poisson}", f"arrivals: poisson, with: {{documents: {loaded_with}}}}}")
        return text.replace("most: 18}}", f"most: 18}}, with: {{documents: {measured_with}}}}}")

    load(other(500, 500))
    error, place = refused(other(500, 600))
    assert "the load 'saturated' measures the capacity with another documents than 'open' has" in error.what
    assert place.startswith("saturated")
    refused(EXPERIMENT.replace("most: 18}}", "most: 18}, with: {documents: 500}}"))


def test_a_load_that_drops_each_group_of_requests_is_refused(load, tmp_path):
    load(EXPERIMENT)
    small = (tmp_path / "small.yaml").read_text()
    together = small.replace("operation: look, clients: 2", "mix: {look: 3}, order: together, rate: 5/s")
    (tmp_path / "groups.yaml").write_text(together)
    head, _, _ = EXPERIMENT.replace("small.yaml", "./groups.yaml").partition("loads:\n")
    load(f"{head}loads:\n  open: {{rate: 9, max_in_flight: 3}}\n")
    with pytest.raises(BadInput, match="max_in_flight must be at least the 3 requests of a group; got 2"):
        load(f"{head}loads:\n  open: {{rate: 9, max_in_flight: 2}}\n")
