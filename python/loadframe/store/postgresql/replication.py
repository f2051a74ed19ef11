"""Streaming replication: forming a cluster, adding and removing replicas, and switching the primary.

Each replica has a replication slot on the primary, which keeps the log while the replica is away.

Functions that send statements raise the errors of `client.Client`. `watch` gets the progress of waits, and may end them
by an error.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.base.units import counted
from loadframe.store.access import join_address
from loadframe.store.base import Balancing, Health, Member, Unreachable, Watch, wait_until
from loadframe.store.postgresql import partitions
from loadframe.store.postgresql.client import DATABASE, Client, PostgresError
from loadframe.store.postgresql.config import SOURCE, slot, source

Clients = Callable[[str], Client]

#: Poll interval, s.
_POLL = 0.1
#: Lag in bytes at which a replica under load counts as caught up: one segment of the log.
_SEGMENT = 2**24
#: Time limit for the promotion of a replica, s.
_PROMOTION = 60

#: Error codes duplicate_object, undefined_object and duplicate_database.
_THERE, _NOT_THERE, _DATABASE_THERE = "42710", "42704", "42P04"

_ROLE = """
SELECT pg_is_in_recovery() AS replica, current_setting('default_transaction_read_only') AS read_only,
       current_setting('cluster_name') AS name
"""
_UPSTREAM = "SELECT sender_host AS host, sender_port AS port FROM pg_stat_wal_receiver WHERE status = 'streaming'"
_IDENTITY = "SELECT pg_postmaster_start_time()::text || ' ' || current_setting('port') AS identity"
_WRITTEN = "SELECT pg_current_wal_flush_lsn()::text AS position"
_BEHIND = "SELECT pg_wal_lsn_diff(CAST(:position AS pg_lsn), pg_last_wal_replay_lsn()) AS bytes"
#: Receivers of the log that are not replicas are excluded: base backups, archivers and logical subscribers.
_REPLICAS = """
SELECT application_name AS name, state FROM pg_stat_replication
WHERE application_name NOT IN ('pg_basebackup', 'pg_receivewal') AND state <> 'backup'
  AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE active_pid = pid AND slot_type = 'logical')
