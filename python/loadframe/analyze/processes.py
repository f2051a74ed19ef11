"""The CPU that each process of a store or an application used in a measured window, by what was watched of it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.estimate import Estimate, mean_interval, within
from loadframe.analyze.experiment import RecordedExperiment, by_treatment
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary

_NODE = "node:"
_CPU = "process.cpu"
#: Written at each look at a process, also at the first, when nothing is known of its CPU yet.
_LOOK = "process.resident"
#: Looks are a second apart. A longer time without one says that the process was not there, or was not seen, s.
_GAP = 2.5
#: Nothing is said of a window of which less than this share lies between looks: what the looks missed may be what
#: mattered, as in a window of a second and a half of which the first second is all that was looked at.
_LEAST_SEEN = 0.9
#: The name under which all processes are added up.
ALL = "all"

#: A look's CPU, cores, and the time that it covers, s: from the look before.
_Span = tuple[float, float, float]


@dataclass(frozen=True)
class Used:
    """The CPU that one process used in a measured window, or all together."""

    cores: float  #: on average, while it was watched
    watched: float  #: for how long, s
    whole: bool  #: whether that was all along
    #: CPU time per request that was answered well, s; None where it was not watched all along, or nothing was answered
    per_request: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON: cores, and times in s."""
        return dict(vars(self))


@dataclass(frozen=True)
class UsedAt:
    """The same as means over the runs of one treatment, with intervals where there are several."""

    phase: str
    treatment: Mapping[str, Any]
    process: str
    runs: int
    cores: Estimate
    per_request: Estimate | None  #: None unless every run says it

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON: cores, and times in s."""
        return {
            "phase": self.phase,
            "treatment": dict(self.treatment),
            "process": self.process,
            "runs": self.runs,
            "cores": self.cores.as_dict(),
            "per_request": self.per_request.as_dict() if self.per_request else None,
        }


def processes_of(run: Run) -> dict[str, dict[str, Used]]:
    """Return what each process used, by phase and name; last, where there are several, `ALL` of them.

    Phases in which none was watched are left out, and those that are too short for looks that are a second apart.
    """
    spans = _spans(run.telemetry)
    first = min((known[0][0] for known in spans.values()), default=math.inf)
    last = max((known[-1][1] for known in spans.values()), default=-math.inf)
    seen = [phase for phase in run.summary.phases if _seen(phase, first, last) >= _LEAST_SEEN * phase.duration]
    by_phase = {phase.name: _of_phase(spans, phase) for phase in seen}
    return {name: used for name, used in by_phase.items() if used}


def processes_at(folder: RecordedExperiment) -> list[UsedAt]:
    """Return what each process used in the measured phases, over the runs of each treatment that figures rest on."""
    rows: dict[str, list[UsedAt]] = defaultdict(list)
    for treatment, runs in by_treatment(folder):
        used: dict[tuple[str, str], list[Used]] = defaultdict(list)
        for _, run in runs:
            for phase, processes in processes_of(run).items():
                for process, of_process in processes.items():
                    used[phase, process].append(of_process)
        for (phase, process), several in used.items():
            costs = [one.per_request for one in several if one.per_request is not None]
            rows[phase].append(
                UsedAt(
                    phase,
                    treatment,
                    process,
                    len(several),
                    within(mean_interval([one.cores for one in several])),
                    within(mean_interval(costs)) if len(costs) == len(several) else None,
                )
            )
    return [row for phase in folder.description["measure"] for row in rows.get(phase, ())]


def _spans(telemetry: pa.Table) -> dict[str, list[_Span]]:
    """Return the spans of time for which the CPU of each process is known, by its name."""
    looked = pc.is_in(telemetry["metric"], pa.array([_CPU, _LOOK]))
    rows = telemetry.filter(pc.and_(looked, pc.starts_with(telemetry["source"], _NODE))).sort_by("time")
    last: dict[str, float] = {}
    spans: dict[str, list[_Span]] = defaultdict(list)
    rates: dict[tuple[str, float], float | None] = {}
    for source, metric, time, value in zip(
        *(rows[name].to_pylist() for name in ("source", "metric", "time", "value")), strict=True
    ):
        rates.setdefault((source, time), None)
        if metric == _CPU:
            rates[source, time] = value
    for (source, time), cores in rates.items():
        if source in last and cores is not None:
            spans[source.removeprefix(_NODE)].append((last[source], time, cores))
        last[source] = time
    return spans


def _seen(phase: PhaseSummary, first: float, last: float) -> float:
    """Return how much of a window lies between the first and the last look at any process, s."""
    return min(phase.begin + phase.duration, last) - max(phase.begin, first)


def _of_phase(spans: Mapping[str, Sequence[_Span]], phase: PhaseSummary) -> dict[str, Used]:
    begin, end = phase.begin, phase.begin + phase.duration
    answered = sum(operation.successes for operation in phase.single.values())
    used: dict[str, Used] = {}
    for name in sorted(spans, key=_order):
        inside = [
            (max(since, begin), min(until, end), cores)
            for since, until, cores in spans[name]
            if since < end and until > begin
        ]
        watched = math.fsum(until - since for since, until, _ in inside)
        if not watched:
            continue
        cores = math.fsum((until - since) * rate for since, until, rate in inside) / watched
        whole = _longest_gap(inside, begin, end) <= _GAP
        cost = cores * phase.duration / answered if answered and whole else None
        used[name] = Used(cores, watched, whole, cost)
    return used | ({ALL: _together(used.values(), phase.duration)} if len(used) > 1 else {})


def _longest_gap(inside: Sequence[_Span], begin: float, end: float) -> float:
    """Return the longest time within the window for which nothing is known, s."""
    known = [(begin, begin), *((since, until) for since, until, _ in inside), (end, end)]
    return max(later[0] - earlier[1] for earlier, later in pairwise(known))


def _together(used: Iterable[Used], duration: float) -> Used:
    parts = tuple(used)
    costs = [part.per_request for part in parts if part.per_request is not None]
    return Used(
        # A process that was there for a part of the window counts by that part.
        cores=math.fsum(part.cores * (1.0 if part.whole else part.watched / duration) for part in parts),
        watched=max(part.watched for part in parts),
        whole=all(part.whole for part in parts),
        per_request=math.fsum(costs) if len(costs) == len(parts) else None,
    )


def _order(name: str) -> tuple[bool, int, str]:
    """Numbered nodes by number, then others by name."""
    return (not name.isdigit(), int(name) if name.isdigit() else 0, name)
