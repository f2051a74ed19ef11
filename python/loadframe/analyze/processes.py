"""CPU use of each process of a store or application in a measured window, from telemetry."""

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
#: Written in each poll of a process, including the first, which has no CPU rate.
_LOOK = "process.resident"
#: Polls are a second apart. After a longer gap, s, the process was absent or not seen.
_GAP = 2.5
#: Smallest share of a window between the first and last poll; in a window of 1.5 s, for example, the polls may miss the
#: decisive part.
_LEAST_SEEN = 0.9
#: Name of the sum of all processes.
ALL = "all"

#: Start and end of the interval before a poll, s, and the CPU use in it, cores.
_Span = tuple[float, float, float]


@dataclass(frozen=True)
class CpuUse:
    """CPU use of one process, or of all together, in a measured window."""

    cores: float  #: mean, while it was polled
    watched: float  #: duration of the polls, s
    whole: bool  #: whether they cover the whole window
    #: CPU time per successful request, s; None if the polls do not cover the window or no request succeeded
    per_request: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the use for JSON: cores, and times in s."""
        return dict(vars(self))


@dataclass(frozen=True)
class UsedAt:
    """CPU use as means over the runs of one treatment, with intervals for several runs."""

    phase: str
    treatment: Mapping[str, Any]
    process: str
    runs: int
    cores: Estimate
    per_request: Estimate | None  #: None if a run lacks it

    def as_dict(self) -> dict[str, Any]:
        """Return the means for JSON: cores, and times in s."""
        return {
            "phase": self.phase,
            "treatment": dict(self.treatment),
            "process": self.process,
            "runs": self.runs,
            "cores": self.cores.as_dict(),
            "per_request": self.per_request.as_dict() if self.per_request else None,
        }


def processes_of(run: Run) -> dict[str, dict[str, CpuUse]]:
    """Return the CPU use by phase and process; for several processes, the last entry is `ALL`.

    Phases without polled processes, and phases too short for polls a second apart, are omitted.
    """
    spans = _spans(run.telemetry)
    first = min((known[0][0] for known in spans.values()), default=math.inf)
    last = max((known[-1][1] for known in spans.values()), default=-math.inf)
    seen = [phase for phase in run.summary.phases if _polled_time(phase, first, last) >= _LEAST_SEEN * phase.duration]
    by_phase = {phase.name: _of_phase(spans, phase) for phase in seen}
    return {name: used for name, used in by_phase.items() if used}


def processes_at(folder: RecordedExperiment) -> list[UsedAt]:
    """Return the CPU use by process in the measured phases, over the included runs of each treatment."""
    rows: dict[str, list[UsedAt]] = defaultdict(list)
    for treatment, runs in by_treatment(folder):
        used: dict[tuple[str, str], list[CpuUse]] = defaultdict(list)
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
    """Return the intervals with a known CPU use, by process."""
    polled = pc.is_in(telemetry["metric"], pa.array([_CPU, _LOOK]))
    rows = telemetry.filter(pc.and_(polled, pc.starts_with(telemetry["source"], _NODE))).sort_by("time")
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


def _polled_time(phase: PhaseSummary, first: float, last: float) -> float:
    """Return the part of a window between the first and the last poll of any process, s."""
    return min(phase.begin + phase.duration, last) - max(phase.begin, first)


def _of_phase(spans: Mapping[str, Sequence[_Span]], phase: PhaseSummary) -> dict[str, CpuUse]:
    begin, end = phase.begin, phase.begin + phase.duration
    answered = sum(operation.successes for operation in phase.single.values())
    used: dict[str, CpuUse] = {}
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
        used[name] = CpuUse(cores, watched, whole, cost)
    return used | ({ALL: _together(used.values(), phase.duration)} if len(used) > 1 else {})


def _longest_gap(inside: Sequence[_Span], begin: float, end: float) -> float:
    """Return the longest time within the window without data, s."""
    known = [(begin, begin), *((since, until) for since, until, _ in inside), (end, end)]
    return max(later[0] - earlier[1] for earlier, later in pairwise(known))


def _together(used: Iterable[CpuUse], duration: float) -> CpuUse:
    parts = tuple(used)
    costs = [part.per_request for part in parts if part.per_request is not None]
    return CpuUse(
        # A process that existed for part of the window counts for that part.
        cores=math.fsum(part.cores * (1.0 if part.whole else part.watched / duration) for part in parts),
        watched=max(part.watched for part in parts),
        whole=all(part.whole for part in parts),
        per_request=math.fsum(costs) if len(costs) == len(parts) else None,
    )


def _order(name: str) -> tuple[bool, int, str]:
    """Return the sort key: numbered nodes by number, then others by name."""
    return (not name.isdigit(), int(name) if name.isdigit() else 0, name)
