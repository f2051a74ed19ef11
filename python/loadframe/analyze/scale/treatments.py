"""Figures of each treatment: its runs' throughputs and response times, the interval of their mean, the widest interval.

The unit of statistics is the run. Few repetitions estimate their spread poorly, so all intervals share one: the
coefficient of variation pooled over all repeated treatments, with Student's t for its degrees of freedom.

The chosen treatment is the one with the highest lower confidence bound. Empirical Bayes shrinks its throughput towards
the treatments that it does not exceed significantly; on a plateau the result is close to the plateau's mean.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from loadframe.analyze.compare.estimate_ratio import Observation, estimate_ratio
from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.estimate import Estimate, half_width, on_log_scale, shrink
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.figures import EXACT, State, Stretch, codes_about, failed_share, stretch_of
from loadframe.analyze.rates import THROUGHPUT, Rate
from loadframe.analyze.sessions import blocks_of
from loadframe.analyze.verdict.rules import NOT_ACHIEVED
from loadframe.record.schema.summary import PhaseSummary


@dataclass(frozen=True)
class Point:
    """One run at one size: throughput in 1/s, response times in s of its main operation (None if unknown).

    Throughput counts requests or documents; `per_request` is the throughput's unit count per request.
    """

    run: str
    nodes: int | None
    clients: int | None
    throughput: float
    response_p50: float | None
    response_p99: float | None
    #: Mean number of requests in the cluster, of all operations; None if a time is unknown.
    in_flight: float | None
    usable: bool
    #: Its block within its session.
    block: Hashable = None
    per_request: float = 1.0
    #: Bounds of its throughput.
    stretch: Stretch = EXACT
    #: Lower bounds of its median and 99th percentile; None if unknown.
    response_p50_low: float | None = None
    response_p99_low: float | None = None
    #: Quality of its throughput and of its response times: good, bounded or unknown.
    state: State = "good"
    response_state: State = "good"
    #: Whether its throughput is the rate of an open load: all streams are open, and the rate was achieved.
    offered: bool = False
    #: Largest share of failed requests of an operation.
    failed_share: float = 0.0


@dataclass(frozen=True)
class Noise:
    """The relative spread of repeated runs, pooled over treatments, with its degrees of freedom."""

    variation: float
    freedom: int

    def mean(self, throughputs: list[float]) -> Estimate:
        """Return the mean with its 95 % interval, not below 0; unbounded if no treatment was repeated."""
        value = fmean(throughputs)
        half = value * self.half_width(len(throughputs))
        return Estimate(value, max(value - half, 0.0), value + half)

    def ratio(self, above: list[float], below: list[float]) -> Estimate:
        """Return the ratio of two means, `above` divided by `below`, with its 95 % interval.

        The logarithms are treated as independent. The interval is 0 to infinity if no treatment was repeated.
        """
        value = fmean(above) / fmean(below)
        error = math.hypot(self.relative_error(len(above)), self.relative_error(len(below)))
        return on_log_scale(value, half_width(error, self.freedom))

    def half_width(self, runs: int) -> float:
        """Return the half-width of the 95 % interval of a mean of `runs` runs, relative to the mean.

        Infinite if no treatment was repeated.
        """
        return half_width(self.relative_error(runs), self.freedom)

    def or_own(self, values: Sequence[float]) -> "Noise":
        """Return this spread, or the spread of one treatment's `values` if larger: response times vary unequally."""
        alone = pooled_noise([values])
        return alone if alone.freedom and alone.variation > self.variation else self

    def relative_error(self, runs: int) -> float:
        """Return the standard error of a mean of `runs` runs, relative to the mean."""
        return self.variation / math.sqrt(runs)


@dataclass(frozen=True)
class Treatment:
    """All usable runs at one size; the bounds of the runs widen the interval of the throughput."""

    nodes: int | None
    clients: int | None
    points: tuple[Point, ...]
    throughput: Estimate
    response_p50: float | None
    response_p99: float | None
    #: Requests in the cluster, mean over its runs.
    parallelism: float | None
    #: Correction for the selection of this treatment: a factor of at most 1 for its throughputs.
    without_luck: float = 1.0
    #: Bounds of its runs' throughputs.
    stretch: Stretch = EXACT
    #: Lower bounds of the response times.
    response_p50_low: float | None = None
    response_p99_low: float | None = None
    #: Whether the store failed in a run or an earlier attempt, so that the points are only the runs that survived.
    failed: bool = False

    @property
    def offered(self) -> bool:
        """Whether its throughput is the rate of an open load in each run."""
        return all(point.offered for point in self.points)

    @property
    def timed(self) -> int:
        """The number of its runs with known response times: the others do not enter the medians."""
        return sum(point.response_p50 is not None for point in self.points)

    @property
    def expected(self) -> list[float]:
        """The throughputs of its runs, 1/s, corrected for the selection of the treatment."""
        return [point.throughput * self.without_luck for point in self.points]


