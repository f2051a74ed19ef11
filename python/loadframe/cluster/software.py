"""Software of a cluster's nodes: found, downloaded or copied, on every machine with a node."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loadframe.base import folders
from loadframe.base.errors import BadInput
from loadframe.cluster import placement, transport
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Host, Machine
from loadframe.host.local import LocalHost
from loadframe.store import FoundInstallation, Installation, Store

Report = Callable[[str], None]


@dataclass(frozen=True)
class Software:
    """Store software of the nodes."""

    store: Store
    version: str
    installation: Installation
    java_version: str | None  #: None for stores without Java
    user: int | None
    #: `embedded`, `vendor` (downloaded from the vendor) or `installed` (already on the machine)
    origin: str = "embedded"
    #: Host name -> installation on that machine.
    elsewhere: Mapping[str, Installation] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """All versions: of the store, Java and parts; for an application also its code."""
        parts = [f"{kind} {part.version}" for kind, part in sorted(self.installation.parts.items())]
        java = [f"Java {self.java_version}"] if self.java_version else []
        further = ", ".join(filter(None, [self.store.code, *java, *parts]))
        return f"{self.version} ({further})" if further else self.version

    def on(self, machine: Machine) -> Installation:
        """Return the installation on a machine of the cluster."""
        return self.elsewhere.get(machine.hostname, self.installation)


def version(store: Store, spec: ClusterSpec) -> str:
    """Return the version of the installation in `home`, else the requested one, else the store's default.

    Installations on PATH do not count. Empty without any of these. BadInput if `home` has no installation of the store,
    or another version than requested.
    """
    if spec.home and (installation := _installed(store, spec)):
        return installation.version
    return spec.version or next(iter(store.versions), "")


def _installed(store: Store, spec: ClusterSpec, machine: Machine | None = None) -> FoundInstallation | None:
    """Return the existing installation to use, or None if there is none or another version will be downloaded.

    That is the user's (`home`), or the system's on `machine`, by default this one. BadInput if it is not of the
    requested version (8.1 is of version `8`), unless that can be downloaded and `home` is not given.
    """
    if spec.home is None and machine and not machine.here:
        installation = machine.call(transport.system, store.kind)
    else:
        installation = store.installation(Path(spec.home).expanduser().absolute() if spec.home else None)
    if installation and spec.version:
        number = installation.version.rpartition(" ")[2]
        if not f"{number}.".startswith(f"{spec.version.rpartition(' ')[2]}."):
            if not spec.home and (spec.version in store.versions or store.offer(spec.version)):
                return None
            raise BadInput(
                f"the installation is {store.kind} {installation.version}, not {spec.version}",
                where=str(installation.home),
                remedy="give an installation of that version with --home, or omit --version",
            )
    return installation


def require_settings(store: Store, settings: Mapping[str, Any], option: str = "--store-set") -> None:
    """Raise BadInput, which names `option`, for settings that no new cluster of the store accepts."""
    try:
        store.check_settings(settings)
    except BadInput as error:
        where = ": ".join(filter(None, (option if settings else "", error.where)))
        raise BadInput(error.what, where=where or None, remedy=error.remedy) from None


def prepare(store: Store, spec: ClusterSpec, host: Host, report: Report) -> Software:
    """Install the spec's software on each machine, where its user can access it, and check the machines.

    BadInput if the spec, the machines or the software do not fit.
    """
    if store.own_address:
        placement.require_apart(host, store.kind, spec.nodes)
    if spec.racks and not store.knows_racks:
        raise BadInput(f"loadframe does not support racks for {store.kind}", remedy="omit racks")
    host.require()
    placement.require(host, spec.limits, spec.nodes, report)
    require_settings(store, spec.settings)
    if idle := store.without_effect(spec.settings):
        report(
            "warning: these settings have no effect, because the setting `store` does not select their store:"
            f" {', '.join(idle)}"
        )
    store.require_encryption(spec.encryption, spec.settings, spec.nodes)
    others = [machine for machine in host.machines if not machine.here]
    transport.require_machines(store, spec.settings, spec.limits.memory, others)
    software = _prepared(store, spec, host, report)
    store.require_encryption(spec.encryption, spec.settings, spec.nodes, software.installation)
    if parts := store.parts(spec.settings):
        # Parts use their own versions, regardless of the requested one.
        plain = replace(spec, version=None, home=None, settings={})
        ready = {kind: _prepared(part, plain, host, report) for kind, part in parts.items()}
        places = {kind: replace(part.installation, version=part.version) for kind, part in ready.items()}
        software = replace(software, installation=replace(software.installation, parts=places))
    return replace(software, elsewhere=_on_machines(software, spec, others, report)) if others else software


def _on_machines(
    software: Software, spec: ClusterSpec, machines: Sequence[Machine], report: Report
) -> dict[str, Installation]:
    """Copy software and Java to remote machines where necessary; return host name -> installation there.

    An installed store is only located on the machines, or is in the container image. BadInput if a machine lacks it or
    has too little space, LoadframeError if a copy is damaged.
    """
    store, installation = software.store, software.installation
    users = {machine.hostname: server_user(machine, store) for machine in machines}
    name = f"{store.kind} {software.version}"
    javas: dict[str, Path] = {}
    homes: dict[str, Path] = {}
    if software.origin == "installed" and spec.home is None:
        # Containers use the installation in their image.
        if not spec.image:
            homes = transport.system_everywhere(store.kind, software.version, machines)
    else:
        top = Path(spec.home).expanduser().absolute() if spec.home else installation.home
        below = installation.home.relative_to(top)
        brought = transport.bring(machines, top, name, users, report)
        homes = {hostname: place / below for hostname, place in brought.items()}
        if installation.java and installation.java.is_relative_to(top):
            javas = {hostname: place / installation.java.relative_to(top) for hostname, place in brought.items()}
    if installation.java and not javas:
        javas = transport.bring(machines, installation.java, f"Java {software.java_version}", users, report)
    return {
        machine.hostname: Installation(
            homes.get(machine.hostname, installation.home),
            javas.get(machine.hostname, installation.java),
            installation.version,
        )
        for machine in machines
    }


def _prepared(store: Store, spec: ClusterSpec, host: Host, report: Report) -> Software:
    """Return the software of nodes: installed on the machine, or from the registry, and missing parts from the vendor.

    Downloads missing software, including Java. BadInput if the server's user cannot access it.
    """
    # Lazy: commands that start nothing do not need these.
    from loadframe.cluster import artefacts, java, software_sources

    user = server_user(LocalHost(), store)
    first = host.machines[0]
    present, origin = _installed(store, spec, first), "installed"
    selected = version(store, spec)
    if present is None and selected not in store.versions and (offer := store.offer(selected)):
        present, origin = store.installation(software_sources.install(offer, report)), "vendor"
    if present:
        if first.here or spec.home or origin == "vendor":
            folders.require_reachable(present.home if present.home.is_dir() else present.home.parent, user)
        if present.java is None:
            return Software(store, present.version, Installation(present.home), None, user, origin)
        runtime = java.find(present.java, user, present.java_most, report, bundled=present.jdk)
        place = Installation(present.home, runtime.home, present.version)
        return Software(store, present.version, place, runtime.version, user, origin)
    distribution = store.distribution(selected)
    least, most = distribution.java, distribution.java_most
    needed = None if least is None else java.find(least, user, most, report)
    home = artefacts.install(distribution, report)
    folders.require_reachable(home, user)
    installation = Installation(home, needed.home if needed else None)
    return Software(store, distribution.version, installation, needed.version if needed else None, user)


def require_reads(software: Software, before: str, folder: Path) -> None:
    """Raise BadInput if the software is older than `before`, the version that wrote the data in `folder`."""
    if _parts(software.version) < _parts(before):
        raise BadInput(
            f"the data was written by {software.store.kind} {before}, and {software.version} is older",
            where=str(folder),
            remedy="start it with that version or a newer one (--version or --home), or use another name",
        )


def _parts(version: str) -> list[int]:
    """Return the numbers of a version for comparison, without name and suffix: [3, 8, 0] for `opensearch 3.8.0-rc1`."""
    return [int(part) for part in re.findall(r"\d+", version.rpartition(" ")[2].partition("-")[0])]


def server_user(machine: Machine, store: Store) -> int | None:
    """Return the numeric user of the store's nodes on a machine, or None for the current user.

    BadInput if the store refuses root, and the machine, as root, has no other user.
    """
    if store.refuses_root:
        return machine.server_user(named=store.needs_account)
    if not store.own_user:
        return None
    try:
        return machine.server_user(named=store.needs_account)
    except BadInput:
        # Container that maps only root, which is then the unprivileged user who started it.
        return None
