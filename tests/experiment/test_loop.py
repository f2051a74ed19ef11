"""The loop over an experiment's runs on a real node: steps, their order, and a node that dies."""

import json
import os
import re
import signal
from dataclasses import replace

import pytest

from commands import servers
from loadframe.analyze.capacity import Outcome, Slo, judge
from loadframe.analyze.compare import Group, compare
from loadframe.analyze.experiment import read_experiment
from loadframe.analyze.gate import Thresholds, judge_gate
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Labels, Listener, RunHook
from loadframe.experiment.runner.loop import run_experiment
from loadframe.experiment.runner.session import Session
from loadframe.record import Run
from loadframe.store import stores

WORKLOAD = """\
workload: small
parameters: {documents: 50, warm: 0.3s}
collections: {trips: {elasticsearch: {settings: {number_of_replicas: 0}}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: "${documents}"}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 50}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: "${warm}"}
"""
EXPERIMENT = """\
experiment: small
store: {kind: opensearch, settings: {heap: 400m}, limits: {cpus: 0.9}}
workload: ./small.yaml
kind: scale
factors: {clients: [1, 2, 3, 4]}
prepare: [fill, look]
measure: look
duration: 500ms
"""


class Witness(Listener):
    """Records events, and calls a function when a run's phase begins."""

    def __init__(self, at_phase=lambda run: None):
        self.heard = []
        self.run_id = None
        self._at_phase = at_phase

    def step(self, text):
        self.heard.append(text)

    def remark(self, text):
        self.heard.append(text)

    def run(self, index, runs, run_id):
        self.run_id = run_id
        self.heard.append(f"run {index} of {runs}")

    def phase(self, name, seconds):
        self.heard.append(f"phase {name} {seconds}")
        self._at_phase(self.run_id)


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    return load_experiment(tmp_path / "e.yaml")


@pytest.fixture
def folder(experiment, tmp_path):
    return ExperimentFolder(tmp_path / "results", describe(experiment, design(experiment)))


def _assert_failed_everywhere(folder, died):
    """Assert that a run that the store did not survive is a failure for capacity, the gate, a comparison and scale."""
    judged = judge(Run(folder.runs_path / died), Slo(response=3600.0, errors=1.0), ["look"], None)
    assert judged.outcome is Outcome.FAILED
    assert any("did not survive the load: node-0 has ended" in reason for reason in judged.reasons)
    recorded = read_experiment(folder.path)
    assert died in [run.id for run in recorded.failed]
    # Numbers of clients are of no interest here.
    runs = [replace(run, treatment={}) for run in recorded.runs]
    new = Group("new", tuple(run for run in runs if run.id == died))
    old = Group("old", tuple(run for run in runs if run.id != died))
    gate = judge_gate(new, old, Thresholds())
    assert gate.standing == "regression"
    assert any("the store failed in 1 of 1 run" in check.why for check in gate.checks)
    comparison = compare([old, new], intended=True)
    assert not any(contrast.outcome == "better" for contrast in comparison.contrasts)
    assert any("the store failed in 1 of 1 run of new" in warning.cause for warning in comparison.warnings)
    assert any(died in warning.cause for curves in read_sweep(folder.path).curves for warning in curves.warnings)


@pytest.mark.store
def test_a_run_with_a_dead_node_reports_it_and_the_rest_gets_a_new_cluster(experiment, folder, state):
    planned = design(experiment)
    first, second, *_ = [run.id for run in planned.runs]

    def kill(run_id):
        if run_id == second and not folder.has(second):
            (node,) = servers(state)
            os.kill(node.pid, signal.SIGKILL)

    witness = Witness(kill)
    run_experiment(experiment, planned, folder, witness)
    runs = {run.id: Run(folder.runs_path / run.id) for run in planned.runs}

    started = [run.raw_manifest["started"] for run in runs.values()]
    assert started == sorted(started), "in the order of the design"
    assert witness.heard.count("starting 1 node of opensearch 3.8.0") == 2
    addresses = [run.raw_manifest["store"]["addresses"] for run in runs.values()]
    assert addresses[0] == addresses[1] != addresses[2] == addresses[3]
    lost = runs[second].raw_summary
    assert [reason["code"] for reason in lost["verdict"]["reasons"] if "node-0 has ended" in reason["cause"]] == [
        "node_lost"
    ]
    assert not any(reason["code"] == "cluster_state" for reason in lost["verdict"]["reasons"])
    assert "a node has ended; the remaining runs get a new cluster" in witness.heard
    _assert_failed_everywhere(folder, second)
    for run in [run for name, run in runs.items() if name != second]:
        assert run.raw_summary["status"] == "done"
        assert run.raw_summary["phases"][0]["operations"]["look"]["successes"] > 0
        assert not [reason for reason in run.raw_summary["verdict"]["reasons"] if reason["code"] == "cluster_state"]
    assert servers(state) == []

    # Each cluster was filled and warmed up separately, without a record; each run has the requested duration.
    assert witness.heard.count("phase fill None") == 2
    assert witness.heard.count("phase look 0.3") == 2
    assert witness.heard.count("phase look 0.5") == 4
    assert [phase["name"] for phase in runs[first].raw_summary["phases"]] == ["look"]

    again = Witness()
    run_experiment(experiment, planned, folder, again)
    assert again.heard == ["all 4 runs are already recorded"]


