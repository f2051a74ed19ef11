"""Overhead of the experiment loop per run: time between the starts of two runs on one cluster, minus the load.

Also shows the CPU time of the command per run, which is independent of other processes."""

import itertools
import os
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path

from loadframe.base.units import format_duration
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.loop import run_experiment
from loadframe.record import Run

LOAD, LEVELS, LIMIT = 1.0, 12, 2.0
WORKLOAD = """\
workload: few
collections: {things: {elasticsearch: {}}}
operations:
  look: {search: {collection: things, size: 0}}
phases:
  - {name: look, operation: look, clients: 1, duration: 1s}
"""
EXPERIMENT = f"""\
experiment: between
store: {{kind: sim, settings: {{service: 5ms}}}}
workload: ./few.yaml
kind: scale
factors: {{clients: {list(range(1, LEVELS + 1))}}}
"""


def main() -> None:
    """Run the experiment on a simulated node, and print the overhead of each run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LOADFRAME_STATE"] = str(folder / "state")
        (folder / "few.yaml").write_text(WORKLOAD)
        (folder / "e.yaml").write_text(EXPERIMENT)
        experiment = load_experiment(folder / "e.yaml")
        planned = design(experiment)
        recorded = ExperimentFolder(folder / "results", describe(experiment, planned))
        before = time.process_time()
        run_experiment(experiment, planned, recorded, Listener())
        values = (time.process_time() - before) / len(planned.runs)
        begun = [Run(recorded.runs_path / run.id).manifest.started for run in planned.runs]
    instants = [datetime.fromisoformat(text).timestamp() for text in begun]
    beyond = [later - earlier - LOAD for earlier, later in itertools.pairwise(instants)]
    verdict = "reached" if max(beyond) <= LIMIT else "missed"
    median, most = format_duration(statistics.median(beyond)), format_duration(max(beyond))
    print(f"  {len(beyond)} runs of {format_duration(LOAD)} took {median} beyond it at the median, {most} at most;"
          f" aim {format_duration(LIMIT)} {verdict}")  # fmt: skip
    print(f"  CPU time of the command for each run, its cluster and its load included: {format_duration(values)}")
