"""Hash partitions on several servers, which the coordinator (the first node) reaches through `postgres_fdw`.

The other servers, the shards, are read-only for clients, so that the coordinator is the only primary that drivers find.
The coordinator's sessions on them may write. Each shard is a foreign server with the node's name.

Functions that send statements raise the errors of `client.Client`.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store.access import join_address, split_address
from loadframe.store.base import Health, Member, Unreachable
from loadframe.store.postgresql.client import ADMINISTRATION, DATABASE, SLOW, USER, Client, PostgresError
from loadframe.store.postgresql.config import literal, slot

#: Error codes feature_not_supported and undefined_file: PostgreSQL 15 and newer, and older ones, without the extension.
_NO_EXTENSION = ("0A000", "58P01")
#: Rows per statement from the coordinator to a shard; since version 14.
_BATCH, _BATCHES_SINCE = 1000, 140000

_EXTENSION = "CREATE EXTENSION IF NOT EXISTS postgres_fdw"
_LINKED = """
SELECT srvname AS name, (SELECT option_value FROM pg_options_to_table(srvoptions) WHERE option_name = 'host') AS host,
       (SELECT option_value FROM pg_options_to_table(srvoptions) WHERE option_name = 'port') AS port
FROM pg_foreign_server JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw WHERE fdwname = 'postgres_fdw'
ORDER BY pg_foreign_server.oid
"""


def connect(coordinator: Member, members: Sequence[Member], clients: Callable[[str], Client], password: str) -> None:
    """Create the database on each shard, and foreign servers: the shards on the coordinator, and it on each shard.

    `members` are the shards; the coordinator has the database already. `password` is the superuser's, with which the
    coordinator logs in to shards. BadInput if the installation lacks `postgres_fdw`.
    """
    first = clients(coordinator.address)
    try:
        first.ask(_EXTENSION, DATABASE)
    except PostgresError as error:
        if error.code not in _NO_EXTENSION:
            raise
        raise BadInput(
            "this installation of PostgreSQL lacks postgres_fdw, which partitioned clusters need",
            where=first.address,
            remedy="give an installation with it with --home, such as /usr/lib/postgresql/15",
        ) from error
    (row,) = first.ask("SELECT current_setting('server_version_num')::int AS version")
    options = f", dbname {literal(DATABASE)}, options '-c default_transaction_read_only=off'"
    if row["version"] >= _BATCHES_SINCE:
        options += f", batch_size {literal(_BATCH)}"
    for member in members:
        with writing(clients(member.address), ADMINISTRATION) as ask:
            ask(f"CREATE DATABASE {DATABASE}")
        with writing(clients(member.address)) as ask:
            ask(_EXTENSION)
            ask(_server(coordinator))
        first.ask(_server(member, options), DATABASE)
        first.ask(
            f"CREATE USER MAPPING FOR {USER} SERVER {slot(member.name)} "
            f"OPTIONS (user {literal(USER)}, password {literal(password)})",
            DATABASE,
        )


def _server(member: Member, options: str = "") -> str:
    """Return the statement that makes a member a foreign server; `options` starts with a comma."""
    host, port = split_address(member.address)
    place = f"host {literal(host)}, port {literal(port)}"
    return f"CREATE SERVER {slot(member.name)} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({place}{options})"


def linked(server: Client) -> dict[str, str]:
    """Return the addresses of a coordinator's shards, or of a shard's coordinator, by name of the foreign server.

    In the order of their creation. Empty if the cluster is not partitioned.
    """
    try:
        rows = server.ask(_LINKED, DATABASE)
    except PostgresError as error:
        if not error.no_database:
            raise
        return {}
    return {str(row["name"]): join_address(str(row["host"]), row["port"]) for row in rows}


def reconnect(members: Sequence[Member], clients: Callable[[str], Client]) -> None:
    """Correct the addresses of restarted nodes in the foreign servers of the others. All members must answer."""
    for member in members:
        known = linked(clients(member.address))
        for other in members:
            name = slot(other.name)
            if known.get(name, other.address) != other.address:
                host, port = split_address(other.address)
                with writing(clients(member.address)) as ask:
                    ask(f"ALTER SERVER {name} OPTIONS (SET host {literal(host)}, SET port {literal(port)})")


def health(known: Mapping[str, str], clients: Callable[[str], Client]) -> Health:
    """Return the health of a partitioned cluster, whose shards are `known` (name -> address): ready if each answers."""
    missing = 0
    for address in known.values():
        try:
            clients(address).ask("SELECT 1", DATABASE)
        except Unreachable:
            missing += 1
    status = "without a shard" if missing else "partitioned"
    return Health(ready=not missing, status=status, nodes=1 + len(known) - missing, moving=0, missing=missing)


def refuse_change(coordinator: Client) -> None:
    """Raise BadInput if the cluster is partitioned: its rows cannot move to another number of nodes."""
    if linked(coordinator):
        raise BadInput(
            "Loadframe cannot add or remove nodes of a partitioned cluster",
            where=coordinator.address,
            remedy="start a cluster with that number of nodes",
        )


@contextlib.contextmanager
def writing(server: Client, database: str = DATABASE) -> Iterator[Callable[[str], Any]]:
    """Yield a function that sends statements to a shard, in a session that may write until the end of the block."""
    server.ask("SET default_transaction_read_only = off", database)
    try:
        yield lambda statement: server.ask(statement, database, within=SLOW)
    finally:
        server.ask("RESET default_transaction_read_only", database)
