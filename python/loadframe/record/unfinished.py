"""Hidden folder in which a run grows, and what a killed process leaves of it.

The writer holds a lock on a file in the folder, which the kernel releases when the process ends. Containers may
share the machine's name, process numbers and the results folder, so those identify no writer. The folder's name has the
machine's boot, because only processes of one kernel see each other's locks on every file system.

Its files are whole up to their last lines. Beside what the engine has written it has the manifest as it was when the
run began, and for each phase what it was to be.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from loadframe.record.merge import PhaseRecording
from loadframe.record.schema import EVENTS_FILE, MANIFEST_FILE

_NAME = re.compile(r"\.(?P<run>.+)\.partial-(?P<host>.+)-(?P<boot>[0-9a-f]{8})-(?P<unique>[0-9a-f]{12})")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/mountinfo")
#: Held by the writer, in its folder.
LOCK_FILE = ".lock"
#: File systems that other kernels may use at the same time, and whose locks may not reach them.
_SHARED = re.compile(r"nfs|cifs|smb|9p|virtiofs|fuse|lustre|gpfs|beegfs|ceph|afs|panfs|pvfs|orangefs|gfs|ocfs|gluster")


def partial_name(run: str) -> str:
    """Return a new name of a folder in which a process of this machine writes `run`."""
    return f".{run}.partial-{os.uname().nodename}-{_boot()}-{secrets.token_hex(6)}"


def hold(folder: Path) -> BinaryIO | None:
    """Lock a partial folder for as long as the returned file is open.

    None if the file system has no locks: nobody may take that folder for abandoned then. BlockingIOError if another
    process holds the lock; FileNotFoundError if the folder is gone.
    """
    file = (folder / LOCK_FILE).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(file.fileno()), (folder / LOCK_FILE).stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    except OSError as error:
        file.close()
        if isinstance(error, BlockingIOError | FileNotFoundError):
            raise
        (folder / LOCK_FILE).unlink(missing_ok=True)
        return None
    return file


def remove_stale(parent: Path) -> list[Path]:
    """Remove the partial folders in `parent` whose process has ended; return them."""
    removed = []
    for path, _ in stale(parent):
        with contextlib.suppress(OSError):
            held = hold(path)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
            if held:
                held.close()
    return removed


def stale(parent: Path) -> list[tuple[Path, str]]:
    """Return the partial folders in `parent` whose process has ended, with the names of their runs.

    A folder of another kernel on a file system that machines share is never among them.
    """
    matches = [(path, _NAME.fullmatch(path.name)) for path in sorted(parent.glob(".*.partial-*"))]
    return [(path, match["run"]) for path, match in matches if match and _is_stale(path, match["boot"])]


def _is_stale(path: Path, boot: str) -> bool:
    if boot != _boot() and _is_shared(path):
        return False
    try:
        # Opened, not made: a folder without the file is new, or of a file system without locks.
        with (path / LOCK_FILE).open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _boot() -> str:
    """Return eight digits that only processes of this kernel have in common."""
    return _BOOT.read_text()[:8]


def _is_shared(path: Path) -> bool:
    """Whether the path lies on a file system that other machines may have mounted; true if that is not known."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == number:
            return bool(_SHARED.search(after.split()[0]))
    return True


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
