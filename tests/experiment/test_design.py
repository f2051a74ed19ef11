"""Designs: every treatment once in each block, at random, and with as few changes of the cluster as can be."""

import itertools
import re
from dataclasses import replace

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.design.estimate import estimate, length_is_known, why_unknown
from loadframe.experiment.design.plans import design
from loadframe.experiment.experiment import MeasuredRate
from loadframe.experiment.file.reader import load_experiment
from loadframe.record import Run
from simulated import Truth, write_run

EXPERIMENT = """\
experiment: e
store: {kind: opensearch}
workload: small.yaml
kind: scale
seed: SEED
repetitions: 4
factors: {clients: [1, 2, 4, 8], nodes: [1, 2, 3], with.hits: [5, 50]}
"""


@pytest.fixture
def designed(load):
    def designed(seed=1, text=EXPERIMENT):
        return design(load(text.replace("SEED", str(seed))))

    return designed


def treatments(runs):
    return [tuple(run.treatment.items()) for run in runs]


def blocks(made):
    return [list(block) for _, block in itertools.groupby(made.runs, key=lambda run: run.block)]


def test_every_treatment_is_run_once_in_each_block(designed):
    expected = {
        (("clients", clients), ("nodes", nodes), ("with.hits", hits))
        for clients in (1, 2, 4, 8) for nodes in (1, 2, 3) for hits in (5, 50)
    }  # fmt: skip
    made = blocks(designed())
    assert [block[0].block for block in made] == [1, 2, 3, 4]
    for block in made:
        assert len(block) == 24
        assert set(treatments(block)) == expected


def test_the_order_differs_from_block_to_block(designed):
    orders = [tuple(treatments(block)) for block in blocks(designed())]
    assert len(set(orders)) == 4


def test_the_same_seed_gives_the_same_order_and_another_seed_another(designed):
    assert designed(1) == designed(1)
    assert treatments(designed(1).runs) != treatments(designed(2).runs)


def test_the_order_does_not_depend_on_the_order_of_the_levels(designed):
    turned = EXPERIMENT.replace("[1, 2, 4, 8]", "[8, 2, 1, 4]")
    assert treatments(designed(1).runs) == treatments(designed(1, turned).runs)


def test_runs_of_one_state_of_the_cluster_are_neighbours(designed):
    made = designed()
    assert len(list(made.groups())) == 4 * 3
    for group in made.groups():
        assert len(group) == 8
        assert len({run.treatment["nodes"] for run in group}) == 1


def test_states_come_in_every_order_over_many_seeds(designed):
    orders = set()
    for seed in range(20):
        states = [group[0].treatment["nodes"] for group in designed(seed).groups()]
        orders |= {tuple(states[at : at + 3]) for at in range(0, len(states), 3)}
    assert len(orders) == 6


def test_runs_of_a_state_come_at_random(designed):
    orders = {tuple(treatments(group)) for group in designed().groups()}
    assert len(orders) == 12


def test_without_factors_that_are_hard_to_change_all_blocks_share_one_state(designed):
    made = designed(text=EXPERIMENT.replace("nodes: [1, 2, 3], ", ""))
    assert len({run.state for run in made.runs}) == 1


def test_a_run_is_named_by_its_block_and_its_treatment(designed):
    run = designed().runs[0]
    levels = run.treatment
    assert run.id == f"b1-clients{levels['clients']}-nodes{levels['nodes']}-hits{levels['with.hits']}"
    assert run.repetition == 1


def test_more_levels_and_blocks_leave_the_names_of_runs_as_they_were(designed):
    more = EXPERIMENT.replace("repetitions: 4", "repetitions: 5").replace("[5, 50]", "[5, 50, 500]")
    assert {run.id for run in designed().runs} < {run.id for run in designed(text=more).runs}


@pytest.mark.parametrize(
    "factors",
    [
        'store.settings.x: ["a/b", "a_b", "../..", "", "ä", "' + "x" * 300 + '", "' + "x" * 301 + '"]',
        'store.settings.x: [~, true, 1, 1.5, text, "1", "true", "null"]',
        "store.settings.a.x: [1, 2], store.settings.b.x: [1, 2]",
        "store.limits.memory: [512m, 1g, 1000], store.limits.cpus: [0.1, 1]",
        "rate: [1000/s, 0.5, 1e6]",
        'store.settings.a: ["1-b2", "1"], store.settings.b: ["2", "2-b2"]',
    ],
)
def test_names_are_unique_and_fit_for_every_file_system(designed, factors):
    text = re.sub(r"factors: .*", f"factors: {{{factors}}}", EXPERIMENT)
    names = [run.id for run in designed(text=text).runs]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"b[0-9][A-Za-z0-9._-]{0,118}", name) for name in names)


