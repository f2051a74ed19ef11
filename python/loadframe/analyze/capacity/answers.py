"""Capacities from an experiment's folder: the answer of each search, and an estimate for each treatment.

The analysis judges the recorded trials and replays the search on them in their order, so report and search agree.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from loadframe.analyze.capacity.criteria import Judgement, Slo, judge
from loadframe.analyze.capacity.search import Answer, Bounds, Kind, Next, Outcome, Trial, search, warm
from loadframe.analyze.capacity.trials import Array, OrderEffect, Thresholds, order_effect, thresholds
from loadframe.analyze.estimate import ONE_SIDED, Estimate, mean_interval, mean_share, proportion, requests_needed
from loadframe.analyze.exclusion import selected_runs, warned_runs
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, read_experiment
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.percentiles import ENOUGH, mean_arrivals
from loadframe.analyze.rates import RATES, THROUGHPUT
from loadframe.analyze.summary import QUANTILES
from loadframe.analyze.telemetry import fresh_nodes
from loadframe.analyze.verdict.rules import SHORT_WARMUP
from loadframe.base.units import format_duration
from loadframe.record import Run

RATE: Final = "rate"
USERS: Final = "users"


@dataclass(frozen=True)
class Attempt:
    """A trial: its rate (1/s) or number of users (here also called a rate), and its judgement.

    `documents` is the number of documents per request that the store accepted or returned; 0 for a number of users.
    `offered` is the rate of due requests, 1/s, if arrivals were random; None if it equals `rate` or is unknown.
    `duration` is the measured time, s.
    """

    run: str
    rate: float
    judgement: Judgement
    documents: float = 0.0
    offered: float | None = None
    duration: float = 0.0

    @property
    def trial(self) -> Trial:
        """Its rate, outcome and offered rate, in the form that the search and the estimate use."""
        return Trial(self.rate, self.judgement.outcome, self.offered)


@dataclass(frozen=True)
class Search:
    """One search, possibly unfinished: in one block, at one treatment (without the rate)."""

    block: int | None
    treatment: Mapping[str, Any]
    attempts: tuple[Attempt, ...]
    end: Next | Answer
    #: Number of nodes; None if its runs did not record it.
    nodes: int | None = None

    @property
    def answer(self) -> Answer | None:
        """The answer of a finished search, or None while it is unfinished.

        A search that only lacks the trial that confirms the rate above its answer counts as finished: earlier versions
        did not make that trial.
        """
        return self.end if isinstance(self.end, Answer) else self.end.answer

    @property
    def is_conclusive(self) -> bool:
        """Whether the search is finished and its answer bounds the capacity."""
        return self.answer is not None and self.answer.kind is not Kind.UNKNOWN

    @property
    def uncounted(self) -> tuple[Attempt, ...]:
        """The failed trials at the answer's rate that the search attributed to a cold store; empty without a rate."""
        held = self.answer and self.answer.rate
        failed = [one for one in self.attempts if one.trial == Trial(one.rate, Outcome.FAILED) and one.rate == held]
        counted = warm([one.trial for one in self.attempts]).count(Trial(held or 0.0, Outcome.FAILED))
        # The earliest ones precede a pass.
        return tuple(failed[: len(failed) - counted])

    @property
    def nearest(self) -> Attempt | None:
        """The failed trial at the upper end of the answer's bracket, or else the one with the lowest rate above it.

        Without an answer, it is the failed trial with the lowest rate. None if no trial failed above the answer.
        """
        held, above = (self.answer.rate or 0.0, self.answer.above) if self.answer else (0.0, None)
        failed = [
            attempt for attempt in self.attempts if attempt.judgement.outcome is Outcome.FAILED and attempt.rate > held
        ]
        # A single failure below `above` has not decided the rate.
        return min(failed, key=lambda attempt: (attempt.rate != above, attempt.rate), default=None)

    @property
    def deciding(self) -> tuple[Attempt, ...]:
        """The last trial that passed at the answer's rate, then `nearest`, or else the first trial at `answer.above`.

        Empty without an answer; shorter if one of the two does not exist.
        """
        if self.answer is None:
            return ()
        held = [one for one in self.attempts if one.trial == Trial(self.answer.rate or 0.0, Outcome.PASSED)]
        # Beyond the generator, trials are invalid.
        invalid = [one for one in self.attempts if one.rate == self.answer.above]
        return tuple(filter(None, [*held[-1:], self.nearest or next(iter(invalid), None)]))


