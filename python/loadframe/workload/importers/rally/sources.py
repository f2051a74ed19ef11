"""Converts drawn requests of a track's parameter sources to operations with variables.

Values that are equal in all requests become constants. Others become variables that yield the values in the order of
the requests, so that values of one request stay together. Few requests are listed in the workload file; many go to a
separate file.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadframe.workload.importers.imported import Hole, literal, name_of
from loadframe.workload.importers.rally import isolated
from loadframe.workload.importers.rally.code import FILES, VARY, DrawRequest, Draws
from loadframe.workload.importers.rally.track import Track
from loadframe.workload.importers.source import ImportedObject

#: Maximum requests per operation to list in the workload file; more go to a separate file.
LISTED = 200
#: Requests to draw for a task of unknown length.
_UNKNOWN = 10_000


@dataclass
class Sources:
    """The parameter sources of a track, and the requests drawn from them."""

    track: Track
    limits: isolated.Limits = isolated.DEFAULT
    #: Folder for files of requests, next to the workload file; without it, only LISTED requests are drawn.
    folder: str | None = None
    #: Lines of the files of requests, by path.
    files: dict[str, list[str]] = field(default_factory=dict)
    #: Drawn requests, by operation (see `_key`).
    drawn: dict[str, Draws] = field(default_factory=dict)
    #: Names that the code registers, by kind.
    registered: dict[str, list[str]] = field(default_factory=dict)
    #: Files of code that ran.
    ran: list[str] = field(default_factory=list)

    def read(self, folder: Path, wanted: list[DrawRequest], *, allowed: bool) -> None:
        """Read the code in a track's folder, or run it if allowed; report registrations that are not imported.

        If run, the requests drawn for `wanted` are added to `drawn`; BadInput if the code fails.
        """
        for name in (name for name in FILES if (folder / name).is_file()):
            file = folder / name
            if allowed:
                ran = isolated.run(file, self.track.part.data, wanted, self.limits)
                names = ran.registered
                self.ran.append(name)
                for one, draws in zip(wanted, ran.draws, strict=True):
                    self.drawn[_key(one.operation, one.params)] = draws
            else:
                names = isolated.registered(file)
                self.track.leave_out(f"{name}: its code did not run; allow it with --allow-code")
            for kind, registered in names.items():
                self.registered.setdefault(kind, []).extend(registered)
            if fields := names["standard_value_source"]:
                self.track.remark(
                    f"{name} registers random values for {', '.join(fields)}. OpenSearch Benchmark uses them only with "
                    "--randomization-enabled; here, queries use the fixed values of the track."
                )
            for kind, what in _LOST.items():
                for lost in dict.fromkeys(names[kind]):
                    self.track.leave_out(f"{what} {lost} of {name}")

    def operation(self, part: ImportedObject, name: str) -> tuple[ImportedObject, int] | str:
        """Return an operation with drawn parameters and the number of its requests, or why it cannot be imported.

        The number is 0 if the source had more requests than were drawn. Reasons are code that did not run or failed,
        and requests that differ in more than `body`, `index` and `query`. Adds variables, corpora and files for
        parameters that differ.
        """
        draws = self.drawn.get(_key(name, part.data))
        if draws is None:
            return f"its parameters need the code of its parameter source {part.data['param-source']}"
        if draws.failed or not draws.values:
            return f"its parameter source: {draws.failed or 'it returns nothing'}"
        requests = [{key: value for key, value in one.items() if value is not None} for one in draws.values]
        rows = _Rows(len(requests)) if len(requests) > LISTED else None
        folded: dict[str, Any] = {}
        for key in dict.fromkeys(key for one in requests for key in one):
            values = [one.get(key) for one in requests]
            if key not in VARY and any(value != values[0] for value in values):
                return f"its parameter source changes {key} between requests"
            folded[key] = self._folded(values, f"{name}_{key}", rows) if key in VARY else values[0]
        if isinstance(folded.get("body"), Hole) and rows is None:
            return "its parameter source returns bodies with different keys"
        if rows is not None and rows.columns:
            self._keep(name, rows)
        if not draws.ended:
            self._remark_on_the_end(name, draws)
        given = {key: value for key, value in part.data.items() if key != "param-source"} | folded
        return ImportedObject(given, part.where), len(requests) if draws.ended else 0

    def _remark_on_the_end(self, name: str, draws: Draws) -> None:
        """Add the remark that an operation repeats its drawn requests, with the limit that ended the draws.

        Without such a limit, add nothing.
        """
        count = f"{name} repeats the first {len(draws.values):,} requests of its parameter source"
        if draws.full:
            self.track.remark(f"{count}. To draw more, raise --memory-limit.")
        elif draws.slow:
            self.track.remark(f"{count}. To draw more, raise --time-limit.")
        elif self.folder is None and len(draws.values) >= LISTED:
            self.track.remark(f"{count}. To draw as many as the task needs, use --output.")
        elif len(draws.values) >= self.limits.draws:
            self.track.remark(f"{count}. To draw more, raise --draws.")
        elif len(draws.values) >= _UNKNOWN:
            self.track.remark(f"{count}, because the number of requests of the task is unknown.")

    def _keep(self, name: str, rows: "_Rows") -> None:
        """Add a file and a corpus with the requests of the operation `name`, and the variables that read from it."""
        corpus = name_of(f"{name}-requests", self.track.corpora)
        file = f"{self.folder}/{corpus}.ndjson"
        self.files[file] = rows.lines()
        self.track.corpora[corpus] = {"file": literal(file)}
        drawn = self.track.variable(f"{name}_request", {"document": {"corpus": corpus, "order": "sequential"}})
        for column, hole in rows.holes.items():
            self.track.variables[hole] = {"part": {"of": drawn, "field": column}}

    def _folded(self, values: list[Any], name: str, rows: "_Rows | None") -> Any:
        """Return the values of one place in all requests as one value: constant, or with placeholders of variables.

        `values` has one entry per request. Objects with equal keys and lists of equal length are compared part by part.
        Adds a variable, named after `name`, for each place that differs. It lists the values; with `rows`, it stands
        for a new column of them until `_keep` defines it.
        """
        first = values[0]
        if all(value == first and type(value) is type(first) for value in values):
            return first
        if all(isinstance(value, dict) and value.keys() == first.keys() for value in values) and first:
            return {key: self._folded([value[key] for value in values], f"{name}_{key}", rows) for key in first}
        if all(isinstance(value, list) and len(value) == len(first) for value in values):
            return [self._folded([value[at] for value in values], name, rows) for at in range(len(first))]
        if rows is None:
            return Hole(f"${{{self.track.variable(name, {'choice': {'values': values, 'order': 'sequential'}})}}}")
        column = rows.add(values)
        rows.holes[column] = self.track.variable(name, {"part": {"of": "", "field": f"{name} {column}"}})
        return Hole(f"${{{rows.holes[column]}}}")


@dataclass
class _Rows:
    """Values that differ between requests: one column per place in the request."""

    count: int
    columns: list[list[Any]] = field(default_factory=list)
    #: The variable that reads a column, by the column's name.
    holes: dict[str, str] = field(default_factory=dict)

    def add(self, values: list[Any]) -> str:
        """Add a column with one value per request, and return its name: `v1`, `v2`, ..."""
        self.columns.append(values)
        return f"v{len(self.columns)}"

    def lines(self) -> list[str]:
        """Return one JSON object per request, in order, with the values by column name."""
        names = [f"v{number}" for number in range(1, len(self.columns) + 1)]
        rows = zip(*self.columns, strict=True)
        return [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]


#: Descriptions of registrations that are not imported, by kind.
_LOST = {
    "runner": "operations of the runner",
    "scheduler": "the schedule",
    "track_processor": "the track processor",
    "workload_processor": "the workload processor",
    "other": "the registration",
}


def required_sources(
    challenge: ImportedObject, declared: Mapping[str, ImportedObject], most: int, is_known: Callable[[str], bool]
) -> list[DrawRequest]:
    """Return the parameter sources that a challenge's tasks need, once per operation, with at most `most` requests.

    Skips operations of unsupported types.
    """
    sources: dict[str, DrawRequest] = {}
    for task in _tasks(challenge.data.get("schedule")):
        given = task.get("operation")
        operation = declared[given].data if isinstance(given, str) and given in declared else given
        if not isinstance(operation, dict) or not isinstance(operation.get("param-source"), str):
            continue
        name = str(operation.get("name") or operation.get("operation-type"))
        if not is_known(str(operation.get("operation-type", name))):
            continue
        clients = task.get("clients")
        clients = clients if isinstance(clients, int) and clients > 0 else 1
        key = _key(name, operation)
        before = sources[key].most if key in sources else 0
        needed = min(most, max(before, _needed(task, clients)))
        sources[key] = DrawRequest(operation["param-source"], name, operation, clients, needed)
    return list(sources.values())


def _needed(task: Mapping[str, Any], clients: int) -> int:
    """Return the number of requests of a task including warm-up, at least 200; 10,000 if it is unknown.

    It follows from the iterations per client, else from the seconds and the rate. Values that are texts are ignored.
    """

    def number(key: str) -> float:
        """Return the task's number under `key`; 0 if it is missing, negative, 10^9 or more, or not a number."""
        value = task.get(key)
        return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0

    iterations = (number("iterations") + number("warmup-iterations")) * clients
    seconds = number("time-period") + number("warmup-time-period")
    rate = number("target-throughput") or (1 / number("target-interval") if number("target-interval") else 0.0)
    return max(LISTED, math.ceil(iterations or seconds * rate) or _UNKNOWN)


def _key(name: str, operation: Mapping[str, Any]) -> str:
    """Return the key of an operation in `Sources.drawn`."""
    return f"{name} {json.dumps(operation, sort_keys=True)}"


def _tasks(schedule: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a schedule, also those within parallel groups."""
    for entry in schedule if isinstance(schedule, list) else ():
        parallel = entry.get("parallel") if isinstance(entry, dict) else None
        if isinstance(parallel, dict):
            yield from _tasks(parallel.get("tasks"))
        elif isinstance(entry, dict):
            yield entry
