"""Groups of runs to compare: their collection from folders, and the differences between their manifests."""

import glob
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.analyze.experiment import (
    EXPERIMENT_FILE,
    RecordedExperiment,
    RecordedRun,
    level_order,
    read_experiment,
)
from loadframe.analyze.sessions import started
from loadframe.base.errors import BadInput
from loadframe.base.folders import named_path
from loadframe.base.units import short_names
from loadframe.record import Run
from loadframe.record.gate_log import GATE_LOG, folders_without_gate, missing_folders, read_gate_log
from loadframe.record.schema import MANIFEST_FILE
from loadframe.record.schema.manifest import GeneratorSetup, RecordedStore


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that are compared with another group's; `label` names them in sentences."""

    label: str
    runs: tuple[RecordedRun, ...]
    #: Whether a run with too many failed requests counts as failed, for experiments that choose a treatment.
    strict: bool = False
    #: Whether ratios use trimmed means (`estimate: robust` in the experiment file).
    robust: bool = False

    @cached_property
    def usable(self) -> tuple[RecordedRun, ...]:
        """The included runs in time order: the valid ones (`sound`), or with `strict` the ones that `survived`."""
        return tuple(sorted((run for run in self.runs if (run.survived if self.strict else run.sound)), key=started))

    @property
    def failed(self) -> tuple[RecordedRun, ...]:
        """The runs in which the store failed; with `strict`, also valid ones with too many failed requests."""
        return tuple(run for run in self.runs if (run.requests_failed if self.strict else run.store_failed))

    @property
    def known(self) -> tuple[RecordedRun, ...]:
        """The included runs; if there are none, all recorded runs, since their manifests record the plan."""
        return self.usable or tuple(run for run in self.runs if run.run)

    @property
    def left_out(self) -> tuple[RecordedRun, ...]:
        """The runs that are not in `usable`: invalid, failed or missing; with `strict` also those it excludes."""
        used = {id(run) for run in self.usable}
        return tuple(run for run in self.runs if id(run) not in used)

    @property
    def faulty(self) -> tuple[RecordedRun, ...]:
        """The included runs in which the store was at fault: errors, drops, an unachieved rate."""
        return tuple(run for run in self.usable if not run.usable)

    def at(self, treatment: Mapping[str, Any]) -> "Group":
        """Return a copy of the group with only its runs at this treatment, which may be none."""
        return replace(self, runs=tuple(run for run in self.runs if run.treatment == treatment))

    @property
    def treatments(self) -> list[Mapping[str, Any]]:
        """The distinct treatments of its runs, in their order."""
        return _unique(run.treatment for run in self.runs)


def read_groups(arguments: Sequence[str]) -> tuple[Group, ...]:
    """Return a group for each argument, labelled by the shortest distinct ends of the paths.

    An argument names a run folder, a parent of run folders, an experiment folder, a history folder, or is a pattern of
    these such as `results/old-*`. BadInput if it matches no run or a damaged one, or if only some of its experiments
    have `estimate: robust`.
    """
    folders = [(argument, read_runs(argument)) for argument in arguments]
    labels = _labels([argument for argument, _ in folders])
    return tuple(
        Group(label, runs, robust=uses_robust_estimate(argument))
        for label, (argument, runs) in zip(labels, folders, strict=True)
    )


def read_treatments(argument: str) -> tuple[Group, ...]:
    """Return a group for each treatment of the runs that a path or pattern names; errors as `read_runs`.

    The treatments of an experiment are in the order of its levels, because the order of its runs is random.
    """
    path = Path(argument)
    levels = read_experiment(path).description["factors"] if (path / EXPERIMENT_FILE).is_file() else None
    return split_by_treatment(read_runs(argument), levels, robust=uses_robust_estimate(argument))


def split_by_treatment(
    runs: Sequence[RecordedRun], levels: Mapping[str, Sequence[Any]] | None = None, *, robust: bool = False
) -> tuple[Group, ...]:
    """Return a group for each treatment, named by the levels in which the treatments differ; `all` for only one.

    They are in the order of the `levels` of each factor, or else of the runs. `robust` groups compare by trimmed means.
    """
    treatments = _unique(run.treatment for run in runs)
    if levels is not None:
        treatments.sort(key=lambda treatment: level_order(treatment, levels))
    differing = [
        name
        for name in dict.fromkeys(name for treatment in treatments for name in treatment)
        if len({json.dumps(treatment.get(name)) for treatment in treatments}) > 1
    ]
    names = short_names(differing)
    return tuple(
        Group(
            ", ".join(f"{names[name]} {treatment.get(name)}" for name in differing) or "all",
            tuple(run for run in runs if run.treatment == treatment),
            robust=robust,
        )
        for treatment in treatments
    )


