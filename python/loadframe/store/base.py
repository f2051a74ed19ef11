"""Interface of a store: how to start its nodes, and how to administer its cluster.

A store describes files, commands and requests. The cluster package starts processes and knows hosts.
"""

import contextlib
import difflib
import re
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.store.access import Access, Certificates, Encryption
from loadframe.store.distribution import Distribution, Offer
from loadframe.store.exploring import Findings, Kind, Question

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Call(Protocol):
    """Runs a function of this package on a node's machine, such as `Machine.call` of a host."""

    def __call__(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run the function with these arguments on the machine, and return its result; raise its LoadframeError here.

        Another exception becomes a LoadframeError, if the machine is not this one.
        """


def here(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call the function with these arguments in this process, and return its result."""
    return function(*args, **kwargs)


def nearest_first(word: str, known: Iterable[str]) -> str:
    """Return the valid words, separated by commas, in the order of their similarity to `word`, the best first."""
    return ", ".join(sorted(known, key=lambda it: difflib.SequenceMatcher(None, word, it).ratio(), reverse=True))


@dataclass(frozen=True)
class NodeSpec:
    """A node to start. The store derives files and a command line from it."""

    cluster: str
    name: str
    address: str  #: the only IP address that the node binds
    port: int  #: for clients
    peer_port: int  #: for the other nodes
    folder: Path  #: the node's folder; the node writes nowhere else
    peers: tuple[str, ...]  #: `address:peer_port` of all nodes of its role to contact, including this one
    #: Names of the nodes of its role that form a new cluster; empty for a node that joins or restarts.
    founders: tuple[str, ...]
    memory: int | None = None  #: memory limit in bytes
    cpus: float | None = None  #: CPU limit in cores
    settings: Mapping[str, Any] = field(default_factory=dict)  #: the user's settings; they override the store's
    role: str = ""  #: role of the process, in stores with several kinds of process; see Store.node_processes
    extra_ports: tuple[int, ...] = ()  #: `Store.extra_ports` further ports, free on 127.0.0.1
    rack: str = ""  #: rack of the node, in stores that place replicas by rack
    electors: tuple[str, ...] | None = None  #: names of the electable nodes, or None for all; see Store.electors

    encryption: Encryption = Encryption.NONE  #: which connections of the cluster use TLS
    certificates: Certificates | None = None  #: the node's certificate, if any connection uses TLS
    password: str = field(default="", repr=False)  #: password of the store's administrator; empty without one

    @property
    def elects(self) -> bool:
        """Whether the node can be elected and has a vote: `electors` is None or contains its name."""
        return self.electors is None or self.name in self.electors


#: Key for statistics of the whole cluster, where other keys are names of nodes.
WHOLE = "*"


@dataclass(frozen=True)
class ProcessSpec:
    """A process that a cluster needs: its name and its role."""

    name: str
    role: str = ""
    serves: bool = True  #: whether clients connect to it; other processes serve the cluster only
    #: Processes with the same name here run on one machine and share the limits and cores of one node.
    #: Empty for a process with separate limits.
    shares: str = ""


@dataclass(frozen=True)
class Installation:
    """Location of a store's software on a node's host."""

    home: Path  #: the installation's folder, or the executable for stores that consist of one
    java: Path | None = None  #: the Java home, for stores that need Java
    version: str = ""  #: version of software that Loadframe did not download
    #: Installations of further stores by kind, if this store starts processes of them; see Store.parts.
    parts: Mapping[str, "Installation"] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundInstallation:
    """An installation that already exists: the user's, or one on the PATH."""

    version: str  #: with the product's name if it only speaks the same protocol, such as `valkey 8.0.1`
    home: Path  #: as in Installation
    java: int | None = None  #: lowest Java version that runs it, for stores that need Java
    java_most: int | None = None  #: highest Java version, if limited
    jdk: Path | None = None  #: the bundled Java home


@dataclass(frozen=True)
class NodePlan:
    """Files, command line and environment of a node."""

    files: Mapping[str, str]  #: path inside the node's folder -> content
    #: Folders to create and to give to the server's user; `.` is the node's folder. The server can write to no other.
    folders: tuple[str, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    facts: Mapping[str, Any]  #: derived values for the manifest, such as heap size and JVM options
    stop_signal: int = signal.SIGTERM  #: signal that stops the server immediately without losing data
    #: Folders that several nodes share, next to the nodes' folders; removed with the last node.
    shared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Health:
    """State of a cluster, in terms common to all stores. Counts are of pieces of data: shards, ranges or vnodes."""

    ready: bool  #: all replicas of all pieces are in service
    status: str  #: in the store's terms, such as `green`
    nodes: int
    moving: int  #: pieces that are moving to another node
    missing: int  #: pieces or replicas that no node serves yet; `piece` names the unit
    #: Singular and plural of the unit of `missing`.
    piece: tuple[str, str] = ("copy of data", "copies of data")
    #: Declared replication as (pieces, copies of each), where copies are missing and the store reports it.
    declared: tuple[tuple[int, int], ...] = ()

    def unheld(self, nodes: int) -> int:
        """Return how many declared copies do not fit on `nodes` nodes, with one copy of a piece per node.

        `declared` are pairs (number of pieces, copies of each). 0 if it is empty.
        """
        return sum(pieces * max(copies - nodes, 0) for pieces, copies in self.declared)

    def serves_all(self, nodes: int) -> bool:
        """Return whether the cluster is ready, or lacks at most the declared copies that do not fit on `nodes` nodes.

        Only the numbers are compared. Without declared copies, the cluster must be ready.
        """
        return self.ready or bool(self.declared and self.missing <= self.unheld(nodes))

    @property
    def balanced(self) -> bool:
        """Whether all replicas of all pieces are in service and no piece is moving."""
        return self.ready and self.moving == 0


@dataclass(frozen=True)
class RunningSetting:
    """A setting of a running store."""

    value: str  #: the value in effect, in the store's notation
    #: The value that `configure` needs to restore it; None if it is not set and the default applies.
    explicit: Any


@dataclass(frozen=True)
class Figure:
    """A statistic that `loadframe watch` shows, or that `report --format statistics` exports."""

    title: str
    metric: str  #: name in `statistics`
    total: bool = False  #: a counter, shown as its rate per second
    size: bool = False  #: in bytes


@dataclass(frozen=True)
class Member:
    """A running node, as other parts of Loadframe describe it to the store."""

    name: str
    address: str  #: host:port for clients
    peer_address: str | None = None  #: host:port for the other nodes
    folder: Path | None = None  #: its folder on its machine, if Loadframe started it
    role: str = ""
    others: tuple["Member", ...] = ()  #: the other processes of a node that consists of several
    inside: tuple[str, ...] = ()  #: prefix of a command line that runs it in the node's network namespace
    call: Call = field(default=here, compare=False, repr=False)  #: runs a function on its machine


@dataclass(frozen=True)
class Sample:
    """Documents of a collection, and its definition as in a workload file."""

    documents: Sequence[Mapping[str, Any]]
    definition: Mapping[str, Any]
    key: str | None = None  #: field that identifies documents; None if the store creates ids


@dataclass(frozen=True)
class Balancing:
    """Progress of moving data between nodes. `unit` is the unit of `left`."""

    left: float
    unit: str  #: `shards`, `slots`, `bytes`, ...
    state: str = ""  #: in the store's terms
    warning: str = ""  #: a problem with the current placement of data, for the user


#: Receives the progress of a cluster change at each poll, several times a second. It raises LoadframeError when the
#: change has taken too long or a node has died; code that waits for a store must not catch that error.
Watch = Callable[[Balancing], None]


class Unreachable(StoreFailed):
    """No address of a cluster answered."""


#: Seconds between two checks of a condition.
_POLL = 0.1


def wait_until(met: Callable[[], bool], watch: Watch, progress: Balancing) -> None:
    """Poll `met` every 0.1 s until it returns True; call `watch(progress)` between polls. Unreachable counts as False.

    There is no time limit here: an error of `watch` ends the wait.
    """
    while True:
        with contextlib.suppress(Unreachable):
            if met():
                return
        watch(progress)
        time.sleep(_POLL)


class Store(ABC):
    """A kind of data store. `addresses` are `host:port` for clients; requests go to the first address that answers.

    Methods that send requests raise BadInput if access is denied, Unreachable if no address answers, and otherwise
    StoreFailed or another LoadframeError. `watch` gets the progress of waits, and may end them by an error.
    """

    kind: str
    family: str  #: stores with the same operations; the key of operation forms in workload files
    driver: str  #: the engine's driver for its protocol
    refuses_root: bool = False  #: the server does not run as root
    own_user: bool = False  #: a command run by root starts the server as another user if the machine has one
    knows_racks: bool = False  #: places copies of data on different racks
    needs_account: bool = False  #: the server needs an account entry for the user that it runs as
    versions: tuple[str, ...] = ()  #: versions in the package registries, the default first
    offered: str = ""  #: further versions that the vendor offers for download, as text; see offer
    own_address: bool = False  #: all nodes use the same ports, each on a separate address (127.0.0.1, 127.0.0.2, ...)
    speaks_http: bool = False  #: its administration is HTTP, so that proxies apply
    greeting: tuple[bytes, bytes] | None = None  #: first bytes of a client, and a pattern of the answer to them
    new_ids: bool = False  #: a `bulk` document without `id` gets a new one, not its key or number in the corpus
    blind_writes: bool = False  #: inserts and deletions succeed whether or not the document exists
    count_lag: float = 0.0  #: longest delay of `count` after acknowledged writes, s
    only_elsewhere: bool = False  #: Loadframe does not start its nodes; they are reached with --hosts
    only_here: bool = False  #: its nodes run only on this machine
    code: str = ""  #: identifies the user's file that defines the store; empty for Loadframe's stores
    many_processes: bool = False  #: child processes of the started process do most of a node's work
    ages: bool = False  #: a node gets faster for minutes after its start, so nodes of different age differ
    #: Typical start and stop time of a cluster on two cores, s: of the first node, and of each further node.
    start_seconds: tuple[float, float] = (20.0, 5.0)
    #: User of a cluster started here, with a generated password; empty if the store does not authenticate.
    administrator: str = ""
    #: Command line for an interactive session, with {host}, {port} and {file}, the password's file.
    console: str = ""
    explores: bool = False  #: answers questions about documents
    watched: tuple[Figure, ...] = ()  #: statistics that `loadframe watch` shows of each node, most important first
    #: Columns of `report --format statistics`, in the order and with the names of the store's own tool.
    exported: tuple[Figure, ...] = ()
    maker: tuple[str, str, str] = ("", "", "")  #: author, web address and product name for references in papers
    loses_settings: bool = False  #: a node loses settings of `configure` when it ends, and accepts them as `settings`
    forgets_settings: bool = False  #: a node that starts may lack settings of `configure`
    joins_without_all: bool = False  #: a node can join while another node is down
    oldest: tuple[int, ...] = ()  #: oldest supported version
    port: int | None = None  #: default port for clients; None if an address must include a port
    schemes: Mapping[str, bool | None] = {}  #: URL schemes, and whether they mean TLS; None if they do not say
    extra_ports: int = 0  #: ports that a node needs besides its client and peer ports

    def with_access(self, access: Access) -> "Store":
        """Return the store with TLS, credentials and compression as in `access`; BadInput without support for them.

        By default nothing is supported.
        """
        if not access.is_plain:
            raise BadInput(f"{self.kind} does not support TLS or credentials", remedy="leave those options out")
        return self

    def _require_user_login(self, access: Access) -> None:
        """Raise BadInput for credentials other than a user with a password, and for compression."""
        if access.auth is not None and access.auth.scheme == "aws":
            raise BadInput(
                f"{self.kind} does not support AWS signatures, which sign HTTP requests",
                remedy="leave --aws-service, --aws-region and --aws-profile out, and give --user",
            )
        if access.auth is not None and access.auth.scheme != "basic":
            raise BadInput(f"{self.kind} does not support API keys or tokens", remedy="give --user")
        if access.compress:
            raise BadInput(f"Loadframe does not compress requests to {self.kind}", remedy="leave --compress out")

    def announce_tls(self, connection: socket.socket) -> None:  # noqa: B027 - most protocols need nothing
        """Ask the server on a new connection to start TLS; OSError if it refuses. The default sends nothing."""

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return the installation at `home`, or the one on the PATH; None if the store has to be downloaded.

        BadInput if `home` is not an installation of this kind, or if the store is missing and cannot be downloaded. By
        default None without `home`, else BadInput.
        """
        if home is None:
            return None
        raise BadInput(f"{self.kind} cannot be started from an installation", remedy="leave --home out")

    def found_here(self) -> FoundInstallation | None:
        """Return the installation that nodes use unless the user names a version or a home.

        Return None if the store has to be downloaded, or cannot be started at all.
        """
        try:
            return self.installation(None)
        except BadInput:
            return None

    @property
    def hidden(self) -> list[str]:
        """Names of the statistics that the service has refused to show so far. The default is an empty list."""
        return []

    @abstractmethod
    def distribution(self, version: str) -> Distribution:
        """Return the packages of a version; BadInput if the package registries do not have it."""

    def offer(self, version: str) -> Offer | None:
        """Return the vendor's download of a version that the package registries lack, or None if the vendor has none.

        BadInput for an incomplete version number. By default None.
        """
        return None

    def software(self, version: str) -> dict[str, str]:
        """Split a result of `version` into `distribution` (the product) and `version`, for drivers that need them.

        `valkey 8.0.1` becomes valkey and 8.0.1. Without a product's name, the product is the kind.
        """
        distribution, _, number = version.rpartition(" ")
        return {"distribution": distribution or self.kind, "version": number}

    def require_product(self, addresses: Sequence[str], version: str) -> None:
        """Raise BadInput if a cluster runs a version below `oldest`, or in some stores another product.

        `version` is the result of `version()`. Callers check this before they change the cluster. A version without
        numbers is accepted.
        """
        numbers = tuple(int(part) for part in re.findall(r"\d+", version.rpartition(" ")[2])[: len(self.oldest)])
        if numbers and numbers < self.oldest:
            oldest = ".".join(map(str, self.oldest))
            raise BadInput(
                f"{self.kind} {version} is too old; the oldest version that Loadframe supports is {oldest}",
                where=", ".join(addresses),
                remedy="upgrade it, or measure another cluster",
            )

    def silent(self, addresses: Sequence[str]) -> list[str]:
        """Return a text, such as `10.0.0.1:80 does not answer`, for each silent address, if the driver ignores those.

        By default empty.
        """
        return []

    def require_one_cluster(self, addresses: Sequence[str]) -> None:  # noqa: B027 - most clients notice
        """Raise BadInput if the addresses belong to several clusters. The default checks nothing."""

    def parts(self, settings: Mapping[str, Any]) -> Mapping[str, "Store"]:
        """Return further stores by kind: this store starts processes of them, too. By default none."""
        return {}

    def read_from(self, settings: Mapping[str, Any]) -> str | None:
        """Return the servers that serve reads, in the driver's terms, such as `replica`, or None if not set.

        By default None.
        """
        return None

    @abstractmethod
    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for a setting of a new cluster that is invalid, or that Loadframe controls, such as a port."""

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return the settings that decide when a write is acknowledged, with values, as text; empty if unknown."""
        return ""

    def removes_documents(self, definition: Mapping[str, Any]) -> str | None:
        """Return why the store removes documents of a collection without a deletion; None if it keeps them."""
        return None

    def reaches_all(self, addresses: Sequence[str], nodes: int) -> bool:
        """Return whether requests to these addresses reach all `nodes` of a cluster that Loadframe did not start.

        By default, whether there are at least `nodes` addresses, since an address reaches one node.
        """
        return len(addresses) >= nodes

    def evictions(self, addresses: Sequence[str]) -> dict[str, int]:
        """Return how many documents each node has evicted for lack of memory since it started, by address.

        Empty if the store evicts none.
        """
        return {}

    def indexed(self, addresses: Sequence[str]) -> set[str]:
        """Return the collections that have an index which the store can lose without an error. By default none."""
        return set()

    def shard_settings(self, routers: int | None, config_servers: int | None) -> dict[str, Any]:
        """Return settings of a sharded cluster with these numbers of routers and config servers (None: default).

        BadInput, as by default, in stores without routers.
        """
        raise BadInput(f"{self.kind} does not use routers or config servers", remedy="give --nodes only")

    def require_machine(  # noqa: B027 - few check
        self, settings: Mapping[str, Any], memory: int | None, address: str
    ) -> None:
        """Raise BadInput if this machine cannot run a node with these settings and this memory limit in bytes.

        The limit is None without one. The node binds `address`, an IP address. It runs on the nodes' machines, before
        the software is copied to them.
        """

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Raise BadInput if a cluster of `nodes` nodes cannot start with this encryption; by default, with any.

        It is called twice: before the software is available, and with its installation.
        """
        if encryption.any:
            raise BadInput(
                f"Loadframe cannot start {self.kind} with encryption",
                where=f"encryption: {encryption}",
                remedy="leave it out, or start the cluster yourself and name it with --hosts https://...",
            )

    def node_processes(self, number: int, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the processes of data-bearing node `number`, from 0; the first process represents the node.

        Cluster sizes and `Health.nodes` count data-bearing nodes.
        """
        return (ProcessSpec(f"node-{number}"),)

    def without_effect(self, settings: Mapping[str, Any]) -> list[str]:
        """Return the names of valid settings that have no effect beside the others. By default empty."""
        return []

    def companions(self, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the processes of a cluster besides its nodes, such as routers; they stay when nodes join or leave.

        By default none.
        """
        return ()

    def keeps_addresses(self, settings: Mapping[str, Any]) -> str | None:
        """Return why restarted nodes need their earlier addresses, as text for the user; None if they do not."""
        return None

    def electors(self, nodes: int) -> int | None:
        """Return how many of `nodes` nodes are electable, or None if all are or the store has no elections."""
        return None

    def resign(self, addresses: Sequence[str], member: Member) -> None:  # noqa: B027 - most do not elect
        """Exclude a node from elections, before it is restarted as one that is not electable. By default, do nothing.

        After the restart, `stay` ends the exclusion, which is by the node's name.
        """

    @abstractmethod
    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the node's files, command line and environment; BadInput if the installation cannot run it."""

    @abstractmethod
    def version(self, addresses: Sequence[str]) -> str:
        """Return the version that the cluster runs, with the product's name before it if that differs from the kind.

        Unreachable if no address answers.
        """

    @abstractmethod
    def health(self, addresses: Sequence[str]) -> Health:
        """Return the cluster's state, from the first address that answers; Unreachable if none answers."""

    def form(  # noqa: B027 - most need nothing
        self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch
    ) -> None:
        """Form a cluster of newly started processes with empty folders. Some may not answer yet.

        `members` are all processes, companions last; `settings` are the user's. It does nothing where nodes form the
        cluster automatically. `watch` gets the progress, and may end the wait by an error.
        """

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:  # noqa: B027 - most need nothing
        """Reconnect restarted processes, some at new addresses. Some may not answer yet.

        `members` are all processes. It does nothing where nodes find each other through their files.
        """

    def require_growing(self, addresses: Sequence[str]) -> None:  # noqa: B027 - most can
        """Raise BadInput if the cluster cannot accept a node. The default checks nothing.

        Called before a node is started.
        """

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Add a started node to the cluster, and return when it is a member; its data may move later.

        `addresses` belong to the existing nodes. Where nodes join automatically, this only waits. BadInput if
        unsupported.
        """
        raise BadInput(f"Loadframe cannot add nodes to {self.kind}", remedy="start a cluster with more nodes")

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Spread the data evenly over the nodes, and return when nothing moves any more; BadInput if unsupported."""
        raise BadInput(f"Loadframe cannot balance {self.kind}", remedy="start a cluster with more nodes")

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Move a node's data to the others, and return when the node can be stopped without loss.

        BadInput before any change if the remaining nodes cannot hold all replicas. By default BadInput, always.
        """
        raise BadInput(f"Loadframe cannot remove nodes from {self.kind}", remedy="start a cluster with fewer nodes")

    def forget(self, addresses: Sequence[str], member: Member) -> None:  # noqa: B027 - some need nothing
        """Remove the traces of `leave` for a stopped node, or of a node that failed to join; by default, do nothing."""

    def stay(self, addresses: Sequence[str], member: Member) -> None:  # noqa: B027 - some cannot
        """Cancel an interrupted `leave`: the node remains a member. The default does nothing."""

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Change settings of a running cluster on every running member; BadInput if a setting needs a restart.

        None resets a setting to its default, in stores whose `running_settings` return None as explicit value. By
        default BadInput, always.
        """
        raise BadInput(
            f"settings of {self.kind} cannot be changed while it runs",
            remedy="start the cluster with them, under settings",
        )

    def running_settings(self, addresses: Sequence[str], names: Sequence[str]) -> dict[str, RunningSetting]:
        """Return the value in effect and the explicit value of settings of a running cluster, by name.

        BadInput for an unknown setting, or if members differ. By default BadInput, always.
        """
        raise BadInput(
            f"Loadframe cannot set and read the settings of a running {self.kind}",
            remedy="leave the settings out, use collections.NAME.KEY as a factor, or let Loadframe start the cluster",
        )

    def require_running_setting(self, name: str) -> None:
        """Raise BadInput, without a connection, for a setting that no running cluster of this kind can change.

        By default that is every setting in stores without `running_settings`, and none in others.
        """
        if type(self).running_settings is Store.running_settings:
            self.running_settings((), [name])

    def begin_run(self, addresses: Sequence[str], seed: str) -> None:  # noqa: B027 - only simulations draw
        """Draw the random numbers of a simulated store from `seed` from now on; do nothing for other stores."""

    @abstractmethod
    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a collection and wait until it accepts writes and reads.

        `definition` is its part for this store in the workload file; `nodes` is the cluster's size.
        """

    @abstractmethod
    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether a collection exists."""

    @abstractmethod
    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Drop a collection with its data; do nothing if it does not exist."""

    @abstractmethod
    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of documents in a collection, including the latest writes."""

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return for each field how many documents of a collection have it, including the latest writes.

        BadInput if the store cannot count by field, as by default.
        """
        raise BadInput(f"Loadframe cannot count documents of {self.kind} by field", remedy="count them by other means")

    def require_explored(self) -> None:
        """Raise BadInput unless the store answers questions about documents."""
        if not self.explores:
            raise self._not_explored()

    def _not_explored(self) -> BadInput:
        """Return the BadInput for a store that does not answer questions about documents."""
        return BadInput(
            f"Loadframe cannot explore the documents of {self.kind}",
            remedy="explore OpenSearch or Elasticsearch, or a run folder",
        )

    def collections(self, addresses: Sequence[str]) -> list[str]:
        """Return the names of all collections; BadInput in stores that do not answer questions about documents."""
        raise self._not_explored()

    def fields(self, addresses: Sequence[str], name: str) -> dict[str, Kind]:
        """Return the use of each field that questions can name (time, number or keyword) by the field's name.

        BadInput for an unknown collection, and in stores that do not answer questions about documents.
        """
        raise self._not_explored()

    def explore(self, addresses: Sequence[str], question: Question) -> Findings:
        """Answer a question about documents, by reading only.

        BadInput for unknown names, and in stores that do not answer questions about documents.
        """
        raise self._not_explored()

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` random documents of a collection.

        BadInput if it does not exist; by default always. `database` is the database or keyspace; default: the one of
        Loadframe's collections.
        """
        raise BadInput(f"Loadframe cannot sample {self.kind}", remedy="export the documents to a file")

    def _refuse_database(self, database: str | None) -> None:
        """Raise BadInput for a database, in stores without databases."""
        if database is not None:
            raise BadInput(f"{self.kind} does not have databases", remedy="leave --database out")

    @abstractmethod
    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return statistics by node: its name, or its address if it has none. `WHOLE` holds the cluster's statistics.

        Cheap enough to call once a second.
        """


_EVERY_DAY = "-*"
_DAY = r"-\d{4}\.\d\d\.\d\d"


def daily_collections(name: str, known: Iterable[str], *, dotted: bool = True) -> list[str]:
    """Return the days of `ads-*` among the `known` collections, in their order; return a name without `-*` alone.

    A day of `ads-*` is called `ads-2017.03.01`, or `ads_2017_03_01` if not `dotted`. A name without `-*` need not be
    known.
    """
    if not name.endswith(_EVERY_DAY):
        return [name]
    day = _DAY if dotted else r"_\d{4}_\d\d_\d\d"
    daily = re.compile(re.escape(name.removesuffix(_EVERY_DAY)) + day)
    return [other for other in known if daily.fullmatch(other)]


def daily_families(known: Iterable[str]) -> list[str]:
    """Return, sorted and without repeats, `ads-*` for known daily collections such as `ads-2017.03.01`."""
    daily = re.compile(f"(.+){_DAY}")
    matches = filter(None, map(daily.fullmatch, known))
    return sorted({f"{match[1]}{_EVERY_DAY}" for match in matches})
