"""A cluster as the rest of loadframe uses it: started here, kept by an earlier command, or only attached to."""

import contextlib
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import loadframe.store as stores
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_nodes
from loadframe.cluster import credentials, event_log, events, launch, moving, named, recovery, scale_in
from loadframe.cluster.change import ClusterChange
from loadframe.cluster.change_watch import WITHIN, Tell
from loadframe.cluster.events import ClusterEvent, Listener
from loadframe.cluster.node import Node, State
from loadframe.cluster.node_table import Roster
from loadframe.cluster.placement import preview
from loadframe.cluster.recovery import mend
from loadframe.cluster.scale_in import shrink
from loadframe.cluster.scale_out import establish, grow
from loadframe.cluster.software import Software, prepare, require_reads, server_user, version
from loadframe.cluster.spec import ClusterSpec
from loadframe.cluster.view import ClusterView
from loadframe.host.base import Host, Process
from loadframe.host.link import Link, Shape
from loadframe.store import OPEN, Access, Store
from loadframe.store.access import Auth, Tls, require_known, split_address

Report = Callable[[str], None]

#: s that `stop` waits for a change that is under way in another thread.
_LAST_CHANGE = 60.0


def _silent(_message: str) -> None:
    pass


class Cluster(ClusterView):
    """Nodes that serve one data set, and what can be done to them.

    As a context it stops the nodes that it started, and no others.
    """

    def __init__(
        self, store: Store, roster: Roster, folder: Path | None = None, *, attached: int | None = None
    ) -> None:
        """Use `start`, `attach` or `load` instead."""
        super().__init__(store, roster, attached=attached)
        #: Where its nodes' folders are, if loadframe started them.
        self._folder = folder
        #: What is left to clean up when the nodes are stopped: nothing, unless this object started them.
        self._ours = False
        #: Of the store's administrator, or of the stores behind an application.
        self._password: str | None = ""
        self._listeners: list[Listener] = []
        #: Held while it changes: one change at a time.
        self._changing = threading.Lock()
        #: Whether `stop` was called: no change begins after it.
        self._stopped = False

    @staticmethod
    def require(spec: ClusterSpec, report: Report = _silent) -> Store:
        """Fetch and check what starting such a cluster needs, and start nothing; return the kind of store.

        BadInput for whatever is missing.
        """
        return Cluster.software(spec, report).store

    @staticmethod
    def software(spec: ClusterSpec, report: Report = _silent) -> Software:
        """Fetch and check what starting such a cluster needs, and return it. BadInput for what is missing."""
        return prepare(stores.find(spec.store), spec, spec.place(), report)

    @staticmethod
    def require_kind(store: str) -> None:
        """BadInput where there is no such kind of store, or where the file that should have it has none."""
        stores.find(store)

    @staticmethod
    def require_encryption(spec: ClusterSpec) -> None:
        """BadInput where that kind of store cannot have the encryption that the spec asks for."""
        stores.find(spec.store).require_encryption(spec.encryption, spec.settings, spec.nodes)

    @staticmethod
    def cores(spec: ClusterSpec) -> list[tuple[int, ...]] | None:
        """Return the cores of each node of a new cluster on this machine, in order; None where they are not told apart.

        BadInput where there are too few.
        """
        if spec.limits.cores_each is None or not all(machine.here for machine in spec.place().machines):
            return None
        return preview(spec.limits, spec.nodes)

    @staticmethod
    def prospect(spec: ClusterSpec) -> dict[str, Any]:
        """Return what a plan can know of such a cluster before it is started, as `target` has it afterwards."""
        store = stores.find(spec.store)
        return {"store": store.software(version(store, spec))}

    @staticmethod
    def start_seconds(store: str, nodes: int) -> float:
        """Return about how long starting and stopping a new cluster of that kind of store takes, s."""
        first, further = stores.find(store).start_seconds
        return first + further * (nodes - 1)

    @classmethod
    def start(cls, spec: ClusterSpec, report: Report = _silent) -> Self:
        """Start a cluster and return when every node sees it complete and ready, with the limits in force.

        BadInput when the machine or the spec do not allow it, LoadframeError when a node does not come up; then
        nothing is left running. A name that is in use by a running cluster is BadInput, that of a stopped one starts it
        again with its data.
        """
        store, host = stores.find(spec.store), spec.place()
        if spec.name is None:
            return cls._start(store, spec, host, named.passing_folder(), None, report)
        with named.locked(spec.name, report) as folder:
            saved = named.load(spec.name)
            if saved and saved.running:
                raise BadInput(
                    f"cluster {spec.name} is running already",
                    remedy=f"use it, change it with `loadframe cluster grow|shrink {spec.name}`, or stop it with "
                    f"`loadframe cluster down {spec.name}`",
                )
            if saved and not saved.formed:
                report(f"removing what a start of {spec.name} that was cut off has left")
                named.delete(spec.name)
                saved = None
            # A start that was cut off early has left these alone.
            known = (credentials.FILE, credentials.FOLDER)
            if saved is None and folder.exists() and any(path.name not in known for path in folder.iterdir()):
                raise BadInput(
                    "this folder does not belong to a cluster, and is not empty",
                    where=str(folder),
                    remedy="move it away, or delete it",
                )
            return cls._start(store, spec, host, folder, saved, report)

    @classmethod
    def _start(
        cls, store: Store, spec: ClusterSpec, host: Host, folder: Path, saved: named.Saved | None, report: Report
    ) -> Self:
        before = replace(spec, nodes=saved.spec.nodes) if saved else spec
        roster = Roster(before, {}, formed=False)
        if saved:
            roster = Roster(before, {}, saved.nodes, formed=True, copies=saved.copies)
            roster.before = saved
        roster.changing = True
        cluster = cls(store, roster, folder)
        cluster._ours = True
        moved: moving.Moved | None = None
        try:
            software = prepare(store, spec, host, report)
            if saved:
                require_reads(software, str(saved.facts.get("version", "")), folder)
                moving.clear(roster, report)
            how, reason = launch.limits_in_force(host, spec.limits, folder, report)
            report(f"starting {_nodes(before.nodes)} of {store.kind} {software.version}")
            roster.facts |= {
                "version": software.version,
                "origin": software.origin,
                "java": software.java_version,
                "limited_by": how,
                "limits_missing": reason,
            }
            cluster._let_in(new=saved is None)
            change = cluster._change(report)
            if saved:
                moved = moving.move(
                    roster, saved, store, host, folder, spec.nodes, partial(server_user, store=store), report
                )
                mend(change, software, spec.nodes)
                moved.commit(report)
            else:
                establish(change, software)
            if software.origin == "installed" and spec.image is not None:
                # What a container finds on its own PATH may be another version than what this machine has there.
                roster.facts["version"] = cluster.store.version(cluster.addresses)
                roster.write()
            cluster.throttle(True)
            if spec.nodes > before.nodes:
                grow(change, spec.nodes - before.nodes)
            if spec.nodes < before.nodes:
                shrink(change, roster.numbers[: spec.nodes - 1 : -1])
            scale_in.settle(change, software)
        except BaseException:
            # Whatever ended it, an interrupt too: no node may go on without its cluster.
            cluster._stop_nodes()
            if moved:
                moved.undo(report)
            if not roster.formed:
                with named.record_locked(spec.name) if spec.name else contextlib.nullcontext():
                    named.remove(host, folder)
            raise
        finally:
            roster.changing = False
        return cluster

    @classmethod
    def attach(cls, hosts: Sequence[str], store: str = "opensearch", access: Access = OPEN) -> Self:
        """Return an existing cluster, reached at these `host:port`; LoadframeError when none of them answers.

        BadInput for a certificate that does not verify, when the cluster denies access, when it is another product
        than `store`, and when the hosts are not of one cluster.
        """
        kind = stores.find(store).with_access(access)
        require_known(hosts)
        access.verify(hosts, kind.announce_tls)
        version = kind.version(hosts)
        kind.require_product(hosts, version)
        kind.require_one_cluster(hosts)
        nodes = [Node(f"node-{index}", address) for index, address in enumerate(hosts)]
        roster = Roster(None, {"version": version}, nodes)
        cluster = cls(kind, roster, attached=kind.health(hosts).nodes)
        cluster.access = access
        return cluster

    @classmethod
    def load(cls, name: str) -> Self:
        """Return a named cluster that `keep` left running; BadInput when there is none, or when it is stopped."""
        saved = named.existing(name)
        if not saved.running and saved.unknown:
            raise BadInput(
                f"it is not known whether cluster {name} runs: {saved.unknown[0]}",
                remedy="make its machines reachable; if they are gone for good, delete it with "
                f"`loadframe cluster down {name} --delete-data`",
            )
        if not saved.running:
            raise BadInput(f"cluster {name} is stopped", remedy=f"start it with `loadframe cluster up {name}`")
        roster = Roster(saved.spec, saved.facts, saved.nodes, formed=saved.formed, copies=saved.copies)
        cluster = cls(stores.find(saved.spec.store), roster, named.folder_of(name))
        cluster._let_in(new=False)
        return cluster

    def _let_in(self, *, new: bool) -> None:
        """Log in as the store's administrator, where the cluster has one, and use TLS, where clients are to do so."""
        assert self._folder and self.spec
        folder = self._folder if self.spec.name else None
        self._password = credentials.password(self.store, self.spec.settings, folder, new=new)
        if self.store.administrator and self._password is not None:
            self.access = Access(auth=Auth("basic", self._password, user=self.store.administrator))
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
        """Have each event told while this is entered, from the thread that makes the change.

        What other commands do to a named cluster meanwhile is told when it is left.
        """
        named_folder = self._folder if self.spec and self.spec.name else None
        since = event_log.length(named_folder) if named_folder else 0
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
            if named_folder:
                for event in event_log.by_others(named_folder, since):
                    listener(event)

    def grow(
        self, nodes: int = 1, report: Report = _silent, *, within: float = WITHIN, tell: Tell | None = None
    ) -> list[str]:
        """Add nodes like those that it has, and return their names when the data is balanced; see growth.grow.

        Each step may take `within` s. Load may run meanwhile, and follows.
        """
        if nodes < 1:
            raise BadInput(f"{nodes} nodes to add", remedy="add 1 or more")
        with self._held(report):
            return grow(self._change(report, within, tell), nodes)

    def shrink(
        self, nodes: int | str = 1, report: Report = _silent, *, within: float = WITHIN, tell: Tell | None = None
    ) -> list[str]:
        """Take the node of that name out, or as many of those that came last; see shrinking.shrink."""
        with self._held(report):
            if isinstance(nodes, str):
                numbers = [self._numbered(nodes)]
            elif nodes < 1:
                raise BadInput(f"{nodes} nodes to remove", remedy="remove 1 or more")
            else:
                numbers = self._roster.numbers[::-1][:nodes]
            return shrink(self._change(report, within, tell), numbers)

    def mend(self, report: Report = _silent, *, within: float = WITHIN, tell: Tell | None = None) -> bool:
        """Start nodes that are gone, and finish what was cut off; return whether there was anything to do."""
        with self._held(report):
            change = self._change(report, within, tell)
            if not recovery.needed(change):
                return False
            mend(change, prepare(self.store, change.spec, change.host, report))
            return True

    def kill(self, name: str) -> None:
        """End a node's process at once (SIGKILL), also in the middle of a change, or those of all nodes of a rack.

        Their data stays where it is.
        """
        nodes = self._on_rack(name) or [self._named(name)]
        for process in [self._process(node) for node in nodes]:
            process.kill()
        ended = {node.name: node.pid for node in nodes}
        # One that another command has started again meanwhile is not what was killed.
        self._roster.edit(
            nodes, lambda node: replace(node, state=State.KILLED) if node.pid == ended[node.name] else node
        )
        names = tuple(node.name for node in nodes)
        self._emit(ClusterEvent(events.KILLED, names, {} if names == (name,) else {"rack": name}))

    def _on_rack(self, name: str) -> list[Node]:
        """Return the nodes of a rack that run; none where there is no rack of that name."""
        spec = self._of_ours()
        if name not in spec.racks:
            return []
        there = [node for node in self.nodes if spec.rack_of(node.number) == name and node.alive]
        if not there:
            raise BadInput(f"no node of the rack {name} runs", remedy="see `loadframe cluster status`")
        return there

    def pause(self, name: str, report: Report = _silent) -> None:
        """Have a node stand still (SIGSTOP): it keeps its connections, and answers nothing.

        Nothing happens to one that is paused already: `report` is told so, and there is no event.
        """
        process = self._process(self._named(name))
        if process.paused():
            report(f"{name} is paused already")
            return
        process.pause()
        self._emit(ClusterEvent(events.PAUSED, (name,)))

    def resume(self, name: str, report: Report = _silent) -> None:
        """Let a paused node go on (SIGCONT).

        Nothing happens to one that is not paused: `report` is told so, and there is no event.
        """
        process = self._process(self._named(name))
        if not process.paused():
            report(f"{name} is not paused")
            return
        process.resume()
        self._emit(ClusterEvent(events.RESUMED, (name,)))

    def cut(self, name: str) -> None:
        """Cut a node's link: in silence nothing gets there or comes from there any more. Needs the host netns."""
        with self._roster.held():
            node, link = self._linked(name)
            link.cut()
            self._roster.edit([node], lambda node: replace(node, cut=True))
        self._emit(ClusterEvent(events.CUT, (name,)))

    def restore(self, name: str) -> None:
        """Undo a cut; the link's shape is as it was."""
        with self._roster.held():
            node, link = self._linked(name)
            link.restore()
            self._roster.edit([node], lambda node: replace(node, cut=False))
        self._emit(ClusterEvent(events.RESTORED, (name,)))

    def shape(self, name: str, *, delay: float = 0.0, loss: float = 0.0, rate: float | None = None) -> None:
        """Have a node's link delay packets (s, one way), lose a share of them, or carry `rate` bytes per second.

        It holds in each direction and replaces what was asked for before. Needs the host netns.
        """
        shape = Shape(delay, loss, rate)
        with self._roster.held():
            node, link = self._linked(name)
            link.shape(shape)
            self._roster.edit([node], lambda node: replace(node, shape=str(shape) if shape else ""))
        self._emit(ClusterEvent(events.SHAPED, (name,), {"delay": delay, "loss": loss, "rate": rate}))

    def _linked(self, name: str) -> tuple[Node, Link]:
        node = self._named(name)
        link = self._process(node).link
        if link is None:
            raise BadInput(
                f"{name} has no link of its own: the nodes share this machine's network",
                remedy="start the cluster with --host netns, which gives each node its own",
            )
        return node, link

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Change settings of the store while it runs; BadInput where that takes a restart."""
        self._of_ours()
        self.store.configure(self.addresses, settings)
        self._emit(ClusterEvent(events.CONFIGURED, ()))

    def _numbered(self, name: str) -> int:
        node = self._named(name)
        if node.number is None:
            raise BadInput(f"{name} is a {node.role}, which stays as nodes come and go", remedy="name another node")
        return node.number

    def _process(self, node: Node) -> Process:
        self._of_ours()
        if node.process is None or not node.process.alive():
            raise BadInput(f"{node.name} does not run", remedy="see `loadframe cluster status`")
        return node.process

    @contextlib.contextmanager
    def _held(self, report: Report = _silent) -> Iterator[None]:
        """Keep others, here and in other commands, from changing the cluster meanwhile."""
        spec = self._of_ours()
        lock = named.locked(spec.name, report) if spec.name else contextlib.nullcontext()
        with self._changing, lock:
            if self._stopped:
                raise LoadframeError("the cluster was stopped", remedy="start it again before you change it")
            with self._roster.change():
                yield

    def _change(self, report: Report, within: float = WITHIN, tell: Tell | None = None) -> ClusterChange:
        assert self._folder
        return ClusterChange(
            store=self.store,
            host=self._of_ours().place(),
            roster=self._roster,
            folder=self._folder,
            report=report,
            emit=self._emit,
            within=within,
            tell=tell,
            throttled=self._throttled,
            kept=not self._ours,
            password=credentials.require(self._password, self._folder),
        )

    def _emit(self, event: ClusterEvent) -> None:
        if self._folder and self.spec and self.spec.name:
            event_log.write(self._folder, event)
        for listener in list(self._listeners):
            listener(event)

    def throttle(self, on: bool) -> None:
        """Apply the CPU quota that was asked for, or lift it, as a phase that only prepares may want."""
        for node in self._roster.nodes:
            if node.process:
                node.process.throttle(on)
        self._throttled = on

    def console(self) -> str | None:
        """Return a command line that connects to a named cluster by hand, without the password; None if there is none.

        It names the file with the password.
        """
        if not (self.store.console and self._password and self._folder and self._of_ours().name):
            return None
        host, port = split_address(self.addresses[0])
        return self.store.console.format(host=host, port=port, file=shlex.quote(str(credentials.file_of(self._folder))))

    def keep(self) -> None:
        """Let a named cluster outlive this command; `load` finds it again."""
        if self.spec is None or self.spec.name is None:
            raise BadInput("only a cluster with a name can be kept", remedy="give it one")
        for node in self._roster.nodes:
            if node.process:
                node.process.keep()
        self._ours = False

    def stop(self) -> None:
        """Stop all nodes of a cluster that loadframe started. Data stays if it has a name.

        Nodes that a change in another thread starts meanwhile are stopped as well.
        """
        self._stop_nodes()
        self._roster.write()

    def _stop_nodes(self) -> None:
        self._ours, self._stopped = False, True
        with contextlib.suppress(LoadframeError):
            self._roster.follow()
        self._stop_processes([node.process for node in self._roster.nodes if node.process])
        if self._changing.acquire(timeout=_LAST_CHANGE):
            self._changing.release()
        self._stop_processes([node.process for node in self._roster.nodes if node.process and node.alive])
        if self._folder and self.spec and self.spec.name is None:
            # Guards remove the one on their machine, and there may have been none on this.
            credentials.discard(self._folder)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    @staticmethod
    def _stop_processes(processes: Sequence[Process]) -> None:
        for process in processes:
            # On a fraction of a CPU a server takes long to say goodbye. One that stays throttled stops all the same.
            with contextlib.suppress(LoadframeError):
                process.throttle(False)
            process.request_stop()
            process.resume()
        for process in processes:
            process.stop()


def _nodes(count: int) -> str:
    return format_nodes(count)
