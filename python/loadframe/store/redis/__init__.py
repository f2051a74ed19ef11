"""Redis and Valkey: files and command lines of nodes, collections, and cluster operations (see `cluster`)."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.store import distribution
from loadframe.store.access import AUTHORITY, BUNDLE, OPEN, Access, Encryption, first_answer
from loadframe.store.base import (
    Figure,
    FoundInstallation,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    RunningSetting,
    Sample,
    Store,
    Unreachable,
    Watch,
)
from loadframe.store.distribution import Distribution
from loadframe.store.redis import cluster as ring
from loadframe.store.redis.client import USER, Client, sampled_values

#: Names of the server's executable, in order of preference.
_PROGRAMS = ("redis-server", "valkey-server")
#: Settings that Loadframe controls. `cluster` is a setting of Loadframe, not of the server.
_OURS = {"bind", "port", "dir", "cluster-enabled", "cluster-port", "cluster-config-file", "daemonize", "logfile"}
_OURS |= {"requirepass", "masterauth", "masteruser", "aclfile", "user", "unixsocket"}
_OURS |= {"tls-port", "tls-cluster", "tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients"}
_OWN = {"cluster"}
#: Parameters with several values in a line of redis.conf, and how many form a group; 0 if all do.
_SEVERAL = {"save": 2, "client-output-buffer-limit": 4, "oom-score-adj-values": 0}
_SEVERAL |= dict.fromkeys(("latency-tracking-info-percentiles", "loadmodule", "rename-command"), 0)
_SEVERAL |= dict.fromkeys(("replicaof", "slaveof"), 0)
#: An argument that redis.conf needs no quotes for.
_PLAIN = re.compile(r"[^\s\"'\\\x00-\x1f\x7f]+")
#: Log of writes. A crash of the machine loses at most the writes of two seconds.
_DURABLE = {"appendonly": True, "appendfsync": "everysec"}
#: A hash with the definitions of all collections, which the driver also reads.
_COLLECTIONS = "loadframe:collections"
#: Share of a node's memory limit for data; the rest is for buffers and copy-on-write.
_SHARE = 0.75
#: The first major version with users.
_USERS_SINCE = 6
#: File with a node's cluster state.
_STATE = "nodes.conf"

#: Fields of INFO -> our names of statistics.
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
    """Redis and Valkey, as single servers and clusters.

    Methods that send commands raise the errors of `Client.ask`. `watch` gets the progress of waits, and may end them by
    an error.
    """

    kind = "redis"
    maker = ("Redis Ltd.", "https://redis.io", "Redis")
    greeting = (b"PING\r\n", rb"[+-][A-Z]+")
    port = 6379
    schemes: Mapping[str, bool | None] = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
    oldest = (4,)
    family = "redis"
    driver = "redis"
    start_seconds = (3.0, 0.5)
    own_user = True
    loses_settings = True
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
        """Store TLS and credentials; clients connect on first use."""
        self._access = access
        #: Open connections by node, for statistics every second.
        self._clients: dict[str, Client] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store with TLS, a user with a password, or both; BadInput for other credentials."""
        self._require_user_login(access)
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Raise BadInput: the package registries do not have Redis."""
        raise BadInput(
            f"redis {version} is not in the package registries".replace("  ", " "),
            remedy="install your system's redis-server or valkey-server, or give its folder with --home",
        )

    def installation(self, home: Path | None) -> FoundInstallation:
        """Return the server in `home`, or the one on the PATH if `home` is None; BadInput if too old or missing."""
        server = distribution.require_program(home, *_PROGRAMS)
        name = "valkey " if "valkey" in server.name else ""
        version = distribution.program_version(server, r"v=(\d+(?:\.\d+)*)", "--version")
        if int(version.partition(".")[0]) < _USERS_SINCE:
            raise BadInput(
                f"redis {version} is too old: it does not have users, so Loadframe could not log in",
                where=str(server),
                remedy=f"install version {_USERS_SINCE} or newer, or start the cluster yourself and give its --hosts",
            )
        return FoundInstallation(name + version, server)

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return `appendonly` and (if the log is on) `appendfsync`, from the settings or by default, as text."""
        given = {key.lower(): value for key, value in settings.items()}
        values = {key: _setting(given.get(key, value)) for key, value in _DURABLE.items()}
        logs = values["appendonly"] != "no"
        return ", ".join(f"{key} {value}" for key, value in values.items() if logs or key == "appendonly")

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for settings that Loadframe controls, and a value of `cluster` other than True or False."""
        for key in settings:
            if key.lower() in _OURS:
                raise BadInput(f"the setting {key} is controlled by Loadframe", remedy="leave it out")
        if not isinstance(settings.get("cluster", True), bool):
            raise BadInput("the setting cluster must be true or false", where=str(settings["cluster"]))

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Raise BadInput for `transport` alone, and in a cluster for `http` alone.

        Nodes of a cluster send keys to the port for clients.
        """
        if encryption is Encryption.TRANSPORT or (encryption is Encryption.HTTP and settings.get("cluster", nodes > 1)):
            raise BadInput(
                "the nodes of a redis cluster send keys to each other through the client port",
                where=f"encryption: {encryption}",
                remedy="use none or both; a single server also supports http",
            )

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of a server that binds one address and writes only into its folder.

        For cluster mode see `_clustered`. Data may take 75 % of the memory limit, unless the settings have `maxmemory`.
        """
        clustered = _clustered(node)
        lines: dict[str, Any] = {
            "bind": node.address,
            "port": node.port,
            "dir": node.folder / "data",
            "daemonize": False,
            "protected-mode": False,
            # Snapshots fork, and their pauses would be measured; the log suffices to keep the data.
            "save": "",
            **_DURABLE,
            # Long enough that a paused node is not declared failed and then alive again.
            "cluster-node-timeout": 5000,
            # A missing slot fails only its own requests, as in the other stores.
            "cluster-require-full-coverage": False,
            # Otherwise a node without slots would become a replica and copy all data back.
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
        # A replica logs in as clients do.
        lines |= {"requirepass": node.password, "masterauth": node.password}
        text = "".join(line for key, value in lines.items() for line in _config_lines(key, value))
        return NodePlan(
            files={"config/redis.conf": text, **(node.certificates.files(bundled=True) if node.certificates else {})},
            folders=("data",),
            argv=(str(installation.home), str(node.folder / "config" / "redis.conf")),
            environment={},
            facts={"cluster_mode": clustered},
        )

    def client(self, address: str) -> Client:
        """Return the client of a node, always the same for an address; it connects on first use."""
        if address not in self._clients:
            self._clients[address] = Client(address, self._access)
        return self._clients[address]

    def _first(self, addresses: Sequence[str]) -> tuple[str, dict[str, str]]:
        """Return the first address that answers, with its INFO; Unreachable if none answers."""
        return first_answer(addresses, lambda address: (address, self.client(address).info()), Unreachable)

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, preceded by `valkey` for Valkey."""
        _, info = self._first(addresses)
        if "valkey_version" in info:
            return f"valkey {info['valkey_version']}"
        return info["redis_version"]

    def _ring(self, addresses: Sequence[str]) -> ring.Ring | None:
        """Return the cluster as the first node that answers reports it, or None for a single server.

        Unreachable if none answers.
        """
        address, info = self._first(addresses)
        return ring.Ring.read(self.client(address)) if _is_clustered(info) else None

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if all nodes are reachable and serve all slots; missing and moving pieces are slots.

        A single server is ready once it has read its data.
        """
        seen = self._ring(addresses)
        if seen is None:
            _, info = self._first(addresses)
            ready = info.get("loading", "0") == "0"
            return Health(ready=ready, status="ok" if ready else "loading", nodes=1, moving=0, missing=0)
        return ring.health(seen, self.client)

    def silent(self, addresses: Sequence[str]) -> list[str]:
        """Return a text, `HOST:PORT does not answer`, for each silent address; load would use the others unnoticed."""
        return [f"{address} does not answer" for address in addresses if self._clustered_at(address) is None]

    def require_one_cluster(self, addresses: Sequence[str]) -> None:
        """Raise BadInput for a single server among several addresses, and for nodes of different clusters.

        Servers that do not answer are not checked, but count as addresses.
        """
        clustered = {address: self._clustered_at(address) for address in addresses}
        alone = [address for address, is_clustered in clustered.items() if is_clustered is False]
        if alone and len(addresses) > 1:
            raise BadInput(
                "this is a single server, which shares no data with the other hosts",
                where=", ".join(alone),
                remedy="name the nodes of one cluster, or one single server",
            )
        nodes = [address for address, is_clustered in clustered.items() if is_clustered]
        views = [ring.Ring.read(self.client(address)) for address in nodes]
        for address, view in zip(nodes[1:], views[1:], strict=True):
            if view.myself.id not in {node.id for node in views[0].nodes}:
                raise BadInput(
                    f"this node and {nodes[0]} belong to different clusters",
                    where=address,
                    remedy="name the nodes of one cluster",
                )

    def _clustered_at(self, address: str) -> bool | None:
        """Return whether the server is a node of a cluster; None if it does not answer."""
        try:
            return _is_clustered(self.client(address).info())
        except Unreachable:
            return None

    def reaches_all(self, addresses: Sequence[str], nodes: int) -> bool:
        """Return True: the driver finds the other nodes."""
        return True

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Set parameters with CONFIG SET on every running node.

        StoreFailed if a node refuses one; nodes before it keep the change. BadInput for settings that `check_settings`
        refuses, and for memory settings with which the server could evict an existing index.
        """
        self.check_settings(settings)
        memory = {key.lower().replace("-", "_"): value for key, value in settings.items()}
        if memory.keys() & {"maxmemory", "maxmemory_policy"} and self.indexed(addresses):
            _, info = self._first(addresses)
            self._refuse_eviction({**info, **memory})
        for node in self._every(addresses):
            for name, value in settings.items():
                node.ask("CONFIG", "SET", name, _setting(value))

    def running_settings(self, addresses: Sequence[str], names: Sequence[str]) -> dict[str, RunningSetting]:
        """Return parameters by name, from CONFIG GET; BadInput for an unknown one, or if nodes differ.

        The explicit value is the value in effect.
        """
        settings = {}
        for name in names:
            values = []
            for node in self._every(addresses):
                words = [str(word) for word in node.ask("CONFIG", "GET", name)]
                # CONFIG GET takes a pattern, such as `*`, and can answer with other parameters.
                known = {key.lower(): value for key, value in zip(words[::2], words[1::2], strict=True)}
                if name.lower() not in known:
                    raise BadInput(
                        f"the server does not have the parameter {name}", remedy="see `redis-cli config get '*'`"
                    )
                values.append(known[name.lower()])
            if any(value != values[0] for value in values):
                raise BadInput(
                    f"the nodes have different values of {name}", remedy="set the same value on all nodes first"
                )
            settings[name] = RunningSetting(values[0], values[0])
        return settings

    @staticmethod
    def _refuse_eviction(values: Mapping[str, Any]) -> None:
        """Raise BadInput if `maxmemory` is set and `maxmemory_policy` is `allkeys-...`, which can evict an index.

        `values` are these fields, as in INFO.
        """
        policy = str(values.get("maxmemory_policy", ""))
        if policy.lower().startswith("allkeys-") and re.match("0*[1-9]", str(values.get("maxmemory", 0))):
            raise BadInput(
                f"maxmemory-policy {policy} can evict the index of a collection, and its definition",
                remedy="define the collection without index: true (ycsb: redis_index=false), or use the policy"
                " noeviction or volatile-*",
            )

    def _every(self, addresses: Sequence[str]) -> list[Client]:
        """Return the clients of all running nodes of the cluster, or of the addresses of single servers.

        The first node that answers lists the nodes. Left out are nodes that refuse connections, and nodes at other
        addresses that the cluster counts as failed. Unreachable if a node does not answer otherwise.
        """
        seen = self._ring(addresses)
        if seen is None:
            return [self.client(address) for address in addresses]
        # A paused node can count as failed, too, and continues later.
        nodes = [node for node in seen.nodes if node.address in addresses or not node.flags & ring.ABSENT]
        return [client for client in (self.client(node.address) for node in nodes) if client.running()]

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Assign slots to the nodes, and introduce them to each other; do nothing for a single server.

        BadInput for several nodes with `cluster: false`.
        """
        if len(members) == 1 and not settings.get("cluster"):
            return
        if not settings.get("cluster", True):
            raise BadInput("several servers without a cluster share no data", remedy="leave cluster: false out")
        ring.form([self.client(member.address) for member in members], members, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Wait for restarted nodes. In a cluster, also introduce them to each other at their current addresses."""
        clients = [self.client(member.address) for member in members]
        ring.wait(clients, watch)
        if _is_clustered(clients[0].info()):
            ring.meet(clients, members, watch)

    def require_growing(self, addresses: Sequence[str]) -> None:
        """Raise BadInput for a single server, which cannot grow or shrink."""
        self._clustered_only(addresses)

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Introduce the node to the others, without slots, and wait until all know it and consider the cluster ok.

        BadInput for a single server.
        """
        ring.join(self._clustered_only(addresses), member, self.client, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Move slots until nodes differ by one slot at most; do nothing for a single server.

        `watch` gets the slots left.
        """
        if (seen := self._ring(addresses)) is not None:
            ring.balance(seen, self.client, watch)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Move the node's slots to the others; BadInput for a single server or the last node.

        It stays a member until `forget`.
        """
        ring.leave(self._clustered_only(addresses), member, self.client, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Make every reachable node forget a removed node, before gossip announces it again; drop its client here."""
        if (seen := self._ring(addresses)) is not None:
            ring.forget(seen, member, self.client)
        self._clients.pop(member.address, None)

    def _clustered_only(self, addresses: Sequence[str]) -> ring.Ring:
        """Return the cluster as `_ring` does; BadInput for a single server, which cannot grow or shrink."""
        seen = self._ring(addresses)
        if seen is None:
            raise BadInput(
                "a single redis server cannot grow or shrink",
                remedy="start it as a cluster, with the setting cluster=true",
            )
        return seen

    def _masters(self, addresses: Sequence[str]) -> list[Client]:
        """Return a client for each master of the cluster, or one for the first single server that answers."""
        seen = self._ring(addresses)
        if seen is None:
            return [self.client(self._first(addresses)[0])]
        return [self.client(node.address) for node in seen.masters]

    def _registry(self, addresses: Sequence[str]) -> Client:
        """Return the client of the server that stores the definitions of collections.

        In a cluster, it owns the slot of their key; else it is the first address that answers. Unreachable if none
        answers, StoreFailed if no node serves the slot.
        """
        seen = self._ring(addresses)
        return self.client(seen.serving(_COLLECTIONS) if seen else self._first(addresses)[0])

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Store the collection's definition, in place of an earlier one; keys need no preparation.

        In a cluster, `index` becomes False: only a single server indexes documents. BadInput if that server could evict
        the index.
        """
        if definition.get("index"):
            _, info = self._first(addresses)
            if _is_clustered(info):
                definition = {**definition, "index": False}
            else:
                self._refuse_eviction(info)
        self._registry(addresses).ask("HSET", _COLLECTIONS, name, json.dumps(dict(definition)))

    def indexed(self, addresses: Sequence[str]) -> set[str]:
        """Return the collections defined with `index: true` that have their index (a key NAME), or have no documents.

        Empty in a cluster.
        """
        address, info = self._first(addresses)
        if _is_clustered(info):
            return set()
        server = self.client(address)
        words = server.ask("HGETALL", _COLLECTIONS)
        defined = {name for name, text in zip(words[::2], words[1::2], strict=True) if json.loads(text).get("index")}
        return {name for name in defined if server.ask("EXISTS", name) or not any(server.keys(name))}

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether the collection was created, or has keys `NAME:...` that other clients created.

        On a single server, a key with exactly that name also counts.
        """
        registry = self._registry(addresses)
        if registry.ask("HEXISTS", _COLLECTIONS, name):
            return True
        if self._ring(addresses) is None and registry.ask("EXISTS", name):
            # A created collection would use this key as its index, and `drop_collection` would delete it.
            return True
        return any(keys for master in self._masters(addresses) for keys in master.keys(name))

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Delete all keys `NAME:...`, and of a created collection its definition and (on a single server) its index."""
        for master in self._masters(addresses):
            for keys in master.keys(name):
                # One command per key, since the keys of a command would have to share a slot.
                master.ask_all([("UNLINK", key) for key in keys])
        registry = self._registry(addresses)
        if registry.ask("HEXISTS", _COLLECTIONS, name):
            if self._ring(addresses) is None:
                registry.ask("UNLINK", name)
            registry.ask("HDEL", _COLLECTIONS, name)

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` hashes and JSON objects of keys `NAME:...`, from all masters.

        BadInput for a database, or if the collection was not created and has no keys.
        """
        self._refuse_database(database)
        sampled = sampled_values(self._masters(addresses), name, documents)
        if not sampled.documents and not self.has_collection(addresses, name):
            what = f"there is no collection {name}: it was not created, and no keys begin with {name}:"
            raise BadInput(what, where=", ".join(addresses), remedy="check --collection")
        return sampled

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of the collection's distinct keys (`NAME:...`) on all masters. This reads all keys."""
        return len({key for master in self._masters(addresses) for keys in master.keys(name) for key in keys})

    def evictions(self, addresses: Sequence[str]) -> dict[str, int]:
        """Return how many keys each node that answers has evicted, by address; see `maxmemory-policy` of the server."""
        return {node: int(figures.get("evicted", 0)) for node, figures in self.statistics(addresses).items()}

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return statistics by node address; in a cluster, nodes that do not answer are left out.

        Of single servers, only the first that answers is included. Unreachable if none answers.
        """
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
            # For example `keys=12,expires=0,avg_ttl=0`. An empty database lacks it.
            figures["keys"] = float(info.get("db0", "keys=0").partition(",")[0].removeprefix("keys="))
            if slots:
                figures["slots"] = slots[address]
            by_node[address] = figures
        return by_node


def _clustered(node: NodeSpec) -> bool:
    """Whether a node starts in cluster mode: by the setting `cluster`, else as one of several founders.

    Without the setting, nodes that are not founders do so on their first start, and later if they did before.
    """
    if "cluster" in node.settings:
        return bool(node.settings["cluster"])
    data = node.folder / "data"
    return len(node.founders) > 1 or (not node.founders and ((data / _STATE).exists() or not data.exists()))


def _is_clustered(info: Mapping[str, str]) -> bool:
    """Whether a server runs in cluster mode, by its INFO."""
    return info.get("cluster_enabled") == "1"


def _setting(value: object) -> str:
    """Return a setting as text for CONFIG SET: yes or no for a bool, and an empty text also for `""`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value == '""' else str(value)


def _config_lines(name: str, value: object) -> list[str]:
    """Return the lines of redis.conf that give a parameter the value that CONFIG SET would give it.

    Parameters with several values, separated by blanks, are not quoted. Version 6 reads only one group from a line.
    """
    text = _setting(value)
    words = text.split() if name.lower() in _SEVERAL else []
    size = _SEVERAL.get(name.lower()) or len(words)
    groups = [" ".join(words[at : at + size]) for at in range(0, len(words), size or 1)]
    return [f"{name} {group}\n" for group in groups or [_quoted(text)]]


def _quoted(text: str) -> str:
    """Return a text as one argument in redis.conf: in quotes, with escapes, unless it has no special characters."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda character: rf"\x{ord(character[0]):02x}", escaped) + '"'


STORE = Redis()