"""
_AWAY = (
    "SELECT slot_name AS name FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary AND NOT active"
)
_COPIED = """
SELECT (SELECT sum(pg_database_size(oid)) FROM pg_database) - coalesce(sum(backup_streamed), 0) AS left
FROM pg_stat_progress_basebackup
"""


@dataclass(frozen=True)
class Role:
    """Role of a server."""

    replica: bool
    writable: bool  #: accepts writes, unlike a primary that is about to hand over


def role(server: Client) -> Role:
    """Return whether a server is a replica, and whether clients can write to it; Unreachable without an answer.

    A server with `default_transaction_read_only`, such as a shard, is not writable.
    """
    (row,) = server.ask(_ROLE)
    return Role(replica=bool(row["replica"]), writable=not row["replica"] and row["read_only"] != "on")


def distinct(servers: Sequence[Client]) -> list[Client]:
    """Return the servers in their order, without repeats of a server at further addresses.

    Servers that do not answer are all kept.
    """
    by_identity: dict[str, Client] = {}
    for server in servers:
        identity = server.address
        with contextlib.suppress(Unreachable):
            identity = str(server.ask(_IDENTITY)[0]["identity"])
        by_identity.setdefault(identity, server)
    return list(by_identity.values())


def find_primary(addresses: Sequence[str], clients: Clients) -> Client | None:
    """Return the client of the writable server, or None if none is found.

    It is one of the addresses, a server that feeds a replica among them, or the coordinator of a shard among them.
    Unreachable if none of the addresses answers.
    """
    upstream: list[Client] = []
    last: Unreachable | None = None
    for address in addresses:
        server = clients(address)
        try:
            if role(server).writable:
                return server
            upstream += feeders(server, clients)
            upstream += [clients(linked) for linked in partitions.linked(server).values()]
        except Unreachable as error:
            last = error
    for server in reversed(upstream):
        with contextlib.suppress(Unreachable):
            if role(server).writable:
                return server
    if upstream:
        return None
    if last is not None and len(addresses) == 1:
        raise last
    if last is not None and not any(_answers(clients(address)) for address in addresses):
        raise last
    return None


def feeders(server: Client, clients: Clients) -> list[Client]:
    """Return the servers from which a replica gets the log, the nearest first: its upstream, that one's, and so on.

    Empty for a primary. Ends with a server that does not answer. Unreachable if `server` does not answer.
    """
    chain: list[Client] = []
    rows = server.ask(_UPSTREAM)
    while rows:
        upstream = clients(join_address(str(rows[0]["host"]), rows[0]["port"]))
        if upstream.address in {known.address for known in chain}:
            break
        chain.append(upstream)
        rows = []
        with contextlib.suppress(Unreachable):
            rows = upstream.ask(_UPSTREAM)
    return chain


def primary(addresses: Sequence[str], clients: Clients) -> Client:
    """Return the client of the writable server, which may also be the upstream or coordinator of one of the addresses.

    StoreFailed without one, Unreachable if no address answers.
    """
    server = find_primary(addresses, clients)
    if server is None:
        raise StoreFailed(
            "no server accepts writes: the primary is down",
            where=", ".join(addresses),
            remedy="start the primary again; Loadframe does not fail over automatically",
        )
    return server


def health(addresses: Sequence[str], clients: Clients) -> Health:
    """Return the health: ready if there is a primary and each of its slots is in use, also by replicas that catch up.

    Nodes are the primary and connected replicas, `moving` the replicas that catch up, and `missing` slots without a
    replica. Without a primary, one node is missing.
    """
    server = find_primary(addresses, clients)
    if server is None:
        there = sum(_answers(clients(address)) for address in addresses)
        return Health(ready=False, status="without a primary", nodes=there, moving=0, missing=1)
    states = [str(row["state"]) for row in server.ask(_REPLICAS)]
    away = server.ask(_AWAY)
    behind = sum(state != "streaming" for state in states)
    status = "a replica is away" if away else "catching up" if behind else "streaming" if states else "alone"
    return Health(ready=not away, status=status, nodes=1 + len(states), moving=behind, missing=len(away))


def require_named_replicas(servers: Sequence[Client]) -> None:
    """Raise BadInput if the servers feed more replicas than there are replicas among them; they must be distinct.

    Servers that do not answer are skipped.
    """
    fed = following = 0
    for server in servers:
        with contextlib.suppress(Unreachable):
            fed += len(server.ask(_REPLICAS))
            following += len(server.ask(_UPSTREAM))
    if fed > following:
        raise BadInput(
            f"{counted(fed - following, 'replica')} of this cluster would keep the old settings: their addresses are"
            " unknown",
            where=", ".join(server.address for server in servers),
            remedy="name all servers of the cluster with --hosts or hosts",
        )


def form(members: Sequence[Member], clients: Clients, watch: Watch) -> None:
    """Wait for the first member, create the database on it, and wait until the others have copied it and stream."""
    server = clients(members[0].address)
    wait_until(lambda: role(server).writable, watch, Balancing(0, "bytes", "starting"))
    create_database(server)
    for member in members[1:]:
        _invite(server, member)
    for member in members[1:]:
        wait_until(partial(_follows, server, member, clients), watch, Balancing(0, "bytes", "copying"))


def create_database(server: Client) -> None:
    """Create the database of all collections if it does not exist."""
    with _ignoring(_DATABASE_THERE):
        server.ask(f"CREATE DATABASE {DATABASE}")


def answering(members: Sequence[Member], clients: Clients, watch: Watch) -> None:
    """Poll all members until each answers; `watch` is called between polls and ends the wait by an error."""
    wait_until(
        lambda: all(_answers(clients(member.address)) for member in members), watch, Balancing(0, "bytes", "starting")
    )


def restarted_primary(members: Sequence[Member], clients: Clients, watch: Watch) -> Client:
    """Wait until one of the restarted members accepts writes, and return its client."""
    server: Client | None = None

    def there() -> bool:
        """Whether a member accepts writes; keep its client in `server`."""
        nonlocal server
        for member in members:
            with contextlib.suppress(Unreachable):
                if role(clients(member.address)).writable:
                    server = clients(member.address)
                    return True
        return False

    wait_until(there, watch, Balancing(0, "bytes", "starting"))
    assert server
    return server


def reunite(server: Client, members: Sequence[Member], clients: Clients) -> None:
    """Point restarted replicas to the primary `server`, and drop the slots of replicas that are not in `members`.

    A replica that does not answer is not redirected.
    """
    replicas = [member for member in members if member.address != server.address]
    expected = {slot(member.name) for member in replicas}
    for row in server.ask(_AWAY):
        if row["name"] not in expected:
            _drop_slot(server, str(row["name"]))
    for member in replicas:
        _invite(server, member)
        with contextlib.suppress(Unreachable):
            _redirect(clients(member.address), member.name, server.address)


def join(addresses: Sequence[str], member: Member, clients: Clients, watch: Watch) -> None:
    """Create a slot for the node, and wait while it copies the primary's data, until it streams and answers."""
    server = primary(addresses, clients)
    _invite(server, member)

    def progress() -> Balancing:
        """Return the bytes that base backups have yet to copy."""
        (row,) = server.ask(_COPIED)
        return Balancing(max(float(row["left"] or 0), 0.0), "bytes", "copying")

    while not _follows(server, member, clients):
        watch(progress())
        time.sleep(_POLL)