#: With this seed one block goes from one node to two, and the other from two to one.
GROWING = """\
experiment: growing
store: {kind: sim, settings: {service: 1ms}}
workload: ./small.yaml
kind: scale
factors: {nodes: [1, 2], clients: [1, 2]}
measure: look
duration: 300ms
repetitions: 2
"""


@pytest.mark.store
def test_a_cluster_grows_within_its_block_and_is_filled_again(tmp_path, state):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    (tmp_path / "g.yaml").write_text(GROWING)
    experiment = load_experiment(tmp_path / "g.yaml")
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))
    witness = Witness()
    run_experiment(experiment, planned, folder, witness)

    order = [(group[0].block, group[0].treatment["nodes"]) for group in planned.groups()]
    assert sorted(order) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    addresses = {}
    for run in planned.runs:
        store = Run(folder.runs_path / run.id).raw_manifest["store"]
        assert store["nodes"] == len(store["addresses"]) == run.treatment["nodes"]
        addresses[run.block, run.treatment["nodes"]] = set(store["addresses"])
        reasons = Run(folder.runs_path / run.id).raw_summary["verdict"]["reasons"]
        assert not [reason for reason in reasons if reason["code"] == "cluster_state"]
    upward = [block for block in (1, 2) if order.index((block, 1)) < order.index((block, 2))]
    assert len(upward) == 1, "one block of each order"
    for block in (1, 2):
        assert (addresses[block, 1] < addresses[block, 2]) == (block in upward)
    assert len([said for said in witness.heard if "starting" in said and "of sim" in said]) == 3
    assert witness.heard.count("phase fill None") == 4, "data are loaded as into a new cluster"
    assert servers(state) == []


def test_unsuitable_machines_are_refused_before_the_first_run(experiment, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", str(tmp_path))
    witness = Witness()
    with pytest.raises(BadInput, match="not a Java runtime"):
        run_experiment(experiment, design(experiment), folder, witness)
    assert witness.heard == []
    assert list(folder.runs_path.iterdir()) == []


@pytest.mark.store
def test_a_node_that_cannot_be_added_is_named_with_the_cause(tmp_path, state, monkeypatch):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    (tmp_path / "g.yaml").write_text(GROWING.replace(", clients: [1, 2]", ""))
    experiment = load_experiment(tmp_path / "g.yaml")
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))

    def refuse(store, addresses, member, watch):
        raise StoreFailed("the server denies access: NOPERM", where=member.address, remedy="grant +cluster|meet")

    monkeypatch.setattr(type(stores()["sim"]), "join", refuse)
    witness = Witness()
    run_experiment(experiment, planned, folder, witness)
    (told,) = [said for said in witness.heard if "adding a node failed" in said]
    assert re.fullmatch(
        r"starting a new cluster, because adding a node failed: 127\.0\.0\.1:\d+: the server denies access: NOPERM\n"
        r"  grant \+cluster\|meet",
        told,
    )
    assert folder.failed() == []
    assert len(list(folder.runs_path.iterdir())) == len(planned.runs)


@pytest.fixture
def growing(tmp_path):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    (tmp_path / "g.yaml").write_text(GROWING.replace("nodes: [1, 2], ", "").replace("repetitions: 2", "repetitions: 1"))
    experiment = load_experiment(tmp_path / "g.yaml")
    return experiment, ExperimentFolder(tmp_path / "results", describe(experiment, design(experiment)))


def failing(monkeypatch, times, error):
    """Let the first `times` starts of a cluster fail."""
    start, starts = Cluster.start, []

    def flaky(spec, report=None):
        starts.append(spec)
        if len(starts) <= times:
            raise error
        return start(spec, report)

    monkeypatch.setattr(Cluster, "start", flaky)
    return starts


@pytest.mark.store
def test_one_start_that_fails_costs_no_run(growing, monkeypatch, state):
    experiment, folder = growing
    failing(monkeypatch, 1, StoreFailed("node-0 ended while it started: port 20001 is in use"))
    witness = Witness()
    run_experiment(experiment, design(experiment), folder, witness)
    assert [said for said in witness.heard if "trying a new cluster" in said and "port 20001" in said]
    assert folder.failed() == []
    assert len(list(folder.runs_path.iterdir())) == 2


