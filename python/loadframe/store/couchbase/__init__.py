"""Couchbase, administered over HTTP at port 8091. A collection is a bucket of the same name.

`membership` adds and removes nodes, `launch` starts them. Load uses the engine's driver instead.
"""

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.base.units import counted, format_nodes, parse_size
from loadframe.store import distribution
from loadframe.store.access import OPEN, Access
from loadframe.store.base import (
    WHOLE,
    Figure,
    FoundInstallation,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    Sample,
    Store,
    Watch,
)
from loadframe.store.couchbase import launch, membership
from loadframe.store.couchbase.membership import Administration, document
from loadframe.store.distribution import Distribution

#: Time limit for a new bucket until all nodes serve it, s.
_READY_WITHIN = 60.0
_POLL = 0.2
_NOT_FOUND = 404
#: Interval for polling the number of documents, which the server updates once a second, s.
_COUNTED_EVERY = 2.0
#: Default and minimum memory of a bucket on each node, bytes.
_RAM_QUOTA = 256 * 2**20
_MIN_QUOTA = 100 * 2**20
_DEFINITION = ("replicas", "ram_quota", "durability", "index")
#: Values of `durability` -> the server's names.
_DURABILITIES = {
    "none": "none",
    "majority": "majority",
    "majority_and_persist_active": "majorityAndPersistActive",
    "persist_to_majority": "persistToMajority",
}

#: Tasks that rewrite the files of a bucket or of a view's index.
_COMPACTIONS = ("bucket_compaction", "view_compaction")

#: The server's names of statistics per bucket and node -> our names.
_FIGURES = {
    "ops": "operations_per_second",
    "cmd_get": "gets_per_second",
    "get_hits": "get_hits_per_second",
    "ep_bg_fetched": "background_fetches_per_second",
    "curr_items": "documents",
    "curr_items_tot": "documents_with_copies",
    "vb_active_num_non_resident": "documents_on_disk_only",
    "couch_docs_actual_disk_size": "disk_bytes",
    "mem_used": "memory_bytes",
}