@dataclass(frozen=True)
class ErrorsOpen:
    """An error limit that the trials at the sustained rates meet on average without proving it.

    `high` is the one-sided 95 % limit of the share; 1 if only one trial had such requests. `needed` is the number of
    requests that would show a share below `limit` at the same failure rate; None if there are enough and the trials
    differ too much.
    """

    operation: str | None
    failed: int
    due: int
    high: float
    limit: float
    needed: int | None


@dataclass(frozen=True)
class Capacity:
    """The sustained load of a treatment: the rate (1/s) or number of users (`over`) at which half of the trials pass.

    With several searches `rate` has a 95 % interval. With one it is the highest rate that passed, with an infinite
    interval; `bracket` then bounds it. It is None if no search found a rate. If only some did, it is an upper bound,
    with a lower end of 0; None if other searches have no upper end. `rates` are the capacities of the conclusive
    searches, 1/s. `error` is the relative standard error from all trials if searches do not differ.
    """

    treatment: Mapping[str, Any]
    nodes: int
    searches: tuple[Search, ...]
    rate: Estimate | None
    #: Why the capacity may exceed the rate, or why it is unknown: the least informative kind of all searches.
    kind: Kind
    rates: tuple[float, ...] = ()
    error: float = 0.0
    over: str = RATE

    @property
    def documents(self) -> Estimate | None:
        """The capacity in documents/s: the rate times the mean documents per request of passed trials.

        None without a capacity, without a passed trial, and if a passed trial has no documents.
        """
        passed = [
            attempt.documents
            for search in self.searches
            for attempt in search.attempts
            if attempt.judgement.outcome is Outcome.PASSED
        ]
        if self.rate is None or not passed or not all(passed):
            return None
        factor = fmean(passed)
        return Estimate(self.rate.value * factor, self.rate.low * factor, self.rate.high * factor)

    @property
    def errors_open(self) -> tuple[ErrorsOpen, ...]:
        """The error limits that remain open: the one-sided upper 95 % limit of the failed share reaches them.

        Only passed and failed trials at the answers' rates count, all searches together. A limit with a single trial is
        always open.
        """
        by_limit: dict[tuple[str | None, float], list[tuple[int, int]]] = {}
        for made in self.searches:
            held = made.answer and made.answer.rate
            for attempt in made.attempts:
                if attempt.rate == held and attempt.judgement.outcome is not Outcome.INVALID:
                    for count in attempt.judgement.counts:
                        counts = by_limit.setdefault((count.operation, count.limit), [])
                        counts.append((count.failed, count.due))
        left = []
        for (operation, limit), counts in by_limit.items():
            share = mean_share(counts, [None] * len(counts), ONE_SIDED)
            failed, due = (sum(column) for column in zip(*counts, strict=True))
            if share.high >= limit:
                few = proportion(failed, due, ONE_SIDED).high >= limit
                needed = requests_needed(failed / due, limit) if few else None
                left.append(ErrorsOpen(operation, failed, due, min(share.high, 1.0), limit, needed))
        return tuple(left)

    @property
    def order(self) -> OrderEffect | None:
        """The growth of response times from trial to trial at equal rates of a search; None with too few such trials.

        Invalid trials and those without a response time do not count.
        """
        rates: dict[tuple[int, float, str | None], list[tuple[int, float]]] = {}
        for place, made in enumerate(self.searches):
            for number, attempt in enumerate(made.attempts):
                judgement = attempt.judgement
                if judgement.outcome is not Outcome.INVALID and judgement.response:
                    trials = rates.setdefault((place, attempt.rate, judgement.operation), [])
                    trials.append((number, judgement.response))
        return order_effect(list(rates.values()))

    @property
    def conclusive(self) -> tuple[Answer, ...]:
        """The answers of the conclusive searches."""
        return tuple(search.answer for search in self.searches if search.answer and search.is_conclusive)

    @property
    def bracket(self) -> tuple[float, float] | None:
        """The highest rate that passed and the lowest above it that failed, if one search is conclusive; else None."""
        answers = self.conclusive
        if len(answers) != 1 or answers[0].kind is not Kind.BRACKETED:
            return None
        held, above = answers[0].rate, answers[0].above
        return None if held is None or above is None else (held, above)

    @property
    def sustained(self) -> float:
        """The rate that the treatment sustains by its trials: the low end of the interval; 0 if it is unknown.

        For one search it is the highest passed rate at which no valid trial failed, counted or not, but at least 0.8 of
        the answer: below that, failures do not decide.
        """
        if self.rate is None or self.kind is Kind.UPPER_BOUND:
            return 0.0
        if len(self.conclusive) > 1:
            return self.rate.low
        held = self.rate.value
        tried = [one for made in self.searches if made.is_conclusive for one in made.attempts if one.rate <= held]
        failed = {one.rate for one in tried if one.judgement.outcome is Outcome.FAILED}
        passed = {one.rate for one in tried if one.judgement.outcome is Outcome.PASSED}
        return max([held / FAR, *(passed - failed)]) if held in failed else held

    def near(self, rate: float) -> tuple[int, int]:
        """Return how many valid trials at up to 5 % from a rate passed, and how many there are."""
        outcomes = [
            one.judgement.outcome
            for made in self.searches
            for one in made.attempts
            if abs(one.rate / rate - 1) <= NEAR and one.judgement.outcome is not Outcome.INVALID
        ]
        return outcomes.count(Outcome.PASSED), len(outcomes)


