"""The face of a store: what its nodes need in order to start, and how to talk to the cluster they make.

A store knows files, commands and requests. It starts nothing and knows no host: the cluster joins the two.
"""

import re
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.store.access import OPEN, Access
from loadframe.store.distribution import Distribution
from loadframe.store.encryption import Certificates, Encryption
from loadframe.store.vendors import Offer

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Call(Protocol):
    """Runs a function of the package on a node's machine, as `Machine.call` of the hosts does."""

    def __call__(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return what the function returns there; what it raises there is raised here."""


def here(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a function on this machine, in this process."""
    return function(*args, **kwargs)


@dataclass(frozen=True)
class NodeSpec:
    """One node as the cluster wants it; the store turns it into files and a command line."""

    cluster: str
    name: str
    address: str  #: the IP address that the node binds, and no other
    port: int  #: for clients
    peer_port: int  #: for the other nodes
    folder: Path  #: the node's own folder; everything it writes is in there
    peers: tuple[str, ...]  #: `address:peer_port` of the nodes to look for, itself among them
    founders: tuple[str, ...]  #: names of the nodes that form a new cluster; empty for one that joins or starts again
    memory: int | None = None  #: bytes that the node may use in all, if limited
    cpus: float | None = None  #: cores that the node may use, if limited
    settings: Mapping[str, Any] = field(default_factory=dict)  #: the user's, over the store's own
    role: str = ""  #: what the process is for, in stores whose processes differ; see Store.node_processes
    extra_ports: tuple[int, ...] = ()  #: as many more of its own as the store says, free on 127.0.0.1
    rack: str = ""  #: the rack that it is told to be on, in stores that know racks
    electors: tuple[str, ...] | None = None  #: names of the nodes that may be elected; None for all, see Store.electors

    encryption: Encryption = Encryption.NONE  #: which connections of the cluster go by TLS
    certificates: Certificates | None = None  #: the node's own, where any do
    password: str = field(default="", repr=False)  #: of the store's administrator; empty if the store has none

    @property
    def elects(self) -> bool:
        """Whether it may be elected, and so has a vote."""
        return self.electors is None or self.name in self.electors


#: In place of a node's name: figures of the whole cluster.
WHOLE = "*"


@dataclass(frozen=True)
class ProcessSpec:
    """A process that a cluster needs: its name, and what it is for."""

    name: str
    role: str = ""
    serves: bool = True  #: clients may ask it; the others are for the cluster's own use
    #: Processes with the same name here are on one machine and share the limits and the cores of one node; empty for
    #: a process that has limits of its own.
    shares: str = ""


@dataclass(frozen=True)
class Installation:
    """Where a store's software is on the node's host."""

    home: Path  #: its folder, or the program of stores that are one
    java: Path | None = None  #: the Java home, for stores that need one
    version: str = ""  #: what it is, of one that was there already
    #: Where the software of further stores is whose processes are among its own, by their kinds; see Store.parts.
    parts: Mapping[str, "Installation"] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """Software that was there already: the user's own installation, or what the system has."""

    version: str  #: with the name of one that only speaks the same protocol, such as `valkey 8.0.1`
    home: Path  #: as in Installation
    java: int | None = None  #: the least version of Java that runs it, for stores that need one
    java_most: int | None = None  #: the greatest, if there is one
    jdk: Path | None = None  #: the Java home that came along with it


@dataclass(frozen=True)
class NodePlan:
    """What makes a node: written into its folder and run there."""

    files: Mapping[str, str]  #: path inside the node's folder -> content
    #: To be there, and to be the server's, before it starts; `.` is the node's own. The server can write to no other.
    folders: tuple[str, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    facts: Mapping[str, Any]  #: what was decided on the way (heap, JVM options), for the manifest
    stop_signal: int = signal.SIGTERM  #: asks the server to stop, at once and with its data safe
    shared: tuple[str, ...] = ()  #: folders beside the nodes' own that they make, and that go with the last of them


@dataclass(frozen=True)
class Health:
    """A cluster's state in the words that all stores share. Counts are of pieces of data (shards, ranges, vnodes)."""

    ready: bool  #: every copy of every piece of data is in service
    status: str  #: in the store's own words, such as `green`
    nodes: int
    moving: int  #: pieces on their way to another node
    missing: int  #: what no node serves, or not yet; see `piece`
    #: The name of one of `missing`, and of several.
    piece: tuple[str, str] = ("copy of data", "copies of data")
    #: How many copies of how many pieces were declared, where copies are missing and the store says: (pieces, copies).
    declared: tuple[tuple[int, int], ...] = ()

    def unheld(self, nodes: int) -> int:
        """Return how many of the declared copies so many nodes cannot hold, since no node holds two of one piece."""
        return sum(pieces * max(copies - nodes, 0) for pieces, copies in self.declared)

    @property
    def balanced(self) -> bool:
        """Whether all data is where it should be and nothing moves."""
        return self.ready and self.moving == 0


@dataclass(frozen=True)
class Figure:
    """One of a store's statistics that people want to see while they watch it."""

    title: str
    metric: str  #: as `statistics` names it
    total: bool = False  #: it only grows, so its growth per second is shown
    size: bool = False  #: in bytes


@dataclass(frozen=True)
class Member:
    """A node that runs, as the store is told of it."""

    name: str
    address: str  #: host:port for clients
    peer_address: str | None = None  #: host:port for the other nodes
    folder: Path | None = None  #: on its machine, where loadframe started it; None elsewhere
    role: str = ""
    others: tuple["Member", ...] = ()  #: the other processes of the same node, where a node is several
    inside: tuple[str, ...] = ()  #: what to put before a command line that is to see the network as the node does
    call: Call = field(default=here, compare=False, repr=False)  #: reaches its machine, on which its folder is


@dataclass(frozen=True)
class Balancing:
    """How far a cluster is from having its data where it should be. `left` counts pieces or bytes, as `unit` says."""

    left: float
    unit: str  #: `shards`, `slots`, `bytes`, ...
    state: str = ""  #: in the store's own words
    warning: str = ""  #: what the user should know of the way in which the data lies now


#: Told how far a change of the cluster has come, every second or so. It raises LoadframeError when the change has taken
#: too long, or when a node has died: whoever waits for the store lets that pass through.
Watch = Callable[[Balancing], None]


class Unreachable(StoreFailed):
    """No address of a cluster answered."""


class Store(ABC):
    """One kind of data store. `addresses` are `host:port` for clients; the first that answers is asked."""

    kind: str
    family: str  #: stores that understand the same operations; the key of operation forms in workload files
    driver: str  #: the engine's driver that speaks its protocol
    refuses_root: bool = False  #: the server will not run as root
    own_user: bool = False  #: as root, the server runs as another user, unless the machine has no other
    knows_racks: bool = False  #: copies of data are kept on nodes of different racks, where nodes have them
    needs_account: bool = False  #: the server looks up the name of the user that it runs as
    versions: tuple[str, ...] = ()  #: those that can be had from the package registries, the default first
    offered: str = ""  #: which the vendor has for download beside them, in words; see offer
    own_address: bool = (
        False  #: all nodes use the same ports, each at an address of its own (127.0.0.1, 127.0.0.2, ...)
    )
    only_elsewhere: bool = False  #: its nodes are started by others, and reached by --hosts
    only_here: bool = False  #: its nodes run on this machine alone
    code: str = ""  #: identifies the user's file that defines the store; empty for those that Loadframe brings
    many_processes: bool = False  #: most of a node's work is done by processes below the one that is started
    ages: bool = False  #: a node gets faster for minutes after its start, so an old one is not equal to a new one
    #: s that a cluster's start and stop take about, on two cores: of one node, and of each further one.
    start_seconds: tuple[float, float] = (20.0, 5.0)
    #: The user that a cluster started here gets, with a password of its own; empty if the store does not authenticate.
    administrator: str = ""
    #: A command line that connects by hand, with {host}, {port} and {file}, the file with the password.
    console: str = ""
    watched: tuple[Figure, ...] = ()  #: what `loadframe watch` shows of each node, the most telling first
    joins_without_all: bool = False  #: a node can join while another one is gone
    oldest: tuple[int, ...] = ()  #: the oldest version that is spoken to; older ones may understand requests otherwise
    port: int | None = None  #: where clients find it if they are not told; None where an address must have one
    schemes: Mapping[str, bool | None] = {}  #: of its URLs, and whether they mean TLS; None for one that leaves it open
    extra_ports: int = 0  #: ports that a node needs beside the one for clients and the one for its peers

    def with_access(self, access: Access) -> "Store":
        """Return the store as it is talked to under that access; BadInput where its protocol has no such thing."""
        if access != OPEN:
            raise BadInput(f"{self.kind} cannot be reached with TLS or credentials", remedy="leave those options out")
        return self

    def announce_tls(self, connection: socket.socket) -> None:  # noqa: B027 - most begin with it
        """Say on a new connection that TLS is to begin; OSError where the other end refuses."""

    def installation(self, home: Path | None) -> Found | None:
        """Return what is at `home`, or without one what the PATH has; None without either for stores to be fetched.

        BadInput when `home` is not an installation of this kind, and when a store that cannot be fetched is missing.
        """
        if home is None:
            return None
        raise BadInput(f"{self.kind} cannot be started from an installation", remedy="leave --home out")

    def found_here(self) -> Found | None:
        """Return the installation that nodes run unless a version or a home is asked for; None without one."""
        try:
            return self.installation(None)
        except BadInput:
            return None

    @abstractmethod
    def distribution(self, version: str) -> Distribution:
        """Return what to fetch for a version; BadInput when that version cannot be had from the registries."""

    def offer(self, version: str) -> Offer | None:
        """Return what the vendor has for download of a version that the registries have not; None where it has nothing.

        BadInput for a version that is not named in full.
        """
        return None

    def software(self, version: str) -> dict[str, str]:
        """Return what runs at that version, as `version` tells it, for drivers whose protocol differs by version."""
        distribution, _, number = version.rpartition(" ")
        return {"distribution": distribution or self.kind, "version": number}

    def require_product(self, addresses: Sequence[str], version: str) -> None:
        """BadInput for a cluster of that version if it is another product, or too old to be spoken to.

        It is asked before anything is changed there. `version` is what `version` has returned.
        """
        numbers = tuple(int(part) for part in re.findall(r"\d+", version.rpartition(" ")[2])[: len(self.oldest)])
        if numbers and numbers < self.oldest:
            oldest = ".".join(map(str, self.oldest))
            raise BadInput(
                f"this is {self.kind} {version}, and the oldest version that loadframe speaks to is {oldest}",
                where=", ".join(addresses),
                remedy="upgrade it, or measure another cluster",
            )

    def silent(self, addresses: Sequence[str]) -> list[str]:
        """Return which of the addresses do not answer, one sentence each, where the load would not notice it."""
        return []

    def require_one_cluster(self, addresses: Sequence[str]) -> None:  # noqa: B027 - most find that out by themselves
        """BadInput for addresses that are not those of one cluster: each would be asked for data that another has."""

    def parts(self, settings: Mapping[str, Any]) -> Mapping[str, "Store"]:
        """Return further stores, by their kinds, whose software it needs to start processes of theirs among its own."""
        return {}

    def read_from(self, settings: Mapping[str, Any]) -> str | None:
        """Return which nodes load reads from, in the driver's words, where the settings of a cluster say it."""
        return None

    @abstractmethod
    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for a setting that loadframe itself must decide, such as a port or a data folder."""

    def require_machine(self, settings: Mapping[str, Any], memory: int | None) -> None:  # noqa: B027 - few look
        """Raise BadInput if this machine starts no node with these settings and this memory limit in bytes.

        It is asked on other machines than that of the command, before the software is copied to them.
        """

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Raise BadInput where a cluster of so many nodes cannot be started with that encryption.

        It is asked before the software is there, and again with it.
        """
        if encryption.any:
            raise BadInput(
                f"loadframe starts no {self.kind} with encryption",
                where=f"encryption: {encryption}",
                remedy="leave it out, or start the cluster yourself and give its --hosts with https://",
            )

    def node_processes(self, number: int, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the processes that make up the data-bearing node of that number; the first stands for all of them.

        Sizes of clusters and `Health.nodes` count such nodes.
        """
        return (ProcessSpec(f"node-{number}"),)

    def companions(self, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the processes beside the data-bearing nodes, such as routers, which stay as nodes come and go."""
        return ()

    def keeps_addresses(self, settings: Mapping[str, Any]) -> str | None:
        """Return why nodes have to get the addresses again that they had, in words; None where that does not matter."""
        return None

    def electors(self, nodes: int) -> int | None:
        """Return how many of that many nodes may be elected to lead the others; None where all may, or none leads."""
        return None

    def resign(self, addresses: Sequence[str], member: Member) -> None:  # noqa: B027 - most elect nobody
        """Have the cluster decide without a node, which is stopped then and comes back as one without a vote.

        `stay` undoes it, for the vote's name and not for the node.
        """

    @abstractmethod
    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the node's files, command line and environment."""

    @abstractmethod
    def version(self, addresses: Sequence[str]) -> str:
        """Return the version that the cluster runs; Unreachable when no address answers."""

    @abstractmethod
    def health(self, addresses: Sequence[str]) -> Health:
        """Return the cluster's state; Unreachable when no address answers."""

    def form(  # noqa: B027 - most need nothing
        self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch
    ) -> None:
        """Make a cluster of processes that were just started with empty folders, and may not answer yet.

        Some stores' nodes do so by themselves. `members` are all processes, companions last.
        """

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:  # noqa: B027 - most need nothing
        """Have processes that were started again find each other, perhaps at other addresses than before.

        Some may not answer yet. Most stores' nodes are told by their files where the others are.
        """

    def require_growing(self, addresses: Sequence[str]) -> None:  # noqa: B027 - most can
        """BadInput if the cluster cannot take a node in; it is asked before one is started."""

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Take a node that has started into the cluster; return when it is a member, with or without data.

        `addresses` are those of the nodes that were there before. Where nodes join by themselves this waits.
        """
        raise BadInput(f"clusters of {self.kind} cannot grow here", remedy="start one with more nodes")

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Have the data moved so that each node holds its share, and return when nothing moves any more."""
        raise BadInput(f"clusters of {self.kind} cannot be balanced here", remedy="start one with more nodes")

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Have a node's data moved to the others, and return when it can be stopped without loss.

        BadInput, with nothing changed, where the others cannot hold as many copies as asked for.
        """
        raise BadInput(f"clusters of {self.kind} cannot shrink here", remedy="start one with fewer nodes")

    def forget(self, addresses: Sequence[str], member: Member) -> None:  # noqa: B027 - some need nothing
        """Undo what `leave` has told the cluster of a node that is stopped by now, or that never got to be a member."""

    def stay(self, addresses: Sequence[str], member: Member) -> None:  # noqa: B027 - some cannot
        """Undo what a `leave` that was broken off has told the cluster of a node, which goes on as a member."""

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Change settings of a cluster that runs, on every member; BadInput where that takes a restart."""
        raise BadInput(
            f"settings of {self.kind} cannot be changed while it runs",
            remedy="start the cluster with them, under settings",
        )

    @abstractmethod
    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a collection and return when it can be written and read; `nodes` is the cluster's size."""

    @abstractmethod
    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether a collection is there."""

    @abstractmethod
    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Drop a collection with its data; one that is not there is as good as dropped."""

    @abstractmethod
    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of documents in a collection, those written a moment ago included."""

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return, for each field, how many documents of a collection have it, as `count` counts.

        BadInput where the store has no such question.
        """
        raise BadInput(f"{self.kind} does not count documents by their fields", remedy="count them by other means")

    @abstractmethod
    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return each node's figures by its name, or by its address where the store knows none; those that the store
        tells only of the cluster as a whole by `WHOLE`. Cheap enough for once a second."""
