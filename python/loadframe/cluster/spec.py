"""Specification of a cluster. For its actual state see Cluster.deviations."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import MOST_NODES
from loadframe.host import choice
from loadframe.host.base import Host
from loadframe.host.limits import DiskLimits, Limits
from loadframe.host.link import Shape
from loadframe.host.netns import NetnsHost
from loadframe.host.placement import Placement, parse
from loadframe.store import below, find
from loadframe.store.access import Encryption

#: Fields that depend on the host.
OF_HOST = ("image", "runtime", "machines", "placement", "scratch", "link")
#: Fields with their own form in a record, besides limits.
_NOT_PLAIN = ("link", "machines", "placement", "racks", "encryption")
#: Longest part of an invalid name in the message.
_SHOWN = 60


def require_name(name: str) -> None:
    """Raise BadInput unless a cluster name, also the name of its folder, has 1 to 41 of a-z, 0-9, `-` and `_`.

    It must begin with a letter or digit.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,40}", name):
        given = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
        raise BadInput(
            f"{given!r} is not a valid cluster name",
            remedy="use up to 41 lower-case letters, digits, - and _, beginning with a letter or digit",
        )


def require_host(store: str, host: str) -> None:
    """Raise BadInput if nodes of a kind of store run only on this machine, and the host is on others."""
    if host in choice.SEVERAL and find(store).only_here:
        raise BadInput(
            f"nodes of {find(store).kind} run only on this machine, not with host {host}",
            remedy="use another store, or omit --host",
        )


@dataclass(frozen=True)
class ClusterSpec:
    """Specification of a cluster to start."""

    store: str = "opensearch"  #: kind of store, or path of a file or folder that defines one
    version: str | None = None  #: None for the newest embedded version
    nodes: int = 1
    limits: Limits = field(default_factory=Limits)  #: limits of each node
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None  #: a named cluster keeps its data when stopped, and can outlive the command
    home: str | None = None  #: installation to use instead of an embedded or system one
    link: Shape = field(default_factory=Shape)  #: shape of each node's link, on hosts with links
    host: str = "local"  #: host of the nodes, by its name in loadframe.host.choice
    image: str | None = None  #: of nodes in containers
    runtime: str | None = None  #: of nodes in containers, or None for the first that works here
    port: int | None = None  #: port of the first node, from which others count up, or None for any free ports
    machines: tuple[str, ...] = ()  #: `name` or `name:slots`, for hosts of several machines
    placement: Placement = field(default_factory=Placement)
    racks: tuple[str, ...] = ()  #: racks to which nodes are assigned in turn, for stores that support racks
    scratch: str | None = None  #: data folder on the machines, or None for their state folder

    encryption: Encryption = Encryption.NONE  #: connections that use TLS, with generated certificates

    def __post_init__(self) -> None:
        """Make a path in `store` absolute; BadInput for invalid names, numbers, racks and paths.

        BadInput also for a link shape without the host netns.
        """
        # Absolute, because a later command can run in another folder.
        object.__setattr__(self, "store", below(self.store, Path.cwd()))
        if self.link and self.host != NetnsHost.name:
            raise BadInput(
                "link settings require a network per node",
                remedy="add --host netns (host: netns in an experiment), or omit the link settings",
            )
        if not 1 <= self.nodes <= MOST_NODES:
            raise BadInput(
                f"the number of nodes must be 1 to {MOST_NODES}; got {self.nodes}", remedy="give another --nodes"
            )
        if self.name is not None:
            require_name(self.name)
        for machine in self.machines:
            parse(machine)
        self._check_racks()
        if self.scratch is not None and not self.scratch.startswith("/"):
            raise BadInput(f"scratch must be an absolute path; got {self.scratch}", remedy="begin it with /")

    def _check_racks(self) -> None:
        """Raise BadInput for duplicate or invalid rack names, or more racks than nodes."""
        if not self.racks:
            return
        if len(set(self.racks)) < len(self.racks) or len(self.racks) > self.nodes:
            raise BadInput(
                f"invalid racks for {self.nodes} nodes: {', '.join(self.racks)}",
                remedy="name each rack once, and at most as many racks as nodes",
            )
        for rack in self.racks:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", rack) or re.fullmatch(r"node-\d+", rack):
                raise BadInput(
                    f"{rack!r} is not a valid rack name",
                    remedy="use up to 41 letters, digits, _, . and -, but not the name of a node",
                )

    @property
    def shares_cores(self) -> bool:
        """Whether its nodes may use all cores of this machine; False on a host of several machines."""
        return self.host in choice.HOSTS and self.limits.cores is None and self.limits.cores_each is None

    def rack_of(self, number: int | None) -> str:
        """Return the rack of data node `number`: the racks in turn; empty without racks or for a companion (None)."""
        return self.racks[number % len(self.racks)] if self.racks and number is not None else ""

    def place(self) -> Host:
        """Return the host of its nodes; BadInput if it does not exist, or not for this store."""
        require_host(self.store, self.host)
        return choice.find(self.host, self.image, self.runtime, self.machines, self.placement, self.scratch)

    def at_home(self) -> "ClusterSpec":
        """Return the spec on this machine, with all fields that depend on the host reset."""
        plain = ClusterSpec()
        return dataclasses.replace(self, **{key: getattr(plain, key) for key in ("host", *OF_HOST)})

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON values, which `from_record` reads: sizes in bytes, limits and links as mappings."""
        return {
            "store": self.store,
            "version": self.version,
            "nodes": self.nodes,
            "cpus": self.limits.cpus,
            "memory": self.limits.memory,
            "cores": self.limits.cores,
            "cores_each": self.limits.cores_each,
            "disk": dataclasses.asdict(self.limits.disk),
            "settings": dict(self.settings),
            "name": self.name,
            "link": dataclasses.asdict(self.link),
            "home": self.home,
            "host": self.host,
            "image": self.image,
            "runtime": self.runtime,
            "port": self.port,
            "machines": list(self.machines),
            "placement": dataclasses.asdict(self.placement),
            "racks": list(self.racks),
            "scratch": self.scratch,
            "encryption": self.encryption.value,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "ClusterSpec":
        """Return the spec in a record of `to_record`; BadInput if it is invalid.

        KeyError, TypeError or ValueError if keys are missing or unknown, or the encryption is unknown.
        """
        limits: dict[str, Any] = {key: record.get(key) for key in ("cpus", "memory", "cores", "cores_each", "disk")}
        rest = {key: value for key, value in record.items() if key not in (*limits, *_NOT_PLAIN)}
        limits["cores"] = limits["cores"] and tuple(limits["cores"])
        limits["disk"] = DiskLimits(**limits["disk"] or {})
        return cls(
            limits=Limits(**limits),
            link=Shape(**record["link"]),
            machines=tuple(record.get("machines", ())),
            racks=tuple(record.get("racks", ())),
            placement=Placement.from_record(record.get("placement", {})),
            encryption=Encryption(record.get("encryption", "none")),
            **rest,
        )
