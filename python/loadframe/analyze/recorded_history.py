"""The history of a folder: the measures of its runs by commit over time, with change points and accepted changes.

A point is the median of the runs of one commit in one session. Each folder below the history folder has the runs of one
gate. Gates of one commit and the same series in one session, such as those of a retried job, are one point, as are
gates of copied runs. A gate counts unless a later one of the commit checked the same measures, also with other
thresholds. Change points are found as in the gate (`analyze.history`): all series share one chance of a false change.
"""

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from loadframe.analyze.compare import Group
from loadframe.analyze.compare.groups import single_run
from loadframe.analyze.compare.measures import USUAL, Measure
from loadframe.analyze.compare.warnings import failed_and_excluded
from loadframe.analyze.experiment import EXPERIMENT_FILE, RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.history import (
    LEVEL,
    NO_BOUND,
    NO_FIGURE,
    NOTHING,
    OTHER_LENGTH,
    ChangePoint,
    Series,
    change_points,
    fewest_sessions,
    identity_of_run,
    series_of,
    series_of_run,
    without_copies,
)
from loadframe.analyze.sessions import reference_times, sessions_of, started
from loadframe.base.errors import BadInput
from loadframe.base.folders import named_path
from loadframe.base.units import short_names
from loadframe.record.gate_log import (
    GATE_LOG,
    Acceptance,
    GateLog,
    GateRecord,
    folders_without_gate,
    missing_folders,
    read_gate_log,
)
from loadframe.record.schema import MEMBERS

#: References of the machine in the order of reports.
REFERENCES = ("cpu", "disk", "network")
#: Outcomes of gates, the worst last.
_WORSE = ("passed", "inconclusive", "regression")
#: Number of folders that a warning names.
_NAMED = 3
_REFERENCE_CHANGE = Rule(
    "reference_change",
    "the {reference} reference of the machine changed by {change:change} at {label}",
    "compare changes of the measures at that point with caution: the machine may be their cause",
)
_MACHINE_CHANGE = Rule(
    "machine_change",
    "the machine changed at {label}: from {before} to {after}",
    "compare changes of the measures at that point with caution: the machine may be their cause",
)
_UNKNOWN_START = Rule(
    "unknown_start",
    "{runs:counted run} without a recorded start: the history leaves them out",
    "record the runs with this version",
)
#: Remedies for points that a series lacks, by the reason.
_REMEDIES = {
    NO_FIGURE: "see why with `loadframe report` of their runs",
    NOTHING: "find out why: this is worse than any change of a level",
    NO_BOUND: "give the load generator its own cores or machine",
    OTHER_LENGTH: "measure for the same time each night, or use a percentile: longer runs have larger maxima",
}
_LEFT_OUT = Rule(
    "left_out",
    "{measures} {verb} {count:counted point} ({labels}): {why}",
    lambda why: _REMEDIES[why],
)
_MISSING_FOLDERS = Rule(
    "missing_folders",
    "{names} of {log} {verb} missing: the history lacks the runs, or has them without commit and gate{others}",
    "rename each folder back; if its runs were deleted, delete its line from {log}",
)


