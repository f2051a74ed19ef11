"""Converts the schedule of a challenge to phases: clients, rate, warm-up and end of each task."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.workload.importers.imported import name_of, without_operation
from loadframe.workload.importers.rally.operations import Operations
from loadframe.workload.importers.rally.sources import Sources
from loadframe.workload.importers.rally.track import ALL, Form, Track
from loadframe.workload.importers.source import ImportedObject
from loadframe.yamlfile import did_you_mean

#: Kinds of preparation. The measured part starts with the first other operation, or else with the bulk operations.
_PREPARE = (
    *("bulk", "refresh", "force_merge", "flush", "request", "wait_for_health", "put_template", "delete_template"),
    *("create_collection", "delete_collection", "shrink", "create_repository", "snapshot"),
)
_MEASURED_REQUESTS = ("/_search", "/_sql", "/_query", "/_field_caps")
#: Keys of a task without effect on the load.
_NO_MATTER = ("tags", "meta", "run-on-serverless", "ignore-response-error-level", "type")
#: Keys that are read only for some tasks.
_TIMES = ("target-throughput", "target-interval", "ramp-up-time-period")
#: Keys that parallel tasks inherit from their group.
_INHERITED = ("warmup-iterations", "iterations", "warmup-time-period", "time-period", "ramp-up-time-period", "clients")


#: Maximum duration of a task in test mode, in seconds.
_SMALL_DURATION = 10.0


@dataclass(frozen=True)
class Task:
    """A task of a schedule: one form of its operation, with load model, warm-up and end.

    `warmup` and `duration` are in seconds; `pacing` holds keys of a stream. `counted` is whether the track limits its
    requests by iterations.
    """

    name: str
    operation: str
    form: Form
    clients: int
    pacing: dict[str, Any]
    warmup: float
    duration: float
    warmup_requests: int
    requests: int
    counted: bool

    @property
    def reads(self) -> bool:
        """Whether it reads a corpus, and ends with it at the latest."""
        return "bulk" in self.form

    @property
    def includes_warmup(self) -> bool:
        """Whether its phase also sends its warm-up requests: it reads a corpus, has iterations, and no duration."""
        return self.reads and self.counted and not self.duration

    @property
    def measured(self) -> bool:
        """Whether it is measured, such as a search, rather than preparation, such as a bulk request.

        A plain request is measured if its path contains `/_search`, `/_sql`, `/_query` or `/_field_caps`.
        """
        kind = next(key for key in self.form if key != "timeout")
        path = str(self.form[kind].get("path", ""))
        return kind not in _PREPARE or (kind == "request" and any(part in path for part in _MEASURED_REQUESTS))


class Schedule:
    """Converts the tasks of a challenge to operations and phases of a workload."""

    def __init__(self, track: Track, sources: Sources) -> None:
        """Read the operations that the track declares; report invalid ones as not imported."""
        self.track = track
        self.sources = sources
        self.declared: dict[str, ImportedObject] = {}
        self.make = Operations(track, self.declared.keys())
        for operation in track.entries(track.part, "operations", "operation"):
            try:
                self.declared[operation.text("name")] = operation
            except BadInput as error:
                track.refuse("an operation", error)
        self.operations: dict[str, Form] = {}
        #: Path of each operation's origin in the track.
        self.origins: dict[str, str] = {}
        #: Names of operations in the track, by their names here.
        self._named: dict[str, str] = {}
        self.phases: list[dict[str, Any]] = []
        self._tasks: list[list[Task]] = []

    def read(self, challenge: ImportedObject) -> None:
        """Convert a challenge's schedule to `operations` and `phases`; report tasks that are not imported.

        BadInput, with its place, if no task can be imported.
        """
        for entry in self.track.entries(challenge, "schedule", "task"):
            try:
                if "parallel" in entry.data:
                    self._parallel(ImportedObject(entry.data["parallel"], f"{entry.where}, parallel"))
                else:
                    for single in _by_clients(entry, challenge):
                        self._in_turn(self._read(single, {}))
            except BadInput as error:
                self.track.refuse(f"task {_label(entry)}", error)
        self._leave_out_twins()
        self._report_rates()
        if not self.phases:
            where = self.track.place(f"{challenge.where}, schedule")
            raise BadInput("no task of the schedule can be imported", where=where, remedy=self._why())
        self._prepare()

    def _why(self) -> str:
        """Return the first omissions as a remedy for a schedule without importable tasks."""
        return "; ".join(self.track.left_out[:5]) or "choose a challenge with a schedule"

    def _read(self, entry: ImportedObject, around: dict[str, Any]) -> list[Task]:
        """Return the tasks of a schedule entry, one for each form of its operation; report unsupported parts.

        `around` has the keys that the entry inherits from its group of parallel tasks; its own keys take precedence.
        Empty for an unsupported operation. BadInput for an invalid entry.
        """
        part = ImportedObject(around | entry.data, entry.where)
        part.read_keys.update(("name", "operation", "schedule", *_NO_MATTER, *_INHERITED))
        given = part.get("operation")
        if isinstance(given, str):
            operation = self.declared.get(given) or ImportedObject({"operation-type": given}, part.where)
            name = given
        else:
            operation = ImportedObject(given, f"{part.where}, operation")
            name = operation.text("name", operation.text("operation-type"))
        drawn = 0
        if "param-source" in operation.data:
            if self.make.leave_out_unknown(operation, name):
                return []
            made = self.sources.operation(operation, name)
            if isinstance(made, str):
                self.track.leave_out(f"operation {name}: {made}")
                return []
            operation, drawn = made
        try:
            forms = self.make.forms(operation, name)
        except BadInput as error:
            self.track.refuse(f"operation {name}", error)
            return []
        drawn = drawn or self.make.make.ends.get(name, 0)
        task = part.text("name", name)
        if len(forms) > 1 and part.get("iterations") is not None:
            self.track.leave_out(f"task {task}: its iterations in total; they apply to each of its {len(forms)} parts")
        tasks = [self._task(part, task, name, form, drawn, operation.where) for form in forms]
        part.read_keys.update(_TIMES)
        for key in part.rest() if forms else ():
            self.track.leave_out_key(f"task {task}", key, part)
        return tasks

    def _task(self, part: ImportedObject, name: str, operation: str, form: Form, drawn: int, where: str) -> Task:
        """Return a task for the entry `part`; adds its operation. BadInput for invalid numbers.

        `operation` is the operation's name in the track, `where` its place. `drawn` is the number of requests of a
        finite parameter source, else 0. In test mode, the task has no warm-up, at most 10 s and one request per client.
        """
        clients = max(1, part.whole("clients", 1))
        counted = part.get("iterations") is not None
        # Without iterations, a task ends with its parameter source. Iterations count per client.
        requests = drawn if drawn and not counted else max(1, part.whole("iterations", 1)) * clients
        small = self.track.test_mode
        duration = part.number("time-period", 0) or 0
        return Task(
            name=name,
            operation=self._operation(operation, form, where),
            form=form,
            clients=clients,
            pacing=self._pacing(part, name, form, clients),
            warmup=0 if small else part.number("warmup-time-period", 0) or 0,
            duration=min(duration, _SMALL_DURATION) if small else duration,
            warmup_requests=0 if small else part.whole("warmup-iterations", 0) * clients,
            requests=min(requests, clients) if small else requests,
            counted=counted,
        )

    def _operation(self, name: str, form: Form, where: str) -> str:
        """Return the name of an operation with this form; add the operation if it is new.

        `name` is its name in the track, `where` its place for messages. A number is appended if the name has another
        form.
        """
        stem = name_of(name)
        for known, other in self.operations.items():
            if other == form and (known == stem or re.fullmatch(re.escape(stem) + r"-[0-9]+", known)):
                return known
        key = name_of(name, self.operations)
        self.operations[key] = form
        self.origins[key] = where
        self._named[key] = name
        return key

    def _leave_out_twins(self) -> None:
        """Remove an operation that equals another one here, but lost other parts than that in the import; report it.

        Also removes it from phases, and phases without other operations.
        """
        dropped = {key: self.make.make.dropped.get(name, []) for key, name in self._named.items()}
        for key in [key for key, lost in dropped.items() if lost]:
            form = self.operations[key]
            twins = (other for other in self.operations if other != key and self.operations[other] == form)
            twin = next((other for other in twins if dropped[other] != dropped[key]), None)
            if twin is None:
                continue
            self.track.leave_out(f"operation {key}: without {'; '.join(dropped[key])}, it is identical to {twin}")
            del self.operations[key]
            kept = [
                (load, [task for task in tasks if task.operation != key])
                for phase, tasks in zip(self.phases, self._tasks, strict=True)
                if (load := without_operation(phase, key)) is not None
            ]
            self.phases, self._tasks = [load for load, _ in kept], [tasks for _, tasks in kept]

    def _report_rates(self) -> None:
        """Report that tasks with a rate lose the limit of their clients: one request in flight each.

        Loadframe lacks an open loop in which further requests wait and keep their scheduled time. Evenly spaced tasks
        also lose their bursts: in Rally, all clients of such a task send at the same instants.
        """
        throttled = [task for tasks in self._tasks for task in tasks if "rate" in task.pacing]
        if throttled:
            names = ", ".join(dict.fromkeys(f"{task.name} ({counted(task.clients, 'client')})" for task in throttled))
            what, lost = "their limit of one request in flight per client", "it"
            if any(task.clients > 1 and task.pacing["arrivals"] == "constant" for task in throttled):
                what, lost = f"{what}, and the bursts of their clients, which send at the same instants", "them"
            instead = "replace `rate` and `arrivals` by `clients` and `pacing` (clients / rate)"
            loss = "response times then exclude the wait for a client"
            self.track.leave_out(f"throttled tasks {names}: {what}; to keep {lost}, {instead}, but {loss}")

    def _pacing(self, part: ImportedObject, name: str, form: Form, clients: int) -> dict[str, Any]:
        """Return the load model of a task as keys of a stream: `clients`, or `rate` and `arrivals`; ramps as stages.

        `name` is the task's, for reports. In test mode, there is no rate and no ramp; a single client has no ramp.
        """
        rate = self._rate(part, name, form)
        ramp = 0 if self.track.test_mode else part.number("ramp-up-time-period", 0)
        if rate is None:
            if ramp and clients > 1:
                return {"clients": {"from": 1, "stages": [{"to": clients, "over": f"{ramp:.15g}s"}]}}
            return {"clients": clients}
        kind = part.get("schedule", "deterministic")
        if kind not in ("deterministic", "poisson"):
            self.track.leave_out(f"task {name}: its schedule {kind}; arrivals are evenly spaced")
        level: Any = f"{rate:.12g}/s"
        if ramp and clients > 1:
            # Clients start one after the other, each with its fraction of the throughput.
            level = {"from": f"{rate / clients:.12g}/s", "stages": [{"to": level, "over": f"{ramp:.15g}s"}]}
        # Rally's default is even spacing; the default of workload files is Poisson.
        return {"rate": level, "arrivals": "poisson" if kind == "poisson" else "constant"}

    def _rate(self, part: ImportedObject, name: str, form: Form) -> float | None:
        """Return the requests per second of all clients together, or None for unthrottled clients and in test mode.

        `target-interval` (s) takes precedence over `target-throughput`. A rate in documents is divided by the documents
        of a bulk request. A rate in another unit is reported as not imported, and None.
        """
        target, interval = part.get("target-throughput"), part.number("target-interval", 0)
        if self.track.test_mode:
            return None
        if interval:
            return 1 / interval
        if isinstance(target, str) and (match := re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]+)/s\s*", target)):
            rate = ImportedObject({"target-throughput": match[1]}, part.where).number("target-throughput") or 0
            if match[2] == "docs" and "bulk" in form:
                rate /= form["bulk"]["size"]
            elif match[2] != "ops":
                self.track.leave_out(f"task {name}: target-throughput {target}; its clients are not throttled")
                return None
        else:
            rate = part.number("target-throughput", 0) or 0
        return rate if rate and math.isfinite(rate) else None

    def _single(self, task: Task) -> None:
        """Add the phase of a task.

        Warm-up requests become a phase before it. They are reported instead if the task has a duration, or reads a
        corpus to its end.
        """
        load = {"operation": task.operation, **task.pacing}
        if task.warmup_requests and not task.duration and not task.reads:
            self._add(f"{task.name}-warmup", [task], {**load, "requests": task.warmup_requests})
        elif task.warmup_requests and not task.includes_warmup:
            what = "its warm-up iterations, because it ends by time or with its documents"
            self.track.leave_out(f"task {task.name}: {what}")
        self._add(task.name, [task], {**load, **self._warmup([task]), **_end_of(task)})

    def _in_turn(self, tasks: list[Task]) -> None:
        """Add the phases of the parts of one task, one after the other; report times that then differ from the track.

        If the parts are files, only the first is warmed up: the further ones continue the same load.
        """
        first = tasks[:1]
        if len(tasks) > 1 and first[0].reads:
            if first[0].duration:
                what = f"its time-period in total; it applies to each of its {len(tasks)} files"
                self.track.leave_out(f"task {first[0].name}: {what}")
            if first[0].warmup or (first[0].warmup_requests and first[0].includes_warmup):
                what = f"its warm-up after the first of its {len(tasks)} files"
                self.track.leave_out(f"task {first[0].name}: {what}")
            tasks = first + [replace(task, warmup=0, warmup_requests=0) for task in tasks[1:]]
        elif len(tasks) > 1 and (first[0].duration or first[0].warmup):
            what = f"its time-period and warm-up in total; they apply to each of its {len(tasks)} parts"
            self.track.leave_out(f"task {first[0].name}: {what}")
        for task in tasks:
            self._single(task)

    def _parallel(self, part: ImportedObject) -> None:
        """Add one phase for tasks that run in parallel, each as a stream; report unsupported parts.

        A single task gets ordinary phases; without importable tasks, there is none.
        """
        part.read_keys.update(_INHERITED)
        around = {key: part.data[key] for key in _INHERITED if key in part.data and key != "clients"}
        read = []
        for entry in self.track.entries(part, "tasks", "task"):
            try:
                read.append(self._read(entry, around))
            except BadInput as error:
                self.track.refuse(f"task {_label(entry)}", error)
        completed_by = part.get("completed-by")
        for key in part.rest(("tags", "meta")):
            self.track.leave_out(f"parallel tasks: {key}")
        imported = [parts for parts in read if parts]
        if len(imported) == 1:
            self._in_turn(imported[0])
        if len(imported) < 2:
            return
        tasks = [task for parts in imported for task in parts]
        if "clients" in part.data:
            self.track.leave_out("parallel tasks: their common number of clients; each task has its own clients")
        names: list[str] = []
        for task in tasks:
            if task.warmup_requests and not task.includes_warmup:
                self.track.leave_out(f"task {task.name}: its warm-up iterations, because it runs in parallel")
            names.append(name_of(task.name, names))
        streams = [
            {"name": name, "operation": task.operation, **task.pacing} for name, task in zip(names, tasks, strict=True)
        ]
        ends = [_end_of(task) for task in tasks]
        last = self._completing(names, tasks, completed_by)
        ending = "any" if completed_by == "any" else last
        end: dict[str, Any] = {"ends_with": ending} if ending else {}
        if completed_by is not None and not end:
            self.track.leave_out(f"parallel tasks: completed-by {completed_by}, because that task is not imported")
        if not end and all(one == ends[0] for one in ends):
            end = ends[0]
        else:
            for stream, stop in zip(streams, ends, strict=True):
                stream.update(stop)
        self._add("-".join(names)[:60], tasks, {**end, **self._warmup(tasks), "streams": streams})

    def _completing(self, names: list[str], tasks: list[Task], completed_by: Any) -> str | None:
        """Return the name of the stream of the task `completed_by`, which ends parallel tasks; None without that task.

        Of a task with several files, it is the stream of the largest file; report that, and the additional clients and
        rate. `names` are the streams of the `tasks`.
        """
        for task in {task.name: task for task in tasks if task.reads}.values():
            files = sum(other.name == task.name and other.reads for other in tasks)
            if files > 1:
                load = "the whole rate" if "rate" in task.pacing else "all clients"
                what = f"its {files} files one after the other; each is a stream with {load} of the task"
                self.track.leave_out(f"task {task.name}: {what}")
        # The last part of a task without files ends it.
        matches = [(name, task) for name, task in zip(names, tasks, strict=True) if task.name == completed_by][::-1]
        if not matches:
            return None
        name, task = max(matches, key=lambda match: self._documents(match[1]))
        if task.reads and len(matches) > 1:
            self.track.leave_out(f"parallel tasks: completed-by {completed_by} for all its files; they end with {name}")
        return name

    def _documents(self, task: Task) -> int:
        """Return the number of documents of the corpus that a task reads: 0 without one, ALL (10^12) if unknown."""
        return self.track.corpora[task.form["bulk"]["corpus"]].get("documents", ALL) if task.reads else 0

    def _warmup(self, tasks: list[Task]) -> dict[str, Any]:
        """Return `{"warmup": DURATION}` for a phase of these tasks, the longest one; empty for 0 s.

        Reports warm-ups that differ.
        """
        longest = max(task.warmup for task in tasks)
        if len({task.warmup for task in tasks}) > 1:
            names = ", ".join(task.name for task in tasks)
            self.track.leave_out(f"parallel tasks {names}: their different warm-ups; all use the longest")
        return {"warmup": f"{longest:.15g}s"} if longest else {}

    def _add(self, name: str, tasks: list[Task], load: dict[str, Any]) -> None:
        """Add a phase with the keys `load` and an unused name derived from `name`, and record its tasks."""
        self.phases.append({"name": name_of(name, [phase["name"] for phase in self.phases]), **load})
        self._tasks.append(tasks)

    def _prepare(self) -> None:
        """Mark the phases before the first measured one as preparing.

        Without a measured phase, mark those before the first that reads a corpus, and none without such a phase.
        """
        for attribute in ("measured", "reads"):
            matches = [any(getattr(task, attribute) for task in tasks) for tasks in self._tasks]
            if any(matches):
                for index in range(matches.index(True)):
                    name = self.phases[index].pop("name")
                    self.phases[index] = {"name": name, "prepares": True, **self.phases[index]}
                return


def _end_of(task: Task) -> dict[str, Any]:
    """Return the end condition of a task as keys of a phase or stream: duration, end of the corpus, or requests."""
    if task.duration:
        return {"duration": f"{task.duration:.15g}s"}
    if not task.reads:
        return {"requests": task.requests}
    # Warm-up requests send documents too, and have no separate phase; see `includes_warmup`.
    return {"requests": task.warmup_requests + task.requests} if task.counted else {"until": "exhausted"}


def _label(task: ImportedObject) -> str:
    """Return the name of a task for messages, else the name of its operation, else `(unnamed)`."""
    operation = task.data.get("operation")
    named = operation.get("name", operation.get("operation-type")) if isinstance(operation, dict) else operation
    return str(task.data.get("name", named) or "(unnamed)")


def _by_clients(task: ImportedObject, procedure: ImportedObject) -> list[ImportedObject]:
    """Return a task as a list of one, or a copy for each entry of its `clients_list` (OpenSearch Benchmark).

    The copies are named after the challenge `procedure` and the number of clients. BadInput if it is not a list.
    """
    if "clients_list" not in task.data:
        return [task]
    numbers = task.listed("clients_list")
    name = procedure.text("name", "default")
    plain = {key: value for key, value in task.data.items() if key != "clients_list"}
    return [
        ImportedObject({**plain, "clients": clients, "name": f"{name}_{clients}_clients"}, task.where)
        for clients in numbers
    ]


def choose(track: ImportedObject, wanted: str | None) -> ImportedObject:
    """Return the challenge `wanted`, or for None the default or only one; BadInput if the track lacks it.

    Of several defaults, the first counts. A top-level schedule counts as the challenge `default`. Several challenges
    without a default are refused.
    """
    challenges = [
        *track.parts("challenges"),
        *track.parts("test_procedures"),
        *(
            ImportedObject(track.get(key), f"{track.where}, {key}")
            for key in ("challenge", "test_procedure")
            if key in track.data
        ),
    ]
    if "schedule" in track.data:
        track.get("schedule")
        challenges.append(ImportedObject({"name": "default", "schedule": track.data["schedule"]}, track.where))
    named = {challenge.text("name", "default"): challenge for challenge in challenges}
    if not named:
        what = "the track lacks a challenge and a schedule"
        raise BadInput(what, where=track.where, remedy="import a complete track")
    if wanted is not None:
        if wanted not in named:
            what = f"unknown challenge {wanted!r}"
            raise BadInput(what, where=track.where, remedy=did_you_mean(wanted, named))
        return named[wanted]
    defaults = [challenge for challenge in challenges if challenge.flag("default", False)]
    if not defaults and len(named) > 1:
        remedy = f"choose one with --challenge: {', '.join(named)}"
        raise BadInput("the track has several challenges and no default", where=track.where, remedy=remedy)
    return defaults[0] if defaults else challenges[0]
