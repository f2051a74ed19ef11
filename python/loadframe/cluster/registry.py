"""Download of one file from the Maven repository with jgo. Does not verify checksums; see artefacts.py."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import requests
from jgo.maven import MavenContext, PythonResolver

from loadframe.base.errors import BadInput
from loadframe.store.distribution import Jar

#: Timeout in seconds for a connection, and between two reads.
_TIMEOUT = 30


class RegistryError(BadInput):
    """The registry is not reachable, or the connection broke."""


class StoppedError(Exception):
    """Another download failed, or the user interrupted, so this one is aborted."""


def download(jar: Jar, staging: Path, count: Callable[[int], None], stop: threading.Event) -> Path:
    """Download a file into the staging folder. `count` receives the bytes as they arrive, negative if discarded.

    LOADFRAME_MAVEN is the URL of a mirror. Raises RegistryError, or StoppedError once `stop` is set.
    """
    arrived = 0

    @contextlib.contextmanager
    def counting(_name: str, _size: int) -> Iterator[Callable[[int], None]]:
        def add(amount: int) -> None:
            nonlocal arrived
            if stop.is_set():
                raise StoppedError
            arrived += amount
            count(amount)

        yield add

    group, artifact, version, *rest = jar.coordinates.split(":")
    classifier = "".join(rest)
    mirror = os.environ.get("LOADFRAME_MAVEN")
    context = MavenContext(
        repo_cache=staging,
        remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
        resolver=PythonResolver(progress_callback=counting),
        timeout=_TIMEOUT,
    )
    package = context.project(group, artifact).at_version(version).artifact(classifier, jar.packaging)
    path = Path(package.cached_path or "")
    try:
        context.resolver.download(package)
    except (requests.RequestException, RuntimeError) as error:
        raise RegistryError(
            f"could not reach the package registry ({_cause(error)})",
            remedy="the first start of a store needs network access; complete files are kept. Behind a proxy, set "
            "HTTPS_PROXY; for a mirror of the Maven repository, set LOADFRAME_MAVEN to its URL",
        ) from error
    finally:
        # The client writes into its cache directly, where it would take a partial file for a complete one.
        if path.exists() and path.stat().st_size != jar.size:
            path.unlink()
            count(-arrived)
    return path


def _cause(error: BaseException) -> str:
    """Return the innermost error message; outer ones repeat addresses and class names."""
    inner = error.__cause__ or error.__context__
    return _cause(inner) if inner else str(error) or type(error).__name__