@dataclass(frozen=True, eq=False)
class Point:
    """The runs of one commit in one session, in time order.

    Several `folders` are attempts of a retried job, or jobs with other measures. `gates` are the records of their
    gates, the newest last. `accepted` is the user's acceptance of a change there, if there is one.
    """

    number: int
    folders: tuple[str, ...]
    runs: tuple[RecordedRun, ...]
    gates: tuple[GateRecord, ...] = ()
    accepted: Acceptance | None = None
    #: The gates with a regression that no user accepted.
    regressions: tuple[GateRecord, ...] = ()

    @property
    def folder(self) -> str:
        """The newest folder of its commit."""
        return self.gate.folder if self.gate else self.folders[-1]

    @property
    def gate(self) -> GateRecord | None:
        """The newest gate of its commit, if there is one."""
        return next((gate for gate in reversed(self.gates) if gate.commit == self.commit), None)

    @property
    def newest_gates(self) -> tuple[GateRecord, ...]:
        """The gates that no later gate of the point replaces."""
        return newest_gates(self.gates)

    @property
    def is_stopped(self) -> bool:
        """Whether one of the newest gates stopped the commit by a regression that no user accepted."""
        return any(gate in self.regressions for gate in self.newest_gates)

    @property
    def outcome(self) -> str | None:
        """The worst outcome of the newest gates, such as `passed`, or None without a gate."""
        return max((gate.outcome for gate in self.newest_gates), key=_WORSE.index, default=None)

    @property
    def time(self) -> str:
        """The recorded start of the first run, as text that sorts by time."""
        return started(self.runs[0])

    @property
    def commit(self) -> str | None:
        """The commit that the first gate recorded; gates of copies can name others."""
        return self.gates[0].commit if self.gates else None

    @property
    def label(self) -> str:
        """A short name: the first digits of the commit; else the folder, or the day if the folder has all points."""
        return self.commit[:12] if self.commit else self.folder or self.time[:10]

    @property
    def references(self) -> Mapping[str, float]:
        """Reference benchmarks of the machine: `cpu` (s, from the runs if known), and the gate's, in B/s."""
        recorded = dict(self.gate.references) if self.gate else {}
        if times := reference_times(self.runs):
            recorded["cpu"] = median(times)
        return recorded

    def is_at(self, name: str) -> bool:
        """Return whether a name is a folder or a run of the point, or the commit (or at least 7 digits of it)."""
        if any(gate.is_at(name) for gate in self.gates):
            return True
        return name in {*self.folders, *(run.id for run in self.runs)} - {""}

    def as_dict(self) -> dict[str, Any]:
        """Return the point for JSON: names of runs, outcome and failed checks of gates, acceptance and references.

        Commit, gate and acceptance are null if there are none.
        """
        return {
            "point": self.number,
            "label": self.label,
            "commit": self.commit,
            "folder": self.folder,
            "started": self.time,
            "runs": [run.id for run in self.runs],
            "gate": self.outcome,
            "accepted": self.accepted.reason if self.accepted else None,
            "failed_checks": list(dict.fromkeys(name for gate in self.newest_gates for name in gate.failed)),
            "references": dict(self.references),
        }


def newest_gates(gates: Sequence[GateRecord]) -> tuple[GateRecord, ...]:
    """Return the gates that no later one replaces; `gates` are those of one commit and series, in order of time.

    A gate replaces an earlier one if it checks all that the earlier one checked, with any thresholds.
    """
    return tuple(
        gate for number, gate in enumerate(gates, start=1) if not any(later.replaces(gate) for later in gates[number:])
    )


@dataclass(frozen=True, eq=False)
class Change:
    """A change point of a measure: `point` is the first one with the new level. `title` is the title of its line."""

    title: str
    measure: Measure
    treatment: Mapping[str, Any]
    step: ChangePoint
    point: Point

    @property
    def accepted(self) -> Acceptance | None:
        """The user's acceptance of the change, if there is one."""
        return self.point.accepted

    @property
    def is_worse(self) -> bool:
        """Whether the measure became worse."""
        return (self.step.change > 0) == (self.measure.better == "lower")

    def as_dict(self) -> dict[str, Any]:
        """Return measure, treatment, point, levels before and after, relative change and p for JSON.

        `accepted` is the reason of the acceptance, or null.
        """
        return {
            **self.measure.as_dict(),
            "title": self.title,
            "treatment": dict(self.treatment),
            "point": self.point.number,
            "label": self.point.label,
            "runs": [run.id for run in self.point.runs],
            "before": self.step.before,
            "after": self.step.after,
            "change": self.step.change,
            "p": self.step.p,
            "worse": self.is_worse,
            "accepted": self.accepted.reason if self.accepted else None,
        }


