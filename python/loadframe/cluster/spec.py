"""What a cluster is to be like. Says nothing of what it is; see Cluster.deviations."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.ranges import MOST_NODES
from loadframe.host import choice
from loadframe.host.base import Host
from loadframe.host.limits import DiskLimits, Limits
from loadframe.host.link import Shape
from loadframe.host.netns import NetnsHost
from loadframe.host.placement import Placement, parse
from loadframe.store.encryption import Encryption
from loadframe.store.outside import below

#: Parts of a spec that go with its host.
OF_HOST = ("image", "runtime", "machines", "placement", "scratch", "link")
#: Parts that a record has in a form of its own, besides limits.
_NOT_PLAIN = ("link", "machines", "placement", "racks", "encryption")
#: Characters of an invalid name that the message shows.
_SHOWN = 60


def require_name(name: str) -> None:
    """BadInput for what cannot be a cluster's name, which is also that of its folder."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,40}", name):
        given = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
        raise BadInput(
            f"{given!r} is not a valid name for a cluster",
            remedy="use up to 41 small letters, digits, - and _, beginning with a letter or digit",
        )


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster to start."""

    store: str = "opensearch"  #: a kind, or the path of a file or folder that has one
    version: str | None = None  #: None for the newest embedded one
    nodes: int = 1
    limits: Limits = field(default_factory=Limits)  #: of each node
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None  #: with a name its data stays after it was stopped, and it can outlive the command
    home: str | None = None  #: the user's own installation, instead of an embedded one or the system's
    link: Shape = field(default_factory=Shape)  #: of each node's link, where nodes have links of their own
    host: str = "local"  #: where its nodes run, by a name of loadframe.host.choice
    image: str | None = None  #: of nodes in containers
    runtime: str | None = None  #: of nodes in containers; None for the first that works here
    port: int | None = None  #: of the first node, the others count on; None takes any that are free
    machines: tuple[str, ...] = ()  #: that nodes are placed on, `name` or `name:slots`, where the host has several
    placement: Placement = field(default_factory=Placement)
    racks: tuple[str, ...] = ()  #: over which nodes are dealt in turn, where the store tells racks apart
    scratch: str | None = None  #: the folder on the machines for the nodes' data; None for that of the state there

    encryption: Encryption = Encryption.NONE  #: which of its connections go by TLS, with certificates made for it

    def __post_init__(self) -> None:
        # It may be asked for again from another folder.
        object.__setattr__(self, "store", below(self.store, Path.cwd()))
        if self.link and self.host != NetnsHost.name:
            raise BadInput(
                "nodes have links that can be shaped only where each has a network of its own",
                remedy="say --host netns (host: netns in an experiment), or leave the link out",
            )
        if not 1 <= self.nodes <= MOST_NODES:
            raise BadInput(f"a cluster of {self.nodes} nodes", remedy=f"give it 1 to {MOST_NODES} nodes")
        if self.name is not None:
            require_name(self.name)
        for machine in self.machines:
            parse(machine)
        self._check_racks()
        if self.scratch is not None and not self.scratch.startswith("/"):
            raise BadInput(f"scratch {self.scratch} is not a full path", remedy="begin it with /, as on the machines")

    def _check_racks(self) -> None:
        if not self.racks:
            return
        if len(set(self.racks)) < len(self.racks) or len(self.racks) > self.nodes:
            raise BadInput(
                f"{self.nodes} nodes on the racks {', '.join(self.racks)}",
                remedy="name each rack once, and no more of them than there are nodes",
            )
        for rack in self.racks:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", rack) or re.fullmatch(r"node-\d+", rack):
                raise BadInput(
                    f"{rack!r} cannot be the name of a rack",
                    remedy="use up to 41 letters, digits, _, . and -, and not the name of a node",
                )

    def rack_of(self, number: int | None) -> str:
        """Return the rack of the node of that number; empty where there are none, or it is not a node of data."""
        return self.racks[number % len(self.racks)] if self.racks and number is not None else ""

    def place(self) -> Host:
        """Return the host of its nodes; BadInput when it does not exist."""
        return choice.find(self.host, self.image, self.runtime, self.machines, self.placement, self.scratch)

    def at_home(self) -> "ClusterSpec":
        """Return the same cluster on this machine: what was said of its machines means nothing here."""
        plain = ClusterSpec()
        return dataclasses.replace(self, **{key: getattr(plain, key) for key in ("host", *OF_HOST)})

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads back."""
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
        """Read a record."""
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
