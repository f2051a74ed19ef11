"""`loadframe plan`: from a file by assumptions, from a folder by its runs; starts no cluster."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import loadframe, within
from loadframe import simulate
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.power import capacity_half_width
from loadframe.experiment.runner.folder import ExperimentFolder
from simulated import Truth, write_experiment, write_run

FILE = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: scale
factors: {nodes: [1, 2, 4]}
measure: range_100
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(simulate, "TRIALS", 4)


@pytest.mark.slow
def test_of_a_file_everything_is_supposed(tmp_path):
    (tmp_path / "e.yaml").write_text(FILE)
    status, told, _ = within("plan", tmp_path / "e.yaml", "--sigma", "0.1", "--json")
    planned = json.loads(told)
    assert status == 0
    assert planned["origin"] == "assumed"
    assert planned["law"]["sigma"] == 0.1
    assert planned["designs"][0]["sizes"] == [1, 2, 4]
    assert planned["best"] in [design["name"] for design in planned["designs"]]
    assert planned["effects"] == [{"factor": "nodes", "runs": 1, "least": None}]


@pytest.mark.slow
def test_the_text_explains_its_columns(tmp_path):
    (tmp_path / "e.yaml").write_text(FILE)
    _, told, _ = within("plan", tmp_path / "e.yaml")
    words = " ".join(told.split())
    for column in ("contention", "peak", "conclusive", "<"):
        assert re.search(f"{column}(, coherency)?: [a-z0-9]", words), column


@pytest.mark.slow
def test_the_text_names_the_next_measurement(tmp_path):
    (tmp_path / "e.yaml").write_text(FILE)
    status, told, _ = within("plan", tmp_path / "e.yaml")
    words = " ".join(told.split())
    assert status == 0
    assert "The simulation assumes a peak at 44 nodes (contention 3 %, coherency 0.05 %); set your own" in words
    assert "The most informative design per run is" in words


@pytest.mark.slow
def test_a_plan_from_a_folder_uses_its_runs(tmp_path):
    truth = Truth(node_sigma=0.2, noise=0.02, seconds=2)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 2, 4, 8), clients=(8,), repetitions=3)
    status, told, _ = within("plan", path, "--json")
    planned = json.loads(told)
    assert status == 0
    assert planned["origin"] == "fitted to the recorded runs"
    assert planned["made"] == 12
    assert planned["law"]["sigma"] == pytest.approx(0.2, abs=0.06)
    assert 0.01 < planned["law"]["noise"] < 0.04


COMPARE = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: compare
variants: {old: {clients: 2}, new: {clients: 4}}
measure: range_100
repetitions: 5
"""


def test_the_plan_of_a_gate_gives_its_power(tmp_path):
    (tmp_path / "e.yaml").write_text(COMPARE)
    status, told, _ = within("plan", tmp_path / "e.yaml", "--noise", "0.03", "--json")
    rows = {(row["check"], row["runs"]): row for row in json.loads(told)["gate"]}
    assert status == 0
    throughput = rows["throughput", 5]
    assert list(throughput["power"]) == ["0.05", "0.1", "0.2"]
    assert throughput["power"]["0.05"] < 0.5 < 0.99 < throughput["power"]["0.2"]
    assert 0.05 < rows["throughput", 10]["finds"] < throughput["finds"] < 0.15
    assert rows["p99", 5]["finds"] > throughput["finds"]
    _, told, _ = within("plan", tmp_path / "e.yaml")
    assert "As a gate, with a baseline in the same blocks" in " ".join(told.split())


@pytest.mark.parametrize("words", [["--noise", "2"], ["--budget", "0"], ["--sigma", "-1"]])
def test_out_of_range_options_are_refused(tmp_path, words):
    (tmp_path / "e.yaml").write_text(FILE)
    status, _, said = within("plan", tmp_path / "e.yaml", *words)
    assert status == 2
    assert said.startswith("loadframe: ")