@dataclass(frozen=True, eq=False)
class Capacities:
    """Analysis of a capacity experiment."""

    folder: RecordedExperiment
    slo: Slo
    bounds: Bounds
    capacities: tuple[Capacity, ...]
    #: Arrival processes of the trials: `constant`, `poisson`, or both; empty without trials.
    arrivals: tuple[str, ...] = ()

    @property
    def invalid(self) -> tuple[Attempt, ...]:
        """The invalid trials."""
        searches = (search for capacity in self.capacities for search in capacity.searches)
        attempts = (attempt for search in searches for attempt in search.attempts)
        return tuple(attempt for attempt in attempts if attempt.judgement.outcome is Outcome.INVALID)

    @property
    def selection(self) -> Finding | None:
        """The warning that the invalid trials are not a random selection; None if it does not apply."""
        names = {attempt.run for attempt in self.invalid}
        if not names:
            return None
        return selected_runs(self.folder, [run for run in self.folder.runs if run.id not in names])

    @property
    def warned(self) -> Finding | None:
        """The warning about trials with shifted figures, or None without any."""
        return warned_runs(self.folder.runs)


def read_capacities(path: Path) -> Capacities:
    """Return the analysis of a capacity experiment's folder; BadInput if it is not an experiment or is broken.

    KeyError or TypeError for an experiment of another kind.
    """
    return capacities_in(read_experiment(path))


def capacities_in(folder: RecordedExperiment) -> Capacities:
    """Return the analysis of a capacity experiment from its runs: judges the trials and replays each search on them.

    Capacities are in ascending order of nodes. KeyError or TypeError for an experiment of another kind.
    """
    description = folder.description
    slo, bounds = Slo.read(description["slo"]), Bounds(**description["search"])
    grouped: dict[str, list[RecordedRun]] = {}
    for run in folder.runs:
        grouped.setdefault(repr((run.block, without_rate(run.treatment, bounds.over))), []).append(run)
    searches = [_search(runs, slo, bounds, description["measure"]) for runs in grouped.values()]
    by_treatment: dict[str, list[Search]] = {}
    for made in searches:
        by_treatment.setdefault(repr(sorted(made.treatment.items())), []).append(made)
    default = int(description["store"].get("nodes", 1))
    capacities = capacities_of(list(by_treatment.values()), default, bounds.over)
    ordered = tuple(sorted(capacities, key=lambda capacity: capacity.nodes))
    streams = [stream for run in folder.runs for phase in description["measure"] for stream in run.streams(phase)]
    arrivals = {stream.arrivals for stream in streams if stream.arrivals is not None}
    return Capacities(folder, slo, bounds, ordered, tuple(sorted(arrivals)))


def without_rate(treatment: Mapping[str, Any], over: str = RATE) -> dict[str, Any]:
    """Return a trial's treatment without the searched factor (`over`)."""
    return {name: level for name, level in treatment.items() if name != over}


