"""Statistics of a PostgreSQL server and replication lag, and random rows of its tables."""

import json
from collections.abc import Mapping

from loadframe.base.errors import BadInput
from loadframe.store.base import Figure, Sample
from loadframe.store.postgresql.client import SLOW, Client, PostgresError

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


def read(client: Client) -> dict[str, float]:
    """Return a server's statistics, without its lag."""
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
    """Add the lag behind the primary to each server's statistics, in bytes of the log."""
    primary = max((node["log_bytes"] for node in figures.values() if node.get("primary")), default=None)
    for node in figures.values():
        # Servers are read in turn, so that a replica may appear to be ahead.
        node["lag_bytes"] = 0.0 if primary is None else max(primary - node.get("log_bytes", primary), 0.0)


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

    `whole` are the columns of a table that holds whole documents.
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
