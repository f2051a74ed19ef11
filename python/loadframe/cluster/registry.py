"""One file from the Maven repository, through jgo, which knows where that is. Checks nothing; see artefacts.py."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import requests
from jgo.maven import MavenContext, PythonResolver

from loadframe.base.errors import BadInput
from loadframe.store.distribution import Jar

#: Seconds for a connection, and between two reads.
_TIMEOUT = 30


class RegistryError(BadInput):
    """The registry was not reached, or broke off."""


class StoppedError(Exception):
    """Another download failed, or the user interrupted: this one is of no more use."""


def download(jar: Jar, staging: Path, count: Callable[[int], None], stop: threading.Event) -> Path:
    """Fetch a file into the staging folder, calling `count` with bytes as they come (negative to take some back).

    LOADFRAME_MAVEN is the address of a mirror to ask instead. Raises RegistryError, or StoppedError once `stop` is set.
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
    wanted = context.project(group, artifact).at_version(version).artifact(classifier, jar.packaging)
    path = Path(wanted.cached_path or "")
    try:
        context.resolver.download(wanted)
    except (requests.RequestException, RuntimeError) as error:
        raise RegistryError(
            f"the package registry cannot be reached ({_cause(error)})",
            remedy="the first start of a store needs the network; what has arrived is kept. Behind a proxy set "
            "HTTPS_PROXY; for a mirror of the Maven repository set LOADFRAME_MAVEN to its address",
        ) from error
    finally:
        # The client writes straight into its cache, where a half file would pass for a whole one.
        if path.exists() and path.stat().st_size != jar.size:
            path.unlink()
            count(-arrived)
    return path


def _cause(error: BaseException) -> str:
    """Return the innermost reason: the outer ones repeat addresses and class names."""
    inner = error.__cause__ or error.__context__
    return _cause(inner) if inner else str(error) or type(error).__name__
