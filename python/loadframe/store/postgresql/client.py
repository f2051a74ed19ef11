"""Client of a PostgreSQL server for administration, with its statistics and random rows of its tables.

Errors are Loadframe's own.
"""

import contextlib
import json
import struct
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Figure, Sample, Unreachable

if TYPE_CHECKING:
    from pg8000.native import Connection

#: The database of all collections; the driver uses the same.
DATABASE = "loadframe"
#: The database that all servers have.
ADMINISTRATION = "postgres"
#: The default user, and the superuser of servers that Loadframe starts.
USER = "postgres"

#: Timeouts of status queries, and of statements that read or write all rows, s.
_TIMEOUT = 10.0
SLOW = 600.0

#: SQLSTATE codes, see "PostgreSQL Error Codes" in its documentation.
_NO_DATABASE = "3D000"
_NOT_ALLOWED = ("28P01", "28000")
_NO_PRIVILEGE = "42501"
#: admin_shutdown, crash_shutdown, cannot_connect_now.
_AWAY = ("57P01", "57P02", "57P03")


class PostgresError(StoreFailed):
    """A server's error; `code` is its SQLSTATE."""

    def __init__(self, what: str, where: str, code: str) -> None:
        """`what` is the problem, `where` the server's host:port, and `code` the SQLSTATE."""
        super().__init__(what, where=where)
        self.code = code

    @property
    def no_database(self) -> bool:
        """Whether the error is that the database does not exist."""
        return self.code == _NO_DATABASE


