"""PostgreSQL: a primary with streaming replicas; their software, their tables and their figures.

How replicas come and go is in `replication`, what a node is started with in `config`.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.store import installed
from loadframe.store.access import OPEN, Access
from loadframe.store.base import (
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
from loadframe.store.distribution import Distribution, Wheel
from loadframe.store.encryption import Encryption, refuse_settings
from loadframe.store.first_answer import first_answer
from loadframe.store.postgresql import config, figures, replication
from loadframe.store.postgresql.client import DATABASE, SLOW, USER, Client, PostgresError

#: The columns of a table that is defined by nothing: an id, and the document as it is.
ID, DOCUMENT = "id", "document"


def create(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield the statements that make the table and its indexes. A key that is not among the columns is a text."""
    columns: Mapping[str, str] = definition.get("columns") or {DOCUMENT: "jsonb NOT NULL"}
    key = definition.get("key", ID)
    if key is not None:
        columns = {key: "text", **columns}
    parts = [f"{quoted(column)} {kind}" for column, kind in columns.items()]
    if key is not None:
        parts.append(f"PRIMARY KEY ({quoted(key)})")
    unlogged = "UNLOGGED " if definition.get("unlogged") else ""
    options = f" WITH ({definition['with']})" if definition.get("with") else ""
    yield f"CREATE {unlogged}TABLE {quoted(name)} ({', '.join(parts)}){options}"
    for index in definition.get("indexes") or []:
        yield f"CREATE INDEX ON {quoted(name)} {index}"


def quoted(name: str) -> str:
    """Return an identifier as statements have it."""
    return '"' + name.replace('"', '""') + '"'


#: A wheel of the package index that carries the server and its tools, which are the same for any version of Python.
_WHEEL = Wheel(
    "pgserver",
    "0.1.4",
    ("d595789b47624a3d963aa9aa6359da9be31beb7e61f1a45541953242068b8813",),
    11_266_040,
    python="3.11",
)
#: SSLRequest: its length, and the number instead of the protocol's version. The answer of one that speaks TLS.
_SSL_REQUEST, _WILLING = struct.pack("!ii", 8, 80877103), b"S"
#: Seconds that a new table may take to be seen by all replicas.
_SEEN_WITHIN = 10.0


