"""Cluster that loadframe started, kept from an earlier command, or attached to."""

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import loadframe.store as stores
from loadframe.base import event_kinds
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_nodes
from loadframe.cluster import credentials, events, launch, moving, named, scaling
from loadframe.cluster.change import WITHIN, ClusterChange, Tell
from loadframe.cluster.events import ClusterEvent, Listener
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import NodeTable
from loadframe.cluster.placement import preview
from loadframe.cluster.reach import require_protocol
from loadframe.cluster.scale_command import ScaleCommand
from loadframe.cluster.scaling import establish, grow, mend, shrink
from loadframe.cluster.software import Software, prepare, require_reads, require_settings, server_user, version
from loadframe.cluster.spec import ClusterSpec, require_host
from loadframe.cluster.view import ClusterView
from loadframe.host.base import Host, Process
from loadframe.host.link import Link, Shape
from loadframe.store import OPEN, Access, Store
from loadframe.store.access import Auth, Tls, require_known, split_address
from loadframe.store.application import BALANCER

Report = Callable[[str], None]

#: Seconds that `stop` waits for a change in another thread.
_LAST_CHANGE = 60.0


def _silent(_message: str) -> None:
    """Ignore a progress message."""


class Cluster(ClusterView):
    """Nodes of one data set, and operations on them.

    As a context manager, it stops the nodes that it started itself.
    """

    def __init__(
        self, store: Store, node_table: NodeTable, folder: Path | None = None, *, attached: int | None = None
    ) -> None:
        """Use `start`, `attach` or `load` instead.

        `attached` is the size of a cluster that loadframe did not start, which has no `folder`.
        """
        super().__init__(store, node_table, attached=attached)
        #: Folder of the cluster, or None if loadframe did not start it.
        self._folder = folder
        #: Whether this object started the nodes and must stop them.
        self._ours = False
        #: Password of the store's administrator, or of the stores behind an application.
        self._password: str | None = ""
        self._listeners: list[Listener] = []
        #: Serializes changes.
        self._changing = threading.RLock()
        #: The user's command that changes the number of nodes of an existing cluster.
        self._scale: ScaleCommand | None = None
        #: Whether this command failed last, so that the number of nodes may still change.
        self.uncertain = False
        #: Settings that `configure` has set.
        self._configured: dict[str, Any] = {}
        #: Held while `configure` applies settings, so that a failure takes back only its own.
        self._configuring = threading.Lock()
        #: Whether `stop` was called; later changes are refused.
        self._stopped = False

    @staticmethod
    def require(spec: ClusterSpec, report: Report = _silent) -> Store:
        """Install and check the software and the machines for a cluster without starting it; return the store.

        BadInput if something is missing.
        """
        return Cluster.software(spec, report).store

    @staticmethod
    def software(spec: ClusterSpec, report: Report = _silent) -> Software:
        """Install and check the software and the machines for a cluster without starting it; return the software.

        BadInput if something is missing.
        """
        return prepare(stores.find(spec.store), spec, spec.place(), report)

    @staticmethod
    def require_kind(store: str, host: str = "local") -> None:
        """Raise BadInput if the store is unknown, its file defines none, or its nodes cannot run on that host."""
        stores.find(store)
        require_host(store, host)

    @staticmethod
    def driver_of(store: str) -> str:
        """Return the name of the driver that loads this kind of store; BadInput if the kind is unknown."""
        return stores.find(store).driver

    @staticmethod
    def require_running_setting(store: str, name: str) -> None:
        """Raise BadInput if no running cluster of this kind can change the setting."""
        stores.find(store).require_running_setting(name)

    @staticmethod
    def require_settings(store: str, settings: Mapping[str, Any], option: str = "--store-set") -> None:
        """Raise BadInput, which names `option`, for settings that no new cluster of this kind accepts."""
        require_settings(stores.find(store), settings, option)

    @staticmethod
    def require_encryption(spec: ClusterSpec) -> None:
        """Raise BadInput if the store does not support the encryption of the spec."""
        stores.find(spec.store).require_encryption(spec.encryption, spec.settings, spec.nodes)

    @staticmethod
    def cores(spec: ClusterSpec) -> list[tuple[int, ...]] | None:
        """Return the cores of each node of a new local cluster, or None if nodes share cores or run on other machines.

        BadInput if there are too few cores.
        """
        if spec.limits.cores_each is None or not all(machine.here for machine in spec.place().machines):
            return None
        return preview(spec.limits, spec.nodes)

    @staticmethod
    def prospect(spec: ClusterSpec) -> dict[str, Any]:
        """Return `{"store": product and version}`, the part of `target` that is known before the start."""
        store = stores.find(spec.store)
        return {"store": store.software(version(store, spec))}

    @staticmethod
    def start_seconds(kind: str, nodes: int, settings: Mapping[str, Any]) -> float:
        """Return the approximate time to start and stop a new cluster with the stores that it includes, in s."""
        store = stores.find(kind)
        parts = store.parts(settings)
        roles = [companion.role for companion in store.companions(settings)]
        # A load balancer starts at once.
        others = sum(role not in (BALANCER, *parts) for role in roles)
        processes = nodes * len(store.node_processes(0, settings)) + others
        sizes = [(store, processes), *((part, roles.count(name)) for name, part in parts.items())]
        return sum(first + further * (count - 1) for part, count in sizes for first, further in [part.start_seconds])

    @classmethod
    def start(cls, spec: ClusterSpec, report: Report = _silent) -> Self:
        """Start a cluster and wait until every node sees it complete and ready, with the limits applied.

        A stopped cluster of the same name is started again with its data, and becomes as `spec` says, also in its
        number of nodes; the caller checks that store and version are the same. Remains of an interrupted first start
        are deleted. BadInput if a cluster of that name runs, its folder has other content, or the machine or the spec
        does not permit a start. LoadframeError if a node fails. After an error, no node is left running.
        """
        store, host = stores.find(spec.store), spec.place()
        if spec.name is None:
            return cls._start(store, spec, host, named.passing_folder(), None, report)
        with named.locked(spec.name, report) as folder:
            saved = named.load(spec.name)
            if saved and saved.running:
                raise BadInput(
                    f"cluster {spec.name} is already running",
                    remedy=f"use it, resize it with `loadframe cluster grow|shrink {spec.name}`, or stop it with "
                    f"`loadframe cluster down {spec.name}`",
                )
            if saved and not saved.formed:
                report(f"removing the remains of an interrupted start of {spec.name}")
                named.delete(spec.name)
                saved = None
            # An interrupted start leaves only these.
            known = (credentials.FILE, credentials.FOLDER)
            if saved is None and folder.exists() and any(path.name not in known for path in folder.iterdir()):
                raise BadInput(
                    "the folder for the cluster is not empty, and lacks a cluster record",
                    where=str(folder),
                    remedy="move it to another place, or delete it",
                )
            return cls._start(store, spec, host, folder, saved, report)

    @classmethod
    def _start(
        cls, store: Store, spec: ClusterSpec, host: Host, folder: Path, saved: named.SavedCluster | None, report: Report
    ) -> Self:
        """Start a new cluster, or restart a saved one with its nodes, and then grow or shrink it to the wanted number.

        After any error, stop its nodes, undo moves of nodes between machines, and remove a cluster that was never
        formed.
        """
        before = replace(spec, nodes=saved.spec.nodes) if saved else spec
        node_table = NodeTable(before, {}, formed=False)
        if saved:
            node_table = NodeTable(before, {}, saved.nodes, formed=True, copies=saved.copies)
            node_table.before = saved
        node_table.changing = True
        cluster = cls(store, node_table, folder)
        cluster._ours = True
        moved: moving.Moved | None = None
        try:
            software = prepare(store, spec, host, report)
            if saved:
                require_reads(software, str(saved.facts.get("version", "")), folder)
                moving.clear(node_table, report)
            how, reason = launch.limits_in_force(host, spec.limits, folder, report)
            report(f"starting {format_nodes(before.nodes)} of {store.kind} {software.version}")
            node_table.facts |= {
                "version": software.version,
                "origin": software.origin,
                "java": software.java_version,
                "limited_by": how,
                "limits_missing": reason,
            }
            cluster._set_access(new=saved is None)
            change = cluster._change(report)
            if saved:
                moved = moving.move(
                    node_table, saved, store, host, folder, spec.nodes, partial(server_user, store=store), report
                )
                mend(change, software, spec.nodes)
                moved.commit(report)
            else:
                establish(change, software)
            if software.origin == "installed" and spec.image is not None:
                # The store in the container image can have another version than the one on this machine.
                node_table.facts["version"] = cluster.store.version(cluster.addresses)
                node_table.write()
            cluster.throttle(True)
            if spec.nodes > before.nodes:
                grow(change, spec.nodes - before.nodes)
            if spec.nodes < before.nodes:
                shrink(change, node_table.numbers[: spec.nodes - 1 : -1])
            scaling.settle(change, software)
        except BaseException:
            # On any error, including interrupts: do not leave nodes running.
            cluster._stop_nodes()
            if moved:
                moved.undo(report)
            if not node_table.formed:
                with named.record_locked(spec.name) if spec.name else contextlib.nullcontext():
                    named.remove(host, folder)
            raise
        finally:
            node_table.changing = False
        return cluster

    @classmethod
    def attach(
        cls, hosts: Sequence[str], store: str = "opensearch", access: Access = OPEN, scale: ScaleCommand | None = None
    ) -> Self:
        """Return an existing cluster at these `host:port`; LoadframeError if none of them answers.

        `scale` changes its number of nodes; without it, `grow` and `shrink` are refused.

        BadInput if a certificate is invalid, access is denied, the product is not `store`, or the hosts belong to
        different clusters.
        """
        kind = stores.find(store).with_access(access)
        if not access.proxied:
            # A proxy may know more names.
            require_known(hosts)
        access.verify(hosts, kind.announce_tls)
        try:
            version = kind.version(hosts)
        except LoadframeError:
            require_protocol(kind, hosts)
            raise
        kind.require_product(hosts, version)
        kind.require_one_cluster(hosts)
        nodes = [Node(f"node-{index}", address) for index, address in enumerate(hosts)]
        node_table = NodeTable(None, {"version": version}, nodes)
        cluster = cls(kind, node_table, attached=kind.health(hosts).nodes)
        cluster.access, cluster._scale = access, scale
        return cluster

    @staticmethod
    def recorded(name: str) -> ClusterSpec:
        """Return the specification of a named cluster, running or not; BadInput if it does not exist."""
        return named.existing(name).spec

    @staticmethod
    def recorded_version(name: str) -> str:
        """Return the version of a named cluster, running or not; BadInput if it does not exist.

        The text `None` if the record has no version.
        """
        return str(named.existing(name).facts.get("version"))

    @staticmethod
    def runs(name: str) -> bool:
        """Return whether a node of a named cluster runs on a reachable machine; BadInput if it does not exist."""
        return named.existing(name).running

    @staticmethod
    def name_at(addresses: Collection[str]) -> str | None:
        """Return the name of the running named cluster with one of these `host:port`; None if there is none.

        A cluster in an unknown state counts as running.
        """
        return named.at(addresses)

    @classmethod
    def respawn(cls, name: str, nodes: int, report: Report = _silent) -> Self:
        """Stop a named cluster if it runs, start it with its data and that number of nodes, and return it.

        BadInput if it does not exist, or the machine does not permit a start; LoadframeError if a node fails.
        """
        if cls.runs(name):
            report(f"stopping cluster {name}")
            cls.load(name).stop()
        return cls.start(replace(cls.recorded(name), nodes=nodes), report)

    @classmethod
    def load(cls, name: str) -> Self:
        """Return a named cluster with a running node; BadInput if it does not exist, is stopped, or of unknown state.

        It continues to run when its context is left.
        """
        saved = named.existing(name)
        if not saved.running and saved.unknown:
            raise BadInput(
                f"the state of cluster {name} is unknown: {saved.unknown[0]}",
                remedy="make its machines reachable; if they no longer exist, delete it with "
                f"`loadframe cluster down {name} --delete-data`",
            )
        if not saved.running:
            raise BadInput(f"cluster {name} is stopped", remedy=f"start it with `loadframe cluster up {name}`")
        node_table = NodeTable(saved.spec, saved.facts, saved.nodes, formed=saved.formed, copies=saved.copies)
        cluster = cls(stores.find(saved.spec.store), node_table, named.folder_of(name))
        cluster._set_access(new=False)
        return cluster

    def _set_access(self, *, new: bool) -> None:
        """Set password and `access`, and replace the store by one with this access; a `new` cluster gets a password."""
        assert self._folder and self.spec
        folder = self._folder if self.spec.name else None
        self._password = credentials.password(self.store, self.spec.settings, folder, new=new)
        self.access = Access(cluster=self.spec.name or "")
        if self.store.administrator and self._password is not None:
            self.access = replace(self.access, auth=Auth("basic", self._password, user=self.store.administrator))
        if self.spec.encryption.clients:
            self.access = replace(self.access, tls=Tls(ca=credentials.certificate(self._folder)))
        self.store = self.store.with_access(self.access)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._ours:
            self.stop()

    @contextlib.contextmanager
    def telling(self, listener: Listener) -> Iterator[None]:
        """Call `listener` for each event in this context, from the thread that makes the change.

        Events of other commands on a named cluster are delivered on exit.
        """
        named_folder = self._folder if self.spec and self.spec.name else None
        since = events.length(named_folder) if named_folder else 0
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
            if named_folder:
                for event in events.by_others(named_folder, since):
                    listener(event)

    def grow(
        self, nodes: int = 1, report: Report = _silent, *, within: float = WITHIN, tell: Tell | None = None
    ) -> list[str]:
        """Add nodes, wait until the data is balanced, and return their names; BadInput for fewer than one.

        `within` is the timeout of each step in s, `tell` receives its progress. Load may run in the meantime, and
        clients rebalance. An attached cluster is resized by its scale command; BadInput if it has none. See
        scaling.grow.
        """
        if nodes < 1:
            raise BadInput(f"the number of nodes to add must be at least 1; got {nodes}", remedy="add 1 or more")
        if self._scale:
            # With the lock, so that a change in progress has set the size.
            with self._changing:
                return self.resize(self.size + nodes, report, tell=tell)
        with self._held(report):
            return grow(self._change(report, within, tell), nodes)

    def shrink(
        self, nodes: int | str = 1, report: Report = _silent, *, within: float = WITHIN, tell: Tell | None = None
    ) -> list[str]:
        """Remove a node by name, or that number of nodes, newest first; return their names. See scaling.shrink.

        Moves their data first. BadInput for a number below one or an unknown name. An attached cluster is resized by
        its scale command, by a number only; BadInput if it has none. `within` is the timeout of each step in s, `tell`
        receives its progress.
        """
        if isinstance(nodes, int) and nodes < 1:
            raise BadInput(f"the number of nodes to remove must be at least 1; got {nodes}", remedy="remove 1 or more")
        if self._scale and isinstance(nodes, int):
            with self._changing:
                return self.resize(self.size - nodes, report, tell=tell)
        with self._held(report):
            newest = self._node_table.numbers[::-1]
            numbers = [self._numbered(nodes)] if isinstance(nodes, str) else newest[:nodes]
            return shrink(self._change(report, within, tell), numbers)

    def resize(self, nodes: int, report: Report = _silent, *, tell: Tell | None = None) -> list[str]:
        """Change the number of nodes of an existing cluster to `nodes` with its scale command.

        Returns the names of the added or removed nodes; empty without a change. Added nodes get the settings of
        `configure`. Waits until the data is balanced, except for declared copies that do not fit on `nodes` nodes, and
        emits events. `report` gets lines about long waits, `tell` the progress. BadInput without a command or for fewer
        than one node. StoreFailed if the command fails, if the store does not have that number of nodes in time, or if
        balancing takes too long. After the first two, the size is that of the store, and the next call runs the command
        also for this size.
        """
        if self._scale is None:
            raise BadInput(
                "the number of nodes of this cluster cannot be changed", remedy="give a command in store.scale_command"
            )
        if nodes < 1:
            raise BadInput(f"the number of nodes must be at least 1; got {nodes}", remedy="remove fewer nodes")
        with self._changing:
            more, names = nodes > self.size, tuple(f"node-{n}" for n in range(*sorted((self.size, nodes))))
            if not names and not self.uncertain:
                return []
            if names:
                self._emit(ClusterEvent(event_kinds.REQUESTED if more else event_kinds.LEAVING, names))
            progress = {} if tell is None else {"tell": tell}
            ready = self.health().serves_all(self.size)
            try:
                addresses = self._scale.carry_out(nodes, self.health, report, **progress)
                if addresses:
                    listed = [Node(f"node-{index}", address) for index, address in enumerate(addresses)]
                    self._node_table.update(listed, drop=[node.name for node in self._node_table.nodes[len(listed) :]])
                if self._configured and (more or self.uncertain):
                    # In some stores, a new node has its own values.
                    self.store.configure(self.addresses, self._configured)
            except BaseException:
                self._follow_failed_resize(names, more=more)
                raise
            self._attached, self.uncertain = nodes, False
            if names:
                self._emit(ClusterEvent(event_kinds.JOINED if more else event_kinds.LEFT, names))
            balanced = self._scale.settle(nodes, self.health, report, **progress, ready=ready)
            if names:
                wall = time.time() - (time.monotonic() - balanced)
                self._emit(ClusterEvent(event_kinds.BALANCED, (), wall=wall, monotonic=balanced))
        return list(names)

    def _follow_failed_resize(self, names: Sequence[str], *, more: bool) -> None:
        """Set the size to the store's number of nodes, and emit the event of the nodes that joined or left.

        `names` are the nodes that were to join (`more`) or leave. The size may still change, and stays as it is if the
        store does not answer.
        """
        self.uncertain = True
        with contextlib.suppress(LoadframeError):
            size = self.health().nodes
            split = max(size - (self.size if more else self.size - len(names)), 0)
            self._attached = size
            if changed := tuple(names[:split] if more else names[split:]):
                self._emit(ClusterEvent(event_kinds.JOINED if more else event_kinds.LEFT, changed))

    def mend(self, report: Report = _silent, *, within: float = WITHIN, tell: Tell | None = None) -> bool:
        """Restart ended nodes and finish interrupted changes; return False if nothing was necessary.

        `within` is the timeout of each step in s, `tell` receives its progress. BadInput for an attached cluster;
        LoadframeError after `stop`.
        """
        with self._held(report):
            change = self._change(report, within, tell)
            if not scaling.needed(change):
                return False
            mend(change, prepare(self.store, change.spec, change.host, report))
            return True

    def kill(self, name: str) -> None:
        """Kill a node, or all running nodes of a rack, with SIGKILL, even during a change; emit an event.

        Data folders are kept. BadInput for an unknown name, a node that does not run, a rack without running nodes, and
        an attached cluster.
        """
        nodes = self._on_rack(name) or [self._named(name)]
        processes = {node.name: self._process(node) for node in nodes}
        killed = {node.name: State.KILLED for node in nodes}
        # First, so that no other thread or command takes the end of the process for a failure of the store.
        self._set_states(nodes, killed)
        # The nodes end at the signals, some time before their descendants have ended and `Process.kill` returns.
        event = ClusterEvent(event_kinds.KILLED, tuple(killed), {} if [*killed] == [name] else {"rack": name})
        try:
            for process in processes.values():
                process.kill()
        except BaseException:
            running = {node.name: node.state for node in nodes if processes[node.name].alive()}
            self._set_states(nodes, killed | running)
            ended = tuple(node for node in killed if node not in running)
            if ended:
                self._emit(replace(event, nodes=ended))
            raise
        # Refuses a cluster that another command has deleted.
        self._set_states(nodes, killed)
        self._emit(event)

    def _set_states(self, nodes: Sequence[Node], states: Mapping[str, State]) -> None:
        """Set the states of nodes by name, also in the record, except of nodes that were restarted in the meantime."""
        starts = {node.name: (node.pid, node.mark) for node in nodes}

        def changed(node: Node) -> Node:
            """Return the node with its new state, or unchanged if it is another start of the node."""
            same = (node.pid, node.mark) == starts[node.name]
            return replace(node, state=states[node.name]) if same else node

        self._node_table.edit(nodes, changed)

    def _on_rack(self, name: str) -> list[Node]:
        """Return the running nodes of a rack; empty if the rack is unknown.

        BadInput if none of its nodes runs, and for an attached cluster.
        """
        spec = self._of_ours()
        if name not in spec.racks:
            return []
        running = [node for node in self.nodes if spec.rack_of(node.number) == name and node.alive]
        if not running:
            raise BadInput(f"no node of rack {name} is running", remedy="see `loadframe cluster status`")
        return running

    def pause(self, name: str, report: Report = _silent) -> None:
        """Suspend a node (SIGSTOP): its connections stay open, but it does not answer.

        If it is already paused, only `report` is called; otherwise emits an event. BadInput for an unknown name, a node
        that does not run, and an attached cluster.
        """
        process = self._process(self._named(name))
        if process.paused():
            report(f"{name} is already paused")
            return
        process.pause()
        self._emit(ClusterEvent(event_kinds.PAUSED, (name,)))

    def resume(self, name: str, report: Report = _silent) -> None:
        """Continue a paused node (SIGCONT).

        If it is not paused, only `report` is called; otherwise emits an event. BadInput for an unknown name, a node
        that does not run, and an attached cluster.
        """
        process = self._process(self._named(name))
        if not process.paused():
            report(f"{name} is not paused")
            return
        process.resume()
        self._emit(ClusterEvent(event_kinds.RESUMED, (name,)))

    def cut(self, name: str) -> None:
        """Drop all IPv4 packets on a node's link, in both directions, and emit an event.

        BadInput for an unknown name, a node that does not run, and unless the host is netns.
        """
        with self._node_table.held():
            node, link = self._linked(name)
            link.cut()
            self._node_table.edit([node], lambda node: replace(node, cut=True))
        self._emit(ClusterEvent(event_kinds.CUT, (name,)))

    def restore(self, name: str) -> None:
        """Undo a cut of a node's link, and emit an event; the link's shape is kept.

        BadInput for an unknown name, a node that does not run, and unless the host is netns.
        """
        with self._node_table.held():
            node, link = self._linked(name)
            link.restore()
            self._node_table.edit([node], lambda node: replace(node, cut=False))
        self._emit(ClusterEvent(event_kinds.RESTORED, (name,)))

    def shape(self, name: str, *, delay: float = 0.0, loss: float = 0.0, rate: float | None = None) -> None:
        """Set the delay (s, one way), packet loss (share) and rate (bytes/s) of a node's link, and emit an event.

        Applies in each direction and replaces the previous shape. BadInput for an unknown name, a node that does not
        run, and unless the host is netns.
        """
        shape = Shape(delay, loss, rate)
        with self._node_table.held():
            node, link = self._linked(name)
            link.shape(shape)
            self._node_table.edit([node], lambda node: replace(node, shape=str(shape) if shape else ""))
        self._emit(ClusterEvent(event_kinds.SHAPED, (name,), {"delay": delay, "loss": loss, "rate": rate}))

    def _linked(self, name: str) -> tuple[Node, Link]:
        """Return a running node and its network link; BadInput if the nodes share this machine's network.

        BadInput also for an unknown name, a node that does not run, and an attached cluster.
        """
        node = self._named(name)
        link = self._process(node).link
        if link is None:
            raise BadInput(
                f"{name} has no link: the nodes share this machine's network",
                remedy="start the cluster with --host netns, which gives each node its own link",
            )
        return node, link

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Change store settings (name -> value) at run time, and emit an event; BadInput if one requires a restart.

        Nodes that this object adds or restarts later get them, too. If the store refuses, they do not.
        """
        with self._configuring:
            before = self._configured
            # First, so that a node that joins in another thread gets them; a copy, because that thread may be reading.
            self._configured = {**before, **settings}
            try:
                self.store.configure(self.addresses, settings)
            except BaseException:
                self._configured = before
                raise
            self._lacking.difference_update(settings)
        self._emit(ClusterEvent(event_kinds.CONFIGURED, ()))

    def _numbered(self, name: str) -> int:
        """Return the number of a data node; BadInput for any other node."""
        node = self._named(name)
        if node.number is None:
            raise BadInput(
                f"{name} is a {node.role}, not a data node, and cannot be removed", remedy="name a data node"
            )
        return node.number

    def _process(self, node: Node) -> Process:
        """Return the running process of a node; BadInput if it does not run, or Loadframe did not start the cluster."""
        self._of_ours()
        if node.process is None or not node.process.alive():
            raise BadInput(f"{node.name} is not running", remedy="see `loadframe cluster status`")
        return node.process

    @contextlib.contextmanager
    def _held(self, report: Report = _silent) -> Iterator[None]:
        """Hold the locks for a change, against threads and other commands, and read the cluster's record.

        Waits for changes in progress; `report` gets a message if one is by another command. LoadframeError after
        `stop`. BadInput for an attached cluster, and for a cluster that another command has deleted.
        """
        spec = self._of_ours()
        lock = named.locked(spec.name, report) if spec.name else contextlib.nullcontext()
        with self._changing, lock:
            if self._stopped:
                raise LoadframeError("the cluster was stopped", remedy="start it again, then change it")
            with self._node_table.change():
                yield

    def _change(self, report: Report, within: float = WITHIN, tell: Tell | None = None) -> ClusterChange:
        """Return the context of a change: `within` is the timeout of each step, s, and `tell` receives progress.

        BadInput for an attached cluster, and for one without the password that its store requires.
        """
        assert self._folder
        return ClusterChange(
            store=self.store,
            host=self._of_ours().place(),
            node_table=self._node_table,
            folder=self._folder,
            report=report,
            emit=self._emit,
            within=within,
            tell=tell,
            throttled=self._throttled,
            kept=not self._ours,
            configured=lambda: self._configured,
            lacking=self._lacking,
            password=credentials.require(self._password, self._folder),
        )

    def _emit(self, event: ClusterEvent) -> None:
        """Store an event if the cluster has a name, and call the listeners."""
        if self._folder and self.spec and self.spec.name:
            events.write(self._folder, event)
        for listener in list(self._listeners):
            listener(event)

    def throttle(self, on: bool) -> None:
        """Apply (`on`) or lift the CPU quota and disk limits of all nodes, also for nodes that start later.

        A preparation phase lifts them. LoadframeError if that fails for a running node; nodes before it are changed,
        those after it are not, and later ones start as before.
        """
        for node in self._node_table.nodes:
            if node.process:
                node.process.throttle(on)
        self._throttled = on

    def console(self) -> str | None:
        """Return a command line that connects to the cluster, or None without a name, a password or a console.

        It contains the path of the password file, not the password.
        """
        if not (self.store.console and self._password and self._folder and self._of_ours().name):
            return None
        host, port = split_address(self.addresses[0])
        return self.store.console.format(host=host, port=port, file=shlex.quote(str(credentials.file_of(self._folder))))

    def keep(self) -> None:
        """Let a named cluster outlive this process; `load` finds it again. BadInput without a name."""
        if self.spec is None or self.spec.name is None:
            raise BadInput("only a cluster with a name can be kept", remedy="give it a name")
        for node in self._node_table.nodes:
            if node.process:
                node.process.keep()
        self._ours = False

    def stop(self) -> None:
        """Stop all nodes of a cluster that loadframe started. The data is kept if it has a name, else removed.

        Waits up to 60 s for a change in another thread, and stops nodes that this started. Later changes are refused.
        """
        self._stop_nodes()
        self._node_table.write()

    def _stop_nodes(self) -> None:
        """Stop all nodes, and then the nodes that a change in progress has started meanwhile.

        Waits up to 60 s for the change. Removes the folder of a cluster without a name.
        """
        self._ours, self._stopped = False, True
        with contextlib.suppress(LoadframeError):
            self._node_table.follow()
        self._stop_processes([node.process for node in self._node_table.nodes if node.process])
        if self._changing.acquire(timeout=_LAST_CHANGE):
            self._changing.release()
        self._stop_processes([node.process for node in self._node_table.nodes if node.process and node.alive])
        if self._folder and self.spec and self.spec.name is None:
            # Supervisors remove this folder on the nodes' machines; this machine may have had no node.
            credentials.discard(self._folder)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    @staticmethod
    def _stop_processes(processes: Sequence[Process]) -> None:
        """Lift the limits of processes, make all stop at once, also paused ones, and wait until they have ended."""
        for process in processes:
            # Lift the quota, because a throttled server shuts down slowly. Ignore errors: it stops anyway.
            with contextlib.suppress(LoadframeError):
                process.throttle(False)
            process.request_stop()
            process.resume()
        for process in processes:
            process.stop()
