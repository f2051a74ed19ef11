"""Comparison of published figures with the values that an experiment measured.

Absolute figures depend on the machine, so the comparison uses changes: the ratio of a figure to the one at its
reference levels, minus 1. The measured ratio is one of means over runs, with a 95 % interval on a log scale from the
spread that all treatments share. If quartiles were published, values and changes are also compared with these.

The ratio of two capacities has an interval by MOVER: on a log scale, the distance from the ratio to an end is the root
of the sum of squares of the distances of both capacities (Zou and Donner, "Construction of confidence limits about
effect measures: a general approach", Statistics in Medicine 27, 2008).
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

from loadframe.analyze.capacity import RATE, USERS, Capacity, Kind, capacities_in
from loadframe.analyze.compare import KINDS, Measure
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.publication_figures import LENGTHS, least_and_p95, rate_samples, request_time
from loadframe.analyze.rates import RATES, THROUGHPUT, Rate
from loadframe.analyze.scale.treatments import Noise, main_operation, pooled_noise
from loadframe.base.event_kinds import FIRED, REQUESTED
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

#: Times in elastic runs, s since the measured window began: names, and the events that mark them.
INSTANTS = {"trigger_fired": FIRED, "node_requested": REQUESTED}


@dataclass(frozen=True)
class SampleStatistic:
    """A statistic (a field of `Spread`) of a rate in samples of `seconds`."""

    statistic: str
    rate: Rate
    seconds: int

    @property
    def words(self) -> str:
        """The statistic in words, such as `mean of samples of 5 s`."""
        of = "" if self.rate is THROUGHPUT else f" of {self.rate.counted}"
        return f"{self.statistic} of samples of {self.seconds} s{of}"

    def of(self, run: Run, phase: PhaseSummary) -> float | None:
        """Return the statistic for a phase, 1/s; None if its measured window is too short."""
        spread = rate_samples(run, phase, self.rate, self.seconds)
        return None if spread is None else getattr(spread, self.statistic)


#: By name: `mean_5s` is of requests, `documents_mean_10s` of documents.
SAMPLES = {
    f"{'' if rate is THROUGHPUT else f'{rate.name}_'}{statistic}_{seconds}s": SampleStatistic(statistic, rate, seconds)
    for rate in RATES.values()
    for seconds in LENGTHS
    for statistic in ("least", "q1", "median", "mean", "q3", "most", "deviation")
}
#: Statistics of response times that YCSB reports besides the mean: minimum and 95th percentile.
YCSB = ("min", "p95")
#: Maximum and sum of request time over ranks (or clients): names, and the fields of `RequestTime`.
REQUEST_TIMES = {"wall_time": "wall", "summed_time": "summed"}
#: Results of capacity experiments by the quantity that they search for: the sustained rate or number of users.
CAPACITIES = {RATE: "capacity", USERS: "users"}
MEASURES = (*KINDS, *YCSB, *SAMPLES, *REQUEST_TIMES, *INSTANTS, *CAPACITIES.values())
#: Columns of a published distribution, ascending.
SPREAD = ("min", "q1", "median", "q3", "max")
#: Measures per second.
PER_SECOND = (*RATES, *SAMPLES, CAPACITIES[RATE])


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a publication.

    `value` is in 1/s, s or a share; None if the publication gives only the change. `change` is the ratio to the figure
    at `against` minus 1; None without a reference. `levels` and `against` are levels of factors; `against` can also
    name another phase as `phase`. An empty `phase` means every measured phase. `series` names the system in the
    publication, such as a store that this experiment lacks.
    """

    measure: str
    levels: Mapping[str, Any]
    phase: str
    series: str
    value: float | None
    change: float | None
    against: Mapping[str, Any]
    source: str
    #: Published distribution around `value`, by names of `SPREAD`, in the unit of `value`; empty without one.
    spread: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the figure for JSON; `PublishedFigure(**document)` reverses this."""
        return asdict(self)

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """The published quartiles as changes relative to the reference, or None without quartiles or a reference."""
        if not self.value or self.change is None or not {"q1", "q3"} <= set(self.spread):
            return None
        reference = self.value / (1 + self.change)
        return self.spread["q1"] / reference - 1, self.spread["q3"] / reference - 1


_CLIENTS = "clients"
#: Name of the phase among the levels of a reference.
PHASE = "phase"
#: Factors that determine the number of clients.
_LOADS = (_CLIENTS, "ranks_per_node")


#: Place of an estimate beside published quartiles. `open`: outside, but its interval reaches them or is unknown.
Place = Literal["within", "below", "above", "open"]


@dataclass(frozen=True)
class MeasuredBeside:
    """Measured counterpart of a figure; `others` are the levels that the figure does not name.

    `mean` is over `runs` runs (of a capacity: searches) in the unit of the figure. `change` is the ratio to the mean at
    its reference minus 1; None if the reference was not measured. `place` and `change_place` are the places of both
    beside the published quartiles; None without quartiles or a change.
    """

    phase: str
    others: Mapping[str, Any]
    runs: int
    mean: Estimate
    change: Estimate | None
    #: Runs at these levels in which the store failed; `mean` excludes them.
    failed: int = 0
    place: Place | None = None
    change_place: Place | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the counterpart for JSON; a missing change or place (`quartiles`, `change_quartiles`) is null."""
        return {
            "phase": self.phase,
            "others": dict(self.others),
            "runs": self.runs,
            "failed_runs": self.failed,
            "mean": self.mean.as_dict(),
            "change": self.change and self.change.as_dict(),
            "quartiles": self.place,
            "change_quartiles": self.change_place,
        }