class Client:
    """Client of one server, which connects on first use, and again after a connection was lost.

    BadInput if access is denied, Unreachable if the server does not answer, PostgresError for its other errors. Threads
    may share a client.
    """

    def __init__(self, address: str, access: Access) -> None:
        """Store address and credentials; the first statement connects."""
        self.address = address
        self._access = access
        self._lock = threading.Lock()
        self._connections: dict[str, Connection] = {}

    def ask(
        self, statement: str, database: str = ADMINISTRATION, *, within: float = _TIMEOUT, **values: Any
    ) -> list[dict[str, Any]]:
        """Execute a statement with `:name` parameters from `values`, and return its rows by column name.

        Each read may take `within` s; then Unreachable. If an open connection was lost otherwise, connects and executes
        once more. BadInput if access is denied, PostgresError for other errors of the server.
        """
        with self._lock:
            if database in self._connections:
                try:
                    return self._execute(statement, database, within, values)
                except Unreachable as error:
                    # Retry once, since a restart closes connections; a server that is silent stays silent.
                    if _timed_out(error):
                        raise
            return self._execute(statement, database, within, values)

    def _execute(self, statement: str, database: str, within: float, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Execute a statement over the open or a new connection to a database, and return the rows by column name.

        `within` is the limit of each read, s. After a fatal error or a lost connection, the next call connects again;
        this one is not repeated.
        """
        from pg8000.exceptions import DatabaseError

        try:
            with self._translated():
                connection = self._connections.get(database) or self._connect(database)
                # pg8000 has one timeout for connecting and answers, and hides its socket.
                connection._usock.settimeout(within)
                rows = connection.run(statement, **values) or []
                names = [str(column["name"]) for column in connection.columns or []]
                return [dict(zip(names, row, strict=True)) for row in rows]
        except DatabaseError as error:
            fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
            code = str(fields.get("C", ""))
            if fields.get("S") in ("FATAL", "PANIC"):
                self._forget(database)
            raise self._refused(code, str(fields.get("M") or error)) from error
        except Unreachable:
            self._forget(database)
            raise

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for database in list(self._connections):
                self._forget(database)

    def _connect(self, database: str) -> "Connection":
        """Connect to a database and keep the connection for the next statements.

        Its commits do not wait for replicas.
        """
        from pg8000.native import Connection

        host, port = split_address(self.address)
        user = self._access.auth
        connection = Connection(
            (user.user or USER) if user else USER,
            host=host,
            port=port,
            database=database,
            # Without a password, pg8000 fails in the middle of SCRAM.
            password=user.secret if user else "",
            timeout=_TIMEOUT,
            # None would let pg8000 use TLS without verifying the certificate.
            ssl_context=self._access.context or False,
            application_name="loadframe",
        )
        self._connections[database] = connection
        # Administration must not wait for missing synchronous replicas.
        connection.run("SET synchronous_commit TO local")
        return connection

    def _forget(self, database: str) -> None:
        """Close the connection to a database, if there is one; errors of closing are ignored."""
        connection = self._connections.pop(database, None)
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _refused(self, code: str, words: str) -> LoadframeError:
        """Return the error for an SQLSTATE `code` with the server's text `words`.

        BadInput for denied access, Unreachable while the server starts or stops, otherwise PostgresError.
        """
        user = (self._access.auth.user if self._access.auth else None) or USER
        if code in _NOT_ALLOWED and self._access.auth is None:
            return BadInput(
                f"the server denies access to {user}: {words}",
                where=self.address,
                remedy="give --user and --password-file, or set LOADFRAME_PASSWORD"
                + ("" if self._access.tls else "; if the server requires TLS, write https://"),
            )
        if code in _NOT_ALLOWED:
            return BadInput(
                f"the server refuses the user {user}: {words}",
                where=self.address,
                remedy="check --user, and the password in --password-file or LOADFRAME_PASSWORD"
                + ("" if self._access.tls else "; if the server requires TLS, write https://"),
            )
        if code == _NO_PRIVILEGE:
            return BadInput(
                f"the server does not allow the user {user} to do that: {words}",
                where=self.address,
                remedy=f"make {user} the owner of the database {DATABASE} and a member of pg_monitor, "
                "or use another user with --user",
            )
        if code in _AWAY:
            return Unreachable(f"the server is not ready yet ({words})", where=self.address)
        return PostgresError(f"the server reports an error: {words}", self.address, code)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise Unreachable for a lost connection; DatabaseError, which the server reports, is not changed."""
        from pg8000.exceptions import DatabaseError, InterfaceError

        try:
            yield
        except DatabaseError:
            raise
        except (InterfaceError, OSError, struct.error) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> Unreachable:
        """Return the Unreachable for a server that does not answer."""
        return Unreachable(
            f"the server does not answer ({error.__cause__ or error})",
            where=self.address,
            remedy=f"check that it runs, and that the address is its port for clients{self._access.silence_hint}",
        )


def _timed_out(error: BaseException | None) -> bool:
    """Whether an error is or was caused by a TimeoutError."""
    while error is not None:
        if isinstance(error, TimeoutError):
            return True
        error = error.__cause__
    return False


WATCHED = (
    Figure("commits/s", "commits", total=True),
    Figure("rollbacks/s", "rollbacks", total=True),
    Figure("read/s", "rows_fetched", total=True),
    Figure("written/s", "rows_written", total=True),
    Figure("blocks/s", "blocks_read", total=True),
    Figure("clients", "clients"),
    Figure("active", "active"),
    Figure("locked", "waiting_for_locks"),
    Figure("data", "data_bytes", size=True),
    Figure("lag", "lag_bytes", size=True),
)

#: Totals over all databases since the last reset of the statistics.
_DATABASES = """
SELECT sum(xact_commit) AS commits, sum(xact_rollback) AS rollbacks, sum(blks_read) AS blocks_read,
       sum(blks_hit) AS blocks_hit, sum(tup_returned) AS rows_scanned, sum(tup_fetched) AS rows_fetched,
       sum(tup_inserted) AS inserts, sum(tup_updated) AS updates, sum(tup_deleted) AS deletes,
       sum(tup_inserted + tup_updated + tup_deleted) AS rows_written,
       sum(conflicts) AS conflicts, sum(deadlocks) AS deadlocks,
       sum(temp_bytes) AS temporary_bytes, sum(pg_database_size(datid)) AS data_bytes
FROM pg_stat_database WHERE datid <> 0
"""
_ACTIVITY = """
SELECT count(*) AS clients, count(*) FILTER (WHERE state = 'active') AS active,
       count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle_in_transaction,
       count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting_for_locks,
       count(*) FILTER (WHERE wait_event_type = 'IO') AS waiting_for_storage
FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
#: Checkpoints, and the time (ms) and bytes that they wrote; version 17 moved them to another view.
_CHECKPOINTS = """
SELECT checkpoints_timed + checkpoints_req AS checkpoints,
       checkpoint_write_time + checkpoint_sync_time AS checkpoint_ms,
       buffers_checkpoint * CAST(current_setting('block_size') AS bigint) AS checkpoint_written_bytes
FROM pg_stat_bgwriter
"""
_CHECKPOINTS_17 = """
SELECT num_timed + num_requested AS checkpoints, write_time + sync_time AS checkpoint_ms,
       buffers_written * CAST(current_setting('block_size') AS bigint) AS checkpoint_written_bytes
FROM pg_stat_checkpointer
"""
_VACUUMS = """
SELECT CAST(current_setting('server_version_num') AS int) AS version, count(*) AS vacuums_running
FROM pg_stat_progress_vacuum
"""
#: Position in the write-ahead log: written by a primary, or applied by a replica.
_POSITION = """
SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE 1 END AS "primary",
       pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0')
           AS log_bytes
"""


def figures(client: Client) -> dict[str, float]:
    """Return a server's statistics by Loadframe's names, with totals over all databases. `lags` adds the lag.

    Counters start with the last reset of the server's statistics.
    """
    figures: dict[str, float] = {}
    (vacuums,) = client.ask(_VACUUMS)
    checkpoints = _CHECKPOINTS_17 if vacuums.pop("version") >= 170000 else _CHECKPOINTS
    rows = [
        vacuums,
        *(row for statement in (_DATABASES, _ACTIVITY, _POSITION, checkpoints) for row in client.ask(statement)),
    ]
    for row in rows:
        figures |= {name: float(value) for name, value in row.items() if value is not None}
    return figures


def lags(figures: dict[str, dict[str, float]]) -> None:
    """Add `lag_bytes`, how far `log_bytes` is behind the primary's, to each server's statistics in place.

    0 for primaries, without a primary, and without `log_bytes`: the servers of a partitioned cluster have separate
    logs.
    """
    primary = max((node["log_bytes"] for node in figures.values() if node.get("primary")), default=None)
    for node in figures.values():
        # Servers are read in turn, so that a replica may appear to be ahead.
        behind = 0.0 if primary is None or node.get("primary") else primary - node.get("log_bytes", primary)
        node["lag_bytes"] = max(behind, 0.0)


#: A table with more rows than this per sampled row is sampled by blocks, not read whole.
_MANY = 20
_COLUMNS = """SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
WHERE attrelid = to_regclass(:table) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_KEY = """SELECT a.attname AS name FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
AND a.attnum = ANY (i.indkey) WHERE i.indrelid = to_regclass(:table) AND i.indisprimary"""
_INDEXES = """SELECT pg_get_indexdef(indexrelid) AS text FROM pg_index
WHERE indrelid = to_regclass(:table) AND NOT indisprimary"""
_SIZE = "SELECT reltuples AS rows, relkind IN ('r', 'm') AS plain FROM pg_class WHERE oid = to_regclass(:table)"


def sampled_rows(server: Client, name: str, documents: int, database: str, whole: Mapping[str, str]) -> Sample:
    """Return up to `documents` random rows of `[SCHEMA.]TABLE`. BadInput if it does not exist.

    A large table is sampled by blocks, which may give fewer. A table with exactly the columns `whole` (name -> type)
    gives the contents of its column `document` instead of rows.
    """
    table = ".".join('"' + part.replace('"', '""') + '"' for part in name.split(".", 1))
    try:
        columns = {str(row["name"]): str(row["type"]) for row in server.ask(_COLUMNS, database, table=table)}
    except PostgresError as error:
        if not error.no_database:
            raise
        columns = {}
    if not columns:
        what = f"the database {database} does not have the table {name}"
        raise BadInput(what, where=server.address, remedy="check --collection and --database")
    key = [str(row["name"]) for row in server.ask(_KEY, database, table=table)]
    indexes = [str(row["text"]) for row in server.ask(_INDEXES, database, table=table)]
    (size,) = server.ask(_SIZE, database, table=table)
    rows = table
    if size["plain"] and size["rows"] > _MANY * documents:
        rows = f"{table} TABLESAMPLE SYSTEM ({min(100.0, 300.0 * documents / size['rows'])})"
    whole_documents = columns == whole
    column = "document" if whole_documents else "to_jsonb(sampled)"
    statement = f"SELECT {column}::text AS json FROM (SELECT * FROM {rows} ORDER BY random() LIMIT {documents}) sampled"
    sampled = [json.loads(row["json"]) for row in server.ask(statement, database, within=SLOW)]
    if whole_documents:
        return Sample(sampled, {})
    only = key[0] if len(key) == 1 else None
    definition = {"columns": columns, "key": only, "indexes": [f"USING {i.partition(' USING ')[2]}" for i in indexes]}
    return Sample(sampled, definition, only)
