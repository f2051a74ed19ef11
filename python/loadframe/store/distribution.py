"""Software of a store: files in a package registry with checksums, vendors' archives, and the user's installation."""

import hashlib
import json
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import BadInput


@dataclass(frozen=True)
class Jar:
    """A file of the Maven repository, mostly a jar, and its folder in the installation."""

    coordinates: str  #: group:artifact:version[:classifier]
    place: str
    size: int  #: bytes
    sha256: str
    packaging: str = "jar"

    @property
    def filename(self) -> str:
        """The file's name in the repository and in the installation, such as `lucene-core-9.12.0.jar`."""
        return "-".join(self.coordinates.split(":")[1:]) + f".{self.packaging}"

    @property
    def path(self) -> str:
        """The file's path, relative to the installation."""
        return f"{self.place}/{self.filename}"


@dataclass(frozen=True)
class Module:
    """A module of a store, in a separate folder."""

    name: str
    plugin_class: str


@dataclass(frozen=True)
class Archive:
    """A zip file with the installation, or a part of it."""

    file: Jar
    root: str  #: top folder in the archive, stripped from paths
    without: tuple[str, ...] = ()  #: folders below the root to skip


@dataclass(frozen=True)
class Wheel:
    """A version of a Python package, with the SHA-256 of each usable wheel."""

    package: str
    version: str
    sha256: tuple[str, ...]
    size: int  #: bytes, of the largest wheel
    python: str | None = None  #: the Python version of the wheel to download, if there are several usable wheels


@dataclass(frozen=True)
class Environment:
    """A Python virtual environment for a user's program.

    `lock` is the text of a requirements file with the version and hashes of each package.
    """

    lock: str
    where: str  #: the file with that text, for messages

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the lock's SHA-256, which identify the environment."""
        return hashlib.sha256(self.lock.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Distribution:
    """All files of a version of a store, or its wheel, or its virtual environment.

    `java` is the lowest and `java_most` the highest Java version that runs it; None if it needs no Java.
    """

    store: str
    version: str
    java: int | None
    jars: tuple[Jar, ...]
    modules: tuple[Module, ...]
    texts: tuple[tuple[str, str], ...] = ()  #: small files to write into the installation: path, content
    folders: tuple[str, ...] = ()  #: empty folders to create
    archive: Archive | None = None
    java_most: int | None = None
    wheel: Wheel | None = None
    environment: Environment | None = None

    @property
    def files(self) -> tuple[Jar, ...]:
        """All files to download: the jars, then the archive; neither the wheel nor packages of an environment."""
        return (*self.jars, self.archive.file) if self.archive else self.jars

    @property
    def size(self) -> int:
        """Total download size in bytes, without the packages of an environment."""
        return sum(jar.size for jar in self.files) + (self.wheel.size if self.wheel else 0)


def embedded_files(store: str, version: str) -> Distribution:
    """Return the distribution that the file STORE-VERSION.json of this package lists; FileNotFoundError without it."""
    return read(Path(__file__).with_name(f"{store}-{version}.json"))


def read(path: Path) -> Distribution:
    """Return the distribution in a JSON file that `tools/resolve_distribution.py` wrote."""
    content = json.loads(path.read_text())
    return Distribution(
        store=content["store"],
        version=content["version"],
        java=content["java"],
        java_most=content.get("java_most"),
        jars=tuple(Jar(**entry) for entry in content["jars"]),
        modules=tuple(Module(entry["name"], entry["class"]) for entry in content["modules"]),
    )


_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Offer:
    """A vendor's tar archive that holds an installation in one folder, with its checksum in a separate file."""

    store: str
    version: str
    address: str  #: URL of the vendor's folder of archives
    name: str
    checksum: str  #: `sha256` or `sha512`: the algorithm, and the suffix of the checksum's file


def version_numbers(kind: str, version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `8.1.2`; BadInput if it has other than three numbers."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise BadInput(
            f"{kind} {version} is not a complete version, which the vendor's downloads need",
            remedy="write all three numbers of the version, or give an installation with --home",
        )
    return tuple(int(part) for part in version.split("."))


def vendor_architecture(kind: str) -> str:
    """Return this machine's architecture, `x86_64` or `aarch64`; BadInput if it has another."""
    architecture = platform.machine()
    if architecture not in _MACHINES:
        raise BadInput(
            f"the vendor's downloads of {kind} are for {' and '.join(_MACHINES)}, and this machine is {architecture}",
            remedy="give an installation with --home",
        )
    return architecture


#: Folders of programs in an installation, a distribution's package, or a build tree.
_PLACES = ("", "bin", "src")


def program(home: Path | None, *names: str) -> Path | None:
    """Return the first of these programs in `home`, its `bin` or `src`, or on the PATH without `home`; None if missing.

    `names` are in order of preference.
    """
    places = ":".join(str(home / place) for place in _PLACES) if home else None
    programs = (shutil.which(name, path=places) for name in names)
    return next((Path(path) for path in programs if path), None)


def require_program(home: Path | None, *names: str) -> Path:
    """Return the first of these programs in `home`, its `bin` or `src`, or on the PATH without `home`.

    BadInput if absent.
    """
    path = program(home, *names)
    if path is None:
        raise BadInput(
            f"cannot find {' or '.join(names)}",
            where=str(home) if home else "PATH",
            remedy=f"install your system's {' or '.join(names)}, or give the folder of an installation with --home",
        )
    return path


def program_version(path: Path, pattern: str, *arguments: str) -> str:
    """Run a program with `arguments`, and return group 1 of the pattern's first match in its stdout: its version.

    BadInput if it cannot run, takes over 30 s, or prints no version. `pattern` is a regular expression. The exit status
    does not matter.
    """
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            f"cannot run it: {error}", where=str(path), remedy="give an installation for this machine"
        ) from error
    if (match := re.search(pattern, done.stdout)) is None:
        shown = (done.stderr or done.stdout).strip().splitlines()
        words = f': "{shown[0]}"' if shown else ""
        raise BadInput(
            f"it does not print its version{words}",
            where=str(path),
            remedy="check that it runs on this machine, or give another installation with --home",
        )
    return match[1]


def of_jar(home: Path, kind: str, names: Sequence[str]) -> str:
    """Return the version in a jar's file name, `lib/NAME-VERSION.jar` for one of `names`; BadInput if it is missing.

    `kind` is the store's kind, for the message.
    """
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
    """Return the Java home that an installation bundles in its folder `jdk`; None if it bundles none."""
    runtime = home / "jdk"
    return runtime if (runtime / "bin" / "java").is_file() else None
