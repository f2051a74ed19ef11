"""A running, filled cluster on which a kind of experiment records runs."""

from dataclasses import dataclass
from pathlib import Path

from loadframe.cluster import Cluster
from loadframe.experiment.design import PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Labels, Session

#: Difference between the seeds of two trials; exceeds the number of blocks.
_TRIAL_STRIDE = 1_000_003


@dataclass(frozen=True)
class Stage:
    """A cluster for the runs that share its state, and the folder for their records."""

    experiment: Experiment
    cluster: Cluster
    #: Parent of the run folders.
    runs_path: Path
    listener: Listener

    def session(self, run: PlannedRun) -> Session:
        """Return a session on the cluster with the workload and seed of a run."""
        return Session(
            self.cluster,
            self.experiment.resolve(run.treatment, self.cluster.store.family, self.listener.step),
            seed=seed_of(self.experiment, run),
            generator=self.experiment.generator(run.treatment),
            listener=self.listener,
            allow_bad=self.experiment.file.allow_bad,
        )

    def labels(self, run: PlannedRun) -> Labels:
        """Return the labels of a run."""
        return labels_of(run)


def seed_of(experiment: Experiment, run: PlannedRun) -> int:
    """Return the seed of a block and trial.

    With equal seeds, runs would send equal requests, and the run-to-run variance would look too small.
    """
    return experiment.seed + run.block - 1 + _TRIAL_STRIDE * (run.trial - 1)


def labels_of(run: PlannedRun) -> Labels:
    """Return treatment, block and repetition of a run."""
    return Labels(run.treatment, run.block, run.repetition)
