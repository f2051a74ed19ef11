"""PostgreSQL: a primary with replicas (`replication`) or shards (`partitions`), started with the files of `config`."""

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.store import distribution
from loadframe.store.access import OPEN, Access, Encryption, first_answer, refuse_settings
from loadframe.store.base import (
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
from loadframe.store.distribution import Distribution, Wheel
from loadframe.store.postgresql import config, partitions, replication
from loadframe.store.postgresql.client import (
    DATABASE,
    SLOW,
    USER,
    WATCHED,
    Client,
    PostgresError,
    figures,
    lags,
    sampled_rows,
)

#: Columns of a table without declared columns: an id, and the document as jsonb.
ID, DOCUMENT = "id", "document"
_WHOLE = {ID: "text", DOCUMENT: "jsonb"}


def create(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statements that create a table and its indexes.

    `definition` may have `columns` (name -> type; default: `document`, jsonb), `key`, `indexes` (each the text after
    `CREATE INDEX ON NAME`), `unlogged` and `with` (text of storage parameters). A key that is not a declared column
    becomes a text column; it is `id` by default, and None for a table without a key.
    """
    parts = _columns(definition)
    if (key := definition.get("key", ID)) is not None:
        parts.append(f"PRIMARY KEY ({quoted(key)})")
    unlogged = "UNLOGGED " if definition.get("unlogged") else ""
    options = f" WITH ({definition['with']})" if definition.get("with") else ""
    yield f"CREATE {unlogged}TABLE {quoted(name)} ({', '.join(parts)}){options}"
    for index in definition.get("indexes") or []:
        yield f"CREATE INDEX ON {quoted(name)} {index}"


def create_partitioned(name: str, definition: Mapping[str, Any], shards: Sequence[str]) -> Iterator[str]:
    """Yield the coordinator's statements for a table whose rows are spread over it and its shards.

    The rows go by the hash of the column `partition_by`, or the key; BadInput without both. Partition NAME_0 is a table
    of the coordinator, and NAME_1 and so on are tables of the `shards` (names of foreign servers) that must exist
    there.
    """
    column = definition.get("partition_by") or definition.get("key", ID)
    if column is None:
        raise BadInput(
            f"the table {name} of a partitioned cluster has neither key nor partition_by",
            remedy="name the column whose hash spreads the rows with partition_by",
        )
    parent = quoted(name)
    yield f"CREATE TABLE {parent} ({', '.join(_columns(definition))}) PARTITION BY HASH ({quoted(column)})"
    yield from create(f"{name}_0", definition)
    bounds = f"FOR VALUES WITH (MODULUS {len(shards) + 1}, REMAINDER"
    yield f"ALTER TABLE {parent} ATTACH PARTITION {quoted(f'{name}_0')} {bounds} 0)"
    for number, shard in enumerate(shards, 1):
        partition = quoted(f"{name}_{number}")
        yield f"CREATE FOREIGN TABLE {partition} PARTITION OF {parent} {bounds} {number}) SERVER {shard}"


def _columns(definition: Mapping[str, Any]) -> list[str]:
    """Return `"NAME" TYPE` of each column: the key, unless None, then the declared ones or `document` (jsonb).

    The key is a text unless declared, and occurs once.
    """
    columns: Mapping[str, str] = definition.get("columns") or {DOCUMENT: "jsonb NOT NULL"}
    if (key := definition.get("key", ID)) is not None:
        columns = {key: "text", **columns}
    return [f"{quoted(column)} {kind}" for column, kind in columns.items()]


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


#: A wheel with the server and its tools, which are the same for all Python versions.
_WHEEL = Wheel(
    "pgserver",
    "0.1.4",
    ("d595789b47624a3d963aa9aa6359da9be31beb7e61f1a45541953242068b8813",),
    11_266_040,
    python="3.11",
)
#: SSLRequest: length and request code; and the answer of a server that supports TLS.
_SSL_REQUEST, _WILLING = struct.pack("!ii", 8, 80877103), b"S"
#: Time limit for a new table to be visible on all replicas, s.
_SEEN_WITHIN = 10.0


class Postgresql(Store):
    """PostgreSQL from a wheel, the PATH, or the user's installation.

    Methods raise the errors of `client.Client`. `watch` gets the progress of waits, and may end them by an error.
    """

    kind = "postgresql"
    maker = ("PostgreSQL Global Development Group", "https://www.postgresql.org", "PostgreSQL")
    greeting = (_SSL_REQUEST, rb"[SN]$")
    family = "postgresql"
    driver = "postgresql"
    refuses_root = True
    needs_account = True
    many_processes = True
    administrator = USER
    console = f"PGPASSWORD=$(cat {{file}}) psql -h {{host}} -p {{port}} -U {USER} {DATABASE}"
    versions = ("16.2",)
    port = 5432
    schemes: Mapping[str, bool | None] = {"postgresql": None, "postgres": None}
    oldest = (13,)
    watched = WATCHED

    def __init__(self, access: Access = OPEN) -> None:
        """Store TLS and credentials; clients connect on first use."""
        self._access = access
        self._clients: dict[str, Client] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store with TLS, a user with a password, or both; BadInput for other credentials."""
        self._require_user_login(access)
        return self if access == OPEN else type(self)(access)

    def announce_tls(self, connection: socket.socket) -> None:
        """Send an SSLRequest; ConnectionRefusedError if the server does not support TLS."""
        connection.sendall(_SSL_REQUEST)
        if connection.recv(1) != _WILLING:
            raise ConnectionRefusedError("the server does not support TLS")

    def distribution(self, version: str) -> Distribution:
        """Return the wheel of a version; BadInput if the registries do not have it."""
        if version not in self.versions:
            raise BadInput(
                f"postgresql {version} is not in the package registries",
                remedy=f"use {', '.join(self.versions)}, or give the folder of that version with --home, such as "
                "/usr/lib/postgresql/15",
            )
        return Distribution("postgresql", version, None, (), (), wheel=_WHEEL)

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return the installation at `home`, or on the PATH if None; None if the PATH lacks postgres.

        BadInput if `home` lacks it.
        """
        server = (
            distribution.program(None, "postgres") if home is None else distribution.require_program(home, "postgres")
        )
        if server is None:
            return None
        version = distribution.program_version(server, r"\(PostgreSQL\) (\d+(?:\.\d+)*)", "--version")
        return FoundInstallation(version, server.resolve().parent)

    def read_from(self, settings: Mapping[str, Any]) -> str | None:
        """Return the setting `read_from` (primary, replica, prefer_replica or any), or None."""
        return settings.get(config.READ_FROM)

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return a text such as `fsync on, synchronous_commit off`, with values from the settings, by default on."""
        given = {key.lower(): value for key, value in settings.items()}
        words = {name: given.get(name, True) for name in ("fsync", "synchronous_commit")}
        return ", ".join(
            f"{name} {('off', 'on')[value] if isinstance(value, bool) else value}" for name, value in words.items()
        )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for parameters that Loadframe controls, and for invalid names or values.

        Checks Loadframe's own settings `read_from` and `partitioned`, too.
        """
        config.check(settings)

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """With encryption, raise BadInput for TLS parameters in the settings, and for an installation without TLS.

        BadInput also for a partitioned cluster that encrypts only connections of clients.
        """
        refuse_settings(encryption, settings, lambda name: name.lower() in config.TLS)
        if settings.get(config.PARTITIONED) and encryption.clients and not encryption.nodes:
            raise BadInput(
                "the coordinator of a partitioned cluster is a client of the other nodes",
                remedy="encrypt both kinds of connections, or those between nodes",
            )
        if encryption.any and installation is not None:
            config.require_tls(installation)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the node's files and command line; BadInput if a program is missing."""
        return config.plan(node, installation)

    def client(self, address: str) -> Client:
        """Return the client of a server, always the same for an address; it connects on first use."""
        if address not in self._clients:
            self._clients[address] = Client(address, self._access)
        return self._clients[address]

    def _primary(self, addresses: Sequence[str]) -> Client:
        """Return the client of the writable server; StoreFailed without one, Unreachable if no address answers."""
        return replication.primary(addresses, self.client)

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version of the first server that answers, such as `16.2`."""
        return str(self._first(addresses).ask("SHOW server_version")[0]["server_version"]).split()[0]

    def require_one_cluster(self, addresses: Sequence[str]) -> None:
        """Raise BadInput unless all servers that answer have one system identifier, as primary and replicas do."""
        identities: dict[str, str] = {}
        for address in addresses:
            with contextlib.suppress(Unreachable):
                (row,) = self.client(address).ask("SELECT system_identifier AS identity FROM pg_control_system()")
                identities.setdefault(str(row["identity"]), address)
        if len(identities) > 1:
            raise BadInput(
                "these servers are not a primary and its replicas: their data differs",
                where=", ".join(identities.values()),
                remedy="name the servers of one cluster",
            )

    def _first(self, addresses: Sequence[str]) -> Client:
        """Return the client of the first server that answers; Unreachable if none answers."""

        def greet(address: str) -> Client:
            """Return the client of a server that answers; Unreachable otherwise."""
            self.client(address).ask("SELECT 1")
            return self.client(address)

        return first_answer(addresses, greet, Unreachable)

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if there is a primary, and all its replicas follow it or all its shards answer."""
        coordinator = replication.find_primary(addresses, self.client)
        if coordinator is not None and (shards := partitions.linked(coordinator)):
            return partitions.health(shards, self.client)
        return replication.health(addresses, self.client)

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Create the database on the first member, and wait until the others have copied it and follow.

        In a partitioned cluster, wait until all members answer, and connect the others as shards.
        """
        if not settings.get(config.PARTITIONED):
            replication.form(members, self.client, watch)
            return
        replication.form(members[:1], self.client, watch)
        replication.answering(members, self.client, watch)
        secret = self._access.auth.secret if self._access.auth else ""
        partitions.connect(members[0], members[1:], self.client, secret)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Wait for the primary, and point replicas to its current address, or coordinator and shards to each other."""
        coordinator = replication.restarted_primary(members, self.client, watch)
        if partitions.linked(coordinator):
            replication.answering(members, self.client, watch)
            partitions.reconnect(members, self.client)
        else:
            replication.reunite(coordinator, members, self.client)

    def require_growing(self, addresses: Sequence[str]) -> None:
        """Raise BadInput for a partitioned cluster, StoreFailed without a primary."""
        partitions.refuse_change(self._primary(addresses))

    def reaches_all(self, addresses: Sequence[str], nodes: int) -> bool:
        """Return whether there are `nodes` addresses, or the cluster is partitioned: its coordinator reaches all."""
        if super().reaches_all(addresses, nodes):
            return True
        coordinator = replication.find_primary(addresses, self.client)
        return coordinator is not None and bool(partitions.linked(coordinator))

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Change parameters on the servers at the addresses, on the primary, and on all shards.

        None removes the parameter from those set with ALTER SYSTEM. BadInput for unknown parameters, and if one needs a
        restart. Unnamed replicas keep their values; see `running_settings`.
        """
        config.check({name: value for name, value in settings.items() if value is not None})
        settings = config.parameters(settings)
        for name in settings:
            if self._parameter(self._first(addresses), name)["context"] in ("postmaster", "internal"):
                super().configure(addresses, {name: settings[name]})
        for server in self._servers(addresses):
            for name, value in settings.items():
                change = f"RESET {name}" if value is None else f"SET {name} = {config.literal(value)}"
                server.ask(f"ALTER SYSTEM {change}")
            server.ask("SELECT pg_reload_conf()")

    def _servers(self, addresses: Sequence[str]) -> list[Client]:
        """Return the clients of the servers at the addresses, then of others: of feeding servers, primary and shards.

        A server with several addresses has one client. Unreachable if none of the addresses answers.
        """
        primary = replication.find_primary(addresses, self.client)
        named = [self.client(address) for address in dict.fromkeys(addresses)]
        for server in tuple(named):
            with contextlib.suppress(Unreachable):
                named += replication.feeders(server, self.client)
        named = replication.distinct([*named, *([primary] if primary else [])])
        shards = partitions.linked(primary).values() if primary else ()
        # The addresses that the coordinator stores may be unreachable from here. They are not needed if all are named.
        if len(named) > len(shards):
            return named
        return replication.distinct([*named, *map(self.client, shards)])

    def _parameter(self, server: Client, name: str) -> Mapping[str, Any]:
        """Return a parameter's row of pg_settings: `context`, `unit`, and `value`, which new sessions get.

        BadInput for an unknown parameter.
        """
        # `setting` is the value of this session, which has its own synchronous_commit.
        known = server.ask(
            "SELECT context, reset_val AS value, unit FROM pg_settings WHERE name = :name", name=name.lower()
        )
        if not known:
            raise BadInput(f"the server does not have the parameter {name}", remedy="see pg_settings of the server")
        row: Mapping[str, Any] = known[0]
        return row

    def running_settings(self, addresses: Sequence[str], names: Sequence[str]) -> dict[str, RunningSetting]:
        """Return parameters by name, with their units; the explicit value is that of ALTER SYSTEM, None without one.

        Covers the servers of `configure` that answer. BadInput for an unknown parameter, if servers differ, and if the
        cluster has replicas at other addresses, which `configure` cannot reach.
        """
        servers = self._servers(addresses)
        replication.require_named_replicas(servers)
        settings = {}
        for name in names:
            values: dict[str, RunningSetting] = {}
            for server in servers:
                with contextlib.suppress(Unreachable):
                    values[server.address] = self._running_setting(server, name)
            if len(set(values.values())) > 1:
                raise BadInput(
                    f"the servers have different values of {name}, or only some set it with ALTER SYSTEM",
                    where=", ".join(f"{address}: {value.value}" for address, value in values.items()),
                    remedy="set the same value on all servers first, with ALTER SYSTEM",
                )
            settings[name] = next(iter(values.values()), None) or self._running_setting(self._first(addresses), name)
        return settings

    def _running_setting(self, server: Client, name: str) -> RunningSetting:
        """Return a parameter of one server: its value with unit, and the value of ALTER SYSTEM as explicit, else None.

        BadInput for an unknown parameter.
        """
        row = self._parameter(server, name)
        explicit = server.ask(
            "SELECT setting FROM pg_file_settings WHERE name = :name AND sourcefile LIKE '%postgresql.auto.conf'"
            " ORDER BY seqno DESC LIMIT 1",
            name=name.lower(),
        )
        value = f"{row['value']} {row['unit'] or ''}".strip()
        return RunningSetting(value, str(explicit[0]["setting"]) if explicit else None)

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Wait while the node copies the primary's data, until it follows the primary. `watch` gets the bytes left."""
        replication.join(addresses, member, self.client, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Wait until every replica has applied the primary's current log position.

        `watch` gets the bytes of log left.
        """
        replication.balance(addresses, self.client, watch)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Hand over from a primary to a replica; a replica leaves without a change.

        BadInput for a partitioned cluster, or without a replica to promote.
        """
        partitions.refuse_change(self._primary([*addresses, member.address]))
        replication.leave(addresses, member, self.client, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Drop the slot of a removed replica on the primary, if any; close and drop the client of the replica."""
        replication.forget(addresses, member, self.client)
        if (client := self._clients.pop(member.address, None)) is not None:
            client.close()

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Make a primary writable again after an interrupted hand-over. A shard stays read-only for clients."""
        if not partitions.linked(self.client(member.address)):
            replication.stay(member, self.client)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create the table with its indexes, on all shards, and wait up to 10 s for the replicas.

        Without columns it has an id and the document as jsonb. Creates the database if it is missing. PostgresError if
        the table exists.
        """
        server = self._primary(addresses)
        shards = partitions.linked(server)
        statements = list(create_partitioned(name, definition, list(shards)) if shards else create(name, definition))
        try:
            server.ask("SELECT 1", DATABASE)
        except PostgresError as error:
            if not error.no_database:
                raise
            replication.create_database(server)
        for number, address in enumerate(shards.values(), 1):
            with partitions.writing(self.client(address)) as ask:
                for statement in create(f"{name}_{number}", definition):
                    ask(statement)
        for statement in statements:
            server.ask(statement, DATABASE, within=SLOW)
        replication.caught_up(addresses, self.client, _SEEN_WITHIN)

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether the table exists; False if its database does not."""
        try:
            (row,) = self._primary(addresses).ask(
                "SELECT to_regclass(:name) IS NOT NULL AS there", DATABASE, name=quoted(name)
            )
        except PostgresError as error:
            if error.no_database:
                return False
            raise
        return bool(row["there"])

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Drop the table and its partitions on shards; do nothing if it does not exist."""
        try:
            server = self._primary(addresses)
            server.ask(f"DROP TABLE IF EXISTS {quoted(name)}", DATABASE, within=SLOW)
            for number, address in enumerate(partitions.linked(server).values(), 1):
                with partitions.writing(self.client(address)) as ask:
                    ask(f"DROP TABLE IF EXISTS {quoted(f'{name}_{number}')}")
        except PostgresError as error:
            if not error.no_database:
                raise

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` random rows of `[SCHEMA.]TABLE`, read from the first server that answers.

        `database` is by default `loadframe`. BadInput if the table or database does not exist.
        """
        return sampled_rows(self._first(addresses), name, documents, database or DATABASE, _WHOLE)

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of rows on the primary, which has all writes. This reads the whole table."""
        (row,) = self._primary(addresses).ask(f"SELECT count(*) AS rows FROM {quoted(name)}", DATABASE, within=SLOW)
        return int(row["rows"])

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the statistics of docs/reference/stores/postgresql.md by address, for servers that answer.

        Unreachable if none answers.
        """
        by_node: dict[str, dict[str, float]] = {}
        for address in addresses:
            with contextlib.suppress(Unreachable):
                by_node[address] = figures(self.client(address))
        if not by_node:
            raise Unreachable("no server answers", where=", ".join(addresses), remedy="see `loadframe cluster status`")
        lags(by_node)
        return by_node


STORE = Postgresql()
