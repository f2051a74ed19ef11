"""One workload on one cluster, recorded as one run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster as LiveCluster
from loadframe.cluster import ClusterSpec
from loadframe.experiment.design.estimate import resolved_seconds
from loadframe.experiment.elastic.schedule import Schedule, require_in_time, require_nodes
from loadframe.experiment.runner.ledger import remove_leftovers
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.recover_run import recover_runs
from loadframe.experiment.runner.session import DroppedData, Labels, Session
from loadframe.load import Generator
from loadframe.store import find
from loadframe.workload import ResolvedPhase, ResolvedWorkload
from loadframe.workload import Workload as LoadedWorkload

if TYPE_CHECKING:
    from loadframe.experiment.file.elastic import Step


@dataclass(frozen=True)
class Bench:
    """One run to record: workload, cluster, load and folder."""

    workload: LoadedWorkload
    path: Path
    #: The cluster to start, or a function that returns an existing one.
    cluster: "ClusterSpec | Callable[[], AbstractContextManager[LiveCluster]]"
    generator: Generator
    seed: int
    #: Changes of the measured phases, from `levels`.
    override: Mapping[str, Any]
    actions: "Sequence[Step]" = ()
    #: Name of a cluster of Loadframe.
    name: str | None = None
    replace: bool = False
    reuse: bool = False
    allow_bad: bool = False
    #: Called before collections of a cluster that Loadframe did not start are dropped; may refuse.
    confirm: Callable[[DroppedData], None] | None = None
    written: Callable[[str], str] = str

    def __post_init__(self) -> None:
        # BadInput if too few ranks were started.
        self.generator.members()

    def carry_out(self, listener: Listener) -> bool:
        """Record the run and return False if an interrupt ended it early.

        An interrupt before the first record is raised.
        """
        # A killed run of the same name is moved aside.
        for kept in recover_runs(self.path.parent, lambda run: run != self.path.name):
            listener.remark(f"recovered a killed run: {kept}")
        with self._started(listener) as live:
            if self._exists:
                remove_leftovers(live, self.name, listener)
            resolved = self.workload.for_family(live.store.family, live.size, listener.step)
            phases = self._phases(resolved)
            if self._exists:
                check_load(phases, live.store.driver, live.target(), self.generator, live.size)
            require_in_time(self.actions, phases)
            require_nodes(self.actions, live)
            hook = Schedule(live, self.actions, phases, listener.step) if self.actions else None
            session = Session(
                live,
                resolved,
                seed=self.seed,
                generator=self.generator,
                listener=listener,
                allow_bad=self.allow_bad,
            )
            if not self.reuse:
                session.create_collections(replace=self.replace or not self._exists, confirm=self.confirm)
            listener.expect({phase.name: resolved_seconds(phase) for phase in phases})
            try:
                session.record(self.path.parent, self.path.name, phases, Labels(), keep_interrupted=True, hook=hook)
            except KeyboardInterrupt:
                if not self.path.exists():
                    raise
                return False
        return True

    @property
    def _exists(self) -> bool:
        return not isinstance(self.cluster, ClusterSpec)

    def _started(self, listener: Listener) -> AbstractContextManager[LiveCluster]:
        """Return the cluster; check the workload before a node starts."""
        if not isinstance(self.cluster, ClusterSpec):
            return self.cluster()
        kind, spec = find(self.cluster.store), self.cluster
        phases = self._phases(self.workload.for_family(kind.family, spec.nodes, listener.step))
        check_load(phases, kind.driver, LiveCluster.prospect(spec), self.generator, spec.nodes)
        require_in_time(self.actions, phases)
        return LiveCluster.start(spec, listener.step)

    def _phases(self, workload: ResolvedWorkload) -> Sequence[ResolvedPhase]:
        """Return the phases to run. `override` changes the measured ones; `reuse` skips those that prepare data."""
        phases = [phase for phase in workload.phases if not (self.reuse and phase.prepares)]
        if not phases:
            raise BadInput(
                f"{self.written('reuse')} leaves no phase to run",
                remedy=f"name other phases with {self.written('only')}, or leave {self.written('reuse')} out",
            )
        chosen = [phase if phase.prepares else phase.override(**self.override) for phase in phases]
        streams = [stream for phase in chosen if not phase.prepares for stream in phase.streams]
        if self.override["arrivals"] and not any(stream.is_open for stream in streams):
            raise BadInput(
                f"{self.written('arrivals')} requires an open loop, and all phases are closed loops",
                remedy=f"give {self.written('rate')}, too",
            )
        return chosen
