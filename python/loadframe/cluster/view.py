"""Read access to a cluster: nodes, collections and health. Does not change nodes."""

import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_nodes
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.spec import ClusterSpec
from loadframe.host import placement
from loadframe.host.base import Machine
from loadframe.host.limits import PERIOD, Limits
from loadframe.store import OPEN, Health, Store


def describe(node_table: NodeTable) -> dict[str, Any]:
    """Return the manifest's description of how the cluster was started. Sizes in bytes, period in seconds."""
    spec, facts = node_table.spec, node_table.facts
    limits = spec.limits if spec else Limits()
    return {
        "version": facts.get("version"),
        "origin": facts.get("origin", "embedded") if spec else "attached",
        "name": spec.name if spec else None,
        "image": spec.image if spec else None,
        "home": spec.home if spec else None,
        "host": spec.host if spec else None,
        "cores": {node.name: node.cores for node in node_table.nodes if node.cores},
        **({"companions": others} if (others := companions(node_table)) else {}),
        **({"shared": shared} if (shared := sharing(node_table.nodes)) else {}),
        "links": {node.name: node.shape for node in node_table.nodes if node.shape},
        "limits": {
            "cpus": limits.cpus,
            "memory": limits.memory,
            "cores": limits.cores,
            "cores_each": limits.cores_each,
            "disk": dataclasses.asdict(limits.disk) if limits.disk else None,
            "enforced_by": facts.get("limited_by", "none"),
            "obstacle": facts.get("limits_missing"),
            "period": PERIOD if limits.cpus is not None else None,
        },
        "java": facts.get("java"),
        "heap": facts.get("heap"),
        "jvm_options": facts.get("jvm_options"),
        "settings": dict(spec.settings) if spec else {},
        "encryption": spec.encryption.value if spec else None,
        **({"racks": list(spec.racks)} if spec and spec.racks else {}),
        "adapted": dict(facts.get("adapted", {})),
        **_remote_machines(node_table),
    }


def companions(node_table: NodeTable) -> dict[str, str]:
    """Return process -> role for processes that are not part of a data node, such as a router."""
    return {node.name: node.role for node in node_table.nodes if node.companion}


def sharing(nodes: Sequence[Node]) -> dict[str, str]:
    """Return companion -> data node with which it shares limits."""
    keepers = {node.shares: node.name for node in nodes if node.shares and node.number is not None}
    return {node.name: keepers[node.shares] for node in nodes if node.companion and node.shares in keepers}


def _remote_machines(node_table: NodeTable) -> dict[str, Any]:
    """Return the manifest's entries `machines`, `placement` and `scratch`; empty if all nodes are on this machine.

    Each remote machine has its nodes, address, CPU model, threads, memory (bytes) and kernel.
    """
    if node_table.spec is None:
        return {}
    machines = [machine for machine in node_table.spec.place().machines if not machine.here]
    if not machines:
        return {}
    described = [
        {
            "name": machine.hostname,
            "nodes": [node.name for node in node_table.nodes if node.on == machine.hostname],
            "address": machine.address,
            "cpu": machine.facts.cpu,
            "threads": len(machine.facts.cores),
            "memory": machine.facts.memory,
            "kernel": machine.facts.kernel,
        }
        for machine in machines
    ]
    return {
        "machines": described,
        "placement": dataclasses.asdict(node_table.spec.placement),
        "scratch": node_table.spec.scratch,
    }