def balance(addresses: Sequence[str], clients: Clients, watch: Watch) -> None:
    """Wait until each replica has applied the primary's current log position; `watch` gets the bytes of log left.

    Its last call has a warning if a replica is then more than 16 MiB behind.
    """
    server = primary(addresses, clients)
    position = str(server.ask(_WRITTEN)[0]["position"])
    replicas = [clients(address) for address in addresses if address != server.address]
    replicas = [replica for replica in replicas if role(replica).replica]

    def left() -> float:
        """Return the most bytes of the log, up to `position`, that a replica has yet to apply."""
        return max((_behind(replica, position) for replica in replicas), default=0.0)

    while (missing := left()) > 0:
        watch(Balancing(missing, "bytes", "catching up"))
        time.sleep(_POLL)
    position = str(server.ask(_WRITTEN)[0]["position"])
    lag = left()
    warning = ""
    if lag > _SEGMENT:
        warning = f"a replica is {lag / 2**20:.0f} MiB behind the primary: it applies writes slower than they arrive"
    watch(Balancing(0, "bytes", "streaming", warning))


def leave(addresses: Sequence[str], member: Member, clients: Clients, watch: Watch) -> None:
    """Hand over from a primary to the most advanced replica; a replica leaves without further steps.

    `addresses` are those of the other servers. The old primary becomes read-only, and its sessions end. BadInput if
    there is no replica to promote, StoreFailed if the promotion fails, or if a replica leaves a cluster without a
    primary.
    """
    leaving = clients(member.address)
    if role(leaving).replica:
        primary(addresses, clients)
        return
    others = [clients(address) for address in addresses]
    successor = min((server for server in others if role(server).replica), key=_position, default=None)
    if successor is None:
        raise BadInput("no replica can become the primary", where=member.name)
    watch(Balancing(0, "bytes", "handing over"))
    # Stop writes, so that none is lost, and end the sessions that could still write.
    leaving.ask("ALTER SYSTEM SET default_transaction_read_only = on")
    leaving.ask("SELECT pg_reload_conf()")
    wait_until(lambda: not role(leaving).writable, watch, Balancing(0, "bytes", "handing over"))
    leaving.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    position = str(leaving.ask(_WRITTEN)[0]["position"])
    while (left := _behind(successor, position)) > 0:
        watch(Balancing(left, "bytes", "handing over"))
        time.sleep(_POLL)
    if not successor.ask("SELECT pg_promote(true, CAST(:seconds AS integer)) AS done", seconds=_PROMOTION)[0]["done"]:
        raise StoreFailed("the replica did not become the primary", where=successor.address)
    wait_until(lambda: _writable_again(successor), watch, Balancing(0, "bytes", "handing over"))
    for server in others:
        if server is not successor:
            name = str(server.ask(_ROLE)[0]["name"]) or server.address
            _make_slot(successor, name)
            _redirect(server, name, successor.address)