@functools.lru_cache(maxsize=10_000)
def judge_run(path: Path, slo: Slo, phases: tuple[str, ...], rate: float | None) -> Judgement:
    """Return the judgement of a run folder; it is cached, since the folder's content is final.

    `phases` are the measured phases; `rate` (1/s) is None for a number of users. BadInput if the folder is not a
    complete run.
    """
    return judge(Run(path), slo, phases, rate)


def _search(runs: Sequence[RecordedRun], slo: Slo, bounds: Bounds, phases: Sequence[str]) -> Search:
    """Return a search from its runs: their judgements, and the decision of the search after them.

    The runs, at least one, are of one block and treatment, in the order of the trials. Missing runs are skipped, so the
    decision is that of a search without these trials.
    """
    attempts = []
    for run in runs:
        rate = float(run.treatment[bounds.over])
        if run.run is not None:
            of_rate = rate if bounds.over == RATE else None
            judgement = judge_run(run.run.path, slo, tuple(phases), of_rate)
            documents = _documents(run, phases) if of_rate else 0.0
            offered = _offered(run, phases, rate) if of_rate else None
            duration = min((entry.duration for phase in phases if (entry := run.phase(phase))), default=0.0)
            attempts.append(Attempt(run.id, rate, judgement, documents, offered, duration))
    end = search(bounds, [attempt.trial for attempt in attempts])
    nodes = next((run.nodes for run in runs if run.nodes), None)
    return Search(runs[0].block, without_rate(runs[0].treatment, bounds.over), tuple(attempts), end, nodes)


def _documents(run: RecordedRun, phases: Sequence[str]) -> float:
    """Return the documents per successful request of the measured phase; 0 without requests and with several phases."""
    entry = run.phase(phases[0]) if len(phases) == 1 else None
    requests = THROUGHPUT.of(entry) if entry else 0.0
    return RATES["documents"].of(entry) / requests if entry and requests else 0.0


def _offered(run: RecordedRun, phases: Sequence[str], rate: float) -> float | None:
    """Return the rate that random arrivals offered, 1/s; None without Poisson arrivals.

    None also if a stream has no constant rate. `rate` is the nominal rate of the trial; the result is `rate` times the
    number of due requests divided by the planned number.
    """
    streams = [(phase, stream) for phase in phases for stream in run.streams(phase)]
    # A rate counts groups and journeys.
    planned = [
        run.per_arrival(phase, stream) * stream.rate * stream.measured
        for phase, stream in streams
        if isinstance(stream.rate, int | float) and stream.measured
    ]
    if len(planned) < len(streams) or not any(stream.arrivals == "poisson" for _, stream in streams):
        return None
    operations = [operation for phase in phases for operation in run.operations(phase).values()]
    return rate * sum(operation.due for operation in operations if not operation.of_several) / sum(planned)


#: Failures before the first pass come from a cold store if the answer is higher by at least this factor.
FAR = 1.25
#: Trials at rates up to this share from a load show whether there is a reserve.
NEAR = 0.05
#: Kinds with a rate, from the tightest bound to the loosest.
_WORTH = (Kind.BRACKETED, Kind.AT_MOST, Kind.LOWER_BOUND)


def capacities_of(treatments: Sequence[Sequence[Search]], default_nodes: int, over: str = RATE) -> list[Capacity]:
    """Return the capacity of each treatment from its searches, fitted together: all share one variation of trials.

    Only conclusive searches are fitted; a treatment without one has an unknown capacity. `default_nodes` is used if
    neither a run nor the treatment has a number of nodes. `over` is the searched factor.
    """
    conclusive = [[search for search in searches if search.is_conclusive] for searches in treatments]
    known = [searches for searches in conclusive if searches]
    fitted = iter(thresholds([[_trials(search) for search in searches] for searches in known]))
    return [
        _with_order(replace(_capacity(searches, next(fitted) if treatment else None, default_nodes), over=over))
        for searches, treatment in zip(treatments, conclusive, strict=True)
    ]


def _with_order(capacity: Capacity) -> Capacity:
    """Return a capacity, with a wider interval if response times grow significantly from trial to trial.

    The interval then reaches at least from the lowest failed to the highest passed rate. Unchanged without
    `order.is_slower` or without a rate.
    """
    order, rate = capacity.order, capacity.rate
    if rate is None or order is None or not order.is_slower:
        return capacity
    attempts = [attempt for made in capacity.searches for attempt in made.attempts]
    passed = [attempt.rate for attempt in attempts if attempt.judgement.outcome is Outcome.PASSED]
    failed = [attempt.rate for attempt in attempts if attempt.judgement.outcome is Outcome.FAILED]
    return replace(capacity, rate=Estimate(rate.value, min([rate.low, *failed]), max([rate.high, *passed])))