def deviations(node_table: NodeTable, throttled: bool) -> list[str]:
    """Return differences between the processes and the spec, one sentence each.

    Covers nodes that have ended, are paused, cut off, in a transition or of unknown state, and limits. An example is
    `node-0 is paused`. `throttled`: quotas should be in force; otherwise requested ones are reported as lifted.
    """
    sentences = []
    for node in node_table.nodes:
        if unknown := node.unknown:
            sentences.append(unknown)
        elif not node.alive:
            sentences.append(_end_message(node))
        elif node.paused:
            sentences.append(f"{node.name} is paused")
        elif node.cut:
            sentences.append(f"{node.name} is cut off from the other nodes")
        elif node.state not in (State.SETTLED, State.KILLED):
            sentences.append(f"{node.name} is {node.state}")
    sentences += limit_deviations(node_table, throttled)
    if node_table.facts.get("limits_missing"):
        sentences.append(f"the requested limits are not in force ({node_table.facts['limits_missing']})")
    elif node_table.spec and not throttled:
        limits = node_table.spec.limits
        sentences += ["the CPU quota is lifted"] if limits.cpus is not None else []
        sentences += ["the disk limits are lifted"] if limits.disk else []
    return sentences


def limit_deviations(node_table: NodeTable, throttled: bool) -> list[str]:
    """Read the limits of settled nodes; return differences from the spec, one sentence each.

    `throttled` is whether quotas should be in force. Another program may have changed a limit, or moved a node to
    another control group.
    """
    owners = sharing(node_table.nodes)
    sentences: dict[str, None] = {}
    for node in node_table.nodes:
        if node.unknown or node.process is None or node.state != State.SETTLED:
            continue
        for difference in node.process.limit_differences(throttled):
            # Processes that share limits have equal differences; each has its own group and cores.
            owner = owners.get(node.name, node.name) if difference.what.endswith("limit") else node.name
            sentences[f"the {difference.what} of {owner} is {difference.actual}, not {difference.expected}"] = None
    return list(sentences)


def losses(node_table: NodeTable) -> list[str]:
    """Return a sentence, such as `node-0 has ended`, for each node that ended without being killed on purpose.

    Nodes of unknown state are omitted.
    """
    known = [node for node in node_table.nodes if not node.unknown]
    return [_end_message(node) for node in known if not node.alive and node.state != State.KILLED]


def miscounted(health: Health, size: int) -> list[str]:
    """Return a list of one sentence if the store's number of nodes differs from `size`, otherwise an empty list."""
    return [] if health.nodes == size else [f"the cluster has {format_nodes(health.nodes)}, not {size}"]


def incomplete(health: Health, size: int) -> list[str]:
    """Return a list of one sentence if the cluster is not ready, otherwise an empty list.

    Empty also if only declared copies are missing that do not fit on `size` nodes.
    """
    # Declared copies that so few nodes cannot hold are expected to be missing, such as a replica on a single node.
    if not health.serves_all(size):
        if not health.missing:
            return [f"the cluster is {health.status}"]
        missing = f"{counted(health.missing, *health.piece)} not in service"
        # A store may report `ok` for seconds after it lost data, until its timeout.
        return [missing if health.status == "ok" else f"the cluster is {health.status}, with {missing}"]
    return []


def unready(health: Health, size: int) -> list[str]:
    """Return the sentence of `incomplete`, if any, and one if data is being moved; empty without both."""
    sentences = incomplete(health, size)
    if health.moving:
        sentences.append(f"{health.moving} pieces of data are being moved between nodes")
    return sentences


def _end_message(node: Node) -> str:
    """Return the sentence for a node that has ended, with the cause if it is known."""
    return f"{node.name} has ended{_cause(node)}"


def _cause(node: Node) -> str:
    """Return the known cause of a node's end, to follow `has ended`; empty if it is unknown."""
    if node.state == State.KILLED:
        return ", killed on purpose"
    status = node.process.exit_status() if node.process else None
    # 137 is 128 + SIGKILL, which the kernel sends when a process exceeds its memory limit.
    return {None: "", 137: ", killed, possibly for lack of memory"}.get(status, f", with status {status}")


