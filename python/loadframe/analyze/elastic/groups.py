"""Runs of one transition under one load: their courses, their steps, and each step's measures over repetitions.

Demand d(t) is the smallest number of nodes that sustains the load, from a measured capacity curve. Supply s(t) counts
the nodes that serve balanced data, which is later than their start. Over a time T:

    under-provisioning accuracy (1/T) integral max(d - s, 0) / d        time share (1/T) integral [d > s]
    over-provisioning accuracy  (1/T) integral max(s - d, 0) / d        time share (1/T) integral [s > d]
    jitter (changes of s - changes of d) / T

Source: Herbst et al., "BUNGEE: An Elasticity Benchmark for Self-Adaptive IaaS Cloud Environments" (2015).

`description` is the content of experiment.json.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from loadframe.analyze.elastic import warnings as rules
from loadframe.analyze.elastic.course import Course, Event, Series, main_operation, node_changes, read_course
from loadframe.analyze.elastic.measures import (
    ChangeInRun,
    Disturbed,
    Value,
    change_failed,
    disturbed,
    measure,
    service,
)
from loadframe.analyze.elastic.repeated import MEASURES, UNUSUAL, StepMeasures, repeated
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.figures import stretch_of
from loadframe.analyze.finding import Finding
from loadframe.analyze.rates import Rate, rate_of
from loadframe.base.event_kinds import FIRED


@dataclass(frozen=True)
class Provisioning:
    """Provisioning scores of one run; accuracies and shares are 0 at best, jitter is in 1/s."""

    under_accuracy: float
    over_accuracy: float
    under_share: float
    over_share: float
    jitter: float

    def as_dict(self) -> dict[str, float]:
        """Return the five scores by field for JSON."""
        return asdict(self)


def score(demand: Series, supply: Series) -> Provisioning:
    """Return the provisioning scores of a supply against a demand, both numbers of nodes by second.

    Accuracies are the mean lack and the mean surplus of nodes as shares of the demand; shares are those of seconds with
    a lack and with a surplus. Jitter is the number of changes of the supply minus those of the demand, per second. The
    demand must be above 0.
    """
    short, spare = np.maximum(demand - supply, 0), np.maximum(supply - demand, 0)
    changes = [int(np.count_nonzero(np.diff(series))) for series in (supply, demand)]
    return Provisioning(
        under_accuracy=float((short / demand).mean()),
        over_accuracy=float((spare / demand).mean()),
        under_share=float((short > 0).mean()),
        over_share=float((spare > 0).mean()),
        jitter=(changes[0] - changes[1]) / len(supply),
    )


def supply(times: Series, nodes: int, events: Sequence[Event]) -> Series:
    """Return the number of nodes that serve balanced data at each time, of `nodes` nodes at the start.

    `times` have the same origin as those of the events.
    """
    series = np.full(len(times), float(nodes))
    for event, _, change in node_changes(events):
        series[times >= event.time] += change
    return series


def demand(rates: Series, capacity: Mapping[int, float]) -> Series:
    """Return the smallest measured number of nodes that sustains each rate (1/s), from `capacity`, nodes -> 1/s.

    Above all measured capacities it is proportional to the capacity of the largest number, rounded up. `capacity` must
    not be empty.
    """
    sizes = sorted(capacity)
    most = sizes[-1]

    def least(rate: float) -> int:
        """Return the smallest number of nodes that sustains a rate, 1/s."""
        return next((n for n in sizes if capacity[n] >= rate), math.ceil(most * rate / capacity[most] - 1e-9))

    return np.array([float(least(rate)) for rate in rates])


def level_at(level: Any, times: Series) -> Series:
    """Return a level of a plan at each of `times`, s since the phase began.

    A level is a number, or a mapping with `from`, `stages` (each with `to` and `over`, s) and perhaps `repeats`. Within
    a stage it changes linearly. After the last stage it stays, or starts again at the first stage if `repeats` is true.
    """
    if not isinstance(level, Mapping):
        return np.full(len(times), float(level))
    series = np.full(len(times), float(level["from"]))
    start, value = 0.0, float(level["from"])
    if level.get("repeats"):
        times = times % sum(float(stage["over"]) for stage in level["stages"])
    for stage in level["stages"]:
        over, to = float(stage["over"]), float(stage["to"])
        share = np.clip((times - start) / over, 0.0, 1.0) if over else np.ones(len(times))
        series = np.where(times >= start, value + share * (to - value), series)
        start, value = start + over, to
    return series


_STARTED = "change started"


@dataclass(frozen=True, eq=False)
class Group:
    """One transition under one load, with its usable runs; `example` is the run to draw, next to its `control`.

    `invalid` are runs with the event that have a course but no valid figures. `rate` is the unit of throughput.
    `provisioning` holds the scores of runs in which a policy decided, if the file has a capacity curve.
    """

    transition: str
    load: str
    open: bool
    rate: Rate
    runs: tuple[RecordedRun, ...]
    controls: tuple[RecordedRun, ...]
    invalid: tuple[RecordedRun, ...]
    courses: Mapping[str, Course]
    steps: tuple[StepMeasures, ...]
    provisioning: Mapping[str, Provisioning]
    warnings: tuple[Finding, ...]

    @property
    def example(self) -> RecordedRun | None:
        """The first usable run with the event; without one, the first invalid run that has a course; else None."""
        return next(iter([*self.runs, *self.invalid]), None)

    @property
    def control(self) -> RecordedRun | None:
        """The control run of the example's block, else the first control run, or None without control runs."""
        same = [run for run in self.controls if self.example and run.block == self.example.block]
        return next(iter([*same, *self.controls]), None)


