"""The verdict on a run: the reasons to doubt it, and which figures each of them affects and by how much.

There is a reason when the generator was the limit, when an open load was not achieved, when the run was not steady,
when requests failed, or when the cluster was not in the state that the treatment names. A run without any is valid.
`figures` derives from the reasons how well each figure was measured. Judging needs no run folder.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loadframe.analyze.figures import Evidence, codes_about, measured_figures
from loadframe.analyze.verdict.growth import without_growth
from loadframe.analyze.verdict.rules import (
    ACHIEVED_LIMIT,
    AWAY_LIMIT,
    BEGAN_LATE_LIMIT,
    CEILING_LIMIT,
    CPU_LIMIT,
    DROPPED_LIMIT,
    ERROR_LIMIT,
    NETWORK_LIMIT,
    STALL_LIMIT,
    THROTTLED_LIMIT,
    WAITED_LIMIT,
    Backlog,
    BeganLate,
    Broke,
    ClusterState,
    Dropped,
    Errors,
    GeneratorBusy,
    Late,
    LeftOver,
    LoopLag,
    MachineSilent,
    MissingEvents,
    NearCeiling,
    NetworkBusy,
    NodeLost,
    NotAchieved,
    NothingMeasured,
    ReaderBusy,
    Reason,
    Stalled,
    Starved,
    Straggler,
    Throttled,
    Unsteady,
    lateness_limit,
)
from loadframe.analyze.verdict.self_monitor import STRAGGLING, as_generator, stragglers
from loadframe.analyze.verdict.steadiness import Steadiness, steadiness
from loadframe.base.units import format_change, format_count
from loadframe.record.schema.source import StoredEvents
from loadframe.record.schema.summary import (
    GeneratorFigures,
    GrowthFigures,
    PhaseSummary,
    RankFigures,
    RecordedFigure,
    RecordedReason,
    RecordedVerdict,
)

if TYPE_CHECKING:
    from loadframe.record import HistogramLog


@dataclass(frozen=True)
class Verdict:
    """Valid, or the reasons why not; what was left unjudged; and what moved and is explained."""

    reasons: tuple[Reason, ...]
    not_judged: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    figures: tuple[RecordedFigure, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether there is no reason against the run."""
        return not self.reasons

    def recorded(self) -> RecordedVerdict:
        """Return the verdict as summaries have it."""
        reasons = tuple(RecordedReason(**reason.as_dict()) for reason in self.reasons)
        return RecordedVerdict(self.valid, reasons, self.not_judged, self.explained, self.figures)


@dataclass(frozen=True, eq=False)
class JudgedPhase:
    """What a phase is judged by: its entry in the summary, its generator, its one-second throughputs and documents."""

    summary: PhaseSummary
    generator: GeneratorFigures
    throughput: npt.NDArray[np.float64]
    silent: Mapping[str, float] = field(default_factory=dict)  #: for how many s which machine did not answer
    documents: npt.NDArray[np.float64] | None = None  #: by second as throughput is; None where they cannot be known
    histograms: "HistogramLog | None" = None  #: those of the run, for exact bounds of response times


