"""An experiment's folder: `experiment.json`, which says what was to be done, and `runs/`, what was."""

import fcntl
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.experiment.design.runs import PlannedRun
from loadframe.experiment.runner.session import Labels
from loadframe.record import ManifestDraft, Run, RunWriter, Summary
from loadframe.record.attempts import set_aside
from loadframe.record.draft import SESSION
from loadframe.record.fingerprint import changes

#: What may be reworded between two starts. All else makes other runs, and one folder holds runs of one kind.
_REWORDABLE = ("question", "file", "published", "axes")
#: What besides only says how runs are shown, by the kind of experiment.
_DISPLAY_KEYS = {"scale": ("objective",)}

_FILE = "experiment.json"
#: The key of runs that were not designed, but follow from the others.
FURTHER = "further"
#: The key of the fingerprints of the commands that worked in the folder.
SESSIONS = "sessions"


class ExperimentFolder:
    """The folder of one experiment, new or begun earlier. One process at a time works in it."""

    def __init__(self, path: Path, description: Mapping[str, Any]) -> None:
        """Open the folder, or make it; BadInput if it holds something else, cannot be written or is in use."""
        self.path = path
        self.runs_path = path / "runs"
        try:
            if path.is_dir() and not (path / _FILE).exists() and any(path.iterdir()):
                raise BadInput(
                    "the folder is not empty, and does not hold an experiment",
                    where=str(path),
                    remedy="name another with --output",
                )
            path.mkdir(parents=True, exist_ok=True)
            # Held as long as this object; the kernel lets go of it when the process ends, in whatever way.
            self._lock = (path / ".lock").open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write_description(description)
        except BlockingIOError:
            raise BadInput(
                "another loadframe process is running this experiment",
                where=str(path),
                remedy="wait until it is done, or name another folder with --output",
            ) from None
        except OSError as error:
            raise BadInput(
                f"the experiment cannot be recorded there: {error.strerror}",
                where=str(path),
                remedy="choose a folder that you may write to with --output",
            ) from error

    def _write_description(self, description: Mapping[str, Any]) -> None:
        """Write down what is to be done; once there are runs, it must stay what it was."""
        file = self.path / _FILE
        self.runs_path.mkdir(exist_ok=True)
        if self._recorded():
            earlier = _require_same(file, description)
            # What is held beside the runs, or says how they are shown, makes no other ones: it may come later.
            keys = ("published", "axes", *_DISPLAY_KEYS.get(description.get("kind", ""), ()))
            told = {key: description[key] for key in keys if description.get(key)}
            if any(earlier.get(key) != value for key, value in told.items()):
                _write(file, {**earlier, **told})
        else:
            _write(file, description)

    def begin_session(self, measured: Mapping[str, str], instrument: Mapping[str, str]) -> list[str]:
        """Write down what this command measures, and with what; return how the instrument or the machine changed.

        BadInput if the folder has runs of another store version, service code or policy.
        """
        file = self.path / _FILE
        description = json.loads(file.read_text(encoding="utf-8"))
        sessions = description.setdefault(SESSIONS, [])
        changed: list[str] = []
        if sessions and self._recorded():
            if others := changes(sessions[-1]["measured"], measured):
                raise BadInput(
                    f"what is measured has changed since the runs in the folder: {'; '.join(others)}",
                    where=str(self.path),
                    remedy="restore it to go on, or name another folder with --output",
                )
            changed = changes(sessions[-1]["instrument"], instrument)
        sessions.append({"session": SESSION, "measured": dict(measured), "instrument": dict(instrument)})
        _write(file, description)
        return changed

    def extend(self, runs: Sequence[PlannedRun]) -> None:
        """Write down that these runs follow from what is recorded by now; those that are there already stay."""
        file = self.path / _FILE
        description = json.loads(file.read_text(encoding="utf-8"))
        known = description.setdefault(FURTHER, [])
        names = {entry["run"] for entry in known}
        known += [run.describe() for run in runs if run.id not in names]
        _write(file, description)

    def _recorded(self) -> list[Path]:
        """Return the runs' folders; hidden ones are not whole yet."""
        return [path for path in sorted(self.runs_path.iterdir()) if not path.name.startswith(".")]

    def has(self, run_id: str) -> bool:
        """Whether the run has been recorded, done or failed."""
        return (self.runs_path / run_id).exists()

    def failed(self) -> list[str]:
        """Return the names of the runs that were recorded as failed."""
        return [path.name for path in self._recorded() if Run(path).summary.status == "failed"]

    def set_aside(self, run_id: str) -> None:
        """Move a run to the earlier attempts, so that it is made again."""
        set_aside(self.path, self.runs_path / run_id)

    def record_failure(self, run_id: str, labels: Labels, asked: Mapping[str, Any], error: LoadframeError) -> None:
        """Record that a run failed, why and by whose fault; `asked` holds the parts of the manifest that were to be."""
        with RunWriter(self.runs_path, run_id) as writer:
            manifest = ManifestDraft(
                run=run_id,
                started=writer.started,
                treatment=labels.treatment,
                block=labels.block,
                repetition=labels.repetition,
                **asked,
            )
            writer.finish(manifest.as_dict(), Summary("failed", str(error), error.fault).as_dict())


def _write(file: Path, description: Mapping[str, Any]) -> None:
    """Write a JSON file whole, or not at all."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    part.rename(file)


def _require_same(file: Path, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the folder says by now; BadInput where it has runs of another experiment."""
    now = json.loads(json.dumps(description))
    try:
        earlier: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        free = (*_REWORDABLE, *_DISPLAY_KEYS.get(now.get("kind", ""), ()))
        different = [key for key in now if key not in free and earlier.get(key) != now[key]]
    except (ValueError, AttributeError, RecursionError) as error:
        raise BadInput("the file cannot be read", where=str(file), remedy="name another with --output") from error
    # The design follows from the rest; a workload's name may stay while its file changes.
    different = [key for key in different if key != "design"] or different
    different = list(dict.fromkeys(key.removesuffix("_sha256") for key in different))
    if different:
        raise BadInput(
            f"the folder holds an experiment with another {' and '.join(different)}",
            where=str(file.parent),
            remedy="name another folder with --output, or run the file as it was to go on",
        )
    return earlier
