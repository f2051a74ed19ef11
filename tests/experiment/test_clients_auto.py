"""Scale experiments that find their number of clients: file keys, and the resulting runs."""

import pytest

from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.kinds.base import seed_of
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.loop import run_experiment
from loadframe.record.reader import set_aside
from simulated import Truth, write_run

HEAD = """\
    experiment: e
    store: {kind: sim}
    workload: ./small.yaml
    kind: scale
    measure: look
    clients: auto
"""
#: Two clients at most have something to do: more only wait.
WORKLOAD = """\
workload: few
collections: {things: {elasticsearch: {}}}
operations:
  look: {search: {collection: things, size: 0}}
phases:
  - {name: look, operation: look, clients: 1, duration: 600ms}
"""
EXPERIMENT = """\
experiment: few
store: {kind: sim, settings: {service: 20ms, servers: 2, distribution: constant}}
workload: ./few.yaml
kind: scale
clients: auto
factors: {nodes: [1]}
"""


def test_each_cluster_begins_with_one_client(load):
    runs = design(load(HEAD + "    factors: {nodes: [1, 2]}\n    repetitions: 2\n")).runs
    assert len(runs) == 4
    assert {run.treatment["clients"] for run in runs} == {1}


def test_the_most_runs_are_known_before(load):
    experiment = load(HEAD + "    factors: {nodes: [1, 2]}\n    repetitions: 2\n")
    most = experiment.kind.largest_design(experiment).runs
    assert {run.treatment["clients"] for run in most} == {2**step for step in range(13)}
    assert len(most) == 4 * 13
    assert {run.id for run in design(experiment).runs} <= {run.id for run in most}


def test_the_next_number_of_clients_follows_from_the_results_so_far(load, tmp_path):
    experiment = load(HEAD + "    factors: {nodes: [1]}\n")
    kind, runs = experiment.kind, tmp_path / "runs"
    truth = Truth(sigma=0.0, kappa=0.0, noise=0.0, seconds=2, operation="look", node_cpu=0.2)

    def made(clients, **more):
        (run,) = kind.next_runs(experiment, runs)
        assert run.treatment == {"nodes": 1, "clients": clients}
        write_run(runs, run.id, Truth(**{**vars(truth), **more}), nodes=1, clients=clients)

    write_run(runs, design(experiment).runs[0].id, truth, nodes=1, clients=1)
    made(2)
    made(4, lam=50.0)
    assert kind.next_runs(experiment, runs) == ()


def test_each_number_of_clients_sends_other_requests_and_each_treatment_the_same(load):
    experiment = load(HEAD + "    factors: {nodes: [1, 2]}\n    repetitions: 2\n")
    seeds = {}
    for run in experiment.kind.largest_design(experiment).runs:
        seeds.setdefault((run.block, run.treatment["clients"]), set()).add(seed_of(experiment, run))
    assert all(len(of_load) == 1 for of_load in seeds.values()), "loads are compared between cluster sizes"
    assert len(set.union(*seeds.values())) == 2 * 13
    assert seeds[2, 1] == {experiment.seed + 1}


def test_a_repeated_run_decides_instead_of_the_run_that_it_replaces(load, tmp_path):
    experiment, runs = load(HEAD + "    factors: {nodes: [1]}\n"), tmp_path / "results" / "runs"
    idle, full = (Truth(noise=0.0, seconds=2, operation="look", node_cpu=cpu) for cpu in (0.2, 0.49))
    first = design(experiment).runs[0].id
    write_run(runs, first, full, nodes=1, clients=1)
    assert experiment.kind.next_runs(experiment, runs) == ()
    set_aside(tmp_path / "results", runs / first)
    write_run(runs, first, idle, nodes=1, clients=1)
    assert [run.treatment["clients"] for run in experiment.kind.next_runs(experiment, runs)] == [2]


def test_every_block_has_the_clients_that_another_got_to(load, tmp_path):
    experiment, runs = load(HEAD + "    factors: {nodes: [1]}\n    repetitions: 2\n"), tmp_path / "runs"
    idle, full = (Truth(noise=0.0, seconds=2, operation="look", node_cpu=cpu) for cpu in (0.2, 0.49))

    def made(run_id, truth, clients):
        assert next(run.id for run in experiment.kind.next_runs(experiment, runs)) == run_id
        write_run(runs, run_id, truth, nodes=1, clients=clients)

    made("b1-nodes1-clients1", full, 1)
    made("b2-nodes1-clients1", idle, 1)
    made("b2-nodes1-clients2", full, 2)
    made("b1-nodes1-clients2", idle, 2)
    assert experiment.kind.next_runs(experiment, runs) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    factors: {clients: [1, 2]}\n", "clients: auto cannot be combined"),
        ("    factors: {rate: [1/s]}\n", "clients: auto cannot be combined"),
        ("    factors: {nodes: [1]}\n    until: {relative_interval: 0.05, most: 10}\n", "fixed number of repetitions"),
    ],
)
def test_contradictory_keys_are_refused(refused, text, said):
    error, _ = refused(HEAD + text)
    assert said in str(error)


@pytest.mark.store
@pytest.mark.alone
def test_a_real_ramp_ends_where_throughput_does(tmp_path, state):
    (tmp_path / "few.yaml").write_text(WORKLOAD)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    experiment = load_experiment(tmp_path / "e.yaml")
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, design(experiment)))
    run_experiment(experiment, design(experiment), folder, Listener())
    made = sorted(int(path.name.rpartition("clients")[2]) for path in folder.runs_path.iterdir())
    assert made == [2**step for step in range(len(made))]
    # A generator that others leave no core to ends the ramp sooner, which is right, too.
    assert made[-1] <= 8