def judge(
    phases: Sequence[JudgedPhase],
    deviations: Sequence[str],
    *,
    lost: Sequence[str] = (),
    disturbed: bool = False,
    failure: str | None = None,
    stored: Sequence[StoredEvents] = (),
    failures: Sequence[Reason] = (),
) -> Verdict:
    """Return the verdict on a run's measured phases; `deviations` says how the cluster differed from its treatment.

    `lost` says which nodes, or that all of them, did not survive the load; `failure` what broke in the generator;
    `failures` are failures of the store that show outside its answers: lost documents and copies, changes not made.

    `stored` is what the store has of the events of sources: none may be missing, unless the same may have come twice,
    or a node was killed on purpose.

    Where the cluster was changed on purpose (`disturbed`), the generator is judged, but not what the change may have
    caused: failures, requests that were late or dropped, throughput that drifted.
    """
    reasons: list[Reason] = [
        *([Broke(failure)] if failure else []),
        *(ClusterState(deviation) for deviation in deviations),
        *(NodeLost(loss) for loss in lost),
        *failures,
        *(
            MissingEvents(told.collection, told.missing, told.indexed)
            for told in stored
            if told.missing and told.unique and told.acknowledged_at_kill is None
        ),
    ]
    not_judged, explained = list[str](), list[str]()
    for phase in phases:
        name = phase.summary.name
        reasons += [MachineSilent(name, machine, seconds) for machine, seconds in phase.silent.items()]
        reasons += [
            LeftOver(name, source, figures.left_over, figures.accepted)
            for source, figures in phase.summary.sources.items()
            if figures.left_over
        ]
        reasons += [
            ReaderBusy(name, source, figures.reader_cpu_share, shared=figures.address is not None)
            for source, figures in phase.summary.sources.items()
            if figures.reader_cpu_share is not None and figures.reader_cpu_share > CPU_LIMIT
        ]
        if disturbed:
            reasons += [
                reason for reason in _loading(phase, steady=False) if not isinstance(reason, NotAchieved | Backlog)
            ]
            reasons += [reason for reason in _requests(phase.summary) if isinstance(reason, NothingMeasured)]
            not_judged.append(f"failures, drops and steadiness of phase {name}: the cluster was changed on purpose")
            continue
        reasons += [*_loading(phase), *_requests(phase.summary)]
        steady = steadiness(phase.throughput)
        if any(stream.has_stages for stream in phase.summary.streams):
            not_judged.append(f"steadiness of phase {name}: its load changes in stages")
        elif any(stream.source is not None for stream in phase.summary.streams):
            not_judged.append(f"steadiness of phase {name}: its events come when they come")
        elif steady is None:
            not_judged.append(f"steadiness of phase {name}: {len(phase.throughput)} s is too short (20 s are needed)")
        elif not steady.steady:
            rest = _beside_documents(phase)
            if rest and rest.steady:
                explained.append(_explained(phase.summary, steady))
            else:
                worse = rest or steady
                reasons.append(Unsteady(name, worse.change, worse.seconds, worse.settled, rest is not None))
    return Verdict(tuple(reasons), tuple(not_judged), tuple(explained), _figures(phases, reasons))


def _figures(phases: Sequence[JudgedPhase], reasons: Sequence[Reason]) -> tuple[RecordedFigure, ...]:
    """Return how well each figure of the phases was measured, given the reasons."""
    recorded = [RecordedReason(**reason.as_dict()) for reason in reasons]
    names = [phase.summary.name for phase in phases]
    return tuple(
        entry
        for phase in phases
        for entry in measured_figures(
            Evidence(
                phase.summary,
                phase.generator,
                codes_about(recorded, phase.summary.name, names),
                functools.partial(_same, phase.histograms),
            )
        )
    )


def _same(histograms: "HistogramLog | None") -> "HistogramLog | None":
    return histograms


def _beside_documents(phase: JudgedPhase) -> Steadiness | None:
    """Return how throughput moved beside what the documents explain; None where they explain nothing.

    They do where an operation of clients who wait for answers takes the longer the more there are.
    """
    waits = any(not stream.is_open for stream in phase.summary.streams)
    if phase.documents is None or not waits or not _growing(phase.summary):
        return None
    return steadiness(without_growth(phase.throughput, phase.documents))


def _growing(phase: PhaseSummary) -> dict[str, GrowthFigures]:
    """Return the operations whose response times grew with documents that the collections held."""
    known = {name: operation.growth for name, operation in phase.operations.items()}
    return {name: growth for name, growth in known.items() if growth and growth.held and growth.grows}


def _explained(phase: PhaseSummary, steady: Steadiness) -> str:
    grown = _growing(phase)
    some = next(iter(grown.values()))
    alone = "" if some.apart else "; documents came at an even pace, so what else changed with time is in that, too"
    return (
        f"in phase {phase.name} throughput moved by {format_change(steady.change)} over {steady.seconds} s while"
        f" documents grew from {format_count(some.begin)} to {format_count(some.end)}, with which"
        f" {', '.join(grown)} took longer{alone}"
    )