def read_groups(folder: RecordedExperiment) -> tuple[Group, ...]:
    """Return the results of each transition under each of its loads, in the order of the experiment file."""
    description = folder.description
    return tuple(
        _group(folder, transition, load)
        for transition, entry in description.get("transitions", {}).items()
        for load in entry.get("loads") or description.get("loads", {})
    )


def _group(folder: RecordedExperiment, transition: str, load: str) -> Group:
    """Return the results of one transition at one load, from its done runs with a course; invalid runs are only listed.

    Figures use valid runs whose throughput is known within 5 %. With a policy, the whole run is one step.
    """
    description = folder.description
    treatment = {"transition": transition, "load": load}
    rate = rate_of(description)
    runs = [run for run in folder.runs if run.status == "done" and treatment.items() <= run.treatment.items()]
    courses = {run.id: bounded(course, run) for run in runs if run.run and (course := read_course(run.run, rate))}
    usable = [run for run in runs if run.id in courses and run.sound and run.narrow]
    with_event = tuple(run for run in usable if run.treatment["event"])
    controls = tuple(run for run in usable if not run.treatment["event"])
    invalid = tuple(run for run in runs if run.id in courses and run.treatment["event"] and run not in usable)
    is_open = description["loads"][load].get("clients") is None
    policy = description["transitions"][transition].get("policy") is not None
    if policy:
        steps = _as_a_whole(with_event, controls, courses, description, is_open=is_open)
        scores = _provisioning(with_event, courses, description)
    else:
        steps, scores = _steps(with_event, controls, courses, description, is_open=is_open), {}
    broken = [run for run in folder.counted if treatment.items() <= run.treatment.items() and run.store_failed]
    measures = [step.measures for step in steps]
    warnings = (
        *rules.failed_runs(broken, steps),
        *rules.warnings(description, len(with_event), len(controls), measures, policy=policy),
    )
    rate = next((course.rate for course in courses.values()), rate)
    return Group(transition, load, is_open, rate, with_event, controls, invalid, courses, steps, scores, warnings)


def bounded(course: Course, run: RecordedRun) -> Course:
    """Return the course of a run with the bounds of its throughput and of the p99 of its main operation."""
    phase = next(iter(run.run.summary.measured)) if run.run else None
    if phase is None:
        return course
    main = main_operation(phase)
    most = stretch_of([run.figure(phase.name, "throughput")]).high
    return replace(course, most=most, fastest=stretch_of([run.figure(phase.name, "response", main, "p99")]).low)


