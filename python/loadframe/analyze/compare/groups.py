"""Gathers the runs that are compared: from run folders, folders that hold some, and experiments' folders."""

import glob
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.analyze.experiment import EXPERIMENT_FILE, RecordedExperiment, RecordedRun, read_experiment
from loadframe.analyze.sessions import started
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.record.schema import MANIFEST_FILE


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that are held together against another group's, by the name that they have in sentences."""

    label: str
    runs: tuple[RecordedRun, ...]
    #: Whether runs in which requests fail have failed, as where a treatment is to be chosen.
    strict: bool = False
    #: Whether ratios are of trimmed means, as the file of the runs' experiment says.
    robust: bool = False

    @cached_property
    def usable(self) -> tuple[RecordedRun, ...]:
        """The runs that count, in the order in which they were made; what the store did wrong in them is a result."""
        return tuple(sorted((run for run in self.runs if (run.usable if self.strict else run.sound)), key=started))

    @property
    def failed(self) -> tuple[RecordedRun, ...]:
        """The runs in which the store failed, whether they have figures or not."""
        return tuple(run for run in self.runs if (run.requests_failed if self.strict else run.store_failed))

    @property
    def known(self) -> tuple[RecordedRun, ...]:
        """The runs that count; if there are none, all that have a manifest, which says what was planned."""
        return self.usable or tuple(run for run in self.runs if run.run)

    @property
    def left_out(self) -> tuple[RecordedRun, ...]:
        """The runs that no figure contains: spoilt, failed, interrupted or missing."""
        used = {id(run) for run in self.usable}
        return tuple(run for run in self.runs if id(run) not in used)

    @property
    def faulty(self) -> tuple[RecordedRun, ...]:
        """The runs that count although the store was at fault in them: errors, drops, a rate that was not achieved."""
        return tuple(run for run in self.usable if not run.usable)

    def at(self, treatment: Mapping[str, Any]) -> "Group":
        """Return the group's runs at one treatment."""
        return replace(self, runs=tuple(run for run in self.runs if run.treatment == treatment))

    @property
    def treatments(self) -> list[Mapping[str, Any]]:
        """The treatments of its runs, in the order of their first."""
        return _unique(run.treatment for run in self.runs)


def read_groups(arguments: Sequence[str]) -> tuple[Group, ...]:
    """Return a group for each argument, named by the shortest ends of their paths that differ.

    An argument names a run folder, a folder that holds run folders, an experiment's folder, or is a pattern such as
    `results/old-*` of these. BadInput if there is no run.
    """
    folders = [(argument, read_runs(argument)) for argument in arguments]
    labels = _labels([argument for argument, _ in folders])
    return tuple(
        Group(label, runs, robust=asks_robust(argument))
        for label, (argument, runs) in zip(labels, folders, strict=True)
    )


def split_by_treatment(runs: Sequence[RecordedRun], *, robust: bool = False) -> tuple[Group, ...]:
    """Return a group for each treatment, named by the levels in which the treatments differ."""
    treatments = _unique(run.treatment for run in runs)
    differing = [
        name
        for name in dict.fromkeys(name for treatment in treatments for name in treatment)
        if len({json.dumps(treatment.get(name)) for treatment in treatments}) > 1
    ]
    return tuple(
        Group(
            ", ".join(f"{name.rpartition('.')[2]} {treatment.get(name)}" for name in differing) or "all",
            tuple(run for run in runs if run.treatment == treatment),
            robust=robust,
        )
        for treatment in treatments
    )


def treatments_text(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Return in what two treatments differ."""
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    return ", ".join(f"{name}: {first.get(name, 'not set')} → {second.get(name, 'not set')}" for name in names)


def read_runs(argument: str) -> tuple[RecordedRun, ...]:
    """Return the runs that an argument names; BadInput if there is none."""
    paths = [Path(argument)]
    if not paths[0].exists() and glob.has_magic(argument):
        paths = [Path(name) for name in sorted(glob.glob(argument))]  # noqa: PTH207 - the pattern may be absolute
    runs = [run for path in paths for run in _runs_in(path)]
    if not runs:
        raise BadInput(
            "there is no run",
            where=argument,
            remedy="name a run's folder, a folder that holds some, an experiment's folder, or a pattern of these",
        )
    return tuple(runs)


def _runs_in(path: Path) -> list[RecordedRun]:
    if (path / EXPERIMENT_FILE).is_file():
        return list(read_experiment(path).counted)
    if (path / MANIFEST_FILE).is_file():
        return [_single(path)]
    if not path.is_dir():
        return []
    return [_single(child) for child in sorted(path.glob("[!.]*")) if (child / MANIFEST_FILE).is_file()]


def asks_robust(argument: str) -> bool:
    """Whether the experiments that an argument names say `estimate: robust`; BadInput if only some do."""
    paths = [Path(argument)] if Path(argument).exists() else map(Path, sorted(glob.glob(argument)))  # noqa: PTH207
    asked = {path: is_robust(read_experiment(path)) for path in paths if (path / EXPERIMENT_FILE).is_file()}
    if len(set(asked.values())) > 1:
        raise BadInput(
            f"{next(path for path in asked if asked[path])} has `estimate: robust`,"
            f" {next(path for path in asked if not asked[path])} has not",
            remedy="compare experiments with the same estimate",
        )
    return any(asked.values())


def is_robust(folder: RecordedExperiment) -> bool:
    """Whether an experiment's file says `estimate: robust`."""
    return folder.description.get("estimate") == "robust"


def _single(path: Path) -> RecordedRun:
    run = Run(path)
    return RecordedRun(path.name, run.manifest.block, run.manifest.treatment, run)


def _unique(treatments: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({json.dumps(treatment, sort_keys=True): treatment for treatment in treatments}.values())


def _labels(arguments: Sequence[str]) -> list[str]:
    """Return the last parts of paths, as many of them as it takes to tell them apart; whole ones where none do."""
    parts = [Path(argument).parts for argument in arguments]
    for count in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(part[-count:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{argument} ({number})" for number, argument in enumerate(arguments, start=1)]
