"""The folder of an experiment: `experiment.json` with its description, `runs/` with its recorded runs, their counts."""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted
from loadframe.experiment.design import Design, PlannedRun
from loadframe.experiment.design.plans import describe
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.runner.listener import Labels
from loadframe.record import ManifestDraft, Run, RunWriter, Summary
from loadframe.record.machine import SESSION, changes
from loadframe.record.reader import set_aside

#: Keys that may change between two sessions. A change of any other key would mix different runs in one folder.
_REWORDABLE = ("question", "file", "published", "axes", "prices")
#: Further keys that only affect reports, by kind of experiment.
_DISPLAY_KEYS = {"scale": ("objective",)}

#: Keys of a description that are left out at their defaults, so that a file may no longer have one.
_LEFT_OUT = ("finish", "arrivals", "capacity", "capacities")

_FILE, _LOCK = "experiment.json", ".lock"
#: Key of runs that were added to the design after earlier runs.
FURTHER = "further"
#: Key of the fingerprints of each command that recorded runs in the folder.
SESSIONS = "sessions"


class RecordedRuns:
    """The recorded runs of an experiment's folder, which need not exist. Changes nothing."""

    def __init__(self, path: Path) -> None:
        """Take the experiment's folder, without reading it."""
        self.path = path
        self.runs_path = path / "runs"

    def has(self, run_id: str) -> bool:
        """Return whether the run is recorded, with any status."""
        return (self.runs_path / run_id).exists()

    def further(self) -> list[str]:
        """Return the identifiers of runs that were added to the design, in order; OSError without `experiment.json`."""
        description = json.loads((self.path / _FILE).read_text(encoding="utf-8"))
        return [entry["run"] for entry in description.get(FURTHER, ())]

    def _recorded(self) -> list[Path]:
        """Return the folders of recorded runs, sorted; hidden folders are unfinished and omitted."""
        if not self.runs_path.is_dir():
            return []
        return [path for path in sorted(self.runs_path.iterdir()) if not path.name.startswith(".")]

    def require_fitting(self, description: Mapping[str, Any]) -> None:
        """Raise BadInput for a folder with files but no experiment, with runs of another one, or not writable.

        `description` is the content of `experiment.json`; keys that affect no run may differ.
        """
        try:
            if self.path.is_dir() and not (self.path / _FILE).exists() and any(self.path.iterdir()):
                raise BadInput(
                    "the folder is not empty and does not hold an experiment",
                    where=str(self.path),
                    remedy="choose another folder with --output",
                )
            if self._recorded():
                _require_same(self.path / _FILE, description)
            absolute = self.path.absolute()
            existing = next(place for place in (absolute, *absolute.parents) if place.exists())
            if not existing.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(existing, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> BadInput:
        """Return the error for a folder that cannot be written or read."""
        return BadInput(
            f"cannot write to the folder: {error.strerror}",
            where=str(self.path),
            remedy="choose a writable folder with --output",
        )


class ExperimentFolder(RecordedRuns):
    """The folder of one experiment, new or resumed. A lock admits one process at a time.

    As a context manager, it releases the lock at the end. After an error, but not after an interrupt, it removes a
    folder that it created and that has no run.
    """

    def __init__(self, path: Path, description: Mapping[str, Any]) -> None:
        """Open or create and lock the folder, and write `experiment.json`.

        BadInput if it holds other data or runs of another `description`, is not writable, or is in use by a process.
        """
        super().__init__(path)
        self.require_fitting(description)
        try:
            self._created = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            # Held until `close`; the kernel releases it when the process ends.
            self._lock = (path / _LOCK).open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                self._write_description(description)
            except BaseException:
                self.close()
                raise
        except BlockingIOError:
            raise BadInput(
                "another loadframe process is running this experiment",
                where=str(path),
                remedy="wait for it to end, or choose another folder with --output",
            ) from None
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock; after an error other than an interrupt, remove the folder if it is new and has no run."""
        if isinstance(error, Exception) and self._created:
            self._remove_unused()
        self.close()

    def close(self) -> None:
        """Release the lock, so that the same process can resume the experiment."""
        self._lock.close()

    def _remove_unused(self) -> None:
        """Remove the folder, unless it holds a run, which may be unfinished, or a file of another origin."""
        written = (_FILE, _LOCK, self.runs_path.name)
        if any(self.runs_path.iterdir()) or any(entry.name not in written for entry in self.path.iterdir()):
            return
        # Another process may begin the experiment here meanwhile, and then the folder stays.
        with contextlib.suppress(OSError):
            (self.path / _FILE).unlink()
            self.runs_path.rmdir()
            (self.path / _LOCK).unlink()
            self.path.rmdir()

    def _write_description(self, description: Mapping[str, Any]) -> None:
        """Write `experiment.json`; BadInput if the folder has runs of a different description.

        With recorded runs, only keys that affect nothing but reports are updated; their absence removes none.
        """
        file = self.path / _FILE
        self.runs_path.mkdir(exist_ok=True)
        if self._recorded():
            earlier = _require_same(file, description)
            # These keys only affect reports, so they may be added later.
            keys = ("published", "axes", "prices", *_DISPLAY_KEYS.get(description.get("kind", ""), ()))
            updates = {key: description[key] for key in keys if description.get(key)}
            if any(earlier.get(key) != value for key, value in updates.items()):
                _write(file, {**earlier, **updates})
        else:
            _write(file, description)

    def begin_session(self, measured: Mapping[str, str], instrument: Mapping[str, str]) -> list[str]:
        """Add this session to `experiment.json`; return sentences on changes of `instrument` since the last session.

        `instrument` describes loadframe and this machine. `measured` has the versions of the systems under test,
        service code and policies, by name. Without recorded runs, nothing is compared. BadInput if `measured` has
        changed.
        """
        file = self.path / _FILE
        description = json.loads(file.read_text(encoding="utf-8"))
        sessions = description.setdefault(SESSIONS, [])
        changed: list[str] = []
        if sessions and self._recorded():
            self._require_unchanged(sessions[-1]["measured"], measured)
            changed = changes(sessions[-1]["instrument"], instrument)
        sessions.append({"session": SESSION, "measured": dict(measured), "instrument": dict(instrument)})
        _write(file, description)
        return changed

    def require_measured(self, measured: Mapping[str, str]) -> None:
        """Raise BadInput if versions or nodes of these systems, by name, differ from those of the last session.

        Systems that are unknown to that session are ignored.
        """
        description = json.loads((self.path / _FILE).read_text(encoding="utf-8"))
        if sessions := description.get(SESSIONS):
            before = {name: text for name, text in sessions[-1]["measured"].items() if name in measured}
            self._require_unchanged(before, {name: measured[name] for name in before})

    def _require_unchanged(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Raise BadInput, with all differences, if the systems under test differ: texts by name, `before` and `now`."""
        if others := changes(before, now):
            raise BadInput(
                f"the system under test has changed since the last session: {'; '.join(others)}",
                where=str(self.path),
                remedy="measure the changed system in another folder with --output, or restore it to resume",
            )

    def extend(self, runs: Sequence[PlannedRun]) -> None:
        """Add runs to `experiment.json`, under `further`; skip runs that are listed there already."""
        file = self.path / _FILE
        description = json.loads(file.read_text(encoding="utf-8"))
        known = description.setdefault(FURTHER, [])
        names = {entry["run"] for entry in known}
        known += [run.describe() for run in runs if run.id not in names]
        _write(file, description)

    def failed(self) -> list[str]:
        """Return the identifiers of runs with status `failed`, sorted; BadInput if a recorded run is damaged."""
        return [path.name for path in self._recorded() if Run(path).summary.status == "failed"]

    def set_aside(self, run_id: str) -> None:
        """Move a recorded run to the folder of earlier attempts, so that the next session repeats it."""
        set_aside(self.path, self.runs_path / run_id)

    def record_failure(self, run_id: str, labels: Labels, planned: Mapping[str, Any], error: LoadframeError) -> None:
        """Record a run without data as failed, with `error` as its cause.

        `planned` has the parts `workload`, `store`, `seed` and `generator` of its manifest.
        """
        with RunWriter(self.runs_path, run_id) as writer:
            manifest = ManifestDraft(
                run=run_id,
                started=writer.started,
                treatment=labels.treatment,
                block=labels.block,
                repetition=labels.repetition,
                **planned,
            )
            writer.finish(manifest.as_dict(), Summary("failed", str(error), error.fault).as_dict())


def opened_folder(experiment: Experiment, design: Design, path: Path, *, retry_failed: bool) -> ExperimentFolder:
    """Open or create the folder of an experiment; `retry_failed` moves failed runs aside, so that they are repeated.

    BadInput if it holds another experiment or a damaged run.
    """
    folder = ExperimentFolder(path, describe(experiment, design))
    if retry_failed:
        for failed in folder.failed():
            folder.set_aside(failed)
    return folder


def _write(file: Path, description: Mapping[str, Any]) -> None:
    """Write a JSON file, by renaming a draft beside it; OSError on failure."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    part.rename(file)


def _require_same(file: Path, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description in the folder; BadInput if it differs from `description` in a key that affects runs."""
    now = json.loads(json.dumps(description))
    try:
        earlier: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        free = (*_REWORDABLE, *_DISPLAY_KEYS.get(now.get("kind", ""), ()))
        keys = dict.fromkeys([*now, *_LEFT_OUT])
        different = [key for key in keys if key not in free and earlier.get(key) != now.get(key)]
    except (ValueError, AttributeError, RecursionError) as error:
        raise BadInput(
            "the file is not valid", where=str(file), remedy="choose another folder with --output"
        ) from error
    # The design follows from the other keys, so it is named only if nothing else differs.
    different = [key for key in different if key != "design"] or different
    # Quoted, because `with` is a key, too.
    names = [f"`{key}`" for key in dict.fromkeys(key.removesuffix("_sha256") for key in different)]
    if names:
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        raise BadInput(
            f"the folder holds an experiment with other values of {listed}",
            where=str(file.parent),
            remedy="choose another folder with --output, or restore the file to resume",
        )
    return earlier


def recorded_count(experiment: Experiment, design: Design, path: Path) -> "RunCount | None":
    """Return the count of this experiment's runs in the folder `path`, or None without runs, or for another experiment.

    Writes nothing and takes no lock.
    """
    folder = RecordedRuns(path)
    try:
        if not any(not entry.name.startswith(".") for entry in folder.runs_path.iterdir()):
            return None
        _require_same(path / _FILE, describe(experiment, design))
    except (OSError, BadInput):
        return None
    return RunCount(experiment, design, folder)


def next_runs(experiment: Experiment, folder: RecordedRuns) -> tuple[PlannedRun, ...]:
    """Return the runs that the kind adds to the design now and that are not recorded; empty at the end."""
    return tuple(run for run in experiment.kind.next_runs(experiment, folder.runs_path) if not folder.has(run.id))


class RunCount:
    """Count of an experiment's runs, or of its searches if each entry of its design is a search."""

    def __init__(self, experiment: Experiment, design: Design, folder: RecordedRuns) -> None:
        """Take an experiment, its design and its folder, which are read at each call."""
        self._experiment = experiment
        self._design = design
        self._folder = folder

    def pending(self) -> Sequence[PlannedRun]:
        """Return the missing runs of the design; if there are none, the runs that the kind adds now."""
        missing = [run for run in self._design.runs if not self._folder.has(run.id)]
        return missing or next_runs(self._experiment, self._folder)

    def remaining(self) -> Design:
        """Return the missing runs of the largest design, else those that the kind adds now; none if finished.

        An upper bound for runs that depend on results. With searches, the first trial, also a recorded one, of each
        unfinished.
        """
        pending = self.pending()
        if not pending:
            return Design(self._design.seed, ())
        if self._experiment.kind.searches:
            unfinished = {self._search(run) for run in [*pending, *next_runs(self._experiment, self._folder)]}
            return Design(self._design.seed, tuple(run for run in self._design.runs if self._search(run) in unfinished))
        most = self._experiment.kind.largest_design(self._experiment)
        missing = tuple(run for run in most.runs if not self._folder.has(run.id))
        return Design(most.seed, missing or tuple(pending))

    def position(self, run: PlannedRun) -> tuple[int, int]:
        """Return the index (from 0) of the run that begins now, and the number of known runs, for progress messages.

        Without searches, the index is the number of recorded runs, whatever `run` is. With searches, return the index
        of the run's search in the order of the design, and the number of searches.
        """
        if self._experiment.kind.searches:
            searches = [self._search(first) for first in self._design.runs]
            return searches.index(self._search(run)), len(searches)
        known = self._known()
        return sum(map(self._folder.has, known)), len(known)

    def recorded_text(self) -> str:
        """Return a sentence with the number of recorded runs, or of finished searches, and their total."""
        one, several = self._experiment.kind.entries
        if self._experiment.kind.searches:
            unfinished = [*self.pending(), *next_runs(self._experiment, self._folder)]
            total, state = len(self._design.runs), "finished"
            done = total - len({self._search(run) for run in unfinished})
            trials = sum(not path.name.startswith(".") for path in self._folder.runs_path.iterdir())
            if done < total and trials:
                kept = counted(trials, "recorded trial")
                return f"{done} of {counted(total, one, several)} finished, with {kept} in all"
        else:
            known = self._known() | {run.id for run in self.pending()}
            total, state = len(known), "recorded"
            done = sum(map(self._folder.has, known))
        if total == done == 1:
            return f"the {one} is already {state}"
        return f"{'all' if done == total else f'{done} of'} {total} {several} are already {state}"

    def _known(self) -> set[str]:
        """Return the identifiers of the runs of the design and of the runs that were added to it."""
        return {run.id for run in self._design.runs} | set(self._folder.further())

    def _search(self, run: PlannedRun) -> str:
        """Return the identifier of the first trial of the run's search."""
        return self._experiment.kind.first_trial(self._experiment, run)