class ClusterView:
    """Read access to a cluster, whether loadframe started it or not."""

    def __init__(self, store: Store, node_table: NodeTable, *, attached: int | None = None) -> None:
        """`attached` is the initial number of nodes of a cluster that loadframe did not start, else None."""
        self.store = store
        self._node_table = node_table
        self._attached = attached
        self._throttled = True
        #: Names of settings, changed at run time, that a started node may lack.
        self._lacking: set[str] = set()
        #: Further entries of `describe`, for a cluster that exists before an experiment.
        self.observed: dict[str, Any] = {}
        #: The state without moving data in which it was still not ready after a wait of a run, or None.
        self.unsettled: str | None = None
        #: Credentials and TLS settings for its nodes.
        self.access = OPEN

    @property
    def spec(self) -> ClusterSpec | None:
        """Current specification, or None for a cluster that loadframe did not start."""
        return self._node_table.spec

    @property
    def nodes(self) -> list[Node]:
        """Processes, in order of creation."""
        self._node_table.follow()
        return list(self._node_table.nodes)

    @property
    def machines(self) -> Sequence[Machine]:
        """Machines of the cluster's host; empty for a cluster that loadframe did not start."""
        return self.spec.place().machines if self.spec else ()

    @property
    def size(self) -> int:
        """Target number of data nodes; of an attached cluster, its number when attached, or after the last `resize`."""
        return self._attached if self._attached is not None else self._of_ours().nodes

    @property
    def addresses(self) -> list[str]:
        """Current `host:port` of each running member that serves clients."""
        self._node_table.follow()
        return [node.address for node in self._node_table.asked]

    @property
    def _answering(self) -> list[str]:
        """Same addresses as `addresses`, with paused and cut off nodes last, because they would delay requests."""
        return [node.address for node in sorted(self._node_table.asked, key=lambda node: node.paused or node.cut)]

    @property
    def cores_left(self) -> set[int] | None:
        """Cores that the nodes leave to the load generator; None if none is left, they share all, or run elsewhere."""
        if self.spec is None or (self.spec.limits.cores is None and self.spec.limits.cores_each is None):
            return None
        if not all(machine.here for machine in self.machines):
            return None
        return os.sched_getaffinity(0) - set(placement.candidate_cores(self.spec.limits, self.spec.nodes)) or None

    def _named(self, name: str) -> Node:
        """Return the node of that name; BadInput with a suggestion if there is none."""
        names = [node.name for node in self.nodes]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise BadInput(
                f"unknown node {name!r} of the cluster",
                remedy=f"did you mean {near[0]}?" if near else f"its nodes: {', '.join(names)}",
            )
        return next(node for node in self.nodes if node.name == name)

    def _of_ours(self) -> ClusterSpec:
        """Return the specification; BadInput for a cluster that Loadframe did not start."""
        if self.spec is None:
            raise BadInput(
                "loadframe cannot change a cluster that it did not start", remedy="change it with the store's tools"
            )
        return self.spec

    def begin_run(self, seed: str) -> None:
        """Make a simulated store draw its random numbers from `seed`; do nothing for other stores."""
        self.store.begin_run(self._answering, seed)

    def create_collection(self, name: str, definition: Mapping[str, Any]) -> None:
        """Create a collection from the workload's definition for this store family, for the target number of nodes."""
        self.store.create_collection(self._answering, name, definition, nodes=self.size)

    def has_collection(self, name: str) -> bool:
        """Whether a collection exists."""
        return self.store.has_collection(self._answering, name)

    def drop_collection(self, name: str) -> None:
        """Drop a collection if it exists."""
        self.store.drop_collection(self._answering, name)

    def count(self, name: str) -> int:
        """Return the number of documents in a collection."""
        return self.store.count(self._answering, name)

    def unnamed_nodes(self) -> str | None:
        """Return a sentence if no address of a cluster that Loadframe did not start reaches some nodes, else None."""
        if self._attached is None:
            return None
        try:
            if self.store.reaches_all(self.addresses, self._attached):
                return None
        except LoadframeError:
            # A cluster that does not answer has other findings.
            return None
        named = counted(len(self.addresses), "address", "addresses")
        return (
            f"hosts names {named} of a cluster with {format_nodes(self._attached)}: unless a load balancer is there, no"
            " request goes to the other nodes"
        )

    def evictions(self) -> dict[str, int]:
        """Return how many documents each node has evicted since it started, by address.

        Empty if the store evicts none.
        """
        return self.store.evictions(self._answering)

    def count_having(self, name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return field -> number of documents of a collection that have it; BadInput if the store cannot count them."""
        return self.store.count_having(self._answering, name, fields)

    def health(self) -> Health:
        """Return the cluster's health; LoadframeError if no node answers."""
        return self.store.health(self._answering)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return node name -> metric -> value of the node; the key `WHOLE` has the cluster's statistics.

        An unknown node has its name in the store, or its address.
        """
        names = {node.address: node.name for node in self.nodes}
        return {names.get(node, node): figures for node, figures in self.store.statistics(self._answering).items()}

    def target(self) -> dict[str, Any]:
        """Return a load plan's entries for the cluster, except the addresses. They can contain secrets."""
        target = {"store": self.store.software(str(self._node_table.facts.get("version"))), **self.access.plan()}
        read_from = self.store.read_from(self.spec.settings) if self.spec else None
        return target if read_from is None else {**target, "read_from": read_from}

    def describe(self) -> dict[str, Any]:
        """Return the manifest entry to reproduce the cluster. Sizes in bytes, period in seconds."""
        self._node_table.follow()
        return {
            "kind": self.store.kind,
            "family": self.store.family,
            **describe(self._node_table),
            "nodes": self.size,
            "addresses": self.addresses,
            "access": self.access.describe(),
            "durability": self.store.durability(self.spec.settings) or None if self.spec else None,
            **self.observed,
        }

    def deviations(self) -> list[str]:
        """Return all sentences of `differences`: differences from the spec, then data not in service or being moved."""
        differs, unready = self.differences()
        return differs + unready

    def differences(self) -> tuple[list[str], list[str]]:
        """Return two lists of sentences: differences from the spec, and data not in service or being moved.

        A cluster that does not answer is a difference, and then the second list is empty.
        """
        self._node_table.follow()
        differs = deviations(self._node_table, self._throttled) + self.setting_deviations()
        if self._attached is not None:
            differs += self.store.silent(self.addresses)
        try:
            health = self.health()
        except LoadframeError as error:
            return [*differs, _silence(error)], []
        return differs + miscounted(health, self.size), unready(health, self.size)

    def unplanned_deviations(self) -> list[str]:
        """Return differences from the spec that no planned event causes, one sentence each: limits and settings.

        Limits are read from the kernel.
        """
        self._node_table.follow()
        return limit_deviations(self._node_table, self._throttled) + self.setting_deviations()

    def setting_deviations(self) -> list[str]:
        """Return a list of one sentence if a node may lack settings that were changed at run time, otherwise empty."""
        names = ", ".join(sorted(self._lacking))
        return [f"a started node may have another value of {names}, because setting it failed"] if names else []

    def losses(self) -> list[str]:
        """Return failures of the store, one sentence each: nodes that ended unexpectedly, and missing answers."""
        self._node_table.follow()
        ended = losses(self._node_table)
        try:
            self.health()
        except LoadframeError as error:
            ended.append(_silence(error))
        return ended

    def lost_copies(self) -> list[str]:
        """Return copies and nodes that the store reports as missing, one sentence each.

        A cluster that does not answer gives the only sentence.
        """
        try:
            health = self.health()
        except LoadframeError as error:
            return [_silence(error)]
        fewer = miscounted(health, self.size) if health.nodes < self.size else []
        return fewer + incomplete(health, self.size)


def _silence(error: LoadframeError) -> str:
    """Return the sentence for a cluster that does not answer, with the error."""
    silent = "the cluster does not answer"
    return error.what if error.what.startswith(silent) else f"{silent} ({error.what})"
