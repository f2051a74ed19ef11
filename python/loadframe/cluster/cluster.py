"""A cluster as the rest of loadframe uses it: started here, kept by an earlier command, or somebody else's."""

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import loadframe.store as stores
from loadframe.cluster import launch, named
from loadframe.cluster.node import Node
from loadframe.cluster.spec import ClusterSpec
from loadframe.errors import BadInput, LoadframeError
from loadframe.host.base import Host
from loadframe.host.limits import PERIOD, Limits
from loadframe.host.local import LocalHost
from loadframe.store import OPEN, Access, Health, Store
from loadframe.store.access import require_known

Report = Callable[[str], None]


def _silent(_message: str) -> None:
    pass


class Cluster:
    """Nodes that serve one data set. As a context it stops what it started, and nothing that it found."""

    def __init__(
        self, store: Store, nodes: Sequence[Node], *, expected: int, spec: ClusterSpec | None, facts: Mapping[str, Any]
    ) -> None:
        """Use `start`, `attach` or `load` instead."""
        self.store = store
        self.spec = spec
        self._nodes = list(nodes)
        self._expected = expected
        self._facts = dict(facts)
        self._throttled = True
        #: How its nodes let us in.
        self.access = OPEN
        #: What is left to clean up when the nodes are stopped: nothing, unless this object started them.
        self._ours = False

    @staticmethod
    def require(spec: ClusterSpec, report: Report = _silent) -> Store:
        """Fetch and check what starting such a cluster needs, and start nothing; return the kind of store.

        BadInput for whatever is missing.
        """
        store = stores.find(spec.store)
        launch.prepare(store, spec, LocalHost(), report)
        return store

    @classmethod
    def start(cls, spec: ClusterSpec, report: Report = _silent) -> Self:
        """Start a cluster and return when every node sees it complete and ready, with the limits in force.

        BadInput when the machine or the spec do not allow it, LoadframeError when a node does not come up; then
        nothing is left running. A name that is in use by a running cluster is BadInput, that of a stopped one starts it
        again with its data.
        """
        store, host = stores.find(spec.store), LocalHost()
        if spec.name is None:
            return cls._start(store, spec, host, named.passing_folder(), report)
        with named.locked(spec.name, report) as folder:
            saved = named.load(spec.name)
            if saved and saved.running:
                raise BadInput(
                    f"cluster {spec.name} is running already",
                    remedy=f"use it, or stop it with `loadframe cluster down {spec.name}`",
                )
            return cls._start(store, spec, host, folder, report)

    @classmethod
    def _start(cls, store: Store, spec: ClusterSpec, host: Host, folder: Path, report: Report) -> Self:
        cluster = cls(store, [], expected=spec.nodes, spec=spec, facts={})
        cluster._ours = True
        new = not folder.exists() or not any(folder.iterdir())
        try:
            software = launch.prepare(store, spec, host, report)
            how, reason = launch.limits_in_force(host, spec.limits, report)
            report(f"starting {spec.nodes} {'node' if spec.nodes == 1 else 'nodes'} of {store.kind} {software.version}")
            decided = launch.start(spec, software, host, folder, cluster._nodes)
            cluster._facts = {
                "version": software.version,
                "java": software.java_version,
                "limited_by": how,
                "limits_missing": reason,
                **decided,
            }
            launch.wait_until_ready(store, cluster.nodes)
            cluster.throttle(True)
            if spec.name:
                named.save(spec, cluster._facts, cluster.nodes)
        except BaseException:
            # Whatever ended it, an interrupt too: no node may go on without its cluster.
            cluster._stop_nodes()
            if new:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return cluster

    @classmethod
    def attach(cls, hosts: Sequence[str], store: str = "opensearch", access: Access = OPEN) -> Self:
        """Return an existing cluster, reached at these `host:port`; LoadframeError when none of them answers.

        BadInput for a certificate that does not verify, and when the cluster does not let us in.
        """
        found = stores.find(store).with_access(access)
        require_known(hosts)
        access.verify(hosts)
        nodes = [Node(f"node-{index}", address) for index, address in enumerate(hosts)]
        facts = {"version": found.version(hosts)}
        cluster = cls(found, nodes, expected=found.health(hosts).nodes, spec=None, facts=facts)
        cluster.access = access
        return cluster

    @classmethod
    def load(cls, name: str) -> Self:
        """Return a named cluster that `keep` left running; BadInput when there is none, or when it is stopped."""
        saved = named.existing(name)
        if not saved.running:
            raise BadInput(f"cluster {name} is stopped", remedy=f"start it with `loadframe cluster up {name}`")
        store = stores.find(saved.spec.store)
        return cls(store, saved.nodes, expected=saved.spec.nodes, spec=saved.spec, facts=saved.facts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._ours:
            self.stop()

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in the order of their numbers."""
        return list(self._nodes)

    @property
    def size(self) -> int:
        """How many nodes the cluster is to have; of one that was attached to, how many it had."""
        return self._expected

    @property
    def addresses(self) -> list[str]:
        """Each node's `host:port` for clients."""
        return [node.address for node in self._nodes]

    def throttle(self, on: bool) -> None:
        """Apply the CPU quota that was asked for, or lift it, as a phase that only prepares may want."""
        for node in self._nodes:
            if node.process:
                node.process.throttle(on)
        self._throttled = on

    def keep(self) -> None:
        """Let a named cluster outlive this command; `load` finds it again."""
        if self.spec is None or self.spec.name is None:
            raise BadInput("only a cluster with a name can be kept", remedy="give it one")
        for node in self._nodes:
            if node.process:
                node.process.keep()
        self._ours = False

    def stop(self) -> None:
        """Stop all nodes of a cluster that loadframe started. Data stays if it has a name."""
        self._stop_nodes()
        if self.spec and self.spec.name:
            named.save(self.spec, self._facts, [])

    def _stop_nodes(self) -> None:
        self._ours = False
        processes = [node.process for node in self._nodes if node.process]
        for process in processes:
            # On a fraction of a CPU a server takes long to say goodbye. One that stays throttled stops all the same.
            with contextlib.suppress(LoadframeError):
                process.throttle(False)
            process.request_stop()
        for process in processes:
            process.stop()

    def create_collection(self, name: str, definition: Mapping[str, Any]) -> None:
        """Create a collection from the definition that the workload has for this store's family."""
        self.store.create_collection(self.addresses, name, definition, nodes=self._expected)

    def has_collection(self, name: str) -> bool:
        """Return whether a collection is there."""
        return self.store.has_collection(self.addresses, name)

    def drop_collection(self, name: str) -> None:
        """Drop a collection, if it is there."""
        self.store.drop_collection(self.addresses, name)

    def count(self, name: str) -> int:
        """Return the number of documents in a collection."""
        return self.store.count(self.addresses, name)

    def health(self) -> Health:
        """Return the cluster's state."""
        return self.store.health(self.addresses)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return each node's figures, by node name."""
        return self.store.statistics(self.addresses)

    def describe(self) -> dict[str, Any]:
        """Return what a manifest must know to bring up such a cluster again. Sizes in bytes, the period in seconds."""
        limits = self.spec.limits if self.spec else Limits()
        return {
            "kind": self.store.kind,
            "family": self.store.family,
            "version": self._facts.get("version"),
            "origin": "embedded" if self.spec else "attached",
            "name": self.spec.name if self.spec else None,
            "host": LocalHost.name if self.spec else None,
            "nodes": self._expected,
            "addresses": self.addresses,
            "limits": {
                "cpus": limits.cpus,
                "memory": limits.memory,
                "enforced_by": self._facts.get("limited_by", "none"),
                "obstacle": self._facts.get("limits_missing"),
                "period": PERIOD if limits.cpus is not None else None,
            },
            "java": self._facts.get("java"),
            "heap": self._facts.get("heap"),
            "jvm_options": self._facts.get("jvm_options"),
            "settings": dict(self.spec.settings) if self.spec else {},
            "access": self.access.describe(),
        }

    def deviations(self) -> list[str]:
        """Return how the live cluster differs from what was asked for, one sentence each; empty when it does not."""
        found = []
        for node in self._nodes:
            if self.spec and not (node.process and node.process.alive()):
                status = node.process.exit_status() if node.process else None
                # 137 is 128 + SIGKILL, which is what the kernel sends to a process over its memory limit.
                cause = {None: "", 137: ", killed, as for too little memory"}.get(status, f", with status {status}")
                found.append(f"{node.name} is gone{cause}")
        if self._facts.get("limits_missing"):
            found.append(f"the limits asked for are not in force ({self._facts['limits_missing']})")
        elif self.spec and self.spec.limits.cpus is not None and not self._throttled:
            found.append("the CPU quota is lifted")
        try:
            health = self.health()
        except LoadframeError as error:
            return [*found, f"the cluster does not answer ({error.what})"]
        if health.nodes != self._expected:
            found.append(f"the cluster has {health.nodes} nodes, not {self._expected}")
        if not health.ready:
            found.append(f"the cluster is {health.status}, with {health.missing} copies of data not in service")
        if health.moving:
            found.append(f"{health.moving} pieces of data are on the move between nodes")
        return found
