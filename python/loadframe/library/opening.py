"""Opening of run and experiment folders."""

import os
from pathlib import Path

from loadframe.analyze.experiment import EXPERIMENT_FILE
from loadframe.base.errors import BadInput
from loadframe.library.experiment import Experiment
from loadframe.library.run import Run
from loadframe.record.schema import MANIFEST_FILE


def open(path: str | os.PathLike[str]) -> Run | Experiment:  # noqa: A001 - the name is `loadframe.open`
    """Open the folder of a run or an experiment. BadInput if it is neither, or is damaged.

    >>> loadframe.open("results/tail").status
    'done'
    >>> loadframe.open("results/nodes")
    <Experiment simulated: scale, 4 of 4 runs valid>
    """
    folder = Path(path)
    if (folder / EXPERIMENT_FILE).is_file():
        return Experiment._opened(folder)
    if folder.is_dir() and not (folder / MANIFEST_FILE).is_file():
        raise BadInput(
            "this is neither a run nor an experiment",
            where=str(folder),
            remedy=f"name a folder that holds {MANIFEST_FILE} or {EXPERIMENT_FILE}",
        )
    return Run(folder)
