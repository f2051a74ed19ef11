"""A user's installation of a store: its programs and its version."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from loadframe.base.errors import BadInput

#: Folders of programs in an installation, a distribution's package, or a build tree.
_PLACES = ("", "bin", "src")


def program(home: Path | None, *names: str) -> Path | None:
    """Return the first of these programs in the installation, or on the PATH without `home`; None if absent."""
    places = ":".join(str(home / place) for place in _PLACES) if home else None
    programs = (shutil.which(name, path=places) for name in names)
    return next((Path(path) for path in programs if path), None)


def require_program(home: Path | None, *names: str) -> Path:
    """Return the first of these programs in the installation or on the PATH; BadInput if absent."""
    path = program(home, *names)
    if path is None:
        raise BadInput(
            f"cannot find {' or '.join(names)}",
            where=str(home) if home else "PATH",
            remedy=f"install your system's {' or '.join(names)}, or give the folder of an installation with --home",
        )
    return path


def program_version(path: Path, pattern: str, *arguments: str) -> str:
    """Run a program and return its version, the pattern's group in the output; BadInput if that fails."""
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            f"cannot run it: {error}", where=str(path), remedy="give an installation for this machine"
        ) from error
    if (match := re.search(pattern, done.stdout)) is None:
        shown = (done.stderr or done.stdout).strip().splitlines()
        raise BadInput(
            f"it does not print its version{': ' + shown[0] if shown else ''}",
            where=str(path),
            remedy="check that it runs on this machine, or give another installation with --home",
        )
    return match[1]


def of_jar(home: Path, kind: str, names: Sequence[str]) -> str:
    """Return the version in the name of the server's jar, `lib/NAME-VERSION.jar`; BadInput if it is missing."""
    lib = home / "lib"
    for path in sorted(lib.iterdir()) if lib.is_dir() else ():
        for name in names:
            if match := re.fullmatch(rf"{re.escape(name)}-(\d+(?:\.\d+)+[\w.-]*)\.jar", path.name):
                return match[1]
    raise BadInput(
        f"not an installation of {kind}: lib/{names[0]}-VERSION.jar is missing",
        where=str(home),
        remedy="give the unpacked folder of the vendor's archive, which contains bin and lib",
    )


def jdk(home: Path) -> Path | None:
    """Return the bundled Java runtime of an installation, or None."""
    runtime = home / "jdk"
    return runtime if (runtime / "bin" / "java").is_file() else None