def test_quantities_are_named_as_people_write_them(designed):
    text = re.sub(r"factors: .*", "factors: {store.limits.memory: [512m, 1g], rate: [1000/s]}", EXPERIMENT)
    assert {run.id for run in designed(text=text).runs if run.block == 1} == {
        "b1-memory512m-rate1000",
        "b1-memory1g-rate1000",
    }


def test_more_runs_than_anybody_waits_for_are_refused(designed):
    levels = "[" + ", ".join(str(n) for n in range(1, 300)) + "]"
    with pytest.raises(BadInput, match="runs") as caught:
        designed(text=EXPERIMENT.replace("[1, 2, 3]", levels).replace("[5, 50]", levels))
    assert "e.yaml:7:1" in str(caught.value.where)


def test_the_expected_time_counts_clusters_data_and_runs(load):
    experiment = load(EXPERIMENT.replace("SEED", "1"))
    # In each of 4 blocks 3 clusters of 1, 2 and 3 nodes start in 20, 25 and 30 s and take in 1,000 documents (0.1 s)
    # with a refresh (2 s); 24 runs warm up for 3 s, measure 7 s and need 0.5 s more.
    assert estimate(design(experiment), experiment) == pytest.approx(4 * (75 + 3 * 2.1 + 24 * 10.5))


@pytest.mark.parametrize(
    ("store", "prepared"),
    [
        # Both blocks fill and warm. Both find the caches of the first run warm. Both find its data, too.
        ("", 2 * (2.1 + 10)),
        (", data: reuse", 10),
        (", data: keep", 2.1 + 10),
    ],
)
def test_the_expected_time_of_an_existing_cluster_counts_what_its_runs_prepare(load, store, prepared):
    text = EXPERIMENT.replace("SEED", "1").replace("repetitions: 4", "repetitions: 2")
    text = re.sub(r"factors: .*", "factors: {clients: [1, 2]}\nprepare: [fill, settle, look]\nmeasure: look", text)
    experiment = load(re.sub(r"store: .*", f"store: {{kind: opensearch, hosts: ['127.0.0.1:9200']{store}}}", text))
    assert estimate(design(experiment), experiment) == pytest.approx(prepared + 4 * 10.5)


def test_the_expected_time_counts_new_data_after_runs_whose_parameters_make_them_write(load, tmp_path):
    text = EXPERIMENT.replace("SEED", "1").replace("repetitions: 4", "repetitions: 2")
    load(text)
    workload = (tmp_path / "small.yaml").read_text().replace("look, operation: look", 'look, operation: "${todo}"')
    (tmp_path / "any.yaml").write_text(workload.replace("parameters: {", "parameters: {todo: look, "))
    text = re.sub(r"factors: .*", "factors: {with.todo: [look, fill]}\nprepare: [fill, settle]\nmeasure: look", text)
    text = re.sub(r"store: .*", "store: {kind: opensearch, hosts: ['127.0.0.1:9200'], data: keep}", text)
    experiment = load(text.replace("small.yaml", "any.yaml"))
    # Each block has a run that writes.
    assert estimate(design(experiment), experiment) == pytest.approx(2 * 2.1 + 4 * 10.5)


def test_the_expected_time_knows_growing_data_and_the_experiments_times(load):
    text = EXPERIMENT.replace("SEED", "1").replace("repetitions: 4", "repetitions: 1\nwarmup: 0\nduration: 1m")
    experiment = load(text.replace("[5, 50]", "[5]") + "scaling: weak\ngrows: documents\nwith: {documents: 100000}\n")
    assert estimate(design(experiment), experiment) == pytest.approx(75 + (10 + 20 + 30) + 3 * 2 + 12 * 60.5)