@dataclass(frozen=True)
class Beside:
    """A published figure and its measured counterparts; empty if it was not measured."""

    figure: PublishedFigure
    measured: tuple[MeasuredBeside, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the figure and its counterparts for JSON."""
        return {**self.figure.as_dict(), "measured": [measured.as_dict() for measured in self.measured]}


def beside(folder: RecordedExperiment) -> tuple[Beside, ...]:
    """Return the published figures of an experiment in their order, each with its measured counterparts."""
    figures = [PublishedFigure(**known) for known in (folder.description.get("published") or {}).get("figures", ())]
    return tuple(
        Beside(figure, tuple(_placed(measured, figure) for measured in _measurements(folder, figure)))
        for figure in figures
    )


def _placed(measured: MeasuredBeside, figure: PublishedFigure) -> MeasuredBeside:
    """Return a measured counterpart with its places beside the published quartiles, if there are any."""
    if not {"q1", "q3"} <= set(figure.spread):
        return measured
    changes = figure.quartiles if measured.change else None
    return replace(
        measured,
        place=_place(measured.mean, figure.spread["q1"], figure.spread["q3"]),
        change_place=_place(measured.change, *changes) if measured.change and changes else None,
    )


def _place(estimate: Estimate, q1: float, q3: float) -> Place:
    """Return the place of an estimate beside two quartiles: `within` if the value lies between them.

    Outside it is `below` or `above` if the whole interval is, else `open`.
    """
    if q1 <= estimate.value <= q3:
        return "within"
    if estimate.value < q1:
        return "below" if estimate.is_finite and estimate.high < q1 else "open"
    return "above" if estimate.is_finite and estimate.low > q3 else "open"


def _measurements(folder: RecordedExperiment, figure: PublishedFigure) -> Iterator[MeasuredBeside]:
    """Yield the measured counterparts of a published figure, in each of its phases."""
    if figure.measure in CAPACITIES.values():
        yield from _capacities(folder, figure)
        return
    for phase in folder.description["measure"]:
        if figure.phase in ("", phase):
            yield from _in_phase(folder, figure, phase)


def _in_phase(folder: RecordedExperiment, figure: PublishedFigure, phase: str) -> Iterator[MeasuredBeside]:
    """Yield the measured value beside a published figure, for each combination of the other factors.

    Of several loads, the one with the highest throughput counts. Combinations without a measured value are left out.
    """
    groups = _groups(folder, figure.measure, phase)
    at_reference = {name: level for name, level in figure.against.items() if name != PHASE}
    of_phase = figure.against.get(PHASE, phase)
    base_groups = groups if of_phase == phase else _groups(folder, figure.measure, of_phase)
    named = {*figure.levels, *at_reference}
    if "variant" in named:
        named |= {name for levels in folder.description.get("variants", {}).values() for name in levels}
    reference = {**figure.levels, **at_reference}
    # Runs that survive are too much alike to show the noise of other treatments.
    noise = pooled_noise(
        [value for value in group.values if value > 0] for group in groups if not _failed(folder, group.treatment)
    )
    references = _by_others(base_groups, named)
    for place, members in _by_others(groups, named).items():
        chosen = _best(members, figure.levels)
        if chosen is None:
            continue
        base = _best(references.get(place, ()), reference) if figure.against else None
        yield MeasuredBeside(
            phase=phase,
            others=json.loads(place),
            runs=len(chosen.values),
            mean=noise.mean(chosen.values),
            change=_change(chosen, base, noise) if base else None,
            failed=_failed(folder, chosen.treatment),
        )


def _failed(folder: RecordedExperiment, treatment: Mapping[str, Any]) -> int:
    """Return the number of runs and earlier attempts of a treatment in which the store failed."""
    return sum(run.store_failed and _at(run, treatment) for run in folder.counted)


def _capacities(folder: RecordedExperiment, figure: PublishedFigure) -> Iterator[MeasuredBeside]:
    """Yield the measured capacity beside a published one, for each combination of the other factors.

    Capacities that are unknown or only bounded above are left out.
    """
    known = [it for it in capacities_in(folder).capacities if it.rate and it.kind is not Kind.UPPER_BOUND]
    capacities = {id(it.treatment): it for it in known}
    groups = [
        _Group(it.treatment, {**_fixed(folder), "nodes": it.nodes, **it.treatment}, [it.rate.value], it.rate.value)
        for it in capacities.values()
        if it.rate
    ]
    named = {*figure.levels, *figure.against}
    for place, members in _by_others(groups, named).items():
        chosen = _best(members, figure.levels)
        base = _best(members, {**figure.levels, **figure.against}) if figure.against else None
        if chosen is None:
            continue
        capacity = capacities[id(chosen.treatment)]
        rate = capacity.rate
        assert rate
        yield MeasuredBeside(
            phase="",
            others=json.loads(place),
            runs=len(capacity.conclusive),
            mean=rate if rate.low or capacity.kind is Kind.BRACKETED else replace(rate, low=rate.value),
            change=_capacity_change(capacity, capacities[id(base.treatment)]) if base else None,
        )


def _capacity_change(chosen: Capacity, base: Capacity) -> Estimate | None:
    """Return the ratio of two capacities, `chosen` by `base`, minus 1; None if one is only bounded.

    It is 0 with the interval 0 to 0 if both are the same object.
    """
    if chosen is base:
        return Estimate(0.0, 0.0, 0.0)
    if not chosen.rate or not base.rate or {chosen.kind, base.kind} != {Kind.BRACKETED}:
        return None

    def distance(high: float, low: float) -> float:
        """Return the distance between two rates on the log scale; infinite if the lower one is 0."""
        return math.log(high / low) if low > 0 else math.inf

    one, other = chosen.rate, base.rate
    down = math.hypot(distance(one.value, one.low), distance(other.high, other.value))
    up = math.hypot(distance(one.high, one.value), distance(other.value, other.low))
    ratio = one.value / other.value
    return Estimate(ratio - 1, ratio * math.exp(-down) - 1, ratio * math.exp(up) - 1)


def _at(run: RecordedRun, treatment: Mapping[str, Any]) -> bool:
    """Return whether a run has a treatment's levels (without `event`) and is not a run without the event."""
    levels = {name: level for name, level in run.treatment.items() if name != "event"}
    return levels == treatment and run.treatment.get("event") is not False


@dataclass(frozen=True)
class _Group:
    """All runs of a treatment: `known` are all its named levels, `values` the measure of each run."""

    treatment: Mapping[str, Any]
    known: Mapping[str, Any]
    values: list[float]
    throughput: float


def _by_others(groups: Sequence[_Group], named: Set[str]) -> Mapping[str, list[_Group]]:
    """Return levels, as JSON, -> groups with these levels of the factors not in `named`.

    The factors `clients` and `ranks_per_node` are left out, too.
    """
    places: dict[str, list[_Group]] = defaultdict(list)
    for group in groups:
        # A load that the publication does not name is chosen separately for each size.
        others = {name: level for name, level in group.treatment.items() if name not in (*named, *_LOADS)}
        places[json.dumps(others, sort_keys=True)].append(group)
    return places


def _fixed(folder: RecordedExperiment) -> dict[str, Any]:
    """Return the levels that all runs share: `store.kind`, and each parameter of the workload as `with.NAME`."""
    description = folder.description
    return {
        "store.kind": description.get("store", {}).get("kind"),
        **{f"with.{name}": level for name, level in (description.get("with") or {}).items()},
    }


def _groups(folder: RecordedExperiment, kind: str, phase: str) -> list[_Group]:
    """Return a group for each treatment with the values of the measure `kind` in a phase, one for each run that has it.

    Only runs that count are used. Runs without the event and treatments without a value are left out.
    """
    fixed = _fixed(folder)
    operation = main_operation(folder.runs, phase)
    by_treatment: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in folder.used:
        by_treatment[run.treatment_key].append(run)
    groups = []
    for runs in by_treatment.values():
        treatment = {name: level for name, level in runs[0].treatment.items() if name != "event"}
        known = {**fixed, "nodes": runs[0].nodes, _CLIENTS: runs[0].clients(phase), **treatment}
        values = [value for run in runs if (value := _value(run, kind, phase, operation)) is not None]
        throughputs = [entry.throughput for run in runs if (entry := run.phase(phase))]
        if values:
            groups.append(_Group(treatment, known, values, fmean(throughputs)))
    return groups


def _value(run: RecordedRun, kind: str, phase: str, operation: str | None) -> float | None:
    """Return one run's value of a published measure; None if it was not recorded, and for runs without the event.

    `kind` is a measure of `Measure`, a sample statistic, a YCSB or request time, or an event's instant (s since the
    measured window began).
    """
    entry = run.phase(phase)
    if entry is None or run.run is None or run.treatment.get("event") is False:
        # Publications measure runs with the event.
        return None
    if kind in SAMPLES:
        return SAMPLES[kind].of(run.run, entry)
    if kind in YCSB:
        times = least_and_p95(run.run, entry, operation or "")
        return None if times is None else times[YCSB.index(kind)]
    if kind in REQUEST_TIMES:
        time: float | None = getattr(request_time(run.run, entry), REQUEST_TIMES[kind])
        return time
    if kind not in INSTANTS:
        return Measure(phase, kind, operation).of(run)
    begin = entry.start + entry.warmup
    return next((event["time"] - begin for event in run.run.events if event["kind"] == INSTANTS[kind]), None)


def _best(groups: Sequence[_Group], levels: Mapping[str, Any]) -> _Group | None:
    """Return the group at these levels; of several, the one with the highest throughput, or None without one."""
    fitting = [group for group in groups if all(_same(group.known.get(name), level) for name, level in levels.items())]
    return max(fitting, key=lambda group: group.throughput, default=None)


def _same(known: Any, level: Any) -> bool:
    """Return whether two levels are equal, as numbers if both are numbers, otherwise as text."""
    if isinstance(known, int | float) and isinstance(level, int | float):
        return math.isclose(known, level)
    return str(known) == str(level)


def _change(chosen: _Group, base: _Group, noise: Noise) -> Estimate | None:
    """Return the ratio of two groups' means, `chosen` by `base`, minus 1; None if a mean is not above 0.

    `noise` gives the interval.
    """
    if fmean(base.values) <= 0 or fmean(chosen.values) <= 0:
        return None
    ratio = Estimate(1.0, 1.0, 1.0) if chosen is base else noise.ratio(chosen.values, base.values)
    return Estimate(ratio.value - 1, ratio.low - 1, ratio.high - 1)


__all__ = [
    "CAPACITIES",
    "INSTANTS",
    "MEASURES",
    "PER_SECOND",
    "PHASE",
    "SAMPLES",
    "Beside",
    "MeasuredBeside",
    "PublishedFigure",
    "beside",
]
