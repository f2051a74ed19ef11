"""Python virtual environments in the cache, one per requirements file with hashes, for the user's applications.

pip or uv installs the packages from its configured index and verifies their hashes.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loadframe.base import folders
from loadframe.base.errors import BadInput
from loadframe.store.distribution import Environment

#: Disk space in bytes that an installation may need.
_ROOM = 2**28
#: Id of an unprivileged user, to test access.
_ANYBODY = 65_534


def home(environment: Environment) -> Path:
    """Return the folder of the environment, one per Python version. It may not exist yet."""
    return folders.cache() / "environments" / f"python{_python().version}-{environment.digest}"


def install(environment: Environment, name: str, report: Callable[[str], None]) -> Path:
    """Create the environment if necessary and return its folder; all users can run its `bin/python`.

    `name` is the program in messages. BadInput if hashes are missing, packages are not available, or disk space or
    network is lacking.
    """
    target = home(environment)
    folders.make(target.parent)
    lock = target.with_name(f"{target.name}.lock")
    with folders.locked(
        lock, lambda: report(f"another loadframe process is installing the packages of {name}; waiting for it")
    ):
        if target.exists():
            return target
        folders.require_room(target.parent, _ROOM, f"installing the packages of {name}")
        report(f"installing the packages of {name}, from {environment.where}")
        draft = target.with_name(f"{target.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            command = [str(_python().path), "-m", "venv", "--without-pip", "--symlinks", str(draft)]
            subprocess.run(command, check=True, capture_output=True)
            if environment.lock.strip():
                _fill(draft, environment)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        folders.open_to_all(draft)
        draft.rename(target)
    return target


def _fill(draft: Path, environment: Environment) -> None:
    """Install the packages into an empty environment, with `uv` if available, else with pip."""
    wanted = draft / "requirements.lock"
    wanted.write_text(environment.lock)
    python = draft / "bin" / "python"
    options = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(wanted)]
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", str(python), *options]
    else:
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *options]
        command += ["--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        cause = next((line for line in reversed(lines) if line.startswith(("ERROR", "error"))), " ".join(lines[-3:]))
        raise BadInput(
            f"could not install its packages: {cause.removeprefix('ERROR: ').strip()}",
            where=environment.where,
            remedy="pin each package with version and hashes (`uv pip compile --generate-hashes`); each needs a wheel "
            f"for Python {_python().version}; check that the Python package index, or pip's mirror, is reachable",
        )


@dataclass(frozen=True)
class _Python:
    path: Path
    version: str  #: major and minor version


@cache
def _python() -> _Python:
    """Return an interpreter for environments: loadframe's, or the system's if other users cannot access loadframe's."""
    for path in (Path(getattr(sys, "_base_executable", sys.executable)), Path("/usr/bin/python3")):
        if os.geteuid() != 0 or (path.exists() and folders.reachable(path.resolve().parent, _ANYBODY)):
            program = "import sys; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return _Python(path, done.stdout.strip())
    raise BadInput(
        "servers do not run as root, and their user cannot access this Python",
        where=sys.executable,
        remedy="install the system package python3, or run loadframe as an ordinary user",
    )
