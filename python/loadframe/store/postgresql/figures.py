"""Statistics of a PostgreSQL server from its statistics views, and replication lag."""

from loadframe.store.base import Figure
from loadframe.store.postgresql.client import Client

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