def stay(member: Member, clients: Clients) -> None:
    """Make a primary writable again after an interrupted hand-over; do nothing for a replica."""
    server = clients(member.address)
    if not role(server).replica:
        server.ask("ALTER SYSTEM RESET default_transaction_read_only")
        server.ask("SELECT pg_reload_conf()")


def forget(addresses: Sequence[str], member: Member, clients: Clients) -> None:
    """Drop the slot of a stopped replica, so that the primary no longer keeps the log for it.

    Do nothing without a primary.
    """
    server = find_primary(addresses, clients)
    if server is not None:
        _drop_slot(server, slot(member.name))


def caught_up(addresses: Sequence[str], clients: Clients, within: float) -> None:
    """Wait up to `within` s until the replicas at the addresses have applied the primary's log, and return in any case.

    Replicas that do not answer are skipped. StoreFailed without a primary.
    """
    end = time.monotonic() + within
    server = primary(addresses, clients)
    position = str(server.ask(_WRITTEN)[0]["position"])
    for address in addresses:
        with contextlib.suppress(Unreachable):
            replica = clients(address)
            while role(replica).replica and _behind(replica, position) > 0 and time.monotonic() < end:
                time.sleep(_POLL / 10)


def _invite(server: Client, member: Member) -> None:
    """Create the replica's slot on the primary, and write the connection string that the replica waits for."""
    assert member.folder
    _make_slot(server, member.name)
    member.call(nofollow.rewrite_text, member.folder, SOURCE, source(member.name, server.address))


def _make_slot(server: Client, name: str) -> None:
    """Create the replication slot of the replica `name`, unless it exists."""
    with _ignoring(_THERE):
        server.ask("SELECT pg_create_physical_replication_slot(:name)", name=slot(name))


def _drop_slot(server: Client, name: str) -> None:
    """End the session that uses the slot `name`, and drop it; do nothing if it is missing.

    Retries for 5 s while it is in use, then PostgresError.
    """
    with _ignoring(_NOT_THERE):
        server.ask(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = :name", name=name
        )
        end = time.monotonic() + 5
        while True:
            try:
                server.ask("SELECT pg_drop_replication_slot(:name)", name=name)
                return
            except PostgresError as error:
                # object_in_use
                if error.code != "55006" or time.monotonic() > end:
                    raise
                time.sleep(_POLL)


def _redirect(server: Client, name: str, address: str) -> None:
    """Tell the running replica `name` to follow the primary at `address`, which must have the slot of that replica.

    Returns before the replica reconnects.
    """
    # ALTER SYSTEM has no parameters; names and addresses contain no quotes.
    server.ask(f"ALTER SYSTEM SET primary_conninfo = '{source(name, address)}'")
    server.ask(f"ALTER SYSTEM SET primary_slot_name = '{slot(name)}'")
    server.ask("SELECT pg_reload_conf()")


def _follows(server: Client, member: Member, clients: Clients) -> bool:
    """Whether the replica streams from the primary and answers."""
    names = {str(row["name"]) for row in server.ask(_REPLICAS) if row["state"] == "streaming"}
    return slot(member.name) in names and _answers(clients(member.address))


def _writable_again(server: Client) -> bool:
    """Whether a promoted replica is writable; reset the read-only setting that it copied from the old primary."""
    now = role(server)
    if not now.replica and not now.writable:
        server.ask("ALTER SYSTEM RESET default_transaction_read_only")
        server.ask("SELECT pg_reload_conf()")
    return now.writable


def _behind(replica: Client, position: str) -> float:
    """Return the bytes of the log up to `position` (an LSN) that a replica has yet to apply; infinite if unknown."""
    value = replica.ask(_BEHIND, position=position)[0]["bytes"]
    return float("inf") if value is None else max(float(value), 0.0)


def _position(replica: Client) -> float:
    """Return a number that is lower, the more of the log a replica has applied."""
    return _behind(replica, "FFFFFFFF/FFFFFFFF")


def _answers(server: Client) -> bool:
    """Whether a server answers; other errors than Unreachable are raised."""
    try:
        role(server)
    except Unreachable:
        return False
    return True


@contextlib.contextmanager
def _ignoring(code: str):  # type: ignore[no-untyped-def]
    """Suppress the PostgresError with this code in the block."""
    try:
        yield
    except PostgresError as error:
        if error.code != code:
            raise
