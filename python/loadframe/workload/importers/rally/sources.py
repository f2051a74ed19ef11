"""What the parameter sources of a track's code gave, made into an operation whose parameters are drawn from lists.

Where all requests have the same value, it stands in the operation. Where they differ, a variable takes its place that
lists the values in the order of the requests, so that values that belong together stay together.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadframe.workload.importers.imported import Hole
from loadframe.workload.importers.rally import isolated
from loadframe.workload.importers.rally.code import FILES, Draws, Wanted
from loadframe.workload.importers.rally.track import Track
from loadframe.workload.importers.source import Part

#: So many requests of an operation are made ahead.
MOST = 200
#: Parameters that may differ from request to request.
_VARY = ("body", "index", "query")


@dataclass
class Sources:
    """The parameter sources of a track, as far as its code may be run."""

    track: Track
    limits: isolated.Limits = isolated.DEFAULT
    #: What was drawn, by the operation that it is for.
    drawn: dict[str, Draws] = field(default_factory=dict)
    #: What its code registers, by kind.
    registered: dict[str, list[str]] = field(default_factory=dict)
    #: The files of code, if they were run.
    ran: list[str] = field(default_factory=list)

    def read(self, folder: Path, wanted: list[Wanted], *, allowed: bool) -> None:
        """Read the code in a track's folder, and run it if that is allowed; name what it registers and is lost."""
        for name in (name for name in FILES if (folder / name).is_file()):
            file = folder / name
            if allowed:
                ran = isolated.run(file, self.track.part.data, wanted, self.limits)
                found = ran.registered
                self.ran.append(name)
                for one, draws in zip(wanted, ran.draws, strict=True):
                    self.drawn[_key(one.operation, one.params)] = draws
            else:
                found = isolated.registered(file)
                self.track.leave_out(f"{name}: what its code registers; it was not run, which --allow-code allows")
            for kind, names in found.items():
                self.registered.setdefault(kind, []).extend(names)
            if fields := found["standard_value_source"]:
                self.track.remark(
                    f"{name} draws values for {', '.join(fields)}. OpenSearch Benchmark uses them only with "
                    "--randomization-enabled; here the queries have the values that the workload gives."
                )
            for kind, what in _LOST.items():
                for lost in dict.fromkeys(found[kind]):
                    self.track.leave_out(f"{what} {lost} of {name}")

    def operation(self, part: Part, name: str) -> tuple[Part, int] | str:
        """Return an operation with the parameters that its source gave, and how many requests those are, 0 for any
        number; or why there are none.
        """
        draws = self.drawn.get(_key(name, part.data))
        if draws is None:
            return f"its parameters are made by the code of its parameter source {part.data['param-source']}"
        if draws.failed or not draws.values:
            return f"its parameter source: {draws.failed or 'it gives no parameters'}"
        every = [{key: value for key, value in one.items() if value is not None} for one in draws.values]
        folded: dict[str, Any] = {}
        for key in dict.fromkeys(key for one in every for key in one):
            values = [one.get(key) for one in every]
            if key not in _VARY and any(value != values[0] for value in values):
                return f"its parameter source gives {key} anew for each request"
            folded[key] = self._folded(values, f"{name}_{key}") if key in _VARY else values[0]
        if isinstance(folded.get("body"), Hole):
            return "its parameter source gives bodies of different keys"
        if len(every) == MOST and not draws.ended:
            self.track.remark(f"{name} repeats the first {MOST} requests of its parameter source.")
        given = {key: value for key, value in part.data.items() if key != "param-source"} | folded
        return Part(given, part.where), len(every) if draws.ended else 0

    def _folded(self, values: list[Any], name: str) -> Any:
        first = values[0]
        if all(value == first and type(value) is type(first) for value in values):
            return first
        if all(isinstance(value, dict) and value.keys() == first.keys() for value in values) and first:
            return {key: self._folded([value[key] for value in values], f"{name}_{key}") for key in first}
        if all(isinstance(value, list) and len(value) == len(first) for value in values):
            return [self._folded([value[at] for value in values], name) for at in range(len(first))]
        return self._variable(values, name)

    def _variable(self, values: list[Any], name: str) -> Hole:
        stem = "_" + re.sub(r"[^A-Za-z0-9_]+", "_", name)[-60:].strip("_")
        stem = stem if stem[1:2].isdigit() else stem[1:] or "value"
        choice = {"choice": {"values": values, "order": "sequential"}}
        number, key = 1, stem
        while self.track.variables.get(key, choice) != choice:
            number += 1
            key = f"{stem}_{number}"
        self.track.variables[key] = choice
        return Hole(f"${{{key}}}")


#: What is lost, by the kind that its code registers it as.
_LOST = {
    "runner": "operations of the runner",
    "scheduler": "the schedule",
    "track_processor": "the track processor",
    "workload_processor": "the workload processor",
    "other": "what its code says by",
}


def wanted(challenge: Part, declared: Mapping[str, Part]) -> list[Wanted]:
    """Return which parameter sources a challenge's tasks need, each operation once."""
    found: dict[str, Wanted] = {}
    for task in _tasks(challenge.data.get("schedule")):
        given = task.get("operation")
        operation = declared[given].data if isinstance(given, str) and given in declared else given
        if not isinstance(operation, dict) or not isinstance(operation.get("param-source"), str):
            continue
        name = str(operation.get("name") or operation.get("operation-type"))
        clients = task.get("clients")
        clients = clients if isinstance(clients, int) and clients > 0 else 1
        found[_key(name, operation)] = Wanted(operation["param-source"], name, operation, clients, MOST)
    return list(found.values())


def _key(name: str, operation: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(operation, sort_keys=True)}"


def _tasks(schedule: Any) -> Iterator[dict[str, Any]]:
    for entry in schedule if isinstance(schedule, list) else ():
        parallel = entry.get("parallel") if isinstance(entry, dict) else None
        if isinstance(parallel, dict):
            yield from _tasks(parallel.get("tasks"))
        elif isinstance(entry, dict):
            yield entry
