"""One workload on one cluster, recorded as one run, with timed actions such as `30s=kill:node-1` or `1m=grow`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from loadframe.base.errors import BadInput
from loadframe.base.units import format_duration, parse_duration
from loadframe.cluster import Cluster, ClusterSpec
from loadframe.cluster import Cluster as LiveCluster
from loadframe.experiment.design.estimate import resolved_seconds
from loadframe.experiment.file.elastic import Step
from loadframe.experiment.runner.director import Director, TriggeredStep
from loadframe.experiment.runner.ingest import FirstEvents
from loadframe.experiment.runner.ledger import remove_leftovers
from loadframe.experiment.runner.listener import Labels, Listener
from loadframe.experiment.runner.preflight import check_load
from loadframe.experiment.runner.recover_run import recover_runs
from loadframe.experiment.runner.session import DroppedData, Session
from loadframe.experiment.runner.triggers import AtTime
from loadframe.library.options import parsed_as
from loadframe.load import Generator
from loadframe.store import find
from loadframe.workload import ResolvedPhase, ResolvedWorkload
from loadframe.workload import Workload as LoadedWorkload
from loadframe.yamlfile import did_you_mean, scalar

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
    #: Driver of the store, if it is known before connecting.
    driver: str | None = None

    def __post_init__(self) -> None:
        """Raise BadInput if too few ranks were started, or if the driver does not support the generator's settings."""
        self.generator.members()
        if self.driver is not None:
            self.generator.require(self.driver)

    def carry_out(self, listener: Listener) -> bool:
        """Start or attach to the cluster, prepare data and record the run; return False if an interrupt ended it early.

        First recovers killed runs of the parent folder, and removes leftovers of killed experiments from an existing
        cluster. Unless `reuse`, creates the collections. BadInput if load or actions are not possible. An interrupt
        before the first record is raised.
        """
        # A killed run of the same name is deleted by the record of this run, which takes its name.
        for kept in recover_runs(self.path.parent, lambda run: run != self.path.name):
            listener.remark(f"recovered a killed run: {kept}")
        with self._started(listener) as live:
            if self._exists:
                remove_leftovers(live, self.name, listener)
            resolved = self.workload.for_family(live.store.family, live.size, listener.step)
            phases = self._phases(resolved)
            if self._exists:
                check_load(phases, live.store.driver, live.target(), self.generator, live.size, live.spec)
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
            first = FirstEvents(phases, listener)

            def await_event(dropped: DroppedData) -> None:
                """Ask for confirmation of a drop, then wait for an event of each source."""
                if self.confirm:
                    self.confirm(dropped)
                first.wait()

            try:
                if not self.reuse:
                    session.create_collections(replace=self.replace or not self._exists, confirm=await_event)
                listener.expect({phase.name: resolved_seconds(phase) for phase in phases})
                session.record(self.path.parent, self.path.name, phases, Labels(), keep_interrupted=True, hook=hook)
            except KeyboardInterrupt:
                if not self.path.exists():
                    raise
                return False
            finally:
                first.close()
        return True

    @property
    def _exists(self) -> bool:
        """Whether the cluster exists already, instead of being started for this run."""
        return not isinstance(self.cluster, ClusterSpec)

    def _started(self, listener: Listener) -> AbstractContextManager[LiveCluster]:
        """Return the context of the existing cluster, or of new nodes.

        For new nodes, checks load and actions first; BadInput if they are not possible.
        """
        if not isinstance(self.cluster, ClusterSpec):
            return self.cluster()
        kind, spec = find(self.cluster.store), self.cluster
        phases = self._phases(self.workload.for_family(kind.family, spec.nodes, listener.step))
        check_load(phases, kind.driver, LiveCluster.prospect(spec), self.generator, spec.nodes, spec)
        require_in_time(self.actions, phases)
        return LiveCluster.start(spec, listener.step)

    def _phases(self, workload: ResolvedWorkload) -> Sequence[ResolvedPhase]:
        """Return the phases to run. `override` changes the measured phases; `reuse` skips phases that prepare data.

        BadInput if no phase is left, or if `arrivals` is set and all measured phases are closed loops.
        """
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


#: Key of the step for each action.
ACTIONS = {
    "grow": "add",
    "shrink": "remove",
    "kill": "kill",
    "start": "start",
    "pause": "pause",
    "resume": "resume",
    "cut": "cut",
    "restore": "restore",
    "set": "set",
}
#: Actions with an optional number of nodes (default 1), and actions with the name of a node.
_COUNTED = ("grow", "shrink")
_NAMED = ("kill", "start", "pause", "resume", "cut", "restore")


