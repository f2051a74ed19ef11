"""An experiment's folder: `experiment.json`, which says what was to be done, and `runs/`, what was."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.errors import BadInput
from loadframe.experiment.session import Labels
from loadframe.record import Manifest, Run, RunWriter

#: What experiments must agree on for a folder to go on with: the rest (question, time limits) may be reworded.
_SAME = ("experiment", "kind", "scaling", "factors", "measure", "seed", "design")


class ExperimentFolder:
    """The folder of one experiment, new or begun earlier."""

    def __init__(self, path: Path, description: Mapping[str, Any]) -> None:
        """Open the folder, or create it; BadInput if it holds another experiment or something else."""
        self.path = path
        self.runs_path = path / "runs"
        file = path / "experiment.json"
        if file.exists():
            _check_same(file, description)
        elif path.exists() and any(path.iterdir()):
            raise BadInput(
                "the folder holds something, but no experiment", where=str(path), remedy="name another with --output"
            )
        else:
            self.runs_path.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
            part.rename(file)

    def has(self, run_id: str) -> bool:
        """Whether the run has been recorded, done or failed."""
        return (self.runs_path / run_id).exists()

    def failed(self) -> list[str]:
        """Return the names of the runs that were recorded as failed."""
        runs = [path for path in sorted(self.runs_path.iterdir()) if not path.name.startswith(".")]
        return [path.name for path in runs if Run(path).summary["status"] == "failed"]

    def remove(self, run_id: str) -> None:
        """Remove a run, so that it is made again."""
        shutil.rmtree(self.runs_path / run_id)

    def record_failure(self, run_id: str, labels: Labels, asked: Mapping[str, Any], failure: str) -> None:
        """Record that a run failed, and why; `asked` holds the parts of the manifest that were to be."""
        with RunWriter(self.runs_path, run_id) as writer:
            manifest = Manifest(
                run=run_id,
                started=writer.started,
                treatment=labels.treatment,
                block=labels.block,
                repetition=labels.repetition,
                **asked,
            )
            writer.finish(manifest.as_dict(), {"status": "failed", "failure": failure})


def _check_same(file: Path, description: Mapping[str, Any]) -> None:
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))
        different = [key for key in _SAME if earlier.get(key) != description.get(key)]
    except (ValueError, AttributeError) as error:
        raise BadInput("the file cannot be read", where=str(file), remedy="name another with --output") from error
    if different:
        raise BadInput(
            f"the folder holds an experiment with another {' and '.join(different)}",
            where=str(file.parent),
            remedy="name another folder with --output, or run the file as it was to go on",
        )
