"""Hidden folders of unfinished runs, and recovery of the runs of killed processes.

The writer holds a lock on a file in the folder, which the kernel releases when the process ends. Machine names and
process numbers do not identify a writer, because containers may share them. The folder's name has the machine's boot
identifier, because locks are reliable only between processes of one kernel.

The folder has the manifest from the start of the run, and a description of each phase with a begun load. The engine's
files in it may end in a partial line.
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
from loadframe.record.schema import EVENTS_FILE, MANIFEST_FILE, PARTIAL

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/mountinfo")
#: The locked file in a writer's folder.
LOCK_FILE = ".lock"
#: File systems that several kernels may share without common locks.
_SHARED = re.compile(r"nfs|cifs|smb|9p|virtiofs|fuse|lustre|gpfs|beegfs|ceph|afs|panfs|pvfs|orangefs|gfs|ocfs|gluster")


def partial_name(run: str) -> str:
    """Return a unique name for the folder in which this process writes `run`: `.RUN.partial-HOST-BOOT-RANDOM`."""
    return f".{run}.partial-{os.uname().nodename}-{_boot()}-{secrets.token_hex(6)}"


def hold(folder: Path) -> BinaryIO | None:
    """Lock a partial folder, by a file that it creates there, until the returned file is closed.

    None if the file system has no locks; such a folder is never considered stale. BlockingIOError if another process
    holds the lock; FileNotFoundError if the folder does not exist.
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
    """Delete the partial folders in `parent` that are `stale`; return their paths, sorted.

    Skips a folder that another process locks first. Files that cannot be deleted remain.
    """
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
    """Return the partial folders of ended processes in `parent`, sorted, with the names of their runs.

    Folders of another kernel on a shared file system, and folders without a lock file, are not included.
    """
    matches = [(path, PARTIAL.fullmatch(path.name)) for path in sorted(parent.glob(".*.partial-*"))]
    return [(path, match["run"]) for path, match in matches if match and _is_stale(path, match["boot"])]


def _is_stale(path: Path, boot: str) -> bool:
    """Return whether the writer of a partial folder has ended; `boot` is the boot identifier in its name.

    False for a folder of another kernel on a shared file system, and for one without a lock file.
    """
    if boot != _boot() and _is_shared(path):
        return False
    try:
        # Do not create the file: a folder without it is new, or on a file system without locks.
        with (path / LOCK_FILE).open("rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _boot() -> str:
    """Return the first eight digits of the kernel's boot identifier."""
    return _BOOT.read_text()[:8]


def _is_shared(path: Path) -> bool:
    """Return whether the path may lie on a file system shared between machines; True if unknown."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == number:
            return bool(_SHARED.search(after.split()[0]))
    return True


#: The folder of temporary files; in it, each phase's folder has this file with the phase's description.
SCRATCH = "scratch"
BEGUN = "begun.json"

#: Line-based files of a phase.
_LINES = ("series.csv", "generator.csv", "workers.csv", "histograms.hlog")


@dataclass(frozen=True)
class Wreck:
    """An unfinished run of a dead process."""

    folder: Path
    run_id: str
    manifest: Mapping[str, Any]

    @property
    def parent(self) -> Path:
        """The parent folder of the finished run."""
        return self.folder.parent

    @property
    def started(self) -> datetime:
        """Start of the run, with its time zone."""
        return datetime.fromisoformat(self.manifest["started"])

    def recordings(self, scratch: Path) -> list[PhaseRecording]:
        """Repair the files of the phases in the folder `scratch`, and return the recordings of begun phases in order.

        Partial last lines are cut off, also of the run's events in the parent of `scratch`. nodes.csv of a phase
        without outcome.json is deleted, because only the outcome maps numbers to nodes. The recordings have no hosts.
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
        """Return the phases with a readable begun.json, in order. Deletes their damaged outcome.json files."""
        return _phases(self.folder / SCRATCH)


@dataclass(frozen=True)
class BegunPhase:
    """A phase with a begun load: its description, and its outcome if it ended."""

    folder: Path
    begun: Mapping[str, Any]
    outcome: Mapping[str, Any] | None


def wrecks(parent: Path) -> Iterator[Wreck]:
    """Yield the `stale` runs in a folder with a readable manifest and a phase with a begun load, sorted by path."""
    for folder, run_id in stale(parent):
        manifest = _read(folder / MANIFEST_FILE)
        wreck = Wreck(folder, run_id, manifest or {})
        if manifest and wreck.phases():
            yield wreck


def _phases(scratch: Path) -> list[BegunPhase]:
    """Return the phases in `scratch` with a readable begun.json, in order. Deletes damaged outcome.json files."""
    phases = []
    for file in sorted(scratch.glob(f"phase-*/{BEGUN}"), key=lambda path: int(path.parent.name.partition("-")[2])):
        if begun := _read(file):
            outcome = _read(file.with_name("outcome.json"))
            if outcome is None:
                file.with_name("outcome.json").unlink(missing_ok=True)
            phases.append(BegunPhase(file.parent, begun, outcome))
    return phases


def _read(file: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if the file is missing, damaged or holds another JSON value."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _cut(file: Path) -> None:
    """Remove a partial last line, without a newline, from a file if it exists. Reads the whole file."""
    if file.exists():
        with file.open("rb+") as lines:
            lines.truncate(lines.read().rfind(b"\n") + 1)
