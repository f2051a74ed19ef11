"""What a process leaves of a run when it is killed: the hidden folder in which the run grew.

Its files are whole up to their last lines. Beside what the engine has written it has the manifest as it was when the
run began, and for each phase what it was to be.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from loadframe.record.merge import PhaseRecording
from loadframe.record.partial import stale
from loadframe.record.schema import EVENTS_FILE, MANIFEST_FILE

#: The folder for what is not part of a finished run, and in it, in the folder of a phase, what that was to be.
SCRATCH = "scratch"
BEGUN = "begun.json"

#: Files of a phase that are written line by line.
_LINES = ("series.csv", "generator.csv", "workers.csv", "histograms.hlog")


@dataclass(frozen=True)
class Wreck:
    """A run whose process has died while it was recorded."""

    folder: Path
    run_id: str
    manifest: Mapping[str, Any]

    @property
    def parent(self) -> Path:
        """The folder in which the run is to appear."""
        return self.folder.parent

    @property
    def started(self) -> datetime:
        """When the run began."""
        return datetime.fromisoformat(self.manifest["started"])

    def recordings(self, scratch: Path) -> list[PhaseRecording]:
        """Return what there is of phases whose load had begun, in their order, once the run lies at `scratch`.

        Lines without an end are cut off. Requests by node are left out where a phase had not ended: only its end says
        which node has which number.
        """
        _cut(scratch.parent / EVENTS_FILE)
        kept = []
        for phase in _phases(scratch):
            for name in _LINES:
                _cut(phase.folder / name)
            if not (phase.folder / "outcome.json").exists():
                (phase.folder / "nodes.csv").unlink(missing_ok=True)
            kept.append(PhaseRecording(phase.begun["phase"], phase.begun["start"], (), phase.folder))
        return kept

    def phases(self) -> "list[BegunPhase]":
        """Return the phases whose load had begun."""
        return _phases(self.folder / SCRATCH)


@dataclass(frozen=True)
class BegunPhase:
    """A phase whose load had begun: what it was to be, and how it ended if it did."""

    folder: Path
    begun: Mapping[str, Any]
    outcome: Mapping[str, Any] | None


def wrecks(parent: Path) -> Iterator[Wreck]:
    """Yield the runs in a folder whose process on this machine has died, if their load had begun."""
    for folder, run_id in stale(parent):
        manifest = _read(folder / MANIFEST_FILE)
        wreck = Wreck(folder, run_id, manifest or {})
        if manifest and wreck.phases():
            yield wreck


def _phases(scratch: Path) -> list[BegunPhase]:
    phases = []
    for file in sorted(scratch.glob(f"phase-*/{BEGUN}"), key=lambda path: int(path.parent.name.partition("-")[2])):
        if begun := _read(file):
            outcome = _read(file.with_name("outcome.json"))
            if outcome is None:
                file.with_name("outcome.json").unlink(missing_ok=True)
            phases.append(BegunPhase(file.parent, begun, outcome))
    return phases


def _read(file: Path) -> dict[str, Any] | None:
    """Return a JSON object; None where it is not there, or not whole."""
    try:
        value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value


def _cut(file: Path) -> None:
    """Leave the lines that have an end."""
    if file.exists():
        with file.open("rb+") as lines:
            lines.truncate(lines.read().rfind(b"\n") + 1)
