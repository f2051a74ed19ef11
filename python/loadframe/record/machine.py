"""Manifests before they are written, with the description of this machine and fingerprints to detect its changes."""

import hashlib
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import loadframe
from loadframe.base.errors import BadInput
from loadframe.record.schema import FORMAT

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def hardware() -> dict[str, Any]:
    """Return the manifest's `hardware` of this machine now; see `schema.manifest.Hardware` for the keys.

    Sizes are in bytes. Unknown values are None; an unknown clock source is `unknown`. `yardstick` is not set.
    """
    import psutil

    cpu = _colon_table(Path("/proc/cpuinfo"))
    return {
        "hostname": platform.node(),
        "architecture": platform.machine(),
        "cpu": cpu.get("model name") or cpu.get("Model") or platform.processor() or platform.machine(),
        "virtual": "hypervisor" in cpu.get("flags", "").split(),
        "cores": psutil.cpu_count(logical=False),
        "threads": os.cpu_count() or 1,
        "usable": len(os.sched_getaffinity(0)),
        "memory": psutil.virtual_memory().total,
        "swap": psutil.swap_memory().total,
        "clock": _line(_CLOCK) or "unknown",
        "governor": _line(_GOVERNOR),
        "cgroup": cgroup_kind(Path("/proc/mounts").read_text()),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def versions() -> dict[str, Any]:
    """Return the manifest's `versions`; see `schema.manifest.Versions`.

    `commit` and `modified` are None unless the package is in a Git checkout.
    """
    commit, modified = _checkout(Path(loadframe.__file__).parent)
    return {
        "loadframe": loadframe.__version__,
        "commit": commit,
        "modified": modified,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": f"{platform.system()} {platform.release()} {platform.version()}",
        "system": _distribution(),
    }


def cgroup_kind(mounts: str) -> str:
    """Return the mounted control groups from the text of /proc/mounts: `v1`, `v2`, `hybrid` (both) or `none`."""
    kinds = {fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    match ("cgroup" in kinds, "cgroup2" in kinds):
        case (True, True):
            return "hybrid"
        case (True, False):
            return "v1"
        case (False, True):
            return "v2"
    return "none"


def _checkout(package: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the package's Git checkout, and whether tracked files have uncommitted changes.

    Returns (None, None) if git does not track the package, is missing or fails.
    """

    def git(*arguments: str) -> str:
        """Return a git command's output for the package's folder; OSError or SubprocessError if it fails."""
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        # Exclude a package that is installed in an environment inside another project's checkout.
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _distribution() -> str:
    """Return the name and version of the Linux distribution; `unknown` if they are not available."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _line(path: Path) -> str | None:
    """Return the content of a file without surrounding white space, or None if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _colon_table(path: Path) -> dict[str, str]:
    """Return the `key : value` lines of a file; the first value of a repeated key. Empty if the file cannot be read."""
    table: dict[str, str] = {}
    for line in (_line(path) or "").splitlines():
        key, _, value = line.partition(":")
        table.setdefault(key.strip(), value.strip())
    return table


def instrument() -> dict[str, str]:
    """Return the identity of this Loadframe and machine by name: version, commit, hash of the engine, kernel, hardware.

    All values are texts; a missing value is the text `None`.
    """
    software, machine = versions(), hardware()
    known = {name: software[name] for name in ("loadframe", "commit", "modified", "python", "kernel")}
    known |= {name: machine[name] for name in ("hostname", "cpu", "threads", "usable", "memory")}
    known["engine"] = digest(sorted(Path(loadframe.__file__).parent.glob("_engine*.so")))
    return {name: str(value) for name, value in known.items()}


def digest(files: list[Path]) -> str:
    """Return a hash of the contents of files, in the given order, as twelve hexadecimal digits.

    OSError if unreadable.
    """
    total = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:12]


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the differences between two fingerprints (see `instrument`), as `name: before → now`.

    Names are in order of first appearance, `before` first; a missing value is `none`.
    """
    names = dict.fromkeys([*before, *now])
    return [
        f"{name}: {before.get(name, 'none')} → {now.get(name, 'none')}"
        for name in names
        if before.get(name) != now.get(name)
    ]


#: Identifier of this command; all its runs belong to one session.
SESSION = uuid.uuid4().hex


@dataclass(frozen=True)
class ManifestDraft:
    """The keys of a manifest.json; `schema.manifest.Manifest` documents and reads them.

    `started` needs a time zone. `versions` and `hardware` default to this machine's, read when the draft is created:
    create it before the load, so that load averages do not include it.
    """

    run: str
    started: datetime
    treatment: Mapping[str, Any]
    workload: Mapping[str, Any]
    store: Mapping[str, Any]
    seed: int
    generator: Mapping[str, float | str | None]
    block: int | None = None
    repetition: int | None = None
    files: Sequence[Mapping[str, Any]] = ()
    session: str | None = SESSION
    command: Sequence[str] = field(default_factory=lambda: tuple(sys.argv))
    versions: Mapping[str, Any] = field(default_factory=versions)
    hardware: Mapping[str, Any] = field(default_factory=hardware)

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest as a mapping for `RunWriter.finish`."""
        return {
            "format": FORMAT,
            "run": self.run,
            "started": self.started.isoformat(timespec="milliseconds"),
            "session": self.session,
            "command": list(self.command),
            "treatment": dict(self.treatment),
            "block": self.block,
            "repetition": self.repetition,
            "seed": self.seed,
            "workload": dict(self.workload),
            "store": dict(self.store),
            "generator": dict(self.generator),
            "files": [dict(file) for file in self.files],
            "versions": dict(self.versions),
            "hardware": dict(self.hardware),
        }


def file_record(path: Path) -> dict[str, Any]:
    """Return a file's entry for `Manifest.files`: name, bytes, sha256. BadInput if it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return {"name": str(path), "bytes": file.tell(), "sha256": digest.hexdigest()}
    except OSError as error:
        raise BadInput(
            f"cannot read the file: {error.strerror}", where=str(path), remedy="check its name and permissions"
        ) from error