def parse_schedule(texts: Sequence[str]) -> list[Step]:
    """Return the actions sorted by time (`at`, s); BadInput for a text that is not TIME=ACTION[:ARGUMENT]."""
    return sorted((_parsed(text) for text in texts), key=lambda step: step.at or 0.0)


def _parsed(text: str) -> Step:
    """Return the step of a text TIME=ACTION[:ARGUMENT]; BadInput for another form, or an unknown action."""
    time, equals, action = text.partition("=")
    name, colon, argument = action.partition(":")
    if not equals or not name or (colon and not argument):
        raise BadInput(f"--at {text} is not TIME=ACTION", remedy="write it as 30s=kill:node-1, or 1m=grow:2")
    if name not in ACTIONS:
        raise BadInput(f"--at {text}: unknown action {name!r}", remedy=did_you_mean(name, ACTIONS))
    if not argument and name not in _COUNTED:
        argument_name = "NAME=VALUE" if name == "set" else "NODE"
        raise BadInput(f"--at {text}: {name} requires {argument_name}", remedy=f"write {time}={name}:{argument_name}")
    value: object = int(argument) if argument.isdecimal() else argument or 1
    if name == "set":
        setting, _, level = argument.partition("=")
        if not setting or not level:
            raise BadInput(
                f"--at {text}: set requires NAME=VALUE", remedy=f"write {time}=set:{setting or 'NAME'}=VALUE"
            )
        value = {setting: scalar(level)}
    at = parsed_as(parse_duration, time, f"--at {text}")
    try:
        return Step.model_validate({"at": at, ACTIONS[name]: value})
    except ValidationError as error:
        raise BadInput(f"--at {text}: {error.errors()[0]['msg']}", remedy="see `loadframe bench --help`") from None


def require_in_time(steps: Sequence[Step], phases: Sequence[ResolvedPhase]) -> None:
    """Raise BadInput for an action at or after the end of the load, or if warm-up or duration are not fixed.

    `steps` are sorted by time, which counts from the end of the first measured phase's warm-up. Does nothing without
    steps. The end is not checked if a phase has no duration.
    """
    measured = phases[_first(phases) :]
    if steps and any(phase.adjustable for phase in measured):
        what = "--at requires a fixed warm-up and duration, because its times count from the end of the warm-up"
        raise BadInput(what, remedy="give --warmup and --duration a time such as 30s")
    lasting = [phase.duration for phase in measured]
    if None in lasting or not steps:
        return
    end = sum(phase.warmup for phase in measured[1:]) + sum(filter(None, lasting))
    late = steps[-1].at or 0.0
    if late >= end:
        raise BadInput(
            f"--at {format_duration(late)} is after the end of the load at {format_duration(end)}",
            remedy="use an earlier time, or a longer --duration",
        )


def require_nodes(steps: Sequence[Step], cluster: Cluster) -> None:
    """Raise BadInput for an action on an unknown node, up to the first action that adds nodes."""
    present = [node.name for node in cluster.nodes]
    for step in takewhile(lambda step: step.add is None, steps):
        name = next((getattr(step, key) for key in (*_NAMED, "remove") if isinstance(getattr(step, key), str)), None)
        if name is not None and name not in present:
            raise BadInput(f"--at: unknown node {name!r}", remedy=did_you_mean(name, present))


class Schedule(Director):
    """Runs actions at times relative to the start of the first measured window."""

    def __init__(
        self, cluster: Cluster, steps: Sequence[Step], phases: Sequence[ResolvedPhase], report: Callable[[str], None]
    ) -> None:
        """Plan the steps at their times, s after the first measured window began; `report` receives messages."""
        plan = [TriggeredStep(step, AtTime(step.at or 0.0)) for step in steps]
        super().__init__(cluster, plan, report, control=False, holds=False)
        self._until_first = _first(phases)

    def phase(self, start: float, warmup: float) -> None:
        """Start the schedule with the first measured phase; times continue across later phases.

        `start` is the start of the phase's load since the run began, `warmup` its longest warm-up, both s. Call it for
        each phase in order.
        """
        if self._until_first == 0:
            super().phase(start, warmup)
        self._until_first -= 1


def _first(phases: Sequence[ResolvedPhase]) -> int:
    """Return the index of the first phase that does not prepare; 0 if all prepare."""
    return next((place for place, phase in enumerate(phases) if not phase.prepares), 0)