def _trials(search: Search) -> list[Trial]:
    """Return the trials that estimate a capacity, not in their order.

    Failures of a cold store (see `warm`) are omitted at up to 0.8 of the answer's rate. Above that, and without an
    answer's rate at all rates, they count: they are chance, and the estimate would be too high without them.
    """
    trials = [attempt.trial for attempt in search.attempts]
    near = ((search.answer.rate if search.answer else None) or 0.0) / FAR
    return [*(trial for trial in warm(trials) if trial.rate <= near), *(trial for trial in trials if trial.rate > near)]


def _capacity(searches: Sequence[Search], fitted: Thresholds | None, default_nodes: int) -> Capacity:
    """Return the capacity at one treatment from its searches; unknown if `fitted` is None (no conclusive search).

    `default_nodes` is used if neither a run nor the treatment has a number of nodes.
    """
    treatment = searches[0].treatment
    recorded = next((search.nodes for search in searches if search.nodes), None)
    nodes = recorded or int(treatment.get("nodes") or default_nodes)
    answers = [search.answer for search in searches if search.answer and search.is_conclusive]
    if fitted is None:
        return Capacity(treatment, nodes, tuple(searches), None, Kind.UNKNOWN)
    held = [answer.kind for answer in answers if answer.kind is not Kind.NONE]
    kind = max(held, key=_WORTH.index) if held else Kind.NONE
    if held and len(held) < len(answers):
        kind = Kind.UPPER_BOUND
    # If no rate failed, or none passed, the capacity is outside the tried rates: use the end of the range.
    logs = np.array(
        [
            float(threshold) if answer.kind is Kind.BRACKETED else math.log(answer.rate or answer.above or math.nan)
            for answer, threshold in zip(answers, fitted.searches, strict=True)
        ]
    )
    rate = None if kind is Kind.NONE else _estimate(answers, logs, fitted)
    return Capacity(treatment, nodes, tuple(searches), rate, kind, tuple(np.exp(logs).tolist()), fitted.error)


def _estimate(answers: Sequence[Answer], logs: Array, fitted: Thresholds) -> Estimate | None:
    """Return the mean of the searches with its 95 % interval, on a log scale.

    `logs` are the natural logarithms of the capacities of the `answers`, in their order. The interval is Student's t
    over searches, because only their differences show the variance between them. It is at least the interval from all
    trials together; searches that agree on a grid of rates would otherwise have a width of 0. One search has an
    infinite interval. If a search found no rate, only the upper end is known: its capacity is lower than its rates,
    so a mean would be too high. None if other searches have no upper end.
    """
    if len(answers) == 1:
        return Estimate(answers[0].rate or 0.0, 0.0, math.inf)
    searches = mean_interval(logs.tolist())
    low, high = min(searches.low, fitted.low), max(searches.high, fitted.high)
    # The exponential of a logarithm can differ slightly from the rate at which all searches passed or failed.
    ends = [math.exp(end) for end in (searches.value, low, high)]
    tried = [rate for answer in answers for rate in (answer.rate, answer.above) if rate]
    value, least, most = (next((rate for rate in tried if math.isclose(rate, end)), end) for end in ends)
    kinds = {answer.kind for answer in answers}
    # A tried rate instead of a capacity beyond it hides variance: the interval alone may exclude the capacity.
    if kinds & {Kind.AT_MOST, Kind.LOWER_BOUND}:
        least, most = min(least, *(answer.rate or 0.0 for answer in answers)), math.inf
    if Kind.NONE in kinds:
        most = max(most, *(answer.above or math.inf for answer in answers))
        return Estimate(most, 0.0, most) if math.isfinite(most) else None
    return Estimate(value, least, most)


