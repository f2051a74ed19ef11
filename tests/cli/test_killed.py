"""`loadframe run` killed (SIGKILL) at any time: complete runs stay, and at most one run is lost."""

import random
import shutil
import time
from pathlib import Path

import pytest

from commands import Running, loadframe, open_folder, result, servers
from loadframe.record import Run

WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 50}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 50}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: 300ms}
"""
EXPERIMENT = """\
experiment: killed
store: {kind: sim, settings: {service: 1ms}}
workload: ./small.yaml
kind: scale
factors: {nodes: [1, 2], clients: [1, 2]}
"""
KILLS = 3
#: Messages after which the command is killed: cluster start, fill, load of a run, and the end of a run.
MOMENTS = ("starting", "phase fill", "phase look", "run ")


@pytest.mark.store
def test_a_command_that_is_killed_at_any_instant_loses_at_most_the_run_in_flight(monkeypatch):
    choose = random.Random(9)
    with open_folder("killed") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        Path("small.yaml").write_text(WORKLOAD)
        Path("e.yaml").write_text(EXPERIMENT)
        names = [run["run"] for run in result("run", "e.yaml", "--dry-run")["design"]]
        runs, kept = Path("results/killed/runs"), {}
        for _ in range(KILLS):
            with Running("run", "e.yaml", folder=folder) as command:
                moment = choose.choice(MOMENTS)
                while moment not in command.stderr and command.process.poll() is None:
                    time.sleep(0.02)
                time.sleep(choose.uniform(0.0, 1.5))
                over = command.process.poll() is not None
                command.process.kill()
                command.process.wait()
                begun = {name for name in names if name in command.stderr}
            whole = {path.name: path for path in runs.glob("*") if not path.name.startswith(".")}
            started = {name: Run(path).raw_manifest["started"] for name, path in whole.items()}
            assert kept.items() <= started.items(), "what was whole stays as it is"
            assert len(begun - started.keys()) <= 1, "one run at most is lost"
            assert {Run(path).raw_summary["status"] for path in whole.values()} <= {"done"}
            kept = started
            if over:
                break
        done = loadframe("run", "e.yaml")
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in runs.iterdir()) == sorted(names), "no half run is left"
        assert kept.items() <= {path.name: Run(path).raw_manifest["started"] for path in runs.iterdir()}.items()
        # The guard ends the nodes of a command that was killed.
        assert servers(folder / "state") == []


#: A store of the user's: a file beside the experiment.
MINE = "from loadframe.store.sim import Sim\n\nSTORE = Sim()\n"


@pytest.mark.store
def test_a_changed_store_file_is_not_mixed_with_the_runs_of_the_former(monkeypatch):
    with open_folder("mixed") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        Path("small.yaml").write_text(WORKLOAD)
        Path("mine.py").write_text(MINE)
        few = EXPERIMENT.replace("kind: sim", "kind: ./mine.py").replace(
            "[1, 2], clients: [1, 2]", "[1], clients: [1, 2]"
        )
        Path("e.yaml").write_text(few)
        done = loadframe("run", "e.yaml")
        assert done.returncode == 0, done.stderr
        runs = Path("results/killed/runs")
        shutil.rmtree(runs / "b1-nodes1-clients2")
        Path("mine.py").write_text(f"{MINE}# It answers otherwise.\n")
        refused = loadframe("run", "e.yaml")
        assert refused.returncode == 2
        assert "the system under test has changed since the last session: mine.py: " in refused.stderr
        assert [path.name for path in runs.iterdir()] == ["b1-nodes1-clients1"]
        Path("mine.py").write_text(MINE)
        done = loadframe("run", "e.yaml")
        assert done.returncode == 0, done.stderr
