"""Carries out an experiment that a test has written down, as `loadframe run` does."""

from pathlib import Path

import pytest

from commands import open_folder
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.loop import run_experiment


def carry_out(path: Path, experiment: str, workload: str, name: str) -> ExperimentFolder:
    """Write both files into the folder, the workload as `name`, and return the folder of the experiment's runs."""
    (path / name).write_text(workload)
    (path / "e.yaml").write_text(experiment)
    loaded = load_experiment(path / "e.yaml")
    planned = design(loaded)
    folder = ExperimentFolder(path / "results", describe(loaded, planned))
    with open_folder("state") as state, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(state))
        run_experiment(loaded, planned, folder, Listener())
    return folder