@pytest.mark.slow
def test_designs_count_the_runs_of_all_factors(tmp_path):
    two = planned(tmp_path, FILE.replace("[1, 2, 4]}", "[1, 2, 4], clients: [1, 2]}"), "--budget", "13")
    one = planned(tmp_path, FILE, "--budget", "6")
    assert one["sentences"] == []
    assert [design["runs"] for design in one["designs"]] == [3, 6, 4, 4, 5]
    assert [(it["name"], it["runs"]) for it in two["designs"][:2]] == [("as it is", 6), ("repeated more", 12)]
    assert all(design["runs"] == 2 * len(design["sizes"]) * design["repetitions"] <= 13 for design in two["designs"])
    assert two["sentences"] == [
        "The curve is over nodes. Each size has 2 runs in each repetition, for the levels of clients; a curve uses one"
        " of them."
    ]
    assert two["warnings"] == []
    tied = planned(tmp_path, FILE.replace("[1, 2, 4]}", "[1, 2, 4], clients: ['${4 * nodes}']}"), "--budget", "9")
    assert tied["designs"][0]["runs"] == 3
    assert tied["sentences"] == []
    mixed = planned(tmp_path, FILE.replace("[1, 2, 4]}", "[1, 2, 4], clients: [8, '${4 * nodes}']}"))
    assert "Each size has up to 2 runs in each repetition" in mixed["sentences"][0]


@pytest.mark.parametrize(
    ("text", "budget", "words"),
    [
        (FILE.replace("[1, 2, 4]}", "[1, 2, 4], clients: [1, 2]}"), 5, "5 runs is below the 6 runs"),
        ("COMPARE", 1, "1 run is below the 10 runs"),
        ("CAPACITY", 5, "5 runs limits nothing"),
    ],
)
def test_a_budget_below_the_experiment_is_a_warning(tmp_path, text, budget, words):
    plan = planned(tmp_path, globals().get(text, text), "--budget", str(budget))
    assert f"the budget of {words}" in plan["warnings"][0]
    assert plan["designs"] == []


CAPACITY = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: capacity
slo: {response: 100ms}
factors: {nodes: [1, 2, 4]}
measure: range_100
"""


def planned(tmp_path, text, *more):
    (tmp_path / "e.yaml").write_text(text)
    status, told, _ = within("plan", tmp_path / "e.yaml", "--json", *more)
    assert status == 0
    return json.loads(told)


def test_the_plan_of_a_capacity_search_gives_the_gain_of_more_searches_without_a_curve(tmp_path):
    once = planned(tmp_path, CAPACITY)
    assert once["designs"] == []
    assert once["effects"] == []
    assert "bracket of 5 %" in once["sentences"][0]
    assert "3 searches ± " in once["sentences"][0]
    assert "no interval" in once["warnings"][0]
    assert planned(tmp_path, CAPACITY + "repetitions: 3\n")["warnings"] == []


@pytest.mark.parametrize(
    ("noise", "searches", "table"), [(0.05, 3, 5.2), (0.05, 5, 2.8), (0.1, 5, 4.9), (0.02, 3, 2.7)]
)
def test_widths_of_capacities_are_those_of_the_simulation(noise, searches, table):
    """benchmarks/simulate_capacity.py prints the table of simulated searches, in per cent."""
    assert 100 * capacity_half_width(searches, noise, 0.05) == pytest.approx(table, rel=0.35)


SETTINGS = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: settings
factors: {store.settings.servers: [1, 2], clients: [2, 4], with.low: [5, 7], with.high: [15, 20]}
measure: range_100
"""


def test_the_plan_of_settings_gives_the_precision_of_their_design(tmp_path):
    screened = planned(tmp_path, SETTINGS + "scheme: fraction\nresolution: 3\n")
    assert screened["designs"] == []
    assert screened["gate"] == []
    # A fraction of resolution 3 for four factors has eight runs, four at each level.
    assert {effect["runs"] for effect in screened["effects"]} == {4}
    assert "5 runs each of winner and default" in screened["sentences"][0]


@pytest.mark.parametrize(
    ("confirm", "words"), [(0, "not confirmed"), (1, "cannot decide"), (2, "only detects"), (5, None)]
)
def test_a_confirmation_that_cannot_decide_is_warned_of(tmp_path, confirm, words):
    told = planned(tmp_path, SETTINGS + f"confirm: {confirm}\n", "--noise", "0.1")["warnings"]
    assert [words in warning for warning in told] == ([True] if words else [])


def test_the_plan_of_a_comparison_gives_the_repetitions_for_its_least_difference(tmp_path):
    assert (
        "cannot show a difference"
        in planned(tmp_path, COMPARE.replace("repetitions: 5", "repetitions: 1"))["warnings"][0]
    )
    few = planned(tmp_path, COMPARE, "--noise", "0.05")
    assert "set repetitions to 18" in few["warnings"][0]
    assert [(effect["factor"], effect["runs"]) for effect in few["effects"]] == [("variant", 5)]


