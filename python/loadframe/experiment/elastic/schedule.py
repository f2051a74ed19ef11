"""Timed actions from the command line, such as `30s=kill:node-1` or `1m=grow`."""

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
    """Return the actions sorted by time; BadInput for a text that is not TIME=ACTION[:ARGUMENT]."""
    return sorted((_parsed(text) for text in texts), key=lambda step: step.at or 0.0)


def _parsed(text: str) -> Step:
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
    try:
        return Step.model_validate({"at": parse_duration(time), ACTIONS[name]: value})
    except ValidationError as error:
        raise BadInput(f"--at {text}: {error.errors()[0]['msg']}", remedy="see `loadframe bench --help`") from None


def require_in_time(steps: Sequence[Step], phases: Sequence[ResolvedPhase]) -> None:
    """Raise BadInput for an action after the end of the load; not checked if a phase has no fixed length."""
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
        plan = [TriggeredStep(step, AtTime(step.at or 0.0)) for step in steps]
        super().__init__(cluster, plan, report, control=False, holds=False)
        self._until_first = _first(phases)

    def phase(self, start: float, warmup: float) -> None:
        """Start the schedule with the first measured phase; times continue across later phases."""
        if self._until_first == 0:
            super().phase(start, warmup)
        self._until_first -= 1


def _first(phases: Sequence[ResolvedPhase]) -> int:
    """Return the index of the first phase that does not prepare; 0 if all prepare."""
    return next((place for place, phase in enumerate(phases) if not phase.prepares), 0)