class Postgresql(Store):
    """Servers of the wheel, or those of the user's own installation."""

    kind = "postgresql"
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
    watched = figures.WATCHED

    def __init__(self, access: Access = OPEN) -> None:
        """Remember who asks, and how."""
        self._access = access
        self._clients: dict[str, Client] = {}

    def with_access(self, access: Access) -> Self:
        """Return the store as it is asked by TLS, as a user with a password, or both."""
        if access.auth is not None and access.auth.scheme != "basic":
            raise BadInput("postgresql knows users with passwords, and no keys or tokens", remedy="give --user")
        if access.compress:
            raise BadInput("requests to postgresql are not compressed here", remedy="leave --compress out")
        return self if access == OPEN else type(self)(access)

    def announce_tls(self, connection: socket.socket) -> None:
        """Send an SSLRequest, to which a server that speaks TLS answers with one letter."""
        connection.sendall(_SSL_REQUEST)
        if connection.recv(1) != _WILLING:
            raise ConnectionRefusedError("the server does not speak TLS")

    def distribution(self, version: str) -> Distribution:
        """Return the wheel of that version."""
        if version not in self.versions:
            raise BadInput(
                f"postgresql {version} cannot be had from the package registries",
                remedy=f"take {', '.join(self.versions)}, or give the folder of that version with --home, such as "
                "/usr/lib/postgresql/15",
            )
        return Distribution("postgresql", version, None, (), (), wheel=_WHEEL)

    def installation(self, home: Path | None) -> Found | None:
        """Return the server of the installation, or else of the PATH; None where the wheel will do."""
        server = installed.program(None, "postgres") if home is None else installed.require_program(home, "postgres")
        if server is None:
            return None
        version = installed.program_version(server, r"\(PostgreSQL\) (\d+(?:\.\d+)*)", "--version")
        return Found(version, server.resolve().parent)

    def read_from(self, settings: Mapping[str, Any]) -> str | None:
        """Return what the setting of that name says."""
        return settings.get(config.READ_FROM)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are the server's parameters, by their names in postgresql.conf, and `read_from`."""
        config.check(settings)

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """Clients and replicas come to one port and are let in by rules of their own, if the server knows TLS."""
        refuse_settings(encryption, settings, lambda name: name.lower() in config.TLS)
        if encryption.any and installation is not None:
            config.require_tls(installation)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the node's files and command line."""
        return config.plan(node, installation)

    def client(self, address: str) -> Client:
        """Return a connection to one server."""
        if address not in self._clients:
            self._clients[address] = Client(address, self._access)
        return self._clients[address]

    def _primary(self, addresses: Sequence[str]) -> Client:
        return replication.primary(addresses, self.client)

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version that the first server that answers runs."""
        return str(self._first(addresses).ask("SHOW server_version")[0]["server_version"]).split()[0]

    def require_one_cluster(self, addresses: Sequence[str]) -> None:
        """BadInput for servers whose data was not copied from one and the same."""
        identities: dict[str, str] = {}
        for address in addresses:
            with contextlib.suppress(Unreachable):
                (row,) = self.client(address).ask("SELECT system_identifier AS identity FROM pg_control_system()")
                identities.setdefault(str(row["identity"]), address)
        if len(identities) > 1:
            raise BadInput(
                "these servers are not a primary and its replicas: their data is not the same",
                where=", ".join(identities.values()),
                remedy="name the servers of one cluster",
            )

    def _first(self, addresses: Sequence[str]) -> Client:
        """Return the first server that answers; Unreachable when none does."""

        def greet(address: str) -> Client:
            self.client(address).ask("SELECT 1")
            return self.client(address)

        return first_answer(addresses, greet, Unreachable)

    def health(self, addresses: Sequence[str]) -> Health:
        """Ready is that there is a primary, and that all of its replicas follow it."""
        return replication.health(addresses, self.client)

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Make the database on the first member, and have the others copy it."""
        replication.form(members, self.client, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Have replicas find the primary, which may be at another address by now."""
        replication.reunite(members, self.client, watch)

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Change parameters on every server; BadInput for those that only a restart changes."""
        config.check(settings)
        settings = config.parameters(settings)
        for name in settings:
            known = self._first(addresses).ask("SELECT context FROM pg_settings WHERE name = :name", name=name.lower())
            if not known:
                raise BadInput(f"the server has no parameter {name}", remedy="see pg_settings of the server")
            if known[0]["context"] in ("postmaster", "internal"):
                super().configure(addresses, {name: settings[name]})
        for address in addresses:
            server = self.client(address)
            for name, value in settings.items():
                server.ask(f"ALTER SYSTEM SET {name} = {config.quoted(value)}")
            server.ask("SELECT pg_reload_conf()")

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Have the node copy the primary's data, and follow it."""
        replication.join(addresses, member, self.client, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Wait until every replica has what the primary had written when this began."""
        replication.balance(addresses, self.client, watch)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Take a replica out, or a primary after it has handed over."""
        replication.leave(addresses, member, self.client, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Have the primary keep no log for a replica that is gone."""
        replication.forget(addresses, member, self.client)
        if (client := self._clients.pop(member.address, None)) is not None:
            client.close()

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Let a primary that was handing over go on."""
        replication.stay(member, self.client)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create the table with its indexes; without columns it has an id and the document, as jsonb."""
        server = self._primary(addresses)
        statements = list(create(name, definition))
        try:
            server.ask("SELECT 1", DATABASE)
        except PostgresError as error:
            if not error.no_database:
                raise
            replication.create_database(server)
        for statement in statements:
            server.ask(statement, DATABASE, within=SLOW)
        replication.caught_up(addresses, self.client, _SEEN_WITHIN)

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether there is such a table."""
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
        """Drop the table, if it is there."""
        try:
            self._primary(addresses).ask(f"DROP TABLE IF EXISTS {quoted(name)}", DATABASE, within=SLOW)
        except PostgresError as error:
            if not error.no_database:
                raise

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Count on the primary, which has what was written a moment ago. Reads the whole table."""
        (row,) = self._primary(addresses).ask(f"SELECT count(*) AS rows FROM {quoted(name)}", DATABASE, within=SLOW)
        return int(row["rows"])

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the figures of docs/stores/postgresql.md for each server that answers, by its address."""
        by_node: dict[str, dict[str, float]] = {}
        for address in addresses:
            with contextlib.suppress(Unreachable):
                by_node[address] = figures.read(self.client(address))
        if not by_node:
            raise Unreachable("no server answers", where=", ".join(addresses), remedy="see `loadframe cluster status`")
        figures.lags(by_node)
        return by_node


STORE = Postgresql()
