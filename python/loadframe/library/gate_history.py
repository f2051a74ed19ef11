"""History folders: measures by commit over time. The gate copies its runs there, and users accept changes."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from loadframe.analyze.compare import USUAL, Group
from loadframe.analyze.experiment import EXPERIMENT_FILE
from loadframe.analyze.gate import Gate
from loadframe.analyze.recorded_history import History as RecordedHistory
from loadframe.analyze.recorded_history import read_history
from loadframe.base.errors import BadInput
from loadframe.base.machine_references import disk_reference, network_reference, yardstick
from loadframe.library.arguments import checked, listed
from loadframe.library.options import require_measures
from loadframe.library.reports import Report
from loadframe.library.tables import Answer, Table, table_of
from loadframe.record.gate_log import Acceptance, GateRecord, add_to_gate_log
from loadframe.report.history import history_page, print_history

#: Variables in which GitHub, GitLab and Jenkins give the commit of a pipeline.
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")


def record_gate(folder: Path, gate: Gate, new: Group, commit: str | None = None) -> Path:
    """Copy the runs of a gate to a folder below `folder`, log its outcome there, and return the new folder.

    Also measures the machine for the log (`references`). Without `commit`, it comes from the variables of the pipeline.
    BadInput if the folder cannot be written, is in one of the runs, or is an experiment.
    """
    _require_apart(folder, new)
    commit = commit or pipeline_commit()
    time = datetime.now(UTC)
    name = time.strftime("%Y%m%d-%H%M%S-%f")
    if commit and (short := re.sub(r"[^0-9A-Za-z._-]", "", commit)[:12]):
        name = f"{name}-{short}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _copy([run.run.path for run in new.runs if run.run], folder, name)
    except OSError as error:
        # The argument of shutil.Error is a list of (source, target, cause).
        cause = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror or error
        raise BadInput(
            f"the runs cannot be copied: {cause}", where=str(folder), remedy="name another folder"
        ) from error
    failed = [check.name for check in gate.checks if check.standing == "regression"]
    outcome = "inconclusive" if gate.standing == "undecided" else gate.standing
    speeds = references(folder)
    add_to_gate_log(folder, GateRecord(time.isoformat(), name, commit, outcome, failed, speeds, gate.criteria))
    return folder / name


def _require_apart(folder: Path, new: Group) -> None:
    """Raise BadInput if a history folder is in a run of `new`, or is an experiment or its folder `runs`."""
    place = Path(os.path.realpath(folder))
    recorded = [Path(os.path.realpath(run.run.path)) for run in new.runs if run.run]
    within = [run for run in recorded if place.is_relative_to(run)]
    within += [at for at in (place, place.parent) if (at / EXPERIMENT_FILE).is_file() and place in (at, at / "runs")]
    if within:
        raise BadInput(
            f"the history folder is in a folder of recorded data: {within[0]}",
            where=str(folder),
            remedy="name another folder, such as history",
        )


def pipeline_commit() -> str | None:
    """Return the commit in GITHUB_SHA, CI_COMMIT_SHA or GIT_COMMIT (the first that is set), or None without one."""
    return next((value for name in _COMMITS if (value := os.environ.get(name))), None)


def references(folder: Path) -> Mapping[str, float]:
    """Measure the machine; return `cpu` (CPU time, s), `disk` (B/s, in `folder`) and `network` (loopback, B/s).

    Omits failed measurements.
    """
    speeds = {"cpu": yardstick()}
    with suppress(OSError):
        speeds["disk"] = disk_reference(folder)
    with suppress(OSError):
        speeds["network"] = network_reference()
    return speeds


class History(Answer):
    """The measures of a folder of runs by commit over time, with their change points.

    >>> history = loadframe.history("results/nightly")
    >>> [change["label"] for change in history.changes if change["measure"] == "throughput"]
    ['49f75d988266']
    """

    @checked
    def __init__(self, history: RecordedHistory) -> None:
        """Create the result of a history."""
        super().__init__(history.as_dict(), lambda console: print_history(history, console))
        self._history = history

    @cached_property
    def changes(self) -> Table:
        """A row for each change point: measure, first point, values before and after, relative change and p.

        The newest is first. `accepted` is the reason of the acceptance, or null.
        """
        rows = [change.as_dict() for change in self._history.changes]
        return Table("changes", lambda: table_of(rows, ("measure", "phase", "operation", "label", "before", "after")))

    @cached_property
    def points(self) -> Table:
        """A row for each point, which is the runs of a commit in one session: commit, start, runs and gate outcome."""
        rows = [
            {key: value for key, value in point.as_dict().items() if key != "references"}
            | {f"reference_{name}": value for name, value in point.references.items()}
            for point in self._history.points
        ]
        return Table("points", lambda: table_of(rows, ("point", "label", "commit", "folder", "started")))

    @cached_property
    def values(self) -> Table:
        """A row for each measure and point: the median of its runs. Times are s, rates 1/s."""
        rows = [
            {
                **line.measure.as_dict(),
                "title": line.title,
                "treatment": dict(line.treatment),
                "point": point.number,
                "value": value,
            }
            for line in self._history.lines
            for point, value in zip(line.points, line.values, strict=True)
        ]
        return Table("values", lambda: table_of(rows, ("measure", "phase", "operation", "treatment", "point", "value")))

    def report(self) -> Report:
        """Return the report: the history as a page, as text and as values."""
        return Report(history_page(self._history), self.as_dict(), self.show)


@checked
def history(
    folder: str | os.PathLike[str],
    *,
    measures: str | Sequence[str] = USUAL,
    accept: str | None = None,
    reason: str | None = None,
) -> History:
    """Return the history of a folder of runs, such as the folder of `loadframe gate --record`.

    `accept` names a commit, folder or run whose changes are accepted; it requires a `reason`. Both are logged in the
    folder. BadInput if nothing changed there, and for the measure `errors`.

    >>> history = loadframe.history("results/nightly", measures=["throughput"])
    >>> history.changes.to_polars()["worse"].to_list()
    [True]
    """
    return history_of(Path(folder), require_measures(listed(measures), "measures"), accept, reason)


def history_of(
    folder: Path, kinds: Sequence[str], accept: str | None, reason: str | None, written: Callable[[str], str] = str
) -> History:
    """Return the history of a folder of runs; with `accept`, log first that a change is accepted.

    `kinds` are measures. `accept` names a commit, folder or run, and `reason` is logged with it. `written` returns the
    name of an argument for messages, such as its option. BadInput for the measure `errors`, for one of `accept` and
    `reason` alone, and if nothing changed at `accept`.
    """
    if "errors" in kinds:
        raise BadInput(
            "change points do not support --measure errors: they use logarithms, and shares of errors are often 0",
            remedy="leave errors out; the gate judges them",
        )
    if (accept is None) != (reason is None):
        raise BadInput(
            f"{written('accept')} and {written('reason')} require each other",
            remedy="name a commit, and the reason why its change is accepted",
        )
    if accept is None or reason is None:
        return History(read_history(folder, kinds))
    return History(accept_change(folder, accept, reason, kinds))


def accept_change(folder: Path, at: str, reason: str, kinds: Sequence[str]) -> RecordedHistory:
    """Log that the changes and regressions at a commit, folder or run are accepted; return the history after that.

    BadInput if nothing changed at it, or if several folders have a run of this name.
    """
    history = read_history(folder, kinds)
    points = [change.point for change in history.changes]
    points += [point for point in history.points if any(gate.outcome == "regression" for gate in point.gates)]
    named = [point for point in dict.fromkeys(points) if point.is_at(at)]
    if not named:
        known = ", ".join(dict.fromkeys(point.label for point in points))
        raise BadInput(
            f"no change and no regression at {at!r}",
            where=str(folder),
            remedy=f"name one of these: {known}"
            if known
            else "leave the commit and its reason out: the history contains nothing to accept",
        )
    names: Sequence[str] = [at]
    if at not in named[0].folders and not any(gate.is_at(at) for gate in named[0].gates):
        # A name of a run, which runs of other folders can have, too.
        if len(named) > 1:
            raise BadInput(
                f"{len(named)} changes or regressions are at a run {at!r}",
                where=str(folder),
                remedy=f"name one of these: {', '.join(point.label for point in named)}",
            )
        names = [name or at for name in named[0].folders]
    for name in names:
        add_to_gate_log(folder, Acceptance(datetime.now(UTC).isoformat(), name, reason))
    return read_history(folder, kinds)


def _copy(runs: Sequence[Path], folder: Path, name: str) -> None:
    """Copy run folders to the new folder `folder/name`, which appears whole or not at all.

    A repeated name gets a number, such as `run-2`. OSError if that fails.
    """
    partial = folder / f".{name}.partial"
    try:
        partial.mkdir()
        for run in runs:
            target = partial / run.name
            number = 2
            while target.exists():
                target, number = partial / f"{run.name}-{number}", number + 1
            shutil.copytree(run, target)
        partial.rename(folder / name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