@dataclass(frozen=True, eq=False)
class Line:
    """One measure at one treatment: its points in time order, their values, and its changes."""

    title: str
    measure: Measure
    treatment: Mapping[str, Any]
    points: tuple[Point, ...]
    values: tuple[float, ...]
    changes: tuple[Change, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return measure, title, treatment and the value at each point (by its number) for JSON, without changes."""
        values = [
            {"point": point.number, "value": value} for point, value in zip(self.points, self.values, strict=True)
        ]
        return {**self.measure.as_dict(), "title": self.title, "treatment": dict(self.treatment), "values": values}


@dataclass(frozen=True, eq=False)
class History:
    """The history of a folder. `needed` is the least number of points in which a change can be significant.

    `skipped` are damaged records: name and cause.
    """

    folder: Path
    needed: int
    points: tuple[Point, ...]
    lines: tuple[Line, ...]
    skipped: tuple[tuple[str, str], ...]
    warnings: tuple[Finding, ...]

    @property
    def changes(self) -> list[Change]:
        """The changes of all measures, the newest first."""
        return sorted((change for line in self.lines for change in line.changes), key=lambda it: -it.point.number)

    def as_dict(self) -> dict[str, Any]:
        """Return points, lines (`series`), changes (the newest first), skipped records and warnings for JSON."""
        return {
            "folder": str(self.folder),
            "needed": self.needed,
            "points": [point.as_dict() for point in self.points],
            "series": [line.as_dict() for line in self.lines],
            "changes": [change.as_dict() for change in self.changes],
            "skipped": [{"record": name, "cause": cause} for name, cause in self.skipped],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def read_history(folder: Path, kinds: Sequence[str] = USUAL) -> History:
    """Return the history of the runs below a folder and of its gate log. BadInput without a readable run.

    Points have valid runs only. `kinds` are the kinds of measures, such as `throughput` and `p99`.
    """
    folder, skipped = named_path(folder), list[tuple[str, str]]()
    by_folder = list(_readable(folder, skipped))
    if not by_folder:
        named = f": {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
        raise BadInput(
            f"the folder has no readable run{named}" if folder.is_dir() else "the folder does not exist",
            where=str(folder),
            remedy="name a folder of runs, such as the FOLDER of `loadframe gate --record FOLDER`",
        )
    log = read_gate_log(folder)
    skipped += [(f"{GATE_LOG}, line {number}", cause) for number, cause in log.damaged]
    # Of copies, the runs of the first gate count.
    gated = {gate.folder for gate in log.gates}
    by_folder.sort(key=lambda it: it[0] not in gated)
    group = Group(folder.name, tuple(run for _, run in by_folder))
    folders = {id(run): name for name, run in by_folder}
    copied = _copied(group.usable, folders)
    group, copies = without_copies(group, Group("", ()))
    points, unknown = _points(group.usable, folders, log, copied)
    series = _series(points, kinds)
    lines = _lines(points, series)
    warnings = [*_missing_folders(folder, log), *copies, *failed_and_excluded([group]), *_reference_changes(points)]
    warnings += _left_out(points, series)
    if unknown:
        warnings.append(_UNKNOWN_START(runs=unknown))
    needed = fewest_sessions(LEVEL / max(len(lines), 1))
    return History(folder, needed, points, lines, tuple(skipped), tuple(warnings))


def _missing_folders(folder: Path, log: GateLog) -> list[Finding]:
    """Return a warning if folders of gates are missing: they were renamed, moved or deleted."""
    missing = missing_folders(folder, [gate.folder for gate in log.gates])
    if not missing:
        return []
    others = folders_without_gate(folder, log)
    return [
        _MISSING_FOLDERS(
            names=_listed(missing),
            log=GATE_LOG,
            verb="is" if len(missing) == 1 else "are",
            others=f" ({_listed(others)} may be the new name)" if others else "",
        )
    ]


def _listed(names: Sequence[str], between: str = ", ") -> str:
    """Return the first three names, joined by `between`, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{between.join(names[:_NAMED])}{more}"


def _readable(folder: Path, skipped: list[tuple[str, str]]) -> Iterator[tuple[str, RecordedRun]]:
    """Yield (name of its commit's folder, run) for the runs below a folder; add each damaged record once to `skipped`.

    The name is empty for runs directly in `folder`. `skipped` gets pairs of path and cause. Links come last.
    """
    root, known = os.path.realpath(folder), set()

    def is_linked(path: Path) -> bool:
        """Return whether a link below the folder leads to a run."""
        return os.path.realpath(path) != os.path.normpath(Path(root, path.relative_to(folder)))

    # Runs themselves first, so that messages name them.
    for name, path in sorted(_run_folders(folder), key=lambda item: is_linked(item[1])):
        try:
            run = single_run(path)
            # Reads the summary, which can be damaged, too.
            _ = run.sound, run.failures
        except BadInput as error:
            if (place := os.path.realpath(path)) not in known:
                known.add(place)
                skipped.append((str(path.relative_to(folder)) if path != folder else folder.name, error.what))
        else:
            yield name, run


def _run_folders(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the run folders of a run, an experiment, or a folder of these or of folders of runs.

    Each comes with the name of its commit's folder, empty for runs that lie directly in `folder`.
    """
    if _is_run(folder):
        yield "", folder
    elif (folder / EXPERIMENT_FILE).is_file():
        yield from (("", run) for run in _runs_below(folder / "runs"))
    else:
        for child in sorted(folder.glob("[!.]*")):
            if _is_run(child):
                yield "", child
            else:
                runs = child / "runs" if (child / EXPERIMENT_FILE).is_file() else child
                yield from ((child.name, run) for run in _runs_below(runs))


def _runs_below(folder: Path) -> list[Path]:
    """Return the run folders directly in a folder, ordered by name; hidden ones are left out."""
    return [child for child in sorted(folder.glob("[!.]*")) if _is_run(child)]


def _is_run(path: Path) -> bool:
    """Return whether a folder has a file of a run, so that a damaged run is not overlooked."""
    return any((path / member).is_file() for member in MEMBERS)


def _copied(runs: Sequence[RecordedRun], folders: Mapping[int, str]) -> dict[str, dict[str, list[str]]]:
    """Return, by the folder of first runs, the folders with copies of them, each with the names of these copies.

    `folders` has the name of each run's folder by the run's `id()`.
    """
    first: dict[Hashable, str] = {}
    copied: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        folder, identity = folders[id(run)], identity_of_run(run)
        kept = first.setdefault(identity, folder) if identity is not None else folder
        if kept != folder:
            copied.setdefault(kept, {}).setdefault(folder, []).append(run.id)
    return copied


def _points(
    runs: Sequence[RecordedRun],
    folders: Mapping[int, str],
    log: GateLog,
    copied: Mapping[str, Mapping[str, Sequence[str]]],
) -> tuple[tuple[Point, ...], int]:
    """Return the points in time order, and the number of runs without a known start, which are left out.

    A point has the runs of a session with one commit and the same series, or without a known commit in one folder.
    `folders` has the name of each run's folder by the run's `id()`, `copied` is the result of `_copied`. A gate of
    copies belongs to the point of the first runs.
    """
    by_folder: dict[tuple[int, str], list[RecordedRun]] = {}
    unknown = 0
    for run, number in zip(runs, sessions_of(runs), strict=True):
        if number is None:
            unknown += 1
        else:
            by_folder.setdefault((number, folders[id(run)]), []).append(run)
    gates = {gate.folder: gate for gate in log.gates}
    attempts: dict[Hashable, list[tuple[str, list[RecordedRun]]]] = {}
    for (number, folder), of_folder in sorted(by_folder.items(), key=lambda item: started(item[1][0])):
        commit = gates[folder].commit if folder in gates else None
        # Gates of other series are other jobs of the commit, and must not hide this gate's outcome.
        identity = (commit, frozenset(map(series_of_run, of_folder))) if commit else folder
        attempts.setdefault((number, identity), []).append((folder, of_folder))
    points = []
    for number, members in enumerate(attempts.values(), start=1):
        names = {folder: [run.id for run in of_folder] for folder, of_folder in members}
        for folder in list(names):
            for copy, of_copy in copied.get(folder, {}).items():
                if copy in gates:
                    names.setdefault(copy, list(of_copy))
        accepted = {folder: log.acceptance(folder, of_folder) for folder, of_folder in names.items()}
        # Order of the log: a gate of copies or of earlier runs can be the newest.
        of_point = tuple(gate for name, gate in gates.items() if name in accepted)
        points.append(
            Point(
                number,
                tuple(accepted),
                tuple(run for _, of_folder in members for run in of_folder),
                of_point,
                max(filter(None, accepted.values()), key=lambda it: it.time, default=None),
                regressions=tuple(
                    gate for gate in of_point if gate.outcome == "regression" and accepted[gate.folder] is None
                ),
            )
        )
    return tuple(points), unknown


@dataclass(frozen=True)
class _Titled:
    """A series, with the title and the treatment of its line."""

    title: str
    treatment: Mapping[str, Any]
    row: Series


def _series(points: Sequence[Point], kinds: Sequence[str]) -> list[_Titled]:
    """Return a series for each workload, store, treatment and measure; its sessions are indices of points."""
    numbers = {id(run): index for index, point in enumerate(points) for run in point.runs}
    groups: dict[Hashable, list[RecordedRun]] = {}
    for point in points:
        for run in point.runs:
            groups.setdefault(series_of_run(run), []).append(run)
    titles = _titles([runs[0] for runs in groups.values()])
    return [
        _Titled(title, runs[0].treatment, row)
        for title, runs in zip(titles, groups.values(), strict=True)
        for row in series_of(runs, numbers, kinds)
    ]


def _lines(points: Sequence[Point], series: Sequence[_Titled]) -> tuple[Line, ...]:
    """Return a line for each series that has values, with its changes.

    The level of the search for changes is divided by the number of lines.
    """
    known = [it for it in series if it.row.values]
    lines = []
    for it in known:
        of_row = tuple(points[number] for number in it.row.sessions)
        changes = tuple(
            Change(it.title, it.row.measure, it.treatment, step, of_row[step.index])
            for step in change_points(it.row.values, level=LEVEL / len(known))
        )
        lines.append(Line(it.title, it.row.measure, it.treatment, of_row, it.row.values, changes))
    return tuple(lines)


def _left_out(points: Sequence[Point], series: Sequence[_Titled]) -> list[Finding]:
    """Return warnings about points that series lack: one for all series that lack the same points for one reason."""
    lacking: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for it in series:
        name = ", ".join(filter(None, (it.row.measure.name, it.title)))
        for why in dict.fromkeys(it.row.left_out.values()):
            places = tuple(number for number, reason in it.row.left_out.items() if reason == why)
            lacking.setdefault((why, places), []).append(name)
    return [
        _LEFT_OUT(
            measures=_listed(names, "; "),
            verb="lacks" if len(names) == 1 else "lack",
            count=len(places),
            labels=_listed([points[number].label for number in places]),
            why=why,
        )
        for (why, places), names in lacking.items()
    ]


def _titles(examples: Sequence[RecordedRun]) -> list[str]:
    """Return a title for each group of runs, given an example of each.

    It has workload, store and treatment, without the parts that all share.
    """
    names = short_names(dict.fromkeys(name for run in examples for name in run.treatment))
    parts = [
        (run.manifest.workload.name or "", run.manifest.store.kind or "",
         ", ".join(f"{names[name]} {level}" for name, level in run.treatment.items()))
        for run in examples
    ]  # fmt: skip
    differing = [index for index in range(3) if len({part[index] for part in parts}) > 1]
    return [", ".join(part[index] for index in differing if part[index]) for part in parts]


def reference_series(points: Sequence[Point], name: str) -> tuple[list[Point], list[float]]:
    """Return the points that have the reference benchmark `name`, and its values there."""
    known = [point for point in points if name in point.references]
    return known, [point.references[name] for point in known]


def _reference_changes(points: Sequence[Point]) -> list[Finding]:
    """Return warnings about changes of the machine's CPU, disk and network references, and of the machine."""
    findings = []
    for name in REFERENCES:
        known, values = reference_series(points, name)
        for change in change_points(values, level=LEVEL / len(REFERENCES)):
            words = "CPU" if name == "cpu" else name
            findings.append(_REFERENCE_CHANGE(reference=words, change=change.change, label=known[change.index].label))
    machines = [(point, point.runs[0].manifest.hardware) for point in points]
    findings += [
        _MACHINE_CHANGE(label=point.label, before=before.hostname or "unknown", after=after.hostname or "unknown")
        for (_, before), (point, after) in pairwise(machines)
        if (before.hostname, before.cpu) != (after.hostname, after.cpu)
    ]
    return findings