def _steps(
    runs: Sequence[RecordedRun],
    controls: Sequence[RecordedRun],
    courses: Mapping[str, Course],
    description: Mapping[str, Any],
    *,
    is_open: bool,
) -> tuple[StepMeasures, ...]:
    """Return the measures of each executed step over the runs with the event and their control runs.

    A run is compared with the control runs of its block. `runs` are those with the event, `controls` the control runs,
    `courses` their courses by run id, `description` the content of experiment.json. `is_open`: the load was an open
    loop.
    """
    window, capacity = float(description["window"]), _capacity(description)
    values: dict[int, dict[str, dict[int, Value]]] = defaultdict(lambda: defaultdict(dict))
    compared: dict[int, dict[str, dict[int, Value]]] = defaultdict(lambda: defaultdict(dict))
    changes: dict[int, list[ChangeInRun]] = defaultdict(list)
    words: dict[int, str] = {}
    succeeded: dict[int, list[ChangeInRun]] = defaultdict(list)
    failed: dict[int, list[str]] = defaultdict(list)
    for run in runs:
        course = courses[run.id]
        for number, change in _changes(run, course, description, is_open=is_open).items():
            changes[number].append(change)
            if change_failed(course, change):
                failed[number].append(run.id)
            else:
                succeeded[number].append(change)
            words[number] = next(
                (event.words for event in course.events if event.kind == _STARTED and event.step == number), ""
            )
            during = disturbed(course, change, window, [courses[control.id] for control in controls])
            for name, value in measure(course, change, window, during).items():
                values[number][name][run.block or 1] = value
            for control in controls:
                if control.block == run.block and (same := _same(run, control, courses, change, capacity)):
                    longer = incomparable(change, same, during)
                    for name, value in measure(courses[control.id], same, window, during).items():
                        if name not in longer:
                            compared[number][name][run.block or 1] = value
    return tuple(
        StepMeasures(
            number=number,
            change=words[number],
            before=median(change.before for change in changes[number]),
            # The size after the change, if possible from runs in which it succeeded.
            after=median(change.after for change in succeeded[number] or changes[number]),
            horizon=median(change.end - change.begin for change in changes[number]),
            measures={
                name: repeated(name, len(changes[number]), values[number][name], compared[number][name])
                for name in MEASURES
                if any(name not in UNUSUAL or value.value for value in values[number][name].values())
            },
            failed=tuple(failed[number]),
        )
        for number in sorted(changes)
    )


def _changes(
    run: RecordedRun, course: Course, description: Mapping[str, Any], *, is_open: bool
) -> dict[int, ChangeInRun]:
    """Return step number -> interval and node counts of each executed step of a run.

    A step lasts from its trigger up to the next step or the end of the run. The numbers of nodes are those at its two
    ends. `description`, the content of experiment.json, gives the limits of the SLO and the capacities. `is_open`: the
    load was an open loop.
    """
    fired = {event.step: event.time for event in course.events if event.kind == FIRED and event.step is not None}
    groups = {}
    slo, capacity = description.get("slo") or {}, _capacity(description)
    for number, begin in fired.items():
        end = min([time for time in fired.values() if time > begin], default=course.end)
        after = _nodes(run, course, end)
        groups[number] = ChangeInRun(
            begin=begin,
            end=end,
            before=_nodes(run, course, begin),
            after=after,
            open=is_open,
            p99=slo.get("p99"),
            errors=slo.get("errors"),
            capacity=capacity.get(after),
        )
    return groups


def _capacity(description: Mapping[str, Any]) -> dict[int, float]:
    """Return number of nodes -> capacity, 1/s, from the list `capacity` of a description; empty without it."""
    return {int(entry["nodes"]): float(entry["rate"]) for entry in description.get("capacity", ())}


def _same(
    run: RecordedRun,
    control: RecordedRun,
    courses: Mapping[str, Course],
    change: ChangeInRun,
    capacity: Mapping[int, float],
) -> ChangeInRun | None:
    """Return the same interval of a control run; both runs are aligned at their first step, which the control skips.

    The number of nodes is the control's at the start, before and after. The interval is cut at the end of the control
    run. None if a run has no step, or if the interval is beyond that end. `capacity` is 1/s by number of nodes.
    """
    first = [
        min((e.time for e in courses[shown.id].events if e.kind == FIRED), default=None) for shown in (run, control)
    ]
    if first[0] is None or first[1] is None:
        return None
    begin = change.begin - first[0] + first[1]
    end = min(begin + change.end - change.begin, courses[control.id].end)
    nodes = control.nodes or change.before
    if end <= begin:
        return None
    return replace(change, begin=begin, end=end, before=nodes, after=nodes, capacity=capacity.get(nodes))