def treatments_text(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Return the levels in which two treatments differ: `nodes: 2 → 4, clients: not set → 8`."""
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    return ", ".join(f"{name}: {first.get(name, 'not set')} → {second.get(name, 'not set')}" for name in names)


def read_runs(argument: str) -> tuple[RecordedRun, ...]:
    """Return the runs that a path or pattern names, in the order of names within a folder or pattern.

    An experiment has them in the design's order, then earlier attempts in which the store failed. Patterns and history
    folders omit releases that a gate stopped. BadInput if the argument names no run, or if one is damaged.
    """
    paths = [Path(argument)]
    if not paths[0].exists() and glob.has_magic(argument):
        matches = [Path(name) for name in sorted(glob.glob(argument))]  # noqa: PTH207 - the pattern may be absolute
        paths = [path for path in matches if not _is_stopped(path)]
    runs = [run for path in paths for run in _runs_in(path)]
    if not runs:
        problem = "this path names no run"
        if not paths:
            problem = "no run matches this pattern"
        elif not paths[0].exists():
            problem = "this folder does not exist"
        raise BadInput(
            problem,
            where=argument,
            remedy="name a run folder, a folder that contains run folders, an experiment folder, or a pattern of these",
        )
    return tuple(runs)


def _runs_in(path: Path) -> list[RecordedRun]:
    """Return the runs of an experiment, a run folder, a gate history without refused runs, or a folder of run folders.

    Empty for other paths. An experiment also has the earlier attempts in which the store failed. BadInput if a run is
    damaged.
    """
    if (path / EXPERIMENT_FILE).is_file():
        return list(read_experiment(path).counted)
    if (path / MANIFEST_FILE).is_file():
        return [single_run(path)]
    if not path.is_dir():
        return []
    children = [child for child in sorted(path.glob("[!.]*")) if not (child.is_symlink() and _is_stopped(child))]
    if (path / GATE_LOG).is_file():
        refused = _refused(path)
        return [run for child in children if child.name not in refused for run in _runs_in(child)]
    return [single_run(child) for child in children if (child / MANIFEST_FILE).is_file()]


def _is_stopped(path: Path) -> bool:
    """Return whether a gate stopped the release in a folder: the log of its history folder refuses it.

    Also if it refuses the parent of the folder, or if the folder is a link to such a folder. BadInput if the log is
    damaged, or if the folder of a stopped release may have been renamed.
    """
    paths = path.absolute(), Path(os.path.realpath(path))
    places = [place for it in paths for place in (it, it.parent)]
    return any((place.parent / GATE_LOG).is_file() and place.name in _refused(place.parent) for place in places)


def _refused(folder: Path) -> set[str]:
    """Return the names of the folders of stopped releases, which must not become the baseline.

    BadInput if the gate log is damaged, or if such a folder is missing and another one may be its new name.
    """
    log = read_gate_log(folder)
    if log.damaged:
        number, cause = log.damaged[0]
        raise BadInput(
            f"the outcome of a gate is unknown, and its runs must not become the baseline: the line {cause}",
            where=f"{folder / GATE_LOG}, line {number}",
            remedy="restore the line, or delete it, and the folder of its runs if that gate stopped them",
        )
    missing, others = missing_folders(folder, sorted(log.refused)), folders_without_gate(folder, log)
    if missing and others:
        raise BadInput(
            f"the folder {missing[0]} of a stopped release is missing, and {', '.join(others[:3])} may be its new name:"
            " its runs must not become the baseline",
            where=str(folder),
            remedy=f"rename the folder back to {missing[0]}; if its runs were deleted, delete its line from {GATE_LOG}",
        )
    return log.refused


def uses_robust_estimate(argument: str) -> bool:
    """Return whether the experiments that a path or pattern names use `estimate: robust`; False if it names none.

    BadInput if only some do, or if one cannot be read.
    """
    paths = [Path(argument)] if Path(argument).exists() else map(Path, sorted(glob.glob(argument)))  # noqa: PTH207
    robust = {path: is_robust(read_experiment(path)) for path in paths if (path / EXPERIMENT_FILE).is_file()}
    if len(set(robust.values())) > 1:
        raise BadInput(
            f"{next(path for path in robust if robust[path])} has `estimate: robust`,"
            f" but {next(path for path in robust if not robust[path])} has not",
            remedy="compare experiments with the same estimate",
        )
    return any(robust.values())


def is_robust(folder: RecordedExperiment) -> bool:
    """Return whether an experiment file has `estimate: robust`."""
    return folder.description.get("estimate") == "robust"


def single_run(path: Path) -> RecordedRun:
    """Return the run in a folder as one outside of an experiment, named like the folder; BadInput if it is damaged."""
    run = Run(path)
    return RecordedRun(path.name, run.manifest.block, run.manifest.treatment, run)


def _unique(treatments: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the distinct treatments in the order of first appearance."""
    return list({json.dumps(treatment, sort_keys=True): treatment for treatment in treatments}.values())


def _labels(arguments: Sequence[str]) -> list[str]:
    """Return a label for each path: the shortest end that distinguishes all; numbered whole paths if some are equal."""
    parts = [named_path(Path(argument)).parts for argument in arguments]
    for count in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(part[-count:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{argument} ({number})" for number, argument in enumerate(arguments, start=1)]


#: Entries that identify a machine: containers on one machine differ in name but share processor and memory.
MACHINE = ("hardware.hostname", "hardware.cpu", "hardware.usable", "hardware.memory")
#: All recorded fields of the store except its family, which follows from the kind, and the prefix of names.
_STORE = tuple(f"store.{entry.name}" for entry in fields(RecordedStore) if entry.name not in ("family", "prefix"))
_LOAD = ("workload.name", "workload.file.sha256", "workload.parameters", "workload.phases", "workload.corpora")
#: All recorded settings of the load generator; the other fields describe where it ran and what it can do.
_GENERATOR = tuple(
    f"generator.{entry.name}" for entry in fields(GeneratorSetup) if entry.name not in ("members", "nearest", "ceiling")
)
_SOFTWARE = ("versions.loadframe", "versions.commit", "versions.modified", "versions.kernel")
_PARTS = (*_STORE, *_LOAD, *_GENERATOR, *_SOFTWARE, *MACHINE)


@dataclass(frozen=True)
class Difference:
    """One entry of the manifest with the values of each group."""

    key: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def of_machine(self) -> bool:
        """Whether the entry identifies the machine."""
        return self.key in MACHINE

    @property
    def of_load(self) -> bool:
        """Whether the entry describes the workload or the load generator."""
        return self.key.startswith(("workload.", "generator."))

    def __str__(self) -> str:
        return f"{self.key}: {_short_list(self.first)} → {_short_list(self.second)}"


def differences(first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> tuple[Difference, ...]:
    """Return the entries of the manifests (of `_PARTS`) whose sets of values differ between the two groups.

    Entries have dotted names. The value of an entry that a whole group lacks is `none`.
    """
    one, other = _values(first), _values(second)
    differences = []
    for key in dict.fromkeys([*one, *other]):
        values = one.get(key, {"none": None}), other.get(key, {"none": None})
        if values[0].keys() != values[1].keys():
            differences.append(Difference(key, tuple(values[0]), tuple(values[1])))
    return tuple(differences)


def _values(runs: Sequence[RecordedRun]) -> dict[str, dict[str, None]]:
    """Return entry -> its distinct values as texts (the keys), in order, from the manifests of the runs."""
    values: dict[str, dict[str, None]] = {}
    for run in runs:
        for part in _PARTS:
            value: Any = run.manifest
            for key in part.split("."):
                value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
            for name, text in _flat(part, value):
                values.setdefault(name, {})[text] = None
    return values


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested data as (dotted name, text), except None: strings as they are, others as JSON.

    `name` begins the dotted names. Elements of a list go by their `name` if all have one; any other list is one leaf.
    Empty lists and mappings have no leaf.
    """
    if is_dataclass(value):
        value = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple) and all(
        isinstance(element, Mapping) and "name" in element for element in value
    ):
        for element in value:
            yield from _flat(
                f"{name}.{element['name']}", {key: inner for key, inner in element.items() if key != "name"}
            )
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


def _short_list(values: Sequence[str]) -> str:
    """Return the first three values, cut to 60 characters, and the number of the others, as text."""
    shown = [value if len(value) <= 60 else f"{value[:57]}..." for value in values[:3]]
    return ", ".join(shown + ([f"and {len(values) - 3} more"] if len(values) > 3 else []))
