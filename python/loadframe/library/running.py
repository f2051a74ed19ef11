"""Folders of experiments that are run or resumed."""

from pathlib import Path

from loadframe.experiment.design import Design
from loadframe.experiment.design.plans import describe
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.runner.folder import ExperimentFolder


def opened_folder(experiment: Experiment, design: Design, path: Path, *, retry_failed: bool) -> ExperimentFolder:
    """Open or create the folder of an experiment; `retry_failed` moves failed runs aside, so that they are repeated."""
    folder = ExperimentFolder(path, describe(experiment, design))
    if retry_failed:
        for failed in folder.failed():
            folder.set_aside(failed)
    return folder
