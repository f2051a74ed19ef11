"""Actions at given times, without an experiment file: `30s=kill:node-1`, `1m=grow`."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from pydantic import ValidationError

from loadframe.base.errors import BadInput
from loadframe.base.units import format_duration, parse_duration
from loadframe.cluster import Cluster
from loadframe.experiment.elastic.director import Director, TriggeredStep
from loadframe.experiment.elastic.triggers import AtTime
from loadframe.experiment.file.elastic import Step
from loadframe.workload import ResolvedPhase
from loadframe.yamlfile import did_you_mean, scalar

#: What an action is called, and the key of a step that does it.
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
#: Those that take a number of nodes and mean one without it, and those that take the name of a node.
_COUNTED = ("grow", "shrink")
_NAMED = ("kill", "start", "pause", "resume", "cut", "restore")


def parse_schedule(texts: Sequence[str]) -> list[Step]:
    """Return the actions in the order of their times; BadInput for what is not TIME=ACTION[:ARGUMENT]."""
    return sorted((_parsed(text) for text in texts), key=lambda step: step.at or 0.0)


def _parsed(text: str) -> Step:
    time, given, action = text.partition("=")
    name, colon, argument = action.partition(":")
    if not given or not name or (colon and not argument):
        raise BadInput(f"--at {text} is not an action at a time", remedy="write it as 30s=kill:node-1, or 1m=grow:2")
    if name not in ACTIONS:
        raise BadInput(f"--at {text}: there is no action {name!r}", remedy=did_you_mean(name, ACTIONS))
    if not argument and name not in _COUNTED:
        what = "NAME=VALUE" if name == "set" else "the name of a node"
        raise BadInput(f"--at {text}: {name} takes {what}", remedy=f"write {time}={name}:{what.rsplit(maxsplit=1)[-1]}")
    value: object = int(argument) if argument.isdecimal() else argument or 1
    if name == "set":
        setting, _, level = argument.partition("=")
        if not setting or not level:
            raise BadInput(f"--at {text}: set takes NAME=VALUE", remedy=f"write {time}=set:{setting or 'NAME'}=VALUE")
        value = {setting: scalar(level)}
    try:
        return Step.model_validate({"at": parse_duration(time), ACTIONS[name]: value})
    except ValidationError as error:
        raise BadInput(f"--at {text}: {error.errors()[0]['msg']}", remedy="see `loadframe bench --help`") from None


def require_in_time(steps: Sequence[Step], phases: Sequence[ResolvedPhase]) -> None:
    """BadInput for an action that comes when the load is over, as far as the phases say how long they last."""
    measured = phases[_first(phases) :]
    lasting = [phase.duration for phase in measured]
    if None in lasting or not steps:
        return
    end = sum(phase.warmup for phase in measured[1:]) + sum(filter(None, lasting))
    late = steps[-1].at or 0.0
    if late >= end:
        raise BadInput(
            f"--at {format_duration(late)} comes when the load is over, after {format_duration(end)}",
            remedy="give an earlier time, or a longer --duration",
        )


def require_nodes(steps: Sequence[Step], cluster: Cluster) -> None:
    """BadInput for an action on a node that the cluster lacks and that no action before has added."""
    present = [node.name for node in cluster.nodes]
    for step in takewhile(lambda step: step.add is None, steps):
        name = next((getattr(step, key) for key in (*_NAMED, "remove") if isinstance(getattr(step, key), str)), None)
        if name is not None and name not in present:
            raise BadInput(f"--at: the cluster has no node {name!r}", remedy=did_you_mean(name, present))


class Schedule(Director):
    """Takes actions at times since the measured part of the first phase that does not prepare began."""

    def __init__(
        self, cluster: Cluster, steps: Sequence[Step], phases: Sequence[ResolvedPhase], report: Callable[[str], None]
    ) -> None:
        plan = [TriggeredStep(step, AtTime(step.at or 0.0)) for step in steps]
        super().__init__(cluster, plan, report, control=False, holds=False)
        self._until_first = _first(phases)

    def phase(self, start: float, warmup: float) -> None:
        """Begin with the first measured phase; those after it go on with the same times."""
        if self._until_first == 0:
            super().phase(start, warmup)
        self._until_first -= 1


def _first(phases: Sequence[ResolvedPhase]) -> int:
    """Return the place of the first phase that does not prepare; the first of all where every one does."""
    return next((place for place, phase in enumerate(phases) if not phase.prepares), 0)
