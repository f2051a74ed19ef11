"""A cluster as it is looked at and asked: its nodes, its collections, its health. Nothing here changes a node."""

import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_nodes
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import Roster
from loadframe.cluster.spec import ClusterSpec
from loadframe.host import cores
from loadframe.host.base import Machine
from loadframe.host.limits import PERIOD, Limits
from loadframe.store import OPEN, Health, Store


def describe(roster: Roster) -> dict[str, Any]:
    """Return what is known of the way in which it was started. Sizes in bytes, the period in seconds."""
    spec, facts = roster.spec, roster.facts
    limits = spec.limits if spec else Limits()
    return {
        "version": facts.get("version"),
        "origin": facts.get("origin", "embedded") if spec else "attached",
        "name": spec.name if spec else None,
        "image": spec.image if spec else None,
        "home": spec.home if spec else None,
        "host": spec.host if spec else None,
        "cores": {node.name: node.cores for node in roster.nodes if node.cores},
        **({"companions": beside} if (beside := companions(roster)) else {}),
        **({"shared": shared} if (shared := sharing(roster.nodes)) else {}),
        "links": {node.name: node.shape for node in roster.nodes if node.shape},
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
        **_placed(roster),
    }


def companions(roster: Roster) -> dict[str, str]:
    """Return the processes that keep no data, and what each is for."""
    return {node.name: node.role for node in roster.nodes if node.companion}


