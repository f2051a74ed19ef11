"""Reads an experiment's folder: what was asked, and what came of each run, failed and missing ones included."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.errors import BadInput
from loadframe.record import Run

EXPERIMENT_FILE = "experiment.json"
_RUNS = "runs"


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """One run of the design: its treatment and its folder's content; without a folder it was not made yet."""

    id: str
    block: int | None
    treatment: Mapping[str, Any]
    run: Run | None

    def as_dict(self) -> dict[str, Any]:
        """Return for JSON how the run stands: its treatment, status, verdict."""
        return {
            "run": self.id,
            "treatment": dict(self.treatment),
            "status": self.status,
            "failure": self.failure,
            "verdict": self.verdict,
        }

    @cached_property
    def status(self) -> str:
        """`done`, `failed`, `interrupted`, or `missing`."""
        return str(self.run.summary.get("status", "failed")) if self.run else "missing"

    @property
    def failure(self) -> str | None:
        """What failed, where the status is `failed`."""
        return self.run.summary.get("failure") if self.run else None

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        """The verdict, where the run came so far."""
        return self.run.summary.get("verdict") if self.run else None

    @property
    def usable(self) -> bool:
        """Whether the analysis may use it: done, and valid."""
        return self.status == "done" and bool(self.verdict and self.verdict["valid"])

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The run's manifest; empty where the run is missing."""
        return self.run.manifest if self.run else {}

    @property
    def nodes(self) -> int | None:
        """The number of nodes: the treatment's, or that of the cluster."""
        nodes = self.treatment.get("nodes", self.manifest.get("store", {}).get("nodes"))
        return None if nodes is None else int(nodes)

    def clients(self, phase: str) -> int | None:
        """The number of closed clients in a phase: the treatment's, or its streams'; None if it has open ones."""
        if "clients" in self.treatment:
            return int(self.treatment["clients"])
        pacings = [stream["pacing"] for stream in (self.phase(phase) or {"streams": []})["streams"]]
        if not pacings or any("closed" not in pacing for pacing in pacings):
            return None
        return sum(int(pacing["closed"]["clients"]) for pacing in pacings)

    def phase(self, name: str) -> Mapping[str, Any] | None:
        """Return a phase's entry in the summary; None where the run never came to it."""
        phases = self.run.summary.get("phases", []) if self.run else []
        return next((phase for phase in phases if phase["name"] == name), None)


@dataclass(frozen=True, eq=False)
class RecordedExperiment:
    """An experiment's folder: `description` is the content of experiment.json, `runs` follow the design's order.

    Runs that were not designed but follow from others come last.
    """

    path: Path
    description: Mapping[str, Any]
    runs: tuple[RecordedRun, ...]

    @property
    def left_out(self) -> tuple[RecordedRun, ...]:
        """The runs that no figure contains: invalid, failed, interrupted or missing."""
        return tuple(run for run in self.runs if not run.usable)


def read_experiment(path: Path) -> RecordedExperiment:
    """Read an experiment's folder; BadInput where it is none, or a run in it is broken."""
    file = path / EXPERIMENT_FILE
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        entries = [*description["design"], *description.get("further", [])]
        design = [(entry["run"], entry["block"], dict(entry["treatment"])) for entry in entries]
        for key in ("experiment", "kind", "factors", "measure"):
            description[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"this is no experiment's folder: {_words(error)}",
            where=str(file),
            remedy=f"name a folder that `loadframe run` wrote, with its {EXPERIMENT_FILE}",
        ) from error
    runs = []
    for name, block, treatment in design:
        folder = path / _RUNS / name
        runs.append(RecordedRun(name, block, treatment, Run(folder) if folder.exists() else None))
    return RecordedExperiment(path, description, tuple(runs))


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or "the file cannot be read"
    return f"it lacks {error}" if isinstance(error, KeyError) else "the file cannot be read"
