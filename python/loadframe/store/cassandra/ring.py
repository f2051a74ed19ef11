"""Ring state, statistics and sampled rows of Cassandra nodes, read with CQL; and the commands that change the ring."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store.access import join_address
from loadframe.store.base import Sample
from loadframe.store.cassandra import config

Ask = Callable[[str], list[dict[str, Any]]]

#: States of nodes while their data moves.
_MOVING = {"BOOT", "BOOT_REPLACE", "LEAVING", "MOVING"}
#: States of members, reachable or not. SHUTDOWN is announced by a node that stops.
_MEMBERS = {"NORMAL", "LEAVING", "MOVING", "SHUTDOWN"}


@dataclass(frozen=True)
class Ring:
    """Members of a cluster, as one node reports them."""

    members: tuple[str, ...]  #: host:port for clients of nodes that hold data
    states: frozenset[str]  #: states of all members and moving nodes

    moving: int  #: nodes that receive or give away data

    @classmethod
    def read(cls, ask: Ask) -> Self:
        """Return the members as one node reports them; `ask` sends a statement to a node and returns its rows.

        Without a gossip table, as in ScyllaDB, all peers with tokens count as NORMAL.
        """
        local = ask("SELECT * FROM system.local")[0]
        try:
            peers = ask("SELECT * FROM system.peers_v2")
            gossip = ask("SELECT * FROM system_views.gossip_info")
        except LoadframeError as error:
            if "does not exist" not in error.what and "unconfigured table" not in error.what:
                raise
            peers, gossip = ask("SELECT * FROM system.peers"), []
        port = local.get("rpc_port") or 9042
        addresses = {local["broadcast_address"]: join_address(local["rpc_address"], port)}
        for peer in peers:
            client = peer.get("native_address") or peer.get("rpc_address")
            if client and peer.get("tokens"):
                addresses[peer["peer"]] = join_address(client, peer.get("native_port") or port)
        states = {node["address"]: _state(node) for node in gossip} or dict.fromkeys(addresses, "NORMAL")
        members = tuple(address for node, address in addresses.items() if states.get(node, "NORMAL") in _MEMBERS)
        present = {state for state in states.values() if state in _MEMBERS | _MOVING}
        moving = sum(state in _MOVING for state in states.values())
        return cls(members, frozenset(present), moving)


def _state(node: dict[str, Any]) -> str:
    """Return a node's state from its row of gossip_info, in upper case, such as NORMAL; empty if it has none."""
    status = node.get("status_with_port") or node.get("status") or ""
    return str(status).split(",")[0].upper()


#: Thread pools -> prefixes of their statistics.
_POOLS = {
    "ReadStage": "read",
    "MutationStage": "write",
    "Native-Transport-Requests": "request",
    "CompactionExecutor": "compaction",
    "MemtableFlushWriter": "flush",
}
_POOL_FIGURES = {
    "active_tasks": "active",
    "pending_tasks": "queue",
    "completed_tasks": "completed",
    "blocked_tasks_all_time": "blocked",
}
_CACHES = {"keys": "key_cache", "rows": "row_cache", "chunks": "chunk_cache"}
_MEBIBYTE = 2**20


