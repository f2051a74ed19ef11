"""The verdict on a run: the validity rules that apply, and how well each figure was measured.

A run to which no rule applies is valid. `DETECTORS` check the phases for the rules in `rules`. Judging needs no run
folder.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loadframe.analyze.figures import Evidence, codes_about, is_valid, measured_figures
from loadframe.analyze.finding import Finding
from loadframe.analyze.verdict import rules
from loadframe.analyze.verdict.rules import RULES
from loadframe.analyze.verdict.self_monitor import STRAGGLING, OtherPrograms, as_generator, stragglers
from loadframe.analyze.verdict.trends import Steadiness, steadiness, without_growth
from loadframe.base.units import format_change, format_count, format_share
from loadframe.record.schema.figures import GrowthFigures, StoredEvents
from loadframe.record.schema.summary import (
    GeneratorFigures,
    PhaseSummary,
    RankFigures,
    RecordedFigure,
    RecordedVerdict,
)

if TYPE_CHECKING:
    from loadframe.record import HistogramLog


@dataclass(frozen=True)
class Verdict:
    """The reasons that affect a run's figures, rules that were not checked, and explained drifts."""

    reasons: tuple[Finding, ...]
    not_judged: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    figures: tuple[RecordedFigure, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether at least one figure is good or bounded; without figures, whether no reason makes them unknown."""
        return is_valid(self.figures, [reason.code for reason in self.reasons])

    def recorded(self) -> RecordedVerdict:
        """Return the verdict as summaries store it."""
        reasons = tuple(rules.recorded(reason) for reason in self.reasons)
        return RecordedVerdict(self.valid, reasons, self.not_judged, self.explained, self.figures)


@dataclass(frozen=True, eq=False)
class JudgedPhase:
    """Input for the verdict on a phase; throughput and documents have one value a second."""

    summary: PhaseSummary
    generator: GeneratorFigures
    throughput: npt.NDArray[np.float64]
    silent: Mapping[str, float] = field(default_factory=dict)  #: how long machines did not answer, s
    documents: npt.NDArray[np.float64] | None = None  #: documents in the collections; None if unknown
    histograms: "HistogramLog | None" = None  #: histograms of the run, for exact bounds of response times
    one_journey: bool = False  #: whether each user makes one journey, so that its steps determine the throughput
    cpus: int | None = None  #: logical CPUs of the generator's machine; None if unknown
    before_loss: bool = False  #: whether all nodes were sampled until its end; unused if no node was lost
    programs: Sequence[OtherPrograms] = ()  #: other programs on each machine with nodes


Detector = Callable[[JudgedPhase], Iterator[Finding]]
#: Functions that check a phase for validity rules, in the order of the verdict.
DETECTORS: list[Detector] = []


def detector(function: Detector) -> Detector:
    """Add a function to `DETECTORS` and return it (a decorator)."""
    DETECTORS.append(function)
    return function


def judge(
    phases: Sequence[JudgedPhase],
    deviations: Sequence[str],
    *,
    lost: Sequence[str] = (),
    disturbed: bool = False,
    failure: str | None = None,
    stored: Sequence[StoredEvents] = (),
    failures: Sequence[Finding] = (),
    not_judged: Sequence[str] = (),
) -> Verdict:
    """Return the verdict on a run's measured phases.

    `deviations` and `lost` are sentences: how the cluster differed from its treatment, and which nodes did not survive
    the load. `failure` says how the generator failed. `failures` are failures of the store that its answers do not
    show, such as lost documents.

    `stored` are the events of sources that the store has. None may be missing, unless the source may repeat events or a
    node was killed on purpose.

    If the cluster was changed on purpose (`disturbed`), rules about effects of the change are not judged. `not_judged`
    has further rules that were not checked, for the result.
    """
    reasons: list[Finding] = [
        *([rules.GENERATOR_FAILED(what=failure)] if failure else []),
        *(rules.CLUSTER_STATE(deviation=deviation) for deviation in deviations),
        *(rules.NODE_LOST(loss=loss) for loss in lost),
        *failures,
        *(
            rules.MISSING_EVENTS(collection=events.collection, missing=events.missing, indexed=events.indexed)
            for events in stored
            if events.missing and events.unique and events.acknowledged_at_kill is None
        ),
    ]
    unjudged, explained = list(not_judged), list[str]()
    for phase in phases:
        name = phase.summary.name
        findings = [finding for detect in DETECTORS for finding in detect(phase)]
        if disturbed:
            reasons += [finding for finding in findings if RULES[finding.code].judged_if_disturbed]
            unjudged.append(f"failures, drops and steadiness of phase {name}: the cluster was changed on purpose")
            continue
        reasons += findings
        steady = steadiness(phase.throughput)
        if lost and not phase.before_loss:
            unjudged.append(f"steadiness of phase {name}: a node was lost")
        elif any(stream.has_stages for stream in phase.summary.streams):
            unjudged.append(f"steadiness of phase {name}: its load changes in stages")
        elif any(stream.source is not None for stream in phase.summary.streams):
            unjudged.append(f"steadiness of phase {name}: its sources determine the load")
        elif phase.one_journey:
            unjudged.append(f"steadiness of phase {name}: each user makes one journey: its steps determine the load")
        elif steady is None:
            length = f"{len(phase.throughput)} s" if len(phase.throughput) else "less than 1 s"
            unjudged.append(f"steadiness of phase {name}: {length} is too short (20 s are needed)")
        elif not steady.steady:
            rest = _beside_documents(phase)
            if rest and rest.steady:
                explained.append(_explained(phase.summary, steady))
            else:
                worse = rest or steady
                reasons.append(
                    rules.UNSTEADY(
                        phase=name,
                        change=worse.change,
                        seconds=worse.seconds,
                        settled=worse.settled,
                        beside_documents=rest is not None,
                    )
                )
    return Verdict(tuple(reasons), tuple(unjudged), tuple(explained), _figures(phases, reasons))


def _figures(phases: Sequence[JudgedPhase], reasons: Sequence[Finding]) -> tuple[RecordedFigure, ...]:
    """Return the quality of each figure of the phases, given the reasons of the verdict."""
    recorded = [rules.recorded(reason) for reason in reasons]
    names = [phase.summary.name for phase in phases]
    figures: list[RecordedFigure] = []
    for phase in phases:
        codes = codes_about(recorded, phase.summary.name, names)
        log = phase.histograms
        figures += measured_figures(Evidence(phase.summary, phase.generator, codes, lambda log=log: log))  # type: ignore[misc]
    return tuple(figures)


def _beside_documents(phase: JudgedPhase) -> Steadiness | None:
    """Return the steadiness of throughput without the effect of document growth, or None without that effect.

    There is one if an operation of closed-loop clients or users takes longer the more documents there are.
    """
    waits = any(not stream.is_open for stream in phase.summary.streams)
    if phase.documents is None or not waits or not _growing(phase.summary):
        return None
    return steadiness(without_growth(phase.throughput, phase.documents))


def _growing(phase: PhaseSummary) -> dict[str, GrowthFigures]:
    """Return the growth of each operation with response times that grew with the number of documents.

    Growth with an uncertain number of documents is left out.
    """
    known = {name: operation.growth for name, operation in phase.operations.items()}
    return {name: growth for name, growth in known.items() if growth and growth.held and growth.grows}


def _explained(phase: PhaseSummary, steady: Steadiness) -> str:
    """Return a clause: throughput changed by `steady.change` because documents grew and slowed operations.

    At least one operation of the phase must have grown.
    """
    grown = _growing(phase)
    some = next(iter(grown.values()))
    alone = "" if some.apart else "; documents grew at an even rate, so other changes over time may contribute"
    return (
        f"in phase {phase.name} throughput moved by {format_change(steady.change)} over {steady.seconds} s while"
        f" documents grew from {format_count(some.begin)} to {format_count(some.end)}, which slowed"
        f" {', '.join(grown)}{alone}"
    )


@detector
def _silent_machines(phase: JudgedPhase) -> Iterator[Finding]:
    """Yield a finding for each machine that did not answer during the phase."""
    for machine, seconds in phase.silent.items():
        yield rules.MACHINE_SILENT(phase=phase.summary.name, machine=machine, seconds=seconds)


#: Programs that the verdict names.
_NAMED = 3


@detector
def _other_programs(phase: JudgedPhase) -> Iterator[Finding]:
    """Yield a finding for each machine over 80 % busy on which other programs used more than 5 % of the CPU time."""
    for used in phase.programs:
        if used.share > rules.CONTENDED_LIMIT and used.busy > rules.BUSY_LIMIT:
            largest = [f"{name} {format_share(share)}" for name, share in [*used.programs.items()][:_NAMED]]
            yield rules.CONTENDED(
                phase=phase.summary.name,
                share=used.share,
                busy=used.busy,
                machine=f"machine {used.machine}" if used.machine else "this machine",
                programs=", ".join(largest) or "many small ones",
            )


@detector
def _sources(phase: JudgedPhase) -> Iterator[Finding]:
    """Yield findings about events that are left over, and about threads over 80 % busy that read a source."""
    name, sources = phase.summary.name, phase.summary.sources.items()
    for source, figures in sources:
        if figures.left_over:
            yield rules.LEFT_OVER(phase=name, source=source, left_over=figures.left_over, accepted=figures.accepted)
    for source, figures in sources:
        share = figures.reader_cpu_share
        if share is not None and share > rules.CPU_LIMIT:
            # Over the network, more threads share the connections.
            yield rules.READER_CPU(phase=name, source=source, share=share, shared=figures.address is not None)


@detector
def _generator_and_ranks(phase: JudgedPhase) -> Iterator[Finding]:
    """Yield findings about the generator, naming the worst rank for each fault, and about late or slow ranks."""
    worst: dict[str, Finding] = {}
    machines = {machine.machine: machine for machine in phase.summary.machines}
    ranks = phase.summary.ranks
    for rank in ranks:
        figures = as_generator(rank, machines.get(rank.machine or ""), phase.generator.threads // len(ranks))
        judged = replace(phase, generator=figures)
        if rank.machine != ranks[0].machine:
            # Programs and processors are known of the command's machine.
            judged = replace(judged, cpus=None, programs=())
        for finding in _generator(judged, f" on {_name(rank)}"):
            known = worst.get(finding.code)
            if known is None or (rules.severity_of(finding) or 0.0) > (rules.severity_of(known) or 0.0):
                worst[finding.code] = finding
    for finding in _generator(phase):
        yield worst.pop(finding.code, finding)
    yield from worst.values()
    name, limit = phase.summary.name, rules.BEGAN_LATE_LIMIT
    late = sorted((rank for rank in ranks if rank.began_late > limit), key=lambda rank: -rank.began_late)
    if late:
        yield rules.BEGAN_LATE(phase=name, rank=_name(late[0]), late=late[0].began_late, others=len(late) - 1)
    counts = [stream.clients for stream in phase.summary.streams]
    fixed = [count for count in counts if isinstance(count, int)]
    if behind := stragglers(ranks, sum(fixed) if fixed and len(fixed) == len(counts) else None):
        slowest, share = behind[0]
        yield rules.STRAGGLER(phase=name, rank=_name(slowest), share=share, limit=STRAGGLING, others=len(behind) - 1)


def _name(rank: RankFigures) -> str:
    """Return a rank and its machine in words: `rank 3 (m2)`."""
    return f"rank {rank.rank} ({rank.machine})"


def _generator(phase: JudgedPhase, place: str = "") -> Iterator[Finding]:
    """Yield findings about the generator: CPU, waits, network, lateness, lag, stalls, achieved rate, backlog.

    The limits are those in `rules`. `place` is empty, or names the rank in sentences: ` on rank 3 (m2)`.
    """
    name, figures = phase.summary.name, phase.generator
    where = {"phase": name, "place": place}
    if figures.cpu_share > rules.CPU_LIMIT:
        yield rules.GENERATOR_CPU(**where, share=figures.cpu_share, threads=figures.threads)
    # A quota makes threads wait, too; the rest of the wait is due to other processes.
    throttled = figures.throttled_share or 0.0
    by_others = figures.waited_share - throttled
    if by_others > rules.WAITED_LIMIT:
        yield rules.STARVED(**where, share=figures.waited_share)
    if throttled > rules.THROTTLED_LIMIT:
        yield rules.THROTTLED(**where, share=throttled)
    if figures.network_share is not None and figures.network_share > rules.NETWORK_LIMIT:
        yield rules.NETWORK(phase=name, share=figures.network_share)
    if figures.ceiling_share is not None and figures.ceiling_share > rules.CEILING_LIMIT:
        yield rules.GENERATOR_CEILING(phase=name, share=figures.ceiling_share, threads=figures.threads)
    percentiles = [operation.response.p99 for operation in phase.summary.operations.values()]
    # The fastest operation suffers most from the same lateness.
    response = min((p99 for p99 in percentiles if p99), default=None)
    late = figures.lateness_p99
    # Delays are blamed on the hypervisor only if it took more time than the other processes of this machine.
    stolen = figures.stolen_share or 0.0
    stolen = stolen if stolen > by_others else 0.0
    if late is not None and response and phase.summary.has_due_times and late > rules.lateness_limit(response):
        yield rules.LATENESS(**where, stolen=stolen, lateness=late, response=response)
    lag = figures.lag_p99
    if lag is not None and response is not None and lag > rules.lag_limit(response):
        yield rules.LOOP_LAG(
            **where,
            lag=lag,
            response=response,
            share=lag / response,
            others=next((used.share for used in phase.programs if used.machine is None), None),
            stolen=stolen,
            cpus=phase.cpus,
            busiest=figures.cpu_share,
            threads=figures.threads,
        )
    stall, away = figures.longest_stall or 0.0, figures.away_share or 0.0
    if stall > rules.STALL_LIMIT or away > rules.AWAY_LIMIT:
        yield rules.STALLED(**where, stolen=stolen, longest=stall, away=away)
    if figures.achieved is not None and figures.achieved < rules.ACHIEVED_LIMIT:
        yield rules.NOT_ACHIEVED(phase=name, achieved=figures.achieved, warmup=phase.summary.warmup)
    yield from _backlog(phase)


def _backlog(phase: JudgedPhase) -> Iterator[Finding]:
    """Yield a finding if an open load brought a backlog from its warm-up.

    Requests in flight cross both ends of every window. A surplus within four standard deviations of their difference
    does not count.
    """
    achieved = phase.generator.achieved
    if achieved is None or achieved <= 2 - rules.ACHIEVED_LIMIT:
        return
    operations = phase.summary.single.values()
    inherited = sum(operation.inherited for operation in operations)
    surplus = (achieved - 1) * sum(operation.due for operation in operations)
    left = max(inherited - surplus, 0)
    if surplus > 4 * math.sqrt(inherited + left + 1):
        yield rules.BACKLOG(phase=phase.summary.name, inherited=inherited, achieved=achieved)


@detector
def _overhead(judged: JudgedPhase) -> Iterator[Finding]:
    """Yield a finding about the operation with the largest share of overhead, if kernel timestamps show too much."""
    findings = []
    for name, operation in judged.summary.operations.items():
        service, times = operation.service.p99, operation.kernel_times
        corrected = times.corrected.p99 if times else None
        if service and corrected is not None and (share := 1 - corrected / service) > rules.OVERHEAD_LIMIT:
            findings.append(
                rules.GENERATOR_OVERHEAD(
                    phase=judged.summary.name, operation=name, service=service, corrected=corrected, share=share
                )
            )
    yield from sorted(findings, key=lambda finding: rules.severity_of(finding) or 0.0)[-1:]


@detector
def _chosen_window(judged: JudgedPhase) -> Iterator[Finding]:
    """Yield findings if the phase missed steady state, an empty queue or the required precision."""
    name, window = judged.summary.name, judged.summary.window
    if window is None:
        return
    if window.warmup_limit is not None and window.steady_from is None:
        yield rules.NO_STEADY_STATE(phase=name, limit=window.warmup_limit)
    if window.queue_limit is not None and window.queue_empty_at is None:
        yield rules.QUEUE_NOT_EMPTY(phase=name, limit=window.queue_limit)
    if window.precision is not None and not window.reached:
        yield rules.IMPRECISE(
            phase=name, precision=window.precision, duration=judged.summary.duration, widest=window.widest
        )


@detector
def _requests(judged: JudgedPhase) -> Iterator[Finding]:
    """Yield findings about operations without requests, with over 1 % failures, or over 0.1 % dropped requests.

    Requests without an answer at the end count as failures. Users may skip operations, so in a phase with users an
    operation may lack requests if another one has some.
    """
    phase = judged.summary
    has_users = any(stream.users is not None for stream in phase.streams)
    has_requests = any(operation.requests + operation.in_flight_at_end for operation in phase.operations.values())
    for name, operation in phase.operations.items():
        unanswered = operation.in_flight_at_end
        requests = operation.requests + unanswered
        failed = requests - operation.successes
        # A user's journey may skip an operation.
        if not requests and not (has_users and has_requests):
            yield rules.NOTHING_MEASURED(phase=phase.name, operation=name)
        if failed > rules.ERROR_LIMIT * requests:
            classes = dict(operation.errors) | ({"unanswered": unanswered} if unanswered else {})
            listed = ", ".join(f"{count:,} {kind}" for kind, count in classes.items())
            yield rules.ERRORS(phase=phase.name, operation=name, failed=failed, requests=requests, classes=listed)
        if operation.dropped > rules.DROPPED_LIMIT * operation.due:
            yield rules.DROPPED(phase=phase.name, operation=name, dropped=operation.dropped, due=operation.due)