def points(
    runs: Iterable[RecordedRun], phase: str, operation: str | None, rate: Rate = THROUGHPUT
) -> tuple[Point, ...]:
    """Return a point for each run that measured the phase, including unusable runs, in their order.

    `operation` provides the response times; without it, they are unknown. `rate` is requests or documents per second.
    """
    points = []
    listed = list(runs)
    for run, block in zip(listed, blocks_of(listed), strict=True):
        entry = run.phase(phase)
        if entry is None:
            continue
        throughput = run.figure(phase, rate.name)
        p50, p99 = (run.figure(phase, "response", operation, name) for name in ("p50", "p99"))
        points.append(
            Point(
                run=run.id,
                nodes=run.nodes,
                clients=run.clients(phase),
                throughput=rate.of(entry),
                response_p50=p50.value if p50.counts else None,
                response_p99=p99.value if p99.counts else None,
                in_flight=_in_flight(run, entry),
                usable=run.sound and throughput.counts,
                block=block,
                per_request=rate.of(entry) / entry.throughput if entry.throughput else 1.0,
                stretch=stretch_of([throughput]),
                response_p50_low=p50.low if p50.counts else None,
                response_p99_low=p99.low if p99.counts else None,
                state=throughput.state,
                response_state=p50.state,
                offered=_is_offered(run, entry),
                failed_share=largest_failed_share(run, phase),
            )
        )
    return tuple(points)


def _in_flight(run: RecordedRun, entry: PhaseSummary) -> float | None:
    """Return the mean number of requests in the cluster by Little's law, or None if a service time is unknown.

    It is the sum over operations, without aggregates of several. Requests without success count from their due time
    until they end, at most until the end of the measured window.
    """
    total = 0.0
    for name, operation in entry.single.items():
        service, every, response = run.figure(entry.name, "service", name, "mean"), operation.all, operation.response
        if operation.throughput:
            if not service.counts:
                return None
            total += operation.throughput * (service.value or 0.0)
        if every and entry.duration:
            others = every.count * (every.mean or 0.0) - response.count * (response.mean or 0.0)
            late = _after_window(run, entry, name) if others > 0 else 0.0
            total += max(others - late, 0.0) / entry.duration
    return total


def _after_window(run: RecordedRun, entry: PhaseSummary, operation: str) -> float:
    """Return how long requests without success waited after the measured window, s in total; 0 without histograms.

    At the end of a phase, clients wait up to 30 s for answers.
    """
    log, end = run.histograms(), entry.begin + entry.duration
    tags = {f"{entry.name}/{operation}/{kind}" for kind in ("failure", "abandoned")} & {*(log.tags() if log else ())}
    # All of them were due in the window.
    seconds = [second for tag in tags for second in log.seconds(tag)] if log else []
    return sum(histogram.count * max(time - end, 0.0) for time, histogram in seconds)


def largest_failed_share(run: RecordedRun, phase: str) -> float:
    """Return the largest share of failed requests of an operation of a phase; 0 without requests."""
    entry = run.phase(phase)
    return max((failed_share([of]) or 0.0 for of in entry.single.values()), default=0.0) if entry else 0.0


def _is_offered(run: RecordedRun, entry: PhaseSummary) -> bool:
    """Return whether a phase's throughput is the rate that open streams offered, since the rate was achieved."""
    names = [phase.name for phase in run.run.summary.phases] if run.run else []
    achieved = NOT_ACHIEVED.code not in codes_about(run.reasons, entry.name, names)
    return bool(entry.streams) and all("open" in stream.pacing for stream in entry.streams) and achieved


def main_operation(runs: Iterable[RecordedRun], phase: str) -> str | None:
    """Return the main operation of a phase, which represents its response times: it has the most successes.

    Operations that stand for several requests (a user's journey) take precedence. Only sound runs count if there are
    any. None if no run has an operation.
    """
    counts: dict[str, int] = defaultdict(int)
    several: set[str] = set()
    runs = list(runs)
    for run in [run for run in runs if run.sound] or runs:
        for name, operation in run.operations(phase).items():
            counts[name] += operation.successes
            several |= {name} if operation.of_several else set()
    return max(several or counts, key=lambda name: (counts[name], -list(counts).index(name)), default=None)


