"""Redis and Valkey: a node's files and command line from the software of this machine, collections, and the cluster.

How a cluster forms and how its slots move is in `cluster`.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.store import installed
from loadframe.store.access import OPEN, Access
from loadframe.store.base import (
    Figure,
    Found,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    Store,
    Unreachable,
    Watch,
)
from loadframe.store.distribution import Distribution
from loadframe.store.encryption import AUTHORITY, BUNDLE, Encryption
from loadframe.store.first_answer import first_answer
from loadframe.store.redis import cluster as ring
from loadframe.store.redis.client import USER, Client

#: The servers that are looked for, the first that is found is taken.
_PROGRAMS = ("redis-server", "valkey-server")
#: Settings that loadframe decides; `cluster` is its own.
_OURS = {"bind", "port", "dir", "cluster-enabled", "cluster-port", "cluster-config-file", "daemonize", "logfile"}
_OURS |= {"requirepass", "masterauth", "masteruser", "aclfile", "user", "unixsocket"}
_OURS |= {"tls-port", "tls-cluster", "tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients"}
_OWN = {"cluster"}
#: A hash with the definition of each collection, which the driver reads, too.
_COLLECTIONS = "loadframe:collections"
#: Of a node's memory limit, what the data may take; the rest is for buffers and for copies on write.
_SHARE = 0.75
#: The first version that has users.
_USERS_SINCE = 6
#: Where a node of a cluster keeps what it knows of the others.
_STATE = "nodes.conf"

#: Figures of INFO, by what they are called there.
_FIGURES = {
    "connected_clients": "clients",
    "blocked_clients": "blocked_clients",
    "used_memory": "memory_bytes",
    "used_memory_rss": "memory_rss_bytes",
    "mem_fragmentation_ratio": "memory_fragmentation",
    "total_commands_processed": "commands",
    "total_net_input_bytes": "received_bytes",
    "total_net_output_bytes": "sent_bytes",
    "keyspace_hits": "hits",
    "keyspace_misses": "misses",
    "expired_keys": "expired",
    "evicted_keys": "evicted",
    "total_error_replies": "errors",
    "used_cpu_user": "cpu_user_seconds",
    "used_cpu_sys": "cpu_system_seconds",
    "rdb_bgsave_in_progress": "saving",
    "aof_rewrite_in_progress": "rewriting",
    "aof_current_size": "log_bytes",
    "total_forks": "forks",
}


class Redis(Store):
    """Single servers, and clusters."""

    kind = "redis"
    port = 6379
    schemes: Mapping[str, bool | None] = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
    oldest = (4,)
    family = "redis"
    driver = "redis"
    start_seconds = (3.0, 0.5)
    own_user = True
    administrator = USER
    console = "REDISCLI_AUTH=$(cat {file}) redis-cli -c -h {host} -p {port}"
    watched = (
        Figure("commands/s", "commands", total=True),
        Figure("keys", "keys"),
        Figure("memory", "memory_bytes", size=True),
        Figure("clients", "clients"),
        Figure("slots", "slots"),
        Figure("evicted/s", "evicted", total=True),
    )

    def __init__(self, access: Access = OPEN) -> None:
        """Remember who asks, and how."""
        self._access = access
        #: A connection to each node for its figures, which are asked for every second.
        self._clients: dict[str, Client] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store as it is asked by TLS, as a user with a password, or both."""
        if access.auth is not None and access.auth.scheme != "basic":
            raise BadInput("redis knows users with passwords, and no keys or tokens", remedy="give --user")
        if access.compress:
            raise BadInput("requests to redis are not compressed", remedy="leave --compress out")
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Refuse: no registry has it."""
        raise BadInput(
            f"redis {version} cannot be had from the package registries".replace("  ", " "),
            remedy="install your system's redis-server or valkey-server, or give its folder with --home",
        )

    def installation(self, home: Path | None) -> Found:
        """Return the server of the installation, or else of the PATH."""
        server = installed.require_program(home, *_PROGRAMS)
        name = "valkey " if "valkey" in server.name else ""
        version = installed.program_version(server, r"v=(\d+(?:\.\d+)*)", "--version")
        if int(version.partition(".")[0]) < _USERS_SINCE:
            raise BadInput(
                f"redis {version} knows no users, and loadframe starts no server that it cannot log in to",
                where=str(server),
                remedy=f"install version {_USERS_SINCE} or newer, or start the cluster yourself and give its --hosts",
            )
        return Found(name + version, server)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are those of redis.conf, and `cluster`."""
        for key in settings:
            if key in _OURS:
                raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
        if not isinstance(settings.get("cluster", True), bool):
            raise BadInput("the setting cluster wants true or false", where=str(settings["cluster"]))

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """A cluster's nodes send each other keys where clients ask, so that both are encrypted or neither is."""
        if encryption is Encryption.TRANSPORT or (encryption is Encryption.HTTP and settings.get("cluster", nodes > 1)):
            raise BadInput(
                "the nodes of a redis cluster send each other keys through the port that clients ask",
                where=f"encryption: {encryption}",
                remedy="say none or both; a single server can have http as well",
            )

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Bind one address, write into the folder alone, and be a cluster's node unless the user wants none."""
        clustered = _clustered(node)
        lines: dict[str, Any] = {
            "bind": node.address,
            "port": node.port,
            "dir": node.folder / "data",
            "daemonize": False,
            "protected-mode": False,
            # Pauses by forked copies would be measured as the store's own; the log alone keeps the data.
            "save": '""',
            "appendonly": True,
            "appendfsync": "everysec",
            # A loadframe that looks away must not see its nodes declared dead and alive again.
            "cluster-node-timeout": 5000,
            # A slot without a node fails alone, as it does in the other stores.
            "cluster-require-full-coverage": False,
            # A node that gives its last slot away would fetch all data again, as another's replica.
            "cluster-allow-replica-migration": False,
        }
        if node.memory:
            lines["maxmemory"] = int(node.memory * _SHARE)
        lines |= {key: value for key, value in node.settings.items() if key not in _OWN}
        if clustered:
            lines |= {
                "cluster-enabled": True,
                "cluster-config-file": _STATE,
                "cluster-port": node.peer_port,
                "cluster-announce-ip": node.address,
            }
        else:
            lines = {key: value for key, value in lines.items() if not key.startswith("cluster-")}
        if node.certificates:
            lines |= {
                "port": 0,
                "tls-port": node.port,
                "tls-cert-file": node.folder / BUNDLE,
                "tls-key-file": node.folder / BUNDLE,
                "tls-ca-cert-file": node.folder / AUTHORITY,
                "tls-auth-clients": False,
                "tls-cluster": node.encryption.nodes,
            }
        # A replica logs in as any client does.
        lines |= {"requirepass": node.password, "masterauth": node.password}
        text = "".join(f"{key} {_said(value)}\n" for key, value in lines.items())
        return NodePlan(
            files={"config/redis.conf": text, **(node.certificates.files(bundled=True) if node.certificates else {})},
            folders=("data",),
            argv=(str(installation.home), str(node.folder / "config" / "redis.conf")),
            environment={},
            facts={"cluster_mode": clustered},
        )

    def client(self, address: str) -> Client:
        """Return a connection to one node."""
        if address not in self._clients:
            self._clients[address] = Client(address, self._access)
        return self._clients[address]

    def _first(self, addresses: Sequence[str]) -> tuple[str, dict[str, str]]:
        """Return the first address that answers, and what its INFO says; Unreachable when none does."""
        return first_answer(addresses, lambda address: (address, self.client(address).info()), Unreachable)

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, with the name of one that only speaks the same protocol."""
        _, info = self._first(addresses)
        if "valkey_version" in info:
            return f"valkey {info['valkey_version']}"
        return info["redis_version"]

    def _ring(self, addresses: Sequence[str]) -> ring.Ring | None:
        """Return the cluster as the first node that answers sees it; None of a single server."""
        address, info = self._first(addresses)
        return ring.Ring.read(self.client(address)) if _is_clustered(info) else None

    def health(self, addresses: Sequence[str]) -> Health:
        """Ready is that every slot is served, and that every node has every other for a member."""
        seen = self._ring(addresses)
        if seen is None:
            _, info = self._first(addresses)
            ready = info.get("loading", "0") == "0"
            return Health(ready=ready, status="ok" if ready else "loading", nodes=1, moving=0, missing=0)
        return ring.health(seen, self.client)

    def silent(self, addresses: Sequence[str]) -> list[str]:
        """Return those that do not answer: a load on a cluster goes to the nodes that the others know."""
        return [f"{address} does not answer" for address in addresses if self._clustered_at(address) is None]

    def require_one_cluster(self, addresses: Sequence[str]) -> None:
        """BadInput for single servers among others, and for nodes of several clusters; a silent one may be any."""
        clustered = {address: self._clustered_at(address) for address in addresses}
        alone = [address for address, is_clustered in clustered.items() if is_clustered is False]
        if alone and len(addresses) > 1:
            raise BadInput(
                "this is a single server, which shares no data with the others",
                where=", ".join(alone),
                remedy="name the nodes of one cluster, or one single server",
            )
        nodes = [address for address, is_clustered in clustered.items() if is_clustered]
        views = [ring.Ring.read(self.client(address)) for address in nodes]
        for address, view in zip(nodes[1:], views[1:], strict=True):
            if view.myself.id not in {node.id for node in views[0].nodes}:
                raise BadInput(
                    f"this node belongs to another cluster than {nodes[0]}",
                    where=address,
                    remedy="name the nodes of one cluster",
                )

    def _clustered_at(self, address: str) -> bool | None:
        """Whether the server there is a cluster's node; None if it does not answer."""
        try:
            return _is_clustered(self.client(address).info())
        except Unreachable:
            return None

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Set parameters of every node, by CONFIG SET."""
        for address in addresses:
            for name, value in settings.items():
                self.client(address).ask("CONFIG", "SET", name, str(value))

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Have the nodes meet, and give each its share of the slots."""
        if len(members) == 1 and not settings.get("cluster"):
            return
        if not settings.get("cluster", True):
            raise BadInput("several servers that are not a cluster share no data", remedy="leave cluster: false out")
        ring.form([self.client(member.address) for member in members], members, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Have nodes meet again, some of which may be at other addresses by now."""
        clients = [self.client(member.address) for member in members]
        ring.wait(clients, watch)
        if _is_clustered(clients[0].info()):
            ring.meet(clients, members, watch)

    def require_growing(self, addresses: Sequence[str]) -> None:
        """BadInput for a single server."""
        self._clustered_only(addresses)

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Have the node meet the others; it has no slots yet."""
        self._clustered_only(addresses)
        ring.join(ring.Ring.read(self.client(addresses[0])), member, self.client, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Move slots until each node has as many as any other, or one more."""
        if (seen := self._ring(addresses)) is not None:
            ring.balance(seen, self.client, watch)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Move the node's slots to the others, and have those forget it."""
        self._clustered_only(addresses)
        ring.leave(ring.Ring.read(self.client(addresses[0])), member, self.client, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Have every node forget one that is gone, before its word of mouth brings it back."""
        if (seen := self._ring(addresses)) is not None:
            ring.forget(seen, member, self.client)
        self._clients.pop(member.address, None)

    def _clustered_only(self, addresses: Sequence[str]) -> None:
        if self._ring(addresses) is None:
            raise BadInput(
                "a single redis server cannot grow or shrink", remedy="start it as a cluster, with --set cluster=true"
            )

    def _masters(self, addresses: Sequence[str]) -> list[Client]:
        """Return a connection to each node that holds data."""
        seen = self._ring(addresses)
        if seen is None:
            return [self.client(self._first(addresses)[0])]
        return [self.client(node.address) for node in seen.masters]

    def _registry(self, addresses: Sequence[str]) -> Client:
        """Return a connection to the node that keeps the list of collections."""
        seen = self._ring(addresses)
        return self.client(seen.serving(_COLLECTIONS) if seen else self._first(addresses)[0])

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Note the collection's definition: keys need no more."""
        if definition.get("index") and self._ring(addresses) is not None:
            definition = {**definition, "index": False}
        self._registry(addresses).ask("HSET", _COLLECTIONS, name, json.dumps(dict(definition)))

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether it was created."""
        return bool(self._registry(addresses).ask("HEXISTS", _COLLECTIONS, name))

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Remove all keys of the collection."""
        for master in self._masters(addresses):
            for keys in master.keys(name):
                # A command for each, since the keys of one command would have to share a slot.
                master.ask_all([("UNLINK", key) for key in keys])
        registry = self._registry(addresses)
        if registry.ask("HEXISTS", _COLLECTIONS, name):
            if self._ring(addresses) is None:
                registry.ask("UNLINK", name)
            registry.ask("HDEL", _COLLECTIONS, name)

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Count the collection's keys, each once."""
        return len({key for master in self._masters(addresses) for keys in master.keys(name) for key in keys})

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return each node's figures by its address; of a cluster, those of the nodes that answer."""
        first, info_of_first = self._first(addresses)
        seen = ring.Ring.read(self.client(first)) if _is_clustered(info_of_first) else None
        slots = {node.address: float(node.size) for node in seen.nodes} if seen else {}
        by_node = {}
        for address in slots or [first]:
            try:
                info = info_of_first if address == first else self.client(address).info()
            except Unreachable:
                continue
            figures = {name: float(info[key]) for key, name in _FIGURES.items() if key in info}
            # Such as `keys=12,expires=0,avg_ttl=0`, and nothing of a database that is empty.
            figures["keys"] = float(info.get("db0", "keys=0").partition(",")[0].removeprefix("keys="))
            if slots:
                figures["slots"] = slots[address]
            by_node[address] = figures
        return by_node


def _clustered(node: NodeSpec) -> bool:
    """Whether a node is a cluster's: it is said, or it is one of several, or joins some, or was one before."""
    if "cluster" in node.settings:
        return bool(node.settings["cluster"])
    data = node.folder / "data"
    return len(node.founders) > 1 or (not node.founders and ((data / _STATE).exists() or not data.exists()))


def _is_clustered(info: Mapping[str, str]) -> bool:
    return info.get("cluster_enabled") == "1"


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Path) and shlex.quote(str(value)) != str(value):
        return json.dumps(str(value), ensure_ascii=False)
    return str(value)


STORE = Redis()