def figures(ask: Ask) -> dict[str, float]:
    """Return a node's statistics by Loadframe's names, from its virtual tables.

    They cover thread pools, caches, compactions, clients, hints, disk use and streams; names with `bytes` are in bytes.
    Counters start with the node. Disk use is without system keyspaces.
    `ask` sends a statement to the node and returns its rows.
    """
    totals: dict[str, float] = {}
    for pool in ask("SELECT * FROM system_views.thread_pools"):
        if (prefix := _POOLS.get(pool["name"])) is not None:
            for column, name in _POOL_FIGURES.items():
                totals[f"{prefix}_{name}"] = float(pool[column])
    for cache in ask("SELECT * FROM system_views.caches"):
        if (prefix := _CACHES.get(cache["name"])) is not None:
            totals[f"{prefix}_bytes"] = float(cache["size_bytes"])
            totals[f"{prefix}_hits"] = float(cache["hit_count"])
            totals[f"{prefix}_requests"] = float(cache["request_count"])
    tasks = ask("SELECT * FROM system_views.sstable_tasks")
    totals["compactions_current"] = float(len(tasks))
    totals["compactions_bytes_left"] = float(sum(task["total"] - task["progress"] for task in tasks))
    totals["clients"] = float(len(ask("SELECT address FROM system_views.clients")))
    totals["hints_pending"] = float(sum(row["files"] for row in ask("SELECT * FROM system_views.pending_hints")))
    totals["store_bytes"] = float(
        sum(
            row["mebibytes"] * _MEBIBYTE
            for row in ask("SELECT * FROM system_views.disk_usage")
            if not row["keyspace_name"].startswith("system")
        )
    )
    streams = ask("SELECT * FROM system_views.streaming")
    totals["stream_bytes_received"] = float(sum(stream["bytes_received"] or 0 for stream in streams))
    totals["stream_bytes_sent"] = float(sum(stream["bytes_sent"] or 0 for stream in streams))
    return totals


#: Timeout of the statement that reads the rows, s.
_TIMEOUT = 120.0


def sampled_rows(ask: Callable[..., list[dict[str, Any]]], name: str, documents: int, keyspace: str) -> Sample:
    """Return up to `documents` rows of a table, the first in the order of their tokens, which are hashes of the keys.

    BadInput for an invalid name, or without the table. Nulls are left out. The sample's key is None if the primary key
    has several columns. `ask(statement, timeout=...)` returns the rows of a statement; the timeout is in s.
    """
    for word in (name, keyspace):
        if not word.replace("_", "").isalnum():
            raise BadInput(f"{word!r} is not a name of a table or keyspace", remedy="check --collection and --database")
    statement = "SELECT column_name, kind, position, type FROM system_schema.columns"
    columns = ask(f"{statement} WHERE keyspace_name = '{keyspace}' AND table_name = '{name}'")
    if not columns:
        what = f"the keyspace {keyspace} does not have the table {name}"
        raise BadInput(what, remedy="check --collection and --database")
    parts = sorted((c for c in columns if c["kind"] in _KEYS), key=lambda c: (_KEYS.index(c["kind"]), c["position"]))
    key = [str(column["column_name"]) for column in parts]
    rows = ask(f'SELECT JSON * FROM "{keyspace}"."{name}" LIMIT {documents}', timeout=_TIMEOUT)
    # JSON keys of names with capital letters are quoted.
    sampled = [{k.strip('"'): v for k, v in json.loads(row["[json]"]).items() if v is not None} for row in rows]
    types = {str(column["column_name"]): str(column["type"]) for column in columns}
    only = key[0] if len(key) == 1 else None
    return Sample(sampled, {"columns": types, "key": only or key}, only)


_KEYS = ("partition_key", "clustering")


def management_command(folder: Path) -> list[str] | None:
    """Return the management command for the node in `folder`, with its process id, to which an operation is appended.

    Return None if the node has no process on this machine, or was not started by Loadframe.
    """
    command = nofollow.read_text(folder, "config/manage.json")
    if command is not None:
        marked = config.identity(folder).encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marked in (process / "cmdline").read_bytes().split(b"\0"):
                    return [*json.loads(command), "-p", process.name]
    return None


#: Commands that were started on this machine, by process id.
_BEGUN: dict[int, "subprocess.Popen[str]"] = {}


def start_command(command: Sequence[str]) -> int:
    """Start a command on this machine, and return its process id for `ended_command` and `kill_command`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    _BEGUN[process.pid] = process
    return process.pid


def ended_command(number: int) -> tuple[int, str] | None:
    """Return exit status and output of a command of `start_command`, and forget it; None while it runs.

    `number` is its process id. The output includes stderr.
    """
    process = _BEGUN[number]
    if process.poll() is None:
        return None
    output, _ = _BEGUN.pop(number).communicate()
    return process.returncode, output


def kill_command(number: int) -> None:
    """Kill a command that `start_command` started; do nothing if it has ended."""
    process = _BEGUN.pop(number, None)
    if process:
        process.kill()
        process.communicate()