def _loading(phase: JudgedPhase, *, steady: bool = True) -> Iterator[Reason]:
    """Yield what speaks against the generator as a whole, and against single ranks where several loaded.

    Of ranks with the same fault the worst is named. Without `steady` the cluster was changed meanwhile, and how much
    each rank did is not judged.
    """
    worst: dict[str, Reason] = {}
    machines = {machine.machine: machine for machine in phase.summary.machines}
    ranks = phase.summary.ranks
    for rank in ranks:
        figures = as_generator(rank, machines.get(rank.machine or ""), phase.generator.threads // len(ranks))
        for reason in _generator(replace(phase, generator=figures), f" on {_name(rank)}"):
            known = worst.get(reason.code)
            if known is None or _badness(reason) > _badness(known):
                worst[reason.code] = reason
    for reason in _generator(phase):
        yield worst.pop(reason.code, reason)
    yield from worst.values()
    late = sorted((rank for rank in ranks if rank.began_late > BEGAN_LATE_LIMIT), key=lambda rank: -rank.began_late)
    if late:
        yield BeganLate(phase.summary.name, _name(late[0]), late[0].began_late, len(late) - 1)
    behind = stragglers(ranks) if steady else []
    if behind:
        yield Straggler(phase.summary.name, _name(behind[0][0]), behind[0][1], STRAGGLING, len(behind) - 1)


def _name(rank: RankFigures) -> str:
    return f"rank {rank.rank} ({rank.machine})"


def _badness(reason: Reason) -> float:
    """Return a figure by which two reasons of one kind can be told apart: the worse has the greater."""
    for name in ("share", "lateness", "lag", "longest"):
        if hasattr(reason, name):
            return float(getattr(reason, name))
    return 0.0


def _generator(phase: JudgedPhase, place: str = "") -> Iterator[Reason]:
    name, figures = phase.summary.name, phase.generator
    if figures.cpu_share > CPU_LIMIT:
        yield GeneratorBusy(name, figures.cpu_share, figures.threads, place)
    # A quota makes threads wait, too; the rest of the wait is due to other processes.
    throttled = figures.throttled_share or 0.0
    if figures.waited_share - throttled > WAITED_LIMIT:
        yield Starved(name, figures.waited_share, place)
    if throttled > THROTTLED_LIMIT:
        yield Throttled(name, throttled, place)
    if figures.network_share is not None and figures.network_share > NETWORK_LIMIT:
        yield NetworkBusy(name, figures.network_share)
    if figures.ceiling_share is not None and figures.ceiling_share > CEILING_LIMIT:
        yield NearCeiling(name, figures.ceiling_share, figures.threads)
    percentiles = [operation.response.p99 for operation in phase.summary.operations.values()]
    # The fastest operation suffers most from the same lateness.
    response = min((p99 for p99 in percentiles if p99), default=None)
    late, stolen = figures.lateness_p99, figures.stolen_share or 0.0
    if (
        late is not None
        and any(stream.is_open or stream.think_time != 0 for stream in phase.summary.streams)
        and late > lateness_limit(response)
    ):
        yield Late(name, stolen, late, response, place)
    lag = figures.lag_p99
    if lag is not None and response is not None and lag > lateness_limit(response):
        yield LoopLag(name, stolen, lag, response, place)
    stall, away = figures.longest_stall or 0.0, figures.away_share or 0.0
    if stall > STALL_LIMIT or away > AWAY_LIMIT:
        yield Stalled(name, stolen, stall, away, place)
    if figures.achieved is not None and figures.achieved < ACHIEVED_LIMIT:
        yield NotAchieved(name, figures.achieved)
    if backlog := _backlog(phase):
        yield backlog


def _backlog(phase: JudgedPhase) -> Backlog | None:
    """Return the backlog that an open load brought from its warm-up; None without one.

    Requests in flight cross both ends of every window. A surplus within four standard deviations of their difference
    does not count.
    """
    achieved = phase.generator.achieved
    if achieved is None or achieved <= 2 - ACHIEVED_LIMIT:
        return None
    operations = phase.summary.single.values()
    inherited = sum(operation.inherited for operation in operations)
    surplus = (achieved - 1) * sum(operation.due for operation in operations)
    left = max(inherited - surplus, 0)
    scatter = 4 * math.sqrt(inherited + left + 1)
    return Backlog(phase.summary.name, inherited, achieved) if surplus > scatter else None


def _requests(phase: PhaseSummary) -> Iterator[Reason]:
    walks = any(stream.users is not None for stream in phase.streams)
    asked = any(operation.requests + operation.in_flight_at_end for operation in phase.operations.values())
    for name, operation in phase.operations.items():
        unanswered = operation.in_flight_at_end
        requests = operation.requests + unanswered
        failed = requests - operation.successes
        # A user's way may lead past an operation.
        if not requests and not (walks and asked):
            yield NothingMeasured(phase.name, name)
        if failed > ERROR_LIMIT * requests:
            classes = dict(operation.errors) | ({"unanswered": unanswered} if unanswered else {})
            words = ", ".join(f"{count} {kind}" for kind, count in classes.items())
            yield Errors(phase.name, name, failed, requests, words)
        if operation.dropped > DROPPED_LIMIT * operation.due:
            yield Dropped(phase.name, name, operation.dropped, operation.due)
