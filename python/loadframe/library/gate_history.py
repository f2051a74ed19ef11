"""History folders: the gate copies its runs there and logs its outcome, and users accept changes."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from loadframe.analyze.compare import Group
from loadframe.analyze.gate import Gate
from loadframe.analyze.recorded_history import History, read_history
from loadframe.base.errors import BadInput
from loadframe.base.machine_references import disk_reference, network_reference, yardstick
from loadframe.record.gate_log import Acceptance, GateRecord, add_to_gate_log

#: Variables in which GitHub, GitLab and Jenkins give the commit of a pipeline.
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")


def record_gate(folder: Path, gate: Gate, new: Group, commit: str | None = None) -> Path:
    """Copy the runs of a gate to a folder below `folder`, log its outcome there, and return the new folder.

    Without `commit`, it comes from the variables of the pipeline. BadInput if the folder cannot be written.
    """
    commit = commit or next((value for name in _COMMITS if (value := os.environ.get(name))), None)
    time = datetime.now(UTC)
    name = time.strftime("%Y%m%d-%H%M%S-%f")
    if commit and (short := re.sub(r"[^0-9A-Za-z._-]", "", commit)[:12]):
        name = f"{name}-{short}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _copy([run.run.path for run in new.runs if run.run], folder, name)
    except OSError as error:
        raise BadInput(
            f"the runs cannot be copied: {error.strerror or error}", where=str(folder), remedy="name another folder"
        ) from error
    failed = [check.name for check in gate.checks if check.standing == "regression"]
    outcome = "inconclusive" if gate.standing == "undecided" else gate.standing
    add_to_gate_log(folder, GateRecord(time.isoformat(), name, commit, outcome, failed, references(folder)))
    return folder / name


def references(folder: Path) -> Mapping[str, float]:
    """Measure the machine: CPU (s), disk (B/s, in `folder`) and loopback network (B/s). Omits failed measurements."""
    speeds = {"cpu": yardstick()}
    with suppress(OSError):
        speeds["disk"] = disk_reference(folder)
    with suppress(OSError):
        speeds["network"] = network_reference()
    return speeds


def accept_change(folder: Path, at: str, reason: str, kinds: Sequence[str]) -> History:
    """Log that the changes and regressions at a commit, folder or run are accepted; return the history after that.

    BadInput if there is none at it.
    """
    history = read_history(folder, kinds)
    points = [change.point for change in history.changes]
    points += [point for point in history.points if point.gate and point.gate.outcome == "regression"]
    if not any(point.is_at(at) for point in points):
        known = ", ".join(dict.fromkeys(point.label for point in points))
        raise BadInput(
            f"no change and no regression at {at!r}",
            where=str(folder),
            remedy=f"name one of these: {known}" if known else "leave --accept out: there is nothing to accept",
        )
    add_to_gate_log(folder, Acceptance(datetime.now(UTC).isoformat(), at, reason))
    return read_history(folder, kinds)


def _copy(runs: Sequence[Path], folder: Path, name: str) -> None:
    """Copy run folders to a new folder, which appears whole or not at all."""
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