_LESS = Rule(
    "less_on_more_nodes",
    "{many:nodes} sustained less load than {few:nodes}{where}: at most {less:count} against at least {more:count}"
    " {unit}",
    lambda warmup, cold: f"check the trials of both{_short(warmup)}, and repeat the searches{_cold(cold)}",
)
_NOT_MONOTONE = Rule(
    "not_monotone",
    "{failed} failed at {low:count}, but {passed} passed at {high:count} {unit}: the load alone does not decide",
    lambda warmup: f"look for a cause beside the load{_short(warmup)}, and repeat the search",
)
_FEW_REQUESTS = Rule(
    "few_requests",
    "the trials at {rate:count} {unit} have {requests:counted request}{of}, of which fewer than {beyond} are slower"
    " than {percentile}: single requests decide whether a trial passes",
    "set duration: {duration:duration} or longer in the measured phase",
)
_OFFERED_RATE = Rule(
    "offered_rate",
    "trials at {rate:count} requests/s offered {low:count} to {high:count} requests/s: the rate of {requests:counted"
    " request} with Poisson arrivals varies more than the precision of the search ({precision:share1})",
    "set duration: {duration:duration} or longer in the measured phase, or arrivals: constant",
)


def _short(warmup: float | None) -> str:
    """Return a clause that a short `warmup`, s, may be the cause; empty for None and from 30 s on."""
    if warmup is None or warmup >= SHORT_WARMUP:
        return ""
    return (
        f" (the warm-up of {format_duration(warmup)} is short: caches may be cold, and a store on a JVM not yet"
        " compiled; set a longer warmup)"
    )


#: A node below this age, s, beside one that is this many times as old, has joined recently. Its caches fill slowly, so
#: it may explain a lower capacity.
_NEW, _JOINED = 3600.0, 1.5


def _cold(cold: Sequence[Finding]) -> str:
    """Return the sentence that a fresh node is a likely cause, and the remedy; empty without findings."""
    if not cold:
        return ""
    young, old = (format_duration(cold[0].figures[name]) for name in ("young", "old"))
    return (
        f". A cold new node is a likely cause: the youngest had run for {young}, the oldest for {old}."
        f" {cold[0].remedy[0].upper()}{cold[0].remedy[1:]}"
    )


def contradiction(
    capacity: Capacity, precision: float, *, after_warming: bool = False
) -> tuple[Attempt, Attempt] | None:
    """Return (failed, passed) trials of one search if the load alone does not decide; None otherwise.

    They are the lowest rate that failed and the highest that passed, in the first search in which the passed rate is
    more than (1 + `precision`) times the failed one. With `after_warming`, failures of a cold store do not count.
    """
    for made in capacity.searches:
        trials = [attempt.trial for attempt in made.attempts]
        # Trials of one rate and outcome are equal.
        counted = {id(trial) for trial in (warm(trials) if after_warming else trials)}
        attempts = [attempt for attempt, trial in zip(made.attempts, trials, strict=True) if id(trial) in counted]
        failed, passed = (
            [attempt for attempt in attempts if attempt.judgement.outcome is outcome]
            for outcome in (Outcome.FAILED, Outcome.PASSED)
        )
        if not failed or not passed:
            continue
        slow = min(failed, key=lambda one: one.rate)
        fast = max(passed, key=lambda one: one.rate)
        # Rates within the precision of the search differ by chance.
        if slow.rate * (1 + precision) < fast.rate:
            return slow, fast
    return None


def warnings(capacities: Capacities) -> list[Finding]:
    """Return warnings about the answers and their trials.

    They apply in these cases:
    - A capacity is certainly not higher than that of fewer nodes at equal other levels.
    - A rate failed below one that passed in the same search.
    - Trials that decide have few requests, vary in their offered rate, or had nodes that differ in age.
    """
    description = capacities.folder.description
    phases, warmup = description.get("measure", ()), description.get("warmup")
    # A measured phase in `prepare` warms the store before each search.
    warmed = not set(phases).isdisjoint(description.get("prepare") or ())
    warmup = None if warmed or not isinstance(warmup, int | float) else float(warmup)
    known, unit = capacities.capacities, "users" if capacities.bounds.over == USERS else "requests/s"
    findings: list[Finding] = []

    def deciding(several: Sequence[Capacity]) -> list[RecordedRun]:
        """Return the runs that decide these capacities."""
        names = {attempt.run for capacity in several for attempt in _decisive(capacity)}
        return [run for run in capacities.folder.runs if run.id in names]

    for at, larger in enumerate(known):
        others = _others(larger)
        for smaller in known[:at]:
            low, high = _ends(smaller)[0], _ends(larger)[1]
            if smaller.nodes < larger.nodes and _others(smaller) == others and high <= low:
                findings.append(
                    _LESS(many=[larger.nodes], few=[smaller.nodes], where=_where(others), less=high, more=low,
                          unit=unit, warmup=warmup, cold=fresh_nodes(deciding([larger]), phases, _NEW, _JOINED))
                )  # fmt: skip
                break
    for capacity in known:
        if pair := contradiction(capacity, capacities.bounds.precision):
            slow, fast = pair
            findings.append(
                _NOT_MONOTONE(failed=slow.run, low=slow.rate, passed=fast.run, high=fast.rate, unit=unit,
                              warmup=warmup)
            )  # fmt: skip
    # Nodes that were fresh in earlier trials only do not affect the answer.
    return [*findings, *_imprecise(capacities, unit), *fresh_nodes(deciding(known), phases)]


