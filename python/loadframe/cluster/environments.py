"""Virtual environments of Python in the cache, one for each requirements file with hashes: for the user's own programs.

The package installer fetches what the file lists, from where it is set up to fetch from, and verifies it by the hashes.
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

#: Bytes that an environment may take, with what is fetched for it.
_ROOM = 2**28
#: A user in no special group, by the number that stands for nobody.
_ANYBODY = 65_534


def home(environment: Environment) -> Path:
    """Return where it is, or will be; each version of Python has its own."""
    return folders.cache() / "environments" / f"python{_python().version}-{environment.digest}"


def install(environment: Environment, name: str, report: Callable[[str], None]) -> Path:
    """Return the folder of the environment, in which everybody may run `bin/python`; `name` is the program, for people.

    BadInput for a file that has no hashes, or packages that cannot be had here, and without room or network.
    """
    target = home(environment)
    folders.make(target.parent)
    lock = target.with_name(f"{target.name}.lock")
    with folders.locked(lock, lambda: report(f"another loadframe installs what {name} needs; waiting for it")):
        if target.exists():
            return target
        folders.require_room(target.parent, _ROOM, f"installing what {name} needs")
        report(f"installing what {name} needs, from {environment.where}")
        draft = target.with_name(f"{target.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            made = [str(_python().path), "-m", "venv", "--without-pip", "--symlinks", str(draft)]
            subprocess.run(made, check=True, capture_output=True)
            if environment.lock.strip():
                _fill(draft, environment)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        folders.open_to_all(draft)
        draft.rename(target)
    return target


def _fill(draft: Path, environment: Environment) -> None:
    """Install the packages into an environment that has none; `uv` does it in seconds where it is there."""
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
        told = next((line for line in reversed(lines) if line.startswith(("ERROR", "error"))), " ".join(lines[-3:]))
        raise BadInput(
            f"its packages cannot be installed: {told.removeprefix('ERROR: ').strip()}",
            where=environment.where,
            remedy="each package needs its version and hashes (`uv pip compile --generate-hashes`), and a wheel for"
            f" Python {_python().version}; and the Python package index, or the mirror that pip is set up for, has to"
            " be within reach",
        )


@dataclass(frozen=True)
class _Python:
    path: Path
    version: str  #: its first two numbers


@cache
def _python() -> _Python:
    """Return an interpreter for environments: that of loadframe, or the system's where root's own is root's alone."""
    for path in (Path(getattr(sys, "_base_executable", sys.executable)), Path("/usr/bin/python3")):
        if os.geteuid() != 0 or (path.exists() and folders.reachable(path.resolve().parent, _ANYBODY)):
            said = "import sys; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([path, "-c", said], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return _Python(path, done.stdout.strip())
    raise BadInput(
        "root's servers run as another user, who cannot enter the folder of this Python",
        where=sys.executable,
        remedy="install the system's package python3, or do not run as root",
    )
