"""Clusters that a program starts, changes and stops."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.base.units import counted, parse_cores, parse_size
from loadframe.cluster import Cluster as LiveCluster
from loadframe.cluster import ClusterSpec, Encryption, Limits, Placement
from loadframe.library.arguments import Count, Nodes, Positive, checked, naming_parameters
from loadframe.library.options import parsed_as
from loadframe.library.progress import Callback, listener_of
from loadframe.library.tables import Table, html_table, table_of


def existing_cluster(cluster: "str | Cluster | None") -> Callable[[], AbstractContextManager[LiveCluster]] | None:
    """Return a function that attaches to a running cluster or loads one by name; None if `cluster` is None.

    It raises BadInput if the cluster does not run. The end of its context does not stop the cluster.
    """
    if isinstance(cluster, Cluster):
        return lambda: nullcontext(cluster.live)
    return partial(LiveCluster.load, cluster) if cluster is not None else None


def spec_from(
    store: str = "opensearch",
    *,
    version: str | None = None,
    nodes: int = 1,
    cpus: float | None = None,
    memory: str | int | None = None,
    cores: str | None = None,
    settings: Mapping[str, Any] | None = None,
    encryption: str = "none",
    home: str | None = None,
    host: str = "local",
    image: str | None = None,
    container_runtime: str | None = None,
    machines: tuple[str, ...] = (),
    per_machine: int | None = None,
    network: str | None = None,
    scratch: str | None = None,
    name: str | None = None,
    written: Callable[[str], str] = str,
) -> ClusterSpec:
    """Return the specification of a cluster to start; BadInput for an invalid value.

    Limits of each node: `cpus` in cores, `memory` in bytes or as text such as `1g`. `cores` is a text such as `0-3` or
    `1 each`, `container_runtime` is `runtime` of `ClusterSpec`, `per_machine` the number of nodes on each machine.
    Other arguments have the meaning of `ClusterSpec`. `written` returns the name of an argument for messages.
    """
    given = parsed_as(parse_cores, cores, written("cores")) if cores is not None else None
    try:
        word = Encryption(encryption)
    except ValueError:
        known = ", ".join(kind.value for kind in Encryption)
        raise BadInput(f"{written('encryption')} {encryption!r} is not valid", remedy=f"choose from {known}") from None
    return ClusterSpec(
        store=store,
        version=version,
        nodes=nodes,
        limits=Limits(
            cpus=cpus,
            memory=None if memory is None else parsed_as(parse_size, memory, written("memory")),
            cores=given.numbers if given else None,
            cores_each=given.per_node if given else None,
        ),
        settings=dict(settings or {}),
        encryption=word,
        home=home,
        host=host,
        image=image,
        runtime=container_runtime,
        machines=tuple(machines),
        placement=Placement(per_machine, network=network),
        scratch=scratch,
        name=name,
    )


class Cluster:
    """A cluster to start, as a context manager: nodes run inside the `with` block.

    Outside of the block, methods raise BadInput. A cluster with a `name` keeps its data, and starts with them again.

    >>> with loadframe.Cluster("sim", nodes=2) as cluster:
    ...     cluster.grow()
    ...     cluster.size
    ['node-2']
    3
    """

    @checked
    def __init__(
        self,
        store: str = "opensearch",
        *,
        version: str | None = None,
        nodes: Nodes = 1,
        cpus: Positive | None = None,
        memory: str | int | None = None,
        cores: str | None = None,
        settings: Mapping[str, Any] | None = None,
        encryption: str = "none",
        home: str | None = None,
        host: str = "local",
        name: str | None = None,
        progress: Callback | None = None,
    ) -> None:
        """Describe the cluster; see the options of `loadframe cluster up`. BadInput for an invalid value.

        Nothing is started. `progress` receives the steps of later calls.
        """
        self._spec = spec_from(
            store,
            version=version,
            nodes=nodes,
            cpus=cpus,
            memory=memory,
            cores=cores,
            settings=settings,
            encryption=encryption,
            home=home,
            host=host,
            name=name,
        )
        self._listener = listener_of(progress)
        self._running: LiveCluster | None = None

    def __enter__(self) -> Self:
        """Start the nodes and wait until they are ready. StoreFailed if one fails; BadInput if they run already."""
        if self._running:
            raise BadInput("the cluster is running already", remedy="use one `with` block for each start")
        with naming_parameters(inspect.signature(Cluster)):
            self._running = LiveCluster.start(self._spec, self._listener.step)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the nodes. The data of a cluster without a name are deleted."""
        running, self._running = self._running, None
        if running:
            running.stop()

    @property
    def live(self) -> LiveCluster:
        """The running cluster; BadInput outside of the `with` block. Not part of the stable interface."""
        if self._running is None:
            raise BadInput("the cluster is not running", remedy="use it inside its `with` block")
        return self._running

    @property
    def store(self) -> str:
        """The kind of store."""
        return self._spec.store

    @property
    def size(self) -> int:
        """The number of nodes; BadInput outside of the `with` block."""
        return self.live.size

    @property
    def addresses(self) -> list[str]:
        """The addresses of the nodes, as host:port; BadInput outside of the `with` block."""
        return list(self.live.addresses)

    @property
    def nodes(self) -> Table:
        """A row for each node, now: `name`, `address`, `pid` and `alive`. BadInput outside the `with` block."""
        rows = [
            {"name": node.name, "address": node.address, "pid": node.pid, "alive": node.alive}
            for node in self.live.nodes
        ]
        return Table("nodes", lambda: table_of(rows, ("name", "address", "pid", "alive")))

    @checked
    def grow(self, nodes: Count = 1) -> list[str]:
        """Add a number of nodes, wait until the data is balanced, and return their names."""
        return self.live.grow(nodes, self._listener.step)

    @checked
    def shrink(self, nodes: Count | str = 1) -> list[str]:
        """Move the data of nodes to the others, remove the nodes, and return their names.

        `nodes` is a number of nodes, newest first, or the name of one. BadInput for an unknown name.
        """
        return self.live.shrink(nodes, self._listener.step)

    @checked
    def kill(self, name: str) -> None:
        """Kill a node (SIGKILL); its data are kept.

        BadInput for an unknown name, or a node that does not run.
        """
        self.live.kill(name)

    @checked
    def pause(self, name: str) -> None:
        """Suspend a node: its connections stay open, but it does not answer. No effect if it is paused.

        BadInput for an unknown name, or a node that does not run.
        """
        self.live.pause(name, self._listener.step)

    @checked
    def resume(self, name: str) -> None:
        """Continue a paused node. No effect on a node that is not paused.

        BadInput for an unknown name, or a node that does not run.
        """
        self.live.resume(name, self._listener.step)

    def restart(self) -> bool:
        """Start ended nodes again, and finish interrupted changes; return False if nothing was necessary."""
        return self.live.mend(self._listener.step)

    @checked
    def configure(self, settings: Mapping[str, Any]) -> None:
        """Change settings of the store at run time; BadInput for settings that require a restart."""
        self.live.configure(settings)

    def __repr__(self) -> str:
        state = counted(self._running.size, "running node") if self._running else "not running"
        return f"<Cluster of {self._spec.store}: {state}>"

    def _repr_html_(self) -> str:
        """Return an HTML table for a notebook: the nodes, or that the cluster is not running."""
        if not self._running:
            return html_table(("cluster",), [(repr(self),)])
        return self.nodes._repr_html_()
