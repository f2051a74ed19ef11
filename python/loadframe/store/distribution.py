"""What a store's software consists of: files of a package registry, their checksums and places. Fetches nothing."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Jar:
    """One file of the Maven repository, mostly a jar, and the folder of the installation that it belongs in."""

    coordinates: str  #: group:artifact:version, and perhaps :classifier
    place: str
    size: int  #: bytes
    sha256: str
    packaging: str = "jar"

    @property
    def filename(self) -> str:
        """The file's name in the repository and in its place."""
        return "-".join(self.coordinates.split(":")[1:]) + f".{self.packaging}"

    @property
    def path(self) -> str:
        """Where the file goes, relative to the installation."""
        return f"{self.place}/{self.filename}"


@dataclass(frozen=True)
class Module:
    """A part of a store that is loaded from a folder of its own."""

    name: str
    plugin_class: str


@dataclass(frozen=True)
class Archive:
    """A zip file whose content is the installation, or a part of it."""

    file: Jar
    root: str  #: the folder in it that everything is in, which is left out, too
    without: tuple[str, ...] = ()  #: folders below the root that are not unpacked


@dataclass(frozen=True)
class Wheel:
    """A version of a package of the Python package index, and the SHA-256 of each of its wheels that will do."""

    package: str
    version: str
    sha256: tuple[str, ...]
    size: int  #: bytes, of the largest of them
    python: str | None = (
        None  #: the version of Python to take the wheel for, where there is one for each and all will do
    )


@dataclass(frozen=True)
class Environment:
    """A virtual environment of Python, for a program of the user's.

    `lock` is the text of a requirements file in which each package has its version and its hashes.
    """

    lock: str
    where: str  #: the file that it stands in, for people

    @property
    def digest(self) -> str:
        """What tells it from others."""
        return hashlib.sha256(self.lock.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Distribution:
    """All files of one version of a store, or the wheel or the virtual environment that has them.

    `java` is the least Java version that runs it, `java_most` the greatest; None if it needs no Java.
    """

    store: str
    version: str
    java: int | None
    jars: tuple[Jar, ...]
    modules: tuple[Module, ...]
    texts: tuple[tuple[str, str], ...] = ()  #: small files that the installation needs besides: path, content
    folders: tuple[str, ...] = ()  #: to be there, empty
    archive: Archive | None = None
    java_most: int | None = None
    wheel: Wheel | None = None
    environment: Environment | None = None

    @property
    def files(self) -> tuple[Jar, ...]:
        """All that is to fetch."""
        return (*self.jars, self.archive.file) if self.archive else self.jars

    @property
    def size(self) -> int:
        """Bytes to fetch in all."""
        return sum(jar.size for jar in self.files) + (self.wheel.size if self.wheel else 0)


def listed(store: str, version: str) -> Distribution:
    """Return the files of an embedded version, from the list that comes with the package."""
    return read(Path(__file__).with_name(f"{store}-{version}.json"))


def read(path: Path) -> Distribution:
    """Read the list that `loadframe.cluster.resolve` wrote."""
    content = json.loads(path.read_text())
    return Distribution(
        store=content["store"],
        version=content["version"],
        java=content["java"],
        java_most=content.get("java_most"),
        jars=tuple(Jar(**entry) for entry in content["jars"]),
        modules=tuple(Module(entry["name"], entry["class"]) for entry in content["modules"]),
    )