def _imprecise(capacities: Capacities, unit: str) -> Iterator[Finding]:
    """Yield warnings about the deciding trials: too few requests for the percentile, and too few random arrivals.

    Arrivals are too few if the offered rate varies by more than the precision of the search: 95 % of the counts of n
    Poisson arrivals lie within 2/sqrt(n) of the mean. `unit` is the unit of rates in the sentences.
    """
    precision, slo = capacities.bounds.precision, capacities.slo
    decisive = [attempt for capacity in capacities.capacities for attempt in _decisive(capacity)]
    limits: dict[str | None, Slo] = {None: slo}
    limits |= slo.operations
    short = []
    for attempt in decisive:
        for count in attempt.judgement.counts:
            bounds = limits.get(count.operation, slo)
            needed = math.ceil(ENOUGH / (1 - QUANTILES[bounds.percentile]) - 1e-6)
            if bounds.response is not None and bounds.of != "failures" and count.due < needed:
                short.append((mean_arrivals(needed) / count.due, attempt, count, bounds.percentile))
    if short:
        factor, attempt, count, percentile = max(short, key=lambda one: one[0])
        of = f" of {count.operation}" if count.operation else ""
        yield _FEW_REQUESTS(rate=attempt.rate, unit=unit, requests=count.due, of=of, beyond=ENOUGH,
                            percentile=percentile, duration=math.ceil(attempt.duration * factor))  # fmt: skip
    random = [attempt for attempt in decisive if attempt.offered is not None]
    low = min(random, key=lambda one: one.rate * one.duration, default=None)
    if low and 2 / math.sqrt(low.rate * low.duration) > precision:
        offered = [one.offered for one in random if one.rate == low.rate and one.offered is not None]
        yield _OFFERED_RATE(rate=low.rate, low=min(offered), high=max(offered), requests=round(low.rate * low.duration),
                            precision=precision,
                            duration=math.ceil((2 / precision) ** 2 / low.rate))  # fmt: skip


def _decisive(capacity: Capacity) -> Iterator[Attempt]:
    """Yield all trials, of any outcome, at the answer's rate and at the failed or invalid rate above it.

    Only searches with an answer, conclusive or not.
    """
    for made in capacity.searches:
        ends = (made.answer.rate, made.answer.above) if made.answer else ()
        yield from (attempt for attempt in made.attempts if attempt.rate in ends)


def _others(capacity: Capacity) -> dict[str, Any]:
    """Return the levels of a capacity's treatment, except the number of nodes."""
    return {name: level for name, level in capacity.treatment.items() if name != "nodes"}


def _where(others: Mapping[str, Any]) -> str:
    """Return the levels of other factors as a clause such as ` at store.kind redis`; empty without any."""
    return f" at {', '.join(f'{name} {level}' for name, level in others.items())}" if others else ""


def _ends(capacity: Capacity) -> tuple[float, float]:
    """Return the load that a treatment sustains at least, and at most; 0 and infinity if unknown.

    They are the bracket of a single search, else the 95 % interval of several. A single search without a failed rate
    has no upper end. If no rate passed, the upper end is the lowest tried rate.
    """
    if capacity.bracket:
        return capacity.bracket
    if capacity.kind is Kind.NONE:
        failed = [attempt.rate for made in capacity.searches for attempt in made.attempts]
        return 0.0, min(failed, default=math.inf)
    if capacity.rate is None:
        return 0.0, math.inf
    single = len(capacity.conclusive) == 1
    return (capacity.rate.value, math.inf) if single else (capacity.rate.low, capacity.rate.high)