def pooled_noise(groups: Iterable[Sequence[float]]) -> Noise:
    """Return the relative spread of repeated runs about their treatments' means; each group is one treatment.

    Groups of one run and those with a mean of 0 or less do not count; without others, the spread is infinite.
    """
    squares, freedom = 0.0, 0
    for group in groups:
        values = np.array(group)
        if len(values) > 1 and values.mean() > 0:
            squares += float(((values / values.mean() - 1) ** 2).sum())
            freedom += len(values) - 1
    return Noise(math.sqrt(squares / freedom) if freedom else math.inf, freedom)


def gather(points: Iterable[Point], failed: Collection[str] = ()) -> tuple[tuple[Treatment, ...], Noise]:
    """Return the treatments, by size in ascending order, and their common noise.

    Unusable points and those with a throughput of 0 are left out. Treatments with a run of `failed` are marked as
    failed. They do not show the noise, because runs that survive are too much alike.
    """
    by_size: dict[tuple[int | None, int | None], list[Point]] = defaultdict(list)
    for point in points:
        if point.usable and point.throughput > 0:
            by_size[point.nodes, point.clients].append(point)
    spoilt = {size for size, group in by_size.items() if any(point.run in failed for point in group)}
    noise = pooled_noise([point.throughput for point in group] for size, group in by_size.items() if size not in spoilt)
    ordered = sorted(by_size, key=lambda size: tuple(number or 0 for number in size))
    treatments = (replace(_treatment(tuple(by_size[size]), noise), failed=size in spoilt) for size in ordered)
    return tuple(treatments), noise


def _treatment(group: tuple[Point, ...], noise: Noise) -> Treatment:
    """Return the treatment with these runs, `group`; the common noise gives the interval of its mean."""
    in_flight = [point.in_flight for point in group if point.in_flight is not None]
    stretch = Stretch(min(point.stretch.low for point in group), max(point.stretch.high for point in group))
    return Treatment(
        nodes=group[0].nodes,
        clients=group[0].clients,
        points=group,
        throughput=stretch.widened(noise.mean([point.throughput for point in group])),
        stretch=stretch,
        response_p50_low=_median(point.response_p50_low for point in group),
        response_p99_low=_median(point.response_p99_low for point in group),
        response_p50=_median(point.response_p50 for point in group),
        response_p99=_median(point.response_p99 for point in group),
        parallelism=fmean(in_flight) if in_flight else None,
    )


