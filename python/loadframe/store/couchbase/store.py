"""Couchbase as it is administered by HTTP, at the port 8091. A collection is a bucket of that name.

How nodes come and go is in `membership`, how one is started from an installation in `launch`.

The load uses the engine's driver instead; nothing here is on a request's path.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.base.units import parse_size
from loadframe.store import installed
from loadframe.store.access import OPEN, Access
from loadframe.store.base import (
    WHOLE,
    Figure,
    Found,
    Health,
    Installation,
    Member,
    NodePlan,
    NodeSpec,
    Store,
    Watch,
)
from loadframe.store.couchbase import launch, membership
from loadframe.store.couchbase.rest import Administration, document
from loadframe.store.distribution import Distribution

#: Seconds that a new bucket may take until every node serves its part.
_READY_WITHIN = 60.0
_POLL = 0.2
#: Seconds between two looks at the number of documents, which the server adds up once a second.
_COUNTED_EVERY = 2.0
#: Bytes of memory that a bucket gets on each node, and the least that the server gives.
_RAM_QUOTA = 256 * 2**20
_LEAST_QUOTA = 100 * 2**20
_DEFINITION = ("replicas", "ram_quota", "durability", "index")
#: The level of each definition's `durability`, in the server's words.
_DURABILITIES = {
    "none": "none",
    "majority": "majority",
    "majority_and_persist_active": "majorityAndPersistActive",
    "persist_to_majority": "persistToMajority",
}

#: Tasks that rewrite files: of a bucket's documents, of the index of a view.
_COMPACTIONS = ("bucket_compaction", "view_compaction")

#: Figures of a bucket's part on a node, by what they are called there.
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
    """A cluster that runs somewhere, or one from the user's installation: no package registry has the server."""

    kind = "couchbase"
    port = 8091
    schemes: Mapping[str, bool | None] = {"couchbase": False, "couchbases": True}
    family = "couchbase"
    driver = "couchbase"
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
        """Remember who asks, and how."""
        self._rest = Administration(access)

    def with_access(self, access: Access) -> Self:
        """Return the store as it is asked by TLS, as a user with a password, or both."""
        if access.auth is not None and access.auth.scheme != "basic":
            raise BadInput("couchbase knows users with passwords, and no keys or tokens", remedy="give --user")
        if access.compress:
            raise BadInput("requests to couchbase are not compressed", remedy="leave --compress out")
        return self if access == OPEN else type(self)(access)

    def installation(self, home: Path | None) -> Found:
        """Return the user's own, or else the PATH's."""
        if home is None and installed.program(None, "couchbase-server") is None:
            raise _nowhere()
        return launch.find(home)

    def distribution(self, version: str) -> Distribution:
        """Refuse: no registry has it."""
        raise _nowhere()

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are loadframe's own: quotas of memory, and when nodes are failed over."""
        launch.check(settings)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the node's own copy of what the installation starts by."""
        return launch.plan(node, installation)

    def keeps_addresses(self, settings: Mapping[str, Any]) -> str | None:
        """Their addresses are their names."""
        return "a node's address is its name, by which the others know it"

    def version(self, addresses: Sequence[str]) -> str:
        """Return the version, such as 7.6.2-3721-enterprise."""
        return str(self._rest.read(addresses, "/pools")["implementationVersion"])

    def health(self, addresses: Sequence[str]) -> Health:
        """Ready is that every node that serves is healthy; while a rebalance runs, one piece is on the move."""
        return membership.Pool.read(self._rest, addresses).health()

    def form(self, members: Sequence[Member], settings: Mapping[str, Any], watch: Watch) -> None:
        """Set the first node up, with an administrator, and add the others."""
        membership.form(self._rest, members, settings, watch)

    def reunite(self, members: Sequence[Member], watch: Watch) -> None:
        """Wait for the nodes, which are where they were, and take back what was failed over."""
        membership.reunite(self._rest, members, watch)

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Add the node; it serves nothing before the data is balanced."""
        membership.join(self._rest, addresses, member, watch)

    def balance(self, addresses: Sequence[str], watch: Watch) -> None:
        """Rebalance."""
        membership.balance(self._rest, addresses, watch)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Rebalance without the node."""
        membership.leave(self._rest, addresses, member, watch)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Drop a node that was only added, or that is gone and whose documents have replicas."""
        membership.forget(self._rest, addresses, member)

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Stop the rebalance by which the node would leave."""
        membership.stay(self._rest, addresses)

    def configure(self, addresses: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Change quotas, and when nodes are failed over."""
        launch.check(settings)
        launch.apply(lambda path, **values: self._rest.ask(addresses, "POST", path, values), None, settings)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create a bucket from `replicas`, `ram_quota` and `durability`; with `index`, one that scans can use."""
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
        answer = self._rest.ask(addresses, "GET", f"/pools/default/buckets/{name}")
        if answer.status == 404:
            return False
        bucket = document(answer, dict)
        owners = [places[0] for places in bucket.get("vBucketServerMap", {}).get("vBucketMap", [])]
        return bool(owners) and min(owners) >= 0 and all(node["status"] == "healthy" for node in bucket["nodes"])

    def _index(self, addresses: Sequence[str], name: str) -> None:
        """Create the primary index, which statements about all documents go by."""
        known = self._rest.read(addresses, "/pools/default/nodeServices")
        port = "n1qlSSL" if self._rest.scheme == "https" else "n1ql"
        host = addresses[0].rpartition(":")[0]
        where = [
            f"{node.get('hostname', host)}:{node['services'][port]}"
            for node in known.get("nodesExt", [])
            if port in node["services"]
        ]
        if not where:
            raise BadInput("no node of the cluster answers statements", remedy="leave index: true out")
        statement = f"CREATE PRIMARY INDEX IF NOT EXISTS ON `{name}`"
        self._rest.ask(where, "POST", "/query/service", {"statement": statement})

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Whether there is a bucket of that name."""
        return self._rest.ask(addresses, "GET", f"/pools/default/buckets/{name}").status != 404

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Delete the bucket, if it is there."""
        self._rest.ask(addresses, "DELETE", f"/pools/default/buckets/{name}")

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Return the number of documents when two looks in a row agree: the server adds them up a little later."""
        before, now = -1, self._counted(addresses, name)
        while now != before:
            time.sleep(_COUNTED_EVERY)
            before, now = now, self._counted(addresses, name)
        return now

    def _counted(self, addresses: Sequence[str], name: str) -> int:
        answer = self._rest.ask(addresses, "GET", f"/pools/default/buckets/{name}")
        stats = document(answer, dict).get("basicStats", {}) if answer.status != 404 else {}
        if "itemCount" not in stats:
            raise StoreFailed(f"the cluster does not say how many documents {name} has")
        return int(stats["itemCount"])

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return each node's figures by its address, and what the cluster compacts, of which it names no nodes."""
        pool = self._rest.read(addresses, "/pools/default")
        figures = {node["hostname"]: node_figures(node) for node in pool.get("nodes", [])}
        told = self._rest.ask(addresses, "GET", "/pools/default/tasks")
        if told.status == 404:
            return figures
        return figures | {WHOLE: {"compactions_current": float(compactions(document(told, list)))}}


def bucket_form(name: str, definition: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return what the server is asked for; BadInput for a definition that it has no bucket for."""
    for key in definition:
        if key not in _DEFINITION:
            raise BadInput(f"a bucket has no {key}", where=f"collection {name}", remedy=f"say {', '.join(_DEFINITION)}")
    quota = parse_size(definition["ram_quota"]) if "ram_quota" in definition else _RAM_QUOTA
    if quota < _LEAST_QUOTA:
        raise BadInput("a bucket wants 100 MiB of memory on each node, or more", where=f"collection {name}: ram_quota")
    replicas = definition.get("replicas", min(1, nodes - 1))
    if replicas not in range(4) or replicas >= nodes:
        raise BadInput(
            f"{replicas} replicas on {nodes} nodes",
            where=f"collection {name}",
            remedy=f"give 0 to {min(3, nodes - 1)}: each copy has a node of its own",
        )
    durability = definition.get("durability", "none")
    if durability not in _DURABILITIES:
        raise BadInput(
            f"there is no durability {durability!r}",
            where=f"collection {name}",
            remedy=f"say {', '.join(_DURABILITIES)}",
        )
    form = {"name": name, "bucketType": "couchbase", "ramQuotaMB": quota // 2**20, "replicaNumber": replicas}
    return form | {"durabilityMinLevel": _DURABILITIES[durability]}


def node_figures(node: Mapping[str, Any]) -> dict[str, float]:
    """Read a node's figures out of what the server says of it."""
    figures = {
        name: float(value)
        for key, name in _FIGURES.items()
        if isinstance(value := node.get("interestingStats", {}).get(key), int | float)
    }
    if isinstance(cpu := node.get("systemStats", {}).get("cpu_utilization_rate"), int | float):
        figures["cpu_percent"] = float(cpu)
    return figures


def compactions(tasks: Sequence[Mapping[str, Any]]) -> int:
    """Return how many buckets and view indexes are compacted, from the list of the cluster's tasks.

    A list has an entry with a `type` for each; one that only waits has another `status` than `running`.
    """
    running = [task for task in tasks if task.get("status", "running") == "running"]
    return sum(task.get("type") in _COMPACTIONS for task in running)


def _nowhere() -> BadInput:
    return BadInput(
        "couchbase is in no package registry",
        remedy="give the folder of an installation with --home, or name a cluster that runs with --hosts host:8091 "
        "--user NAME",
    )


STORE = Couchbase()