@pytest.mark.slow
@pytest.mark.parametrize("study", ["elasticity-paper/small-redis", "sharded-mongodb/small-reads", "tour/capacity"])
def test_a_plan_without_a_curve_imports_no_fit(study):
    path = Path(__file__).parents[2] / "experiments" / f"{study}.yaml"
    code = (
        "import sys; from loadframe.cli import main\n"
        "try: main(['plan', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('scipy.optimize', 'loadframe.analyze.scalability') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert f"A{'n' * ('elastic' in study)} " in done.stdout.splitlines()[1]


@pytest.mark.slow
def test_the_node_hours_of_a_job_are_those_of_all_its_machines(tmp_path):
    several = FILE.replace("{kind: sim}", "{kind: redis, host: slurm, placement: {share: false, per_machine: 2}}")
    (tmp_path / "e.yaml").write_text(several + "duration: 1h\nrepetitions: 5\n")
    status, told, _ = within("plan", tmp_path / "e.yaml", "--json")
    extent = json.loads(told)["extent"]
    assert (status, extent["runs"], extent["nodes"], extent["machines"], extent["generators"]) == (0, 15, 4, 2, 1)
    assert 15 * 3600 < extent["seconds"] < 15.5 * 3600
    assert extent["machine_hours"] == pytest.approx(3 * extent["seconds"] / 3600, abs=0.01)
    status, told, _ = within("plan", tmp_path / "e.yaml", "--generators", "4")
    assert "in one job of 6 machines (2 for nodes and 4 for ranks only): 9" in " ".join(told.split())
    (tmp_path / "e.yaml").write_text(FILE)
    assert "on this machine." in within("plan", tmp_path / "e.yaml")[1]


@pytest.mark.slow
def test_a_file_that_is_not_here_is_said_and_its_documents_are_those_that_would_be_generated(tmp_path):
    reading = "measure: [load]\nprepare: []\nwith: {file: no.json, documents: 36000000}"
    (tmp_path / "e.yaml").write_text(FILE.replace("measure: range_100", reading))
    status, told, _ = within("plan", tmp_path / "e.yaml", "--json")
    extent = json.loads(told)["extent"]
    assert status == 0
    assert "no.json is missing: the estimate assumes 36,000,000 documents in corpus nyc_taxis" in extent["missing"][0]
    assert not extent["length_known"] and "ends after 36,000,000 documents" in extent["missing"][-1]
    assert 3 * 180 < extent["seconds"] < 3 * 200, "a lower bound, at 200,000 documents per second"
    assert "! no.json is missing" in within("plan", tmp_path / "e.yaml")[1]
    (tmp_path / "no.json").write_text("{}\n")
    extent = json.loads(within("plan", tmp_path / "e.yaml", "--json")[1])["extent"]
    assert extent["missing"] == []
    assert extent["seconds"] < 600


@pytest.mark.slow
def test_unknown_lengths_are_given_as_minimum(tmp_path):
    (tmp_path / "walk.yaml").write_text(
        "workload: walk\ncollections: {things: {redis: {}}}\n"
        'operations: {look: {read: {collection: things, id: "1"}}}\n'
        "phases: [{name: walk, users: 2, journey: [{operation: look, think_time: 10m}, look], journeys: 2}]\n"
    )
    slurm = "store: {kind: redis, host: slurm, placement: {share: false}}"
    text = f"experiment: e\n{slurm}\nworkload: ./walk.yaml\nkind: scale\nfactors: {{nodes: [1, 3]}}\nrepetitions: 3\n"
    path = tmp_path / "e.yaml"
    path.write_text(text)
    words = "the length depends on how long users take for their journeys"
    status, told, _ = within("plan", path)
    told = " ".join(told.split())
    assert (status, "6 runs take at least 2 h" in told, "at least 8." in told, f"! {words}" in told) == (0, *3 * [True])
    status, told, _ = within("run", path, "--dry-run")
    assert (status, told.startswith("e: 6 runs, at least 2 h"), f"({words})" in told) == (0, True, True)
    told = json.loads(within("run", path, "--dry-run", "--json")[1])
    assert (told["length_known"], told["expected_seconds"] > 7200) == (False, True)
    status, _, said = within("slurm", path, "--script", tmp_path / "e.sbatch")
    said = " ".join(said.split())
    assert (status, "the job's time limit is unknown" in said, "give --time" in said) == (2, True, True)
    path.write_text(text.replace("repetitions: 3", "repetitions: 99"))
    status, _, said = within("run", path)
    assert (status, "the experiment takes at least 6" in " ".join(said.split())) == (2, True), said


def test_the_plan_and_the_dry_run_of_a_capacity_experiment_count_searches(tmp_path):
    path = Path(__file__).parents[2] / "experiments" / "tour" / "capacity.yaml"
    for command, words in ((["plan"], "2 searches take"), (["run", "--dry-run"], "2 searches, about")):
        done = loadframe(*command, path)
        assert words in done.stdout, done.stderr


SMALL = """\
experiment: small
store: {kind: sim}
workload: nyc_taxis
kind: scale
factors: {nodes: [1, 2], clients: [1, 2]}
measure: range_100
duration: 10s
"""


@pytest.fixture
def partly_recorded(tmp_path, monkeypatch):
    """Write an experiment; return a function that records some of its four runs, or a function that records all."""
    monkeypatch.chdir(tmp_path)
    Path("e.yaml").write_text(SMALL)

    def record(number):
        experiment = load_experiment(Path("e.yaml"))
        planned = design(experiment)
        folder = ExperimentFolder(Path("results/small"), describe(experiment, planned))
        for run in planned.runs[:number]:
            nodes, clients = (int(run.treatment[name]) for name in ("nodes", "clients"))
            write_run(folder.runs_path, run.id, Truth(seconds=10), nodes=nodes, clients=clients)
        folder.close()

    return record


def test_a_dry_run_gives_the_time_of_the_runs_that_remain(partly_recorded):
    whole = json.loads(within("run", "e.yaml", "--dry-run", "--json")[1])
    assert whole["remaining_runs"] == 4
    partly_recorded(3)
    _, told, _ = within("run", "e.yaml", "--dry-run")
    assert told.startswith("small: 3 of 4 runs are already recorded in results/small; 1 run remains, about ")
    left = json.loads(within("run", "e.yaml", "--dry-run", "--json")[1])
    assert left["remaining_runs"] == 1
    assert 10 <= left["remaining_seconds"] < whole["remaining_seconds"] / 2


def test_a_plan_of_a_file_counts_the_runs_in_its_default_folder(partly_recorded):
    assert "0 valid runs so far" in " ".join(within("plan", "e.yaml")[1].split())
    partly_recorded(3)
    assert "3 valid runs so far" in " ".join(within("plan", "e.yaml")[1].split())
    assert json.loads(within("plan", "e.yaml", "--json")[1])["made"] == 3


@pytest.mark.slow
def test_a_finished_experiment_says_so_and_how_to_repeat_it(partly_recorded):
    for words in (("plan", "e.yaml"), ("plan", "results/small")):
        if Path(words[-1]).exists():
            assert "Finished" not in within(*words)[1]
    partly_recorded(4)
    finished = "all 4 runs are already recorded in results/small. To repeat the experiment, give another folder"
    _, told, _ = within("run", "e.yaml", "--dry-run")
    assert f"small: finished: {finished}" in told
    assert "about" not in told
    status, _, said = within("run", "e.yaml")
    assert finished in " ".join(said.split()) and "in all" not in said, said
    for path, words in (
        ("e.yaml", "all 4 runs are already recorded"),
        ("results/small", "all 4 runs of the design are"),
    ):
        status, told, _ = within("plan", path)
        told = " ".join(told.split())
        assert (status, f"Finished: {words}" in told, "on this machine" in told) == (0, True, False)
        assert json.loads(within("plan", path, "--json")[1])["finished"] is True


def test_runs_of_another_version_of_the_file_do_not_count(partly_recorded):
    partly_recorded(4)
    Path("e.yaml").write_text(SMALL.replace("duration: 10s", "duration: 20s"))
    assert within("run", "e.yaml", "--dry-run")[1].startswith("small: 4 runs, about ")


@pytest.mark.slow
def test_a_fitted_peak_is_not_called_an_assumption(tmp_path):
    truth = Truth(node_sigma=0.2, noise=0.02, seconds=2)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 2, 4, 8), clients=(8,), repetitions=3)
    words = " ".join(within("plan", path)[1].split())
    assert "The curve that was fitted to the recorded runs (contention " in words
    assert "assumes" not in words


@pytest.mark.parametrize("rate", ["rate: 100", "factors: {rate: [50, 100]}"])
def test_a_gate_does_not_check_the_throughput_of_open_loads(tmp_path, rate):
    text = COMPARE.replace("clients: 2", "store.settings.service: 1ms").replace(
        "clients: 4", "store.settings.service: 2ms"
    )
    (tmp_path / "e.yaml").write_text(f"{text}{rate}\n")
    status, told, said = within("plan", tmp_path / "e.yaml", "--noise", "0.03", "--json")
    assert status == 0, said
    checks = {row["check"] for row in json.loads(told)["gate"]}
    assert any(check.startswith("p99") for check in checks)
    assert not any(check.startswith("throughput") for check in checks)
