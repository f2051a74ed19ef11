"""Numbers of recorded and known runs, over all sessions of an experiment."""

from collections.abc import Sequence

from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.runner.folder import ExperimentFolder


def next_runs(experiment: Experiment, folder: ExperimentFolder) -> tuple[PlannedRun, ...]:
    """Return the runs that the kind adds to the design now and that are not recorded."""
    return tuple(run for run in experiment.kind.next_runs(experiment, folder.runs_path) if not folder.has(run.id))


class RunCount:
    """Count of an experiment's runs, or of its searches if each entry of its design is a search."""

    def __init__(self, experiment: Experiment, design: Design, folder: ExperimentFolder) -> None:
        self._experiment = experiment
        self._design = design
        self._folder = folder

    def pending(self) -> Sequence[PlannedRun]:
        """Return the missing runs of the design; if there are none, the runs that the kind adds now."""
        missing = [run for run in self._design.runs if not self._folder.has(run.id)]
        return missing or next_runs(self._experiment, self._folder)

    def position(self, run: PlannedRun) -> tuple[int, int]:
        """Return the index (from 0) of an unrecorded run and the number of known runs; or of its search, and searches.

        Runs are counted in the order of recording, searches in the order of the design.
        """
        if self._experiment.kind.searches:
            searches = [self._search(first) for first in self._design.runs]
            return searches.index(self._search(run)), len(searches)
        known = self._known()
        return sum(map(self._folder.has, known)), len(known)

    def recorded_text(self) -> str:
        """Return how many runs are recorded, or searches finished, as text."""
        one, several = self._experiment.kind.entries
        if self._experiment.kind.searches:
            unfinished = [*self.pending(), *next_runs(self._experiment, self._folder)]
            total, state = len(self._design.runs), "finished"
            done = total - len({self._search(run) for run in unfinished})
        else:
            known = self._known() | {run.id for run in self.pending()}
            total, state = len(known), "recorded"
            done = sum(map(self._folder.has, known))
        if total == done == 1:
            return f"the {one} is already {state}"
        return f"{'all' if done == total else f'{done} of'} {total} {several} are already {state}"

    def _known(self) -> set[str]:
        return {run.id for run in self._design.runs} | set(self._folder.further())

    def _search(self, run: PlannedRun) -> str:
        return self._experiment.kind.first_trial(self._experiment, run)