def test_the_expected_time_guesses_the_documents_of_a_file(load, tmp_path):
    (tmp_path / "d.json").write_bytes(b"x" * 5_000_000)
    text = re.sub(r"factors: .*", "factors: {clients: [1, 2]}\nwith: {file: d.json}", EXPERIMENT)
    experiment = load(text.replace("SEED", "1").replace("repetitions: 4", "repetitions: 1"))
    assert estimate(design(experiment), experiment) == pytest.approx(20 + 1 + 2 + 2 * 10.5)


def test_a_phase_that_its_users_end_is_as_long_as_they_think_at_least(load, tmp_path):
    steps = "[{operation: look, think_time: 30s}, look]"
    walks = f"{{name: look, users: 4, clients: 2, journey: {steps}, journeys: 3, warmup: 3s}}"
    text = re.sub(r"factors: .*", "factors: {with.hits: [5, 50]}", EXPERIMENT)
    text = text.replace("SEED", "1").replace("repetitions: 4", "repetitions: 1")
    load(text)
    small = tmp_path / "small.yaml"
    small.write_text(re.sub(r"\{name: look.*", walks, small.read_text()))
    experiment = load_experiment(tmp_path / "e.yaml")
    assert not length_is_known(experiment)
    assert estimate(design(experiment), experiment) == pytest.approx(20 + 2.1 + 2 * (3 + 90 + 0.5))
    # The experiment's own duration ends the runs earlier.
    (tmp_path / "e.yaml").write_text(text + "duration: 10s\n")
    assert length_is_known(load_experiment(tmp_path / "e.yaml"))


def test_much_work_at_an_unknown_rate_has_a_lower_bound_until_runs_measured_it(load, tmp_path):
    text = EXPERIMENT.replace("SEED", "1").replace("repetitions: 4", "repetitions: 1")
    text = re.sub(r"factors: .*", "factors: {clients: [1, 2]}\nwith: {documents: 20000000}", text)
    load(text)
    small = tmp_path / "small.yaml"
    small.write_text(
        re.sub(r"\{name: look.*", "{name: look, operation: look, clients: 2, requests: 10000000}", small.read_text())
    )
    experiment = load_experiment(tmp_path / "e.yaml")
    # Filling takes 20,000,000 / 200,000 s, and each of two runs 10,000,000 / 50,000 s, at least.
    assert estimate(design(experiment), experiment) == pytest.approx(20 + 100 + 2 + 2 * (200 + 0.5))
    assert "ends after 20,000,000 documents, and its rate is not known" in why_unknown(experiment)
    write_run(tmp_path / "results" / "runs", "r1", Truth(seconds=10, noise=0.0, operation="look"), clients=1)
    measured = experiment.with_measured_rates(tmp_path / "results")
    rate = measured.measured_rates["look"].requests
    assert rate == pytest.approx(Run(tmp_path / "results" / "runs" / "r1").summary.phases[0].throughput)
    assert estimate(design(measured), measured) == pytest.approx(20 + 100 + 2 + 2 * (10_000_000 / rate + 0.5))
    filled = replace(measured, measured_rates={**measured.measured_rates, "fill": MeasuredRate(10.0, 50_000.0)})
    assert why_unknown(filled) is None
    assert estimate(design(filled), filled) == pytest.approx(20 + 400 + 2 + 2 * (10_000_000 / rate + 0.5))


def test_a_generated_streams_length_follows_from_its_rate(load):
    text = """\
experiment: e
store: {kind: opensearch}
workload: adbids
with: {documents: 60000, rate: RATE}
kind: settings
scheme: full
factors: {with.shards: [1, 3]}
measure: [ingest]
"""

    def seconds(rate):
        experiment = load(text.replace("RATE", rate))
        return estimate(design(experiment), experiment)

    # Each of two runs takes 2 minutes at 500 bids/s. At a rate beyond the store's capacity, the store decides: 6 s.
    assert seconds("500") - seconds("1000000") == pytest.approx(2 * (120 - 6))
    # Without pace, much work has only a lower bound, like a corpus.
    unpaced = load(text.replace("60000, rate: RATE", "30000000, rate: 500, paced: false"))
    assert "phase ingest ends after 30,000,000 documents, and its rate is not known" in why_unknown(unpaced)
    assert estimate(design(unpaced), unpaced) - seconds("1000000") == pytest.approx(2 * (150 - 6))