@pytest.mark.store
def test_a_preparation_that_fails_once_is_kept_as_an_attempt(growing, monkeypatch, state):
    experiment, folder = growing
    error_of, errors = Session._preparation_error, [StoreFailed("12 acknowledged documents are missing")]
    monkeypatch.setattr(Session, "_preparation_error", lambda *given: errors.pop() if errors else error_of(*given))
    run_experiment(experiment, design(experiment), folder, Witness())
    assert folder.failed() == []
    recorded = read_experiment(folder.path)
    [attempt] = recorded.attempts
    assert attempt.store_failed
    assert "12 acknowledged documents" in attempt.run.summary.failure
    assert attempt in recorded.counted


@pytest.mark.parametrize(
    ("error", "starts"), [(StoreFailed("it does not start"), 2), (BadInput("there is no such setting"), 1)]
)
def test_a_state_that_cannot_be_brought_about_fails_its_runs(growing, monkeypatch, error, starts):
    experiment, folder = growing
    tried = failing(monkeypatch, 99, error)
    run_experiment(experiment, design(experiment), folder, Witness())
    assert len(tried) == starts
    assert len(folder.failed()) == 2


class Breaking(RunHook):
    """A run hook that fails once the load runs."""

    broken = None

    def progress(self, progress):
        self.broken = LoadframeError("the policy failed: ValueError")

    def failure(self):
        return self.broken


@pytest.mark.store
def test_a_failing_hook_fails_the_run_and_keeps_its_measurements(growing, tmp_path, state):
    experiment, _ = growing
    with Cluster.start(ClusterSpec("sim"), print) as cluster:
        workload = experiment.resolve({}, cluster.store.family)
        session = Session(cluster, workload, seed=1, generator=experiment.generator({}), listener=Listener())
        session.create_collections()
        look = workload.phase("look").override(duration=60.0)
        with pytest.raises(LoadframeError, match="the policy failed") as caught:
            session.record(tmp_path, "r", [look], Labels(), hook=Breaking())
    assert caught.value.where == str(tmp_path / "r")
    summary = Run(tmp_path / "r").raw_summary
    assert summary["status"] == "failed"
    assert "the policy failed" in summary["failure"]
    assert summary["phases"]


@pytest.mark.store
@pytest.mark.parametrize("warmup", [0.0, 60.0])
def test_a_phase_that_prepares_fails_if_it_dropped_requests_that_write(tmp_path, state, warmup):
    (tmp_path / "small.yaml").write_text(WORKLOAD.replace("documents: 50,", "documents: 5000,"))
    (tmp_path / "g.yaml").write_text(GROWING)
    experiment = load_experiment(tmp_path / "g.yaml")
    with Cluster.start(ClusterSpec("sim", settings={"service": "50ms"}), print) as cluster:
        workload = experiment.resolve({}, cluster.store.family)
        session = Session(cluster, workload, seed=1, generator=experiment.generator({}), listener=Listener())
        session.create_collections()
        fill = workload.phase("fill").override(rate=200.0, warmup=warmup)
        streams = tuple(stream.model_copy(update={"max_in_flight": 1}) for stream in fill.streams)
        with pytest.raises(LoadframeError, match=r"requests of fill were dropped: too many were in flight"):
            session.prepare([replace(fill, streams=streams)], tmp_path)


class Restoring(Listener):
    """Creates the missing collections of a cluster again after the first failed request."""

    def __init__(self, cluster, collections):
        self._cluster = cluster
        self._collections = dict(collections)

    def progress(self, progress):
        while progress.errors and self._collections:
            self._cluster.create_collection(*self._collections.popitem())


@pytest.mark.store
def test_a_phase_that_prepares_fails_if_a_request_of_its_warmup_failed(growing, tmp_path, state):
    experiment, _ = growing
    with Cluster.start(ClusterSpec("sim"), print) as cluster:
        workload = experiment.resolve({}, cluster.store.family)
        listener = Restoring(cluster, workload.collections)
        session = Session(cluster, workload, seed=1, generator=experiment.generator({}), listener=listener)
        look = replace(workload.phase("look").override(warmup=2.0, duration=0.5), prepares=True)
        with pytest.raises(LoadframeError, match=r"requests? of look failed"):
            session.prepare([look], tmp_path)


@pytest.mark.store
def test_a_simulated_store_draws_anew_in_each_repetition_and_treatment(growing, tmp_path, state):
    experiment, _ = growing
    seeds = []
    with Cluster.start(ClusterSpec("sim"), print) as cluster:
        workload = experiment.resolve({}, cluster.store.family)
        Session(cluster, workload, seed=1, generator=experiment.generator({}), listener=Listener()).create_collections()
        look = workload.phase("look").override(duration=0.1)
        for number, (seed, clients) in enumerate([(1, 1), (1, 2), (2, 1), (1, 1)]):
            session = Session(cluster, workload, seed=seed, generator=experiment.generator({}), listener=Listener())
            session.record(tmp_path, f"r{number}", [look], Labels({"clients": clients}))
            [kept] = state.rglob("shared/state.json")
            seeds.append(json.loads(kept.read_text())["seed"])
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[3], "the same run draws the same numbers again"