#: Measures that grow with the observed time: sums and extremes.
_GROWING = frozenset({"errors", "violation", "exposure", "unknown_latency", "longest_gap", "slowdown"})
#: Measures of the disturbed seconds only.
_OF_THROUGHPUT, _OF_LATENCY = ("lost_work", "disturbance"), ("latency_debt",)


def incomparable(change: ChangeInRun, control: ChangeInRun, during: Disturbed | None) -> frozenset[str]:
    """Return the names of measures that the control run cannot match, as its interval is shorter than the change's.

    A trigger on the load fires at another time in each run. Empty if the control run lacks at most 1 s. Else they are
    the sums and extremes over the whole interval. Measures of throughput or of response times over disturbed seconds
    are added if `during` has such a second after the end of the control's interval; None adds nothing.
    """
    length = control.end - control.begin
    if change.end - change.begin - length <= 1.0:
        return frozenset()
    rest = slice(math.floor(length), None)
    disturbed = () if during is None else ((_OF_THROUGHPUT, during.throughput), (_OF_LATENCY, during.latency))
    return _GROWING.union(*(names for names, flags in disturbed if flags[rest].any()))


def _nodes(run: RecordedRun, course: Course, until: float) -> int:
    """Return the number of nodes of a run's cluster at the time `until`, s since the measured window began."""
    return (run.nodes or 1) + sum(change for event, change, _ in node_changes(course.events) if event.time <= until)


def _as_a_whole(
    runs: Sequence[RecordedRun],
    controls: Sequence[RecordedRun],
    courses: Mapping[str, Course],
    description: Mapping[str, Any],
    *,
    is_open: bool,
) -> tuple[StepMeasures, ...]:
    """Return the service measures over whole runs as one step, for runs in which a policy decided; empty without runs.

    `controls` are the control runs, `courses` the courses by run id. `is_open`: the load was an open loop.
    """
    slo = description.get("slo") or {}
    sides: list[dict[str, dict[int, Value]]] = []
    after, horizon = [], []
    for side in (runs, controls):
        values: dict[str, dict[int, Value]] = defaultdict(dict)
        for run in side:
            course = courses[run.id]
            nodes = run.nodes or 1
            last = _nodes(run, course, course.end)
            change = ChangeInRun(course.start, course.end, nodes, last, is_open, slo.get("p99"), slo.get("errors"))
            if side is runs:
                after.append(last)
                horizon.append(course.end - course.start)
            for name, value in service(course, change).items():
                values[name][run.block or 1] = value
        sides.append(values)
    if not runs:
        return ()
    with_event, control = sides
    measures = {
        name: repeated(name, len(runs), with_event[name], control.get(name, {}))
        for name in MEASURES
        if name in with_event
    }
    return (StepMeasures(1, "decided by a policy", runs[0].nodes or 1, median(after), median(horizon), measures),)


def _provisioning(
    runs: Sequence[RecordedRun], courses: Mapping[str, Course], description: Mapping[str, Any]
) -> dict[str, Provisioning]:
    """Return run id -> provisioning score; without runs that lack a measured phase, or have a stream without a rate.

    Empty also if the description has no capacity. Arrivals of groups and journeys count as their number of requests.
    """
    capacity, scores = _capacity(description), {}
    for run in runs:
        phase = next(iter(run.run.summary.measured), None) if run.run else None
        streams = phase.streams if phase else ()
        if not capacity or not phase or not streams or any(stream.rate is None for stream in streams):
            continue
        course = courses[run.id]
        # A rate counts groups and journeys, a capacity requests.
        offered = [
            run.per_arrival(phase.name, stream) * level_at(stream.rate, course.times + phase.warmup)
            for stream in streams
        ]
        scores[run.id] = score(
            demand(np.sum(offered, axis=0), capacity), supply(course.times, run.nodes or 1, course.events)
        )
    return scores