def _median(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


#: Below these degrees of freedom, speed-ups use the common spread of all treatments.
_FREEDOM = 4
#: Treatments that lie more than this many standard errors of the difference below the best do not enter its shrinkage.
_RIVALS = 2.5


def highest_lower_bound(treatments: Iterable[Treatment]) -> Treatment:
    """Return the treatment with the highest lower bound of throughput; ties are decided by the mean.

    The highest mean would too often come from a single lucky run.
    """
    return max(treatments, key=lambda treatment: (treatment.throughput.low, treatment.throughput.value))


def choose(treatments: Sequence[Treatment], noise: Noise) -> Treatment:
    """Return the treatment with the highest lower bound, with its throughput corrected for this selection.

    Treatments at which the store failed are chosen only if it failed at all of them. The interval reaches from the
    corrected lower end to the measured upper end. Without repeated runs, noise cannot be separated from differences,
    and the throughput is not corrected.
    """
    treatments = [treatment for treatment in treatments if not treatment.failed] or treatments
    chosen = highest_lower_bound(treatments)
    if not noise.freedom or not noise.variation:
        return chosen
    error = noise.relative_error(len(chosen.points))
    rivals = [
        treatment
        for treatment in treatments
        if _gap(chosen, treatment) <= _RIVALS * math.hypot(error, _error(treatment, noise))
    ]
    logs = np.log([rival.throughput.value for rival in rivals])
    variances = np.array([_error(rival, noise) ** 2 for rival in rivals])
    place = next(index for index, rival in enumerate(rivals) if rival is chosen)
    luck = min(math.exp(float(shrink(logs, variances).values[place] - logs[place])), 1.0)
    measured = chosen.throughput
    return replace(
        chosen, throughput=Estimate(measured.value * luck, measured.low * luck, measured.high), without_luck=luck
    )


def ratio_of(above: Treatment, below: Treatment, noise: Noise) -> Estimate:
    """Return the ratio of two chosen treatments' throughputs, `above` divided by `below`.

    The interval covers the uncorrected throughputs and the bounds of both. Its low end is 0 if the store failed at
    `above`, its high end infinite if it failed at `below`: the runs that survive are too fast.
    """
    ratio = noise.ratio(above.expected, below.expected)
    lucky = Estimate(ratio.value, ratio.low * below.without_luck, ratio.high / above.without_luck)
    known = above.stretch.ratio(below.stretch).widened(lucky)
    return Estimate(known.value, 0.0 if above.failed else known.low, math.inf if below.failed else known.high)


def p99_ratio(above: Treatment, below: Treatment) -> Estimate | None:
    """Return the ratio of two treatments' p99 (geometric means), `above` divided by `below`, paired by block.

    None if one is unknown, or if the store failed at one: the runs that survive look too fast and too much alike. Only
    their own runs show the noise, because p99 varies far more near the capacity than below it. The lower bounds of the
    runs widen the interval.
    """
    if above.failed or below.failed:
        return None
    runs: list[Observation] = []
    lows: list[Stretch] = []
    for side, treatment in enumerate((below, above)):
        known = [(point, point.response_p99) for point in treatment.points if point.response_p99]
        if not known:
            return None
        runs += [Observation(value, side, point.block) for point, value in known]
        bounds = [
            (value if point.response_p99_low is None else point.response_p99_low) / value for point, value in known
        ]
        lows.append(Stretch(min(bounds)))
    return lows[1].ratio(lows[0]).widened(estimate_ratio(runs, 0, 1).ratio)


def speedup_of(above: Treatment, below: Treatment, chosen: Sequence[Treatment], noise: Noise) -> Estimate:
    """Return the ratio of two chosen treatments, `above` divided by `below`, paired by block; both are among `chosen`.

    A block affects all of its runs alike, so ratios within a block are free of its effect. All chosen treatments
    without failures contribute to the estimates of blocks and noise. With too few of them, or if the store failed at
    one of the two, the common spread of all treatments is used, which includes the blocks' variance and is
    conservative. Failures open an end of the interval, as in `ratio_of`.
    """
    if above.failed or below.failed:
        return ratio_of(above, below, noise)
    runs = [
        Observation(point.throughput, at, point.block)
        for at, candidate in enumerate(chosen)
        for point in candidate.points
        if not candidate.failed
    ]
    places = [next(at for at, candidate in enumerate(chosen) if candidate is one) for one in (below, above)]
    ratio = estimate_ratio(runs, *places)
    if ratio.freedom < _FREEDOM:
        return ratio_of(above, below, noise)
    value = ratio.ratio.value * above.without_luck / below.without_luck
    # As in `ratio_of`, the interval covers the uncorrected throughputs.
    low = ratio.ratio.low * above.without_luck
    lucky = Estimate(value, min(low, value), max(ratio.ratio.high / below.without_luck, value))
    return above.stretch.ratio(below.stretch).widened(lucky)


def _gap(chosen: Treatment, other: Treatment) -> float:
    """Return the logarithm of the chosen treatment's throughput divided by the other's."""
    return math.log(chosen.throughput.value / other.throughput.value)


def _error(treatment: Treatment, noise: Noise) -> float:
    """Return the standard error of a treatment's mean throughput, relative to the mean."""
    return noise.relative_error(len(treatment.points))


def widest_interval(
    runs: Sequence[RecordedRun],
    phases: Iterable[str],
    rate: Rate = THROUGHPUT,
    attempts: Sequence[RecordedRun] = (),
) -> float:
    """Return the largest relative half-width of a treatment's 95 % interval in any of the phases.

    The measure is throughput, or for open loads the median response time. Infinite until every treatment has a valid
    run and one without failures of the store is repeated. `attempts` are earlier attempts of the runs.
    """
    failed = {run.treatment_key for run in (*runs, *attempts) if run.store_failed}
    return max((_widest(runs, phase, rate, failed) for phase in phases), default=math.inf)


def _widest(runs: Sequence[RecordedRun], phase: str, rate: Rate, failed: Collection[str]) -> float:
    """Return the widest relative half-width of a 95 % interval over the treatments of the runs.

    The measure is throughput, or for open loads the median response time. Infinite if a treatment has no value, or if
    none outside `failed` is repeated. At those the store failed, and runs that survive are too alike to show the noise.
    """
    measure = _measure(runs, phase, rate)
    groups: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        value = measure.of(run)
        groups[run.treatment_key] += [value] if value else []
    if not all(groups.values()):
        return math.inf
    noise = pooled_noise(values for key, values in groups.items() if key not in failed)
    return max((noise.half_width(len(values)) for values in groups.values()), default=math.inf)


def _measure(runs: Sequence[RecordedRun], phase: str, rate: Rate) -> Measure:
    """Return the measure that the runs determine: throughput, or for open loads the median response time."""
    if any(stream.is_open for run in runs for stream in run.streams(phase)):
        return Measure(phase, "p50", main_operation(runs, phase))
    return Measure(phase, rate.name)