def sharing(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the companions that share the limits of a node that keeps data, with the name of that node."""
    keepers = {node.shares: node.name for node in nodes if node.shares and node.number is not None}
    return {node.name: keepers[node.shares] for node in nodes if node.companion and node.shares in keepers}


def _placed(roster: Roster) -> dict[str, Any]:
    """Return which other machines have which nodes, and what these machines are; nothing where all are on this one."""
    if roster.spec is None:
        return {}
    machines = [machine for machine in roster.spec.place().machines if not machine.here]
    if not machines:
        return {}
    told = [
        {
            "name": machine.hostname,
            "nodes": [node.name for node in roster.nodes if node.on == machine.hostname],
            "address": machine.address,
            "cpu": machine.facts.cpu,
            "threads": len(machine.facts.cores),
            "memory": machine.facts.memory,
            "kernel": machine.facts.kernel,
        }
        for machine in machines
    ]
    return {
        "machines": told,
        "placement": dataclasses.asdict(roster.spec.placement),
        "scratch": roster.spec.scratch,
    }


def deviations(roster: Roster, throttled: bool) -> list[str]:
    """Return how the processes differ from what was asked for, one sentence each."""
    sentences = []
    for node in roster.nodes:
        if unknown := node.unknown:
            sentences.append(unknown)
        elif not node.alive:
            sentences.append(_gone(node))
        elif node.paused:
            sentences.append(f"{node.name} is paused")
        elif node.cut:
            sentences.append(f"{node.name} is cut off from the others")
        elif node.state not in (State.SETTLED, State.KILLED):
            sentences.append(f"{node.name} is {node.state}")
    if roster.facts.get("limits_missing"):
        sentences.append(f"the limits asked for are not in force ({roster.facts['limits_missing']})")
    elif roster.spec and not throttled:
        limits = roster.spec.limits
        sentences += ["the CPU quota is lifted"] if limits.cpus is not None else []
        sentences += ["the limits of the disk are lifted"] if limits.disk else []
    return sentences


def losses(roster: Roster) -> list[str]:
    """Return which nodes ended although nobody ended them, one sentence each, as in `deviations`."""
    known = [node for node in roster.nodes if not node.unknown]
    return [_gone(node) for node in known if not node.alive and node.state != State.KILLED]


def miscounted(health: Health, size: int) -> list[str]:
    """Return how the store's own number of nodes differs from that size, if it does."""
    return [] if health.nodes == size else [f"the cluster has {format_nodes(health.nodes)}, not {size}"]


def incomplete(health: Health, size: int) -> list[str]:
    """Return how the data differ from every copy in service, as far as so many nodes can hold them."""
    # What was declared and cannot be is as it was declared: a replica beside its primary on the only node.
    as_declared = health.declared and health.missing <= health.unheld(size)
    if not health.ready and not as_declared:
        missing = f", with {counted(health.missing, *health.piece)} not in service" if health.missing else ""
        return [f"the cluster is {health.status}{missing}"]
    return []


def unready(health: Health, size: int) -> list[str]:
    """Return how the data differ from every copy in service, as far as so many nodes can hold them, and at rest."""
    sentences = incomplete(health, size)
    if health.moving:
        sentences.append(f"{health.moving} pieces of data are on the move between nodes")
    return sentences


def _gone(node: Node) -> str:
    return f"{node.name} is gone{_cause(node)}"


def _cause(node: Node) -> str:
    """Return what is known of a node's end, to follow `is gone`."""
    if node.state == State.KILLED:
        return ", killed on purpose"
    status = node.process.exit_status() if node.process else None
    # 137 is 128 + SIGKILL, which is what the kernel sends to a process over its memory limit.
    return {None: "", 137: ", killed, as for too little memory"}.get(status, f", with status {status}")


class ClusterView:
    """What can be known of a cluster, started here or elsewhere, and asked of its store."""

    def __init__(self, store: Store, roster: Roster, *, attached: int | None = None) -> None:
        """`attached` is the number of nodes of a cluster that loadframe did not start, when it was attached to."""
        self.store = store
        self._roster = roster
        self._attached = attached
        self._throttled = True
        #: How its nodes are reached, and as whom.
        self.access = OPEN

    @property
    def spec(self) -> ClusterSpec | None:
        """What it is to be like by now; None for a cluster that Loadframe did not start."""
        return self._roster.spec

    @property
    def nodes(self) -> list[Node]:
        """Its processes, in the order in which they came."""
        self._roster.follow()
        return list(self._roster.nodes)

    @property
    def machines(self) -> Sequence[Machine]:
        """The machines that its nodes are, or may come to be, on; none of a cluster that Loadframe did not start."""
        return self.spec.place().machines if self.spec else ()

    @property
    def size(self) -> int:
        """How many data-bearing nodes the cluster is to have; of one that was attached to, how many it had."""
        return self._attached if self._attached is not None else self._of_ours().nodes

    @property
    def addresses(self) -> list[str]:
        """The `host:port` of each member that clients can ask and that runs; it changes as nodes come and go."""
        self._roster.follow()
        return [node.address for node in self._roster.asked]

    @property
    def _answering(self) -> list[str]:
        """The same, with those last that stand still or are cut off, and would let us wait."""
        return [node.address for node in sorted(self._roster.asked, key=lambda node: node.paused or node.cut)]

    @property
    def cores_left(self) -> set[int] | None:
        """The cores that the nodes leave to whoever asks them; None where they share them all."""
        if self.spec is None or (self.spec.limits.cores is None and self.spec.limits.cores_each is None):
            return None
        if not all(machine.here for machine in self.machines):
            return None
        return os.sched_getaffinity(0) - set(cores.pool(self.spec.limits, self.spec.nodes)) or None

    def _named(self, name: str) -> Node:
        names = [node.name for node in self.nodes]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise BadInput(
                f"the cluster has no node {name!r}",
                remedy=f"did you mean {near[0]}?" if near else f"its nodes are {', '.join(names)}",
            )
        return next(node for node in self.nodes if node.name == name)

    def _of_ours(self) -> ClusterSpec:
        if self.spec is None:
            raise BadInput("loadframe did not start this cluster, and does not change it", remedy="change it yourself")
        return self.spec

    def create_collection(self, name: str, definition: Mapping[str, Any]) -> None:
        """Create a collection from the definition that the workload has for this store's family."""
        self.store.create_collection(self._answering, name, definition, nodes=self.size)

    def has_collection(self, name: str) -> bool:
        """Return whether a collection is there."""
        return self.store.has_collection(self._answering, name)

    def drop_collection(self, name: str) -> None:
        """Drop a collection, if it is there."""
        self.store.drop_collection(self._answering, name)

    def count(self, name: str) -> int:
        """Return the number of documents in a collection."""
        return self.store.count(self._answering, name)

    def count_having(self, name: str, fields: Sequence[str]) -> dict[str, int]:
        """Return, for each field, how many documents of a collection have it."""
        return self.store.count_having(self._answering, name, fields)

    def health(self) -> Health:
        """Return the cluster's state."""
        return self.store.health(self._answering)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return each node's figures, by node name."""
        names = {node.address: node.name for node in self.nodes}
        return {names.get(node, node): figures for node, figures in self.store.statistics(self._answering).items()}

    def target(self) -> dict[str, Any]:
        """Return what a plan must know of the cluster besides its addresses; it may hold secrets."""
        target = {"store": self.store.software(str(self._roster.facts.get("version"))), **self.access.plan()}
        read_from = self.store.read_from(self.spec.settings) if self.spec else None
        return target if read_from is None else {**target, "read_from": read_from}

    def describe(self) -> dict[str, Any]:
        """Return what a manifest must know to bring up such a cluster again. Sizes in bytes, the period in seconds."""
        self._roster.follow()
        return {
            "kind": self.store.kind,
            "family": self.store.family,
            **describe(self._roster),
            "nodes": self.size,
            "addresses": self.addresses,
            "access": self.access.describe(),
        }

    def deviations(self) -> list[str]:
        """Return how the live cluster differs from what was asked for, one sentence each; empty when it does not."""
        differs, unready = self.differences()
        return differs + unready

    def differences(self) -> tuple[list[str], list[str]]:
        """Return the same in two: how the cluster is not what was asked for, and what of its data is not in service or
        on the move."""
        self._roster.follow()
        differs = deviations(self._roster, self._throttled)
        if self._attached is not None:
            differs += self.store.silent(self.addresses)
        try:
            health = self.health()
        except LoadframeError as error:
            return [*differs, _silence(error)], []
        return differs + miscounted(health, self.size), unready(health, self.size)

    def losses(self) -> list[str]:
        """Return those of the deviations that are the store's failures: nodes that ended by themselves, no answer."""
        self._roster.follow()
        ended = losses(self._roster)
        try:
            self.health()
        except LoadframeError as error:
            ended.append(_silence(error))
        return ended

    def lost_copies(self) -> list[str]:
        """Return which copies of data and which nodes the store itself misses, one sentence each."""
        try:
            health = self.health()
        except LoadframeError as error:
            return [_silence(error)]
        fewer = miscounted(health, self.size) if health.nodes < self.size else []
        return fewer + incomplete(health, self.size)


def _silence(error: LoadframeError) -> str:
    return f"the cluster does not answer ({error.what})"
