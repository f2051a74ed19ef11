"""Where a kind of experiment carries out a run: a cluster that is up and filled, and a folder for its record."""

from dataclasses import dataclass
from pathlib import Path

from loadframe.cluster import Cluster
from loadframe.experiment.design.runs import PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Labels, Session

#: Between the seeds of two trials: more than there are blocks.
_TRIAL_STRIDE = 1_000_003


@dataclass(frozen=True)
class Stage:
    """One cluster of an experiment, for the runs that share its state."""

    experiment: Experiment
    cluster: Cluster
    #: The folder of the runs' folders.
    runs_path: Path
    listener: Listener

    def session(self, run: PlannedRun) -> Session:
        """Return the cluster under the load of a run: its workload, its seed."""
        return Session(
            self.cluster,
            self.experiment.resolve(run.treatment, self.cluster.store.family, self.listener.step),
            seed=seed_of(self.experiment, run),
            generator=self.experiment.generator(run.treatment),
            listener=self.listener,
            allow_bad=self.experiment.file.allow_bad,
        )

    def labels(self, run: PlannedRun) -> Labels:
        """Return what tells the run from the others."""
        return labels_of(run)


def seed_of(experiment: Experiment, run: PlannedRun) -> int:
    """Return a seed of the block's and trial's own: runs that sent the same requests would look more alike than they
    are."""
    return experiment.seed + run.block - 1 + _TRIAL_STRIDE * (run.trial - 1)


def labels_of(run: PlannedRun) -> Labels:
    """Return what tells a run from the others of its experiment."""
    return Labels(run.treatment, run.block, run.repetition)
