"""The user's own installation of a store: where its program is, and which version it says it is."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from loadframe.base.errors import BadInput

#: Where programs are in an installation: in itself, or where distributions and built sources have them.
_PLACES = ("", "bin", "src")


def program(home: Path | None, *names: str) -> Path | None:
    """Return the first of these programs that the installation has, or without one the PATH."""
    places = ":".join(str(home / place) for place in _PLACES) if home else None
    programs = (shutil.which(name, path=places) for name in names)
    return next((Path(path) for path in programs if path), None)


def require_program(home: Path | None, *names: str) -> Path:
    """Return what `program` does; BadInput when there is none."""
    path = program(home, *names)
    if path is None:
        raise BadInput(
            f"there is no {' and no '.join(names)} here",
            where=str(home) if home else "PATH",
            remedy=f"install your system's {' or '.join(names)}, or give the folder of an installation with --home",
        )
    return path


def told(path: Path, pattern: str, *arguments: str) -> str:
    """Return the version that a program tells, the group in the pattern; BadInput when it tells none."""
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            f"it cannot be run: {error}", where=str(path), remedy="give an installation for this machine"
        ) from error
    if (match := re.search(pattern, done.stdout)) is None:
        shown = (done.stderr or done.stdout).strip().splitlines()
        raise BadInput(
            f"it does not tell its version{': ' + shown[0] if shown else ''}",
            where=str(path),
            remedy="check that it runs here, or give another installation with --home",
        )
    return match[1]


def of_jar(home: Path, kind: str, names: Sequence[str]) -> str:
    """Return the version in the name of the server's own jar, `lib/NAME-VERSION.jar`; BadInput without one."""
    lib = home / "lib"
    for path in sorted(lib.iterdir()) if lib.is_dir() else ():
        for name in names:
            if match := re.fullmatch(rf"{re.escape(name)}-(\d+(?:\.\d+)+[\w.-]*)\.jar", path.name):
                return match[1]
    raise BadInput(
        f"this is not an installation of {kind}: it has no lib/{names[0]}-VERSION.jar",
        where=str(home),
        remedy="give the folder that the vendor's archive was unpacked to, the one with bin and lib in it",
    )


def jdk(home: Path) -> Path | None:
    """Return the Java runtime that came along in the installation, if one did."""
    runtime = home / "jdk"
    return runtime if (runtime / "bin" / "java").is_file() else None