class Couchbase(Store):
    """Couchbase: a running cluster, or one from the user's installation, since no package registry has it.

    Methods raise the errors of `Administration.ask`. `watch` gets the progress of waits, and may end them by an error.
    """

    kind = "couchbase"
    maker = ("Couchbase, Inc.", "https://www.couchbase.com", "Couchbase Server")
    port = 8091
    schemes: Mapping[str, bool | None] = {"couchbase": False, "couchbases": True}
    family = "couchbase"
    driver = "couchbase"
    speaks_http = True
    administrator = "Administrator"
    many_processes = True
    extra_ports = launch.EXTRA_PORTS
    watched = (
        Figure("ops/s", "operations_per_second"),
        Figure("gets/s", "gets_per_second"),
        Figure("fetched/s", "background_fetches_per_second"),
        Figure("documents", "documents"),
        Figure("memory", "memory_bytes", size=True),
        Figure("disk", "disk_bytes", size=True),
        Figure("cpu %", "cpu_percent"),
    )

    def __init__(self, access: Access = OPEN) -> None:
        """Create the store. Its client for the administration uses `access`."""
        self._rest = Administration(access)

    def with_access(self, access: Access) -> Self:
        """Return the store with TLS, a user with a password, or both; BadInput for other credentials."""
        self._require_user_login(access)
        return self if access == OPEN else type(self)(access)

    def installation(self, home: Path | None) -> FoundInstallation:
        """Return the installation at `home`, or on the PATH if None.

        BadInput if it is missing, incomplete or older than version 7.
        """
        if home is None and distribution.program(None, "couchbase-server") is None:
            raise _not_packaged()
        return launch.find(home)

    def distribution(self, version: str) -> Distribution:
        """Raise BadInput: no package registry has Couchbase."""
        raise _not_packaged()

    def durability(self, settings: Mapping[str, Any]) -> str:
        """Return the same text for all settings: durability `none`, unless the collection sets another."""
        return "durability none, unless the collection has another"

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for unknown settings, quotas below 256 MiB, and invalid values of `auto_failover`."""
        launch.check(settings)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of a node, with adapted copies of the installation's start script and configuration.

        BadInput for an unknown start script, or a memory limit below 1 GiB.
        """
        return launch.plan(node, installation)

    def keeps_addresses(self, settings: Mapping[str, Any]) -> str | None:
        """Return the reason why restarted nodes need their addresses: these identify nodes."""
        return "a node's address identifies it in the cluster"

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, such as 7.6.2-3721-enterprise; BadInput for another product."""
        answer = self._rest.read(addresses, "/pools")
        if "implementationVersion" not in answer:
            raise BadInput(
                "not a cluster of couchbase: the answer to GET /pools lacks a version",
                where=", ".join(addresses),
                remedy="give the address of its administration port, such as host:8091, or another --store",
            )
        return str(answer["implementationVersion"])

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the health: ready if all active nodes are healthy and none is failed over.

        Unhealthy and failed-over nodes are missing. A running or pending rebalance is one moving piece.
        """
        return membership.Pool.read(self._rest, addresses).health()

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Wait for the nodes, set up the first with settings and administrator, add the others, and rebalance."""
        membership.form(self._rest, members, settings, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Wait for the restarted nodes, and take back nodes that were failed over, which needs a rebalance."""
        membership.reunite(self._rest, members, watch)

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Wait for the started node, and add it unless it is known; it serves nothing before the data is rebalanced."""
        membership.join(self._rest, addresses, member, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Wait for a running rebalance, then rebalance if that would change anything, and wait until it has ended.

        `watch` gets the percentage left. StoreFailed if a rebalance fails.
        """
        membership.balance(self._rest, addresses, watch)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Rebalance without the node, and wait until it has ended; BadInput if the others could not hold all copies.

        `watch` gets the percentage left. StoreFailed if the rebalance fails.
        """
        membership.leave(self._rest, addresses, member, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Remove a node that was only added, or one that was failed over; LoadframeError if the store refuses."""
        membership.forget(self._rest, addresses, member)

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Stop the running rebalance, which removes the node; moved data stays in its new place."""
        membership.stay(self._rest, addresses)

    def reaches_all(self, addresses: Sequence[str], nodes: int) -> bool:
        """Return True: the driver finds the other nodes."""
        return True

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Change memory quotas (`ram_quota`, `index_quota`: sizes) and `auto_failover`; BadInput for other settings."""
        launch.check(settings)
        launch.apply(lambda path, **values: self._rest.ask(addresses, "POST", path, values), None, settings)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a bucket with `replicas`, `ram_quota` and `durability`; with `index`, also a primary index.

        Defaults: one replica (none on one node), 256 MiB of memory per node, durability `none`. BadInput for an invalid
        definition, such as more replicas than `nodes` allow, StoreFailed if it is not ready within 60 s.
        """
        form = bucket_form(name, definition, nodes)
        self._rest.ask(addresses, "POST", "/pools/default/buckets", form)
        end = time.monotonic() + _READY_WITHIN
        while not self._is_ready(addresses, name):
            if time.monotonic() > end:
                raise StoreFailed(f"the bucket {name} was not ready within {_READY_WITHIN:.0f} s")
            time.sleep(_POLL)
        if definition.get("index"):
            self._index(addresses, name)

    def _is_ready(self, addresses: Sequence[str], name: str) -> bool:
        """Whether the bucket exists, each of its partitions has an active node, and all its nodes are healthy."""
        answer = self._rest.ask(addresses, "GET", f"/pools/default/buckets/{name}")
        if answer.status == _NOT_FOUND:
            return False
        bucket = document(answer, dict)
        owners = [places[0] for places in bucket.get("vBucketServerMap", {}).get("vBucketMap", [])]
        return bool(owners) and min(owners) >= 0 and all(node["status"] == "healthy" for node in bucket["nodes"])

    def _index(self, addresses: Sequence[str], name: str) -> None:
        """Create the bucket's primary index, which statements on all documents need, unless it exists."""
        self._query(addresses, f"CREATE PRIMARY INDEX IF NOT EXISTS ON {_quoted(name)}", "leave index: true out")

    def _query(self, addresses: Sequence[str], statement: str, remedy: str) -> list[Any]:
        """Run a statement on the first node with the query service that answers, and return its results.

        BadInput with `remedy` if no node runs the service, and for denied access. LoadframeError if the statement
        fails. StoreFailed or Unreachable without an answer.
        """
        known = self._rest.read(addresses, "/pools/default/nodeServices")
        port = "n1qlSSL" if self._rest.scheme == "https" else "n1ql"
        host = addresses[0].rpartition(":")[0]
        where = [
            f"{node.get('hostname', host)}:{node['services'][port]}"
            for node in known.get("nodesExt", [])
            if port in node["services"]
        ]
        if not where:
            raise BadInput("no node of the cluster runs the query service", remedy=remedy)
        answer = self._rest.ask(where, "POST", "/query/service", {"statement": statement})
        # A statement that fails after its first results has the status 200.
        if answer.status == _NOT_FOUND or (content := document(answer, dict)).get("errors"):
            raise LoadframeError(f"the statement failed: {answer.text[:300]}", where=answer.address)
        results: list[Any] = content.get("results", [])
        return results

    def sample(self, addresses: Sequence[str], name: str, documents: int, database: str | None = None) -> Sample:
        """Return up to `documents` random JSON objects of a bucket; every document has the same chance.

        There may be fewer, also in a larger bucket, because each document is drawn independently. BadInput if the
        bucket, its primary index or the query service is missing, or `database` is given.
        """
        self._refuse_database(database)
        quoted, export = _quoted(name), "export the documents to a file"
        if not self.has_collection(addresses, name):
            raise BadInput(f"the bucket {name} does not exist", where=", ".join(addresses), remedy="check the name")
        share = documents / max(self._counted(addresses, name), 1)
        chosen = f"SELECT RAW META(k).id FROM {quoted} AS k WHERE RANDOM() < {share:.9f}"
        try:
            rows = self._query(addresses, f"SELECT RAW d FROM {quoted} AS d USE KEYS ({chosen})", export)
        except LoadframeError as error:
            if "No index available" not in str(error):
                raise
            remedy = f"create a primary index (CREATE PRIMARY INDEX ON {quoted}), or {export}"
            raise BadInput(
                f"the bucket {name} lacks a primary index", where=", ".join(addresses), remedy=remedy
            ) from error
        objects = [row for row in rows if isinstance(row, dict) and row]
        return Sample(random.sample(objects, min(documents, len(objects))), {})

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return whether a bucket of that name exists."""
        return self._rest.ask(addresses, "GET", f"/pools/default/buckets/{name}").status != _NOT_FOUND

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Delete the bucket; do nothing if it does not exist."""
        self._rest.ask(addresses, "DELETE", f"/pools/default/buckets/{name}")

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of documents of a bucket, once two polls 2 s apart agree: the server counts with a delay.

        There is no time limit. `addresses` are host:port of the administration; the first that answers is asked.
        StoreFailed without such a bucket, BadInput for denied access, Unreachable without an answer.
        """
        before, now = -1, self._counted(addresses, name)
        while now != before:
            time.sleep(_COUNTED_EVERY)
            before, now = now, self._counted(addresses, name)
        return now

    def _counted(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of documents in the bucket's statistics, which lag; StoreFailed without such a bucket."""
        answer = self._rest.ask(addresses, "GET", f"/pools/default/buckets/{name}")
        stats = document(answer, dict).get("basicStats", {}) if answer.status != _NOT_FOUND else {}
        if "itemCount" not in stats:
            raise StoreFailed(f"the cluster does not report the number of documents of {name}")
        return int(stats["itemCount"])

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return statistics by node address, and the number of running compactions under `WHOLE`."""
        pool = self._rest.read(addresses, "/pools/default")
        figures = {node["hostname"]: node_figures(node) for node in pool.get("nodes", [])}
        tasks = self._rest.ask(addresses, "GET", "/pools/default/tasks")
        if tasks.status == _NOT_FOUND:
            return figures
        return figures | {WHOLE: {"compactions_current": float(compactions(document(tasks, list)))}}


def bucket_form(name: str, definition: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return the HTTP form that creates a bucket in a cluster of `nodes` nodes; BadInput for an invalid definition.

    Defaults, also for None: 256 MiB per node, one replica (none on one node), durability `none`. At least 100 MiB; at
    most 3 replicas, and fewer than nodes.
    """
    for key in definition:
        if key not in _DEFINITION:
            raise BadInput(
                f"unknown option {key} of a bucket",
                where=f"collection {name}",
                remedy=f"use {', '.join(_DEFINITION)}",
            )
    definition = {key: value for key, value in definition.items() if value is not None}
    quota = parse_size(definition["ram_quota"]) if "ram_quota" in definition else _RAM_QUOTA
    if quota < _MIN_QUOTA:
        raise BadInput("a bucket needs at least 100 MiB of memory per node", where=f"collection {name}: ram_quota")
    replicas = definition.get("replicas", min(1, nodes - 1))
    if replicas not in range(4) or replicas >= nodes:
        raise BadInput(
            f"cannot place {counted(replicas, 'replica')} on {format_nodes(nodes)}",
            where=f"collection {name}",
            remedy=f"give 0 to {min(3, nodes - 1)}: each copy needs a separate node",
        )
    durability = definition.get("durability", "none")
    if durability not in _DURABILITIES:
        raise BadInput(
            f"unknown durability {durability!r}",
            where=f"collection {name}",
            remedy=f"use one of {', '.join(_DURABILITIES)}",
        )
    form = {"name": name, "bucketType": "couchbase", "ramQuotaMB": quota // 2**20, "replicaNumber": replicas}
    return form | {"durabilityMinLevel": _DURABILITIES[durability]}


def _quoted(name: str) -> str:
    """Return a bucket's name quoted for a statement."""
    return f"`{name.replace('`', '``')}`"


def node_figures(node: Mapping[str, Any]) -> dict[str, float]:
    """Return a node's statistics by Loadframe's names, from the server's description of the node.

    Statistics that the server does not report are left out. `cpu_percent` is 0 to 100.
    """
    figures = {
        name: float(value)
        for key, name in _FIGURES.items()
        if isinstance(value := node.get("interestingStats", {}).get(key), int | float)
    }
    if isinstance(cpu := node.get("systemStats", {}).get("cpu_utilization_rate"), int | float):
        figures["cpu_percent"] = float(cpu)
    return figures


def compactions(tasks: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of running compactions of buckets and view indexes, from the cluster's list of tasks."""
    running = [task for task in tasks if task.get("status", "running") == "running"]
    return sum(task.get("type") in _COMPACTIONS for task in running)


def _not_packaged() -> BadInput:
    """Return the BadInput for a download: no package registry has Couchbase."""
    return BadInput(
        "no package registry has couchbase",
        remedy="give the folder of an installation with --home, or a running cluster with --hosts host:8091 ",
    )


STORE = Couchbase()
