"""What it means that a store sustains a rate: an SLO on response times and errors, all load achieved, no backlog.

A trial passes when the achieved load is at least 99 % of the offered, the percentile is within the limit, errors are
below their share, and requests in flight do not become more and more. Response times count from the schedule, so that a
generator that is late or slow can only make them worse: what passes all the same has passed. What fails then says
nothing, unless it fails by more than the generator was late. Nor does any run whose cluster was not what was asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from scipy import special

from loadframe.analyze.capacity.search import Outcome
from loadframe.analyze.reasons import fault_of, spoils
from loadframe.record import Run
from loadframe.record.schema.summary import Latency, OperationFigures, PhaseSummary
from loadframe.units import format_duration, format_share

ACHIEVED = 0.99
#: The verdict's reasons that say by how much the generator can have spoiled response times.
_LATE = {"lateness", "loop_lag"}
#: A backlog that grows by less than this share of the rate would not show in a longer run.
_GROWTH = 0.005
PERCENTILES = ("p50", "p90", "p99", "p999")
#: Requests that a percentile may be of, and how they are named behind the percentile.
_SUBJECTS = {"successes": "", "all": " of all requests", "failures": " of failed requests"}


@dataclass(frozen=True)
class Slo:
    """What is asked of every operation that is measured: a percentile of response times (s), a share of errors.

    `of` says of which requests the percentile is: `successes`, `failures`, or `all`.
    """

    response: float
    percentile: str = "p99"
    errors: float = 0.01
    of: str = "successes"

    def __str__(self) -> str:
        return f"{self.subject} within {format_duration(self.response)}, errors below {self.errors:.3g}"

    @property
    def subject(self) -> str:
        """What the limit is on: `p99`, `p99 of all requests`."""
        return self.percentile + _SUBJECTS[self.of]


@dataclass(frozen=True)
class Judgement:
    """What one run says about its rate, with its figures; None where there are none."""

    outcome: Outcome
    reasons: tuple[str, ...]
    response: float | None
    errors: float | None
    achieved: float | None
    growth: float | None  #: of the requests in flight, 1/s


def judge(run: Run, slo: Slo, phases: Sequence[str], rate: float) -> Judgement:
    """Judge a run at a rate (1/s) by its folder; `phases` are those that are measured."""
    summary = run.summary
    if summary.status != "done" or summary.generator is None or summary.verdict is None:
        return Judgement(Outcome.INVALID, (summary.failure or summary.status,), None, None, None, None)
    measured = [phase for phase in summary.phases if phase.name in phases]
    operations = [operation for phase in measured for operation in phase.operations.values()]
    latencies = [latency for entry in operations if (latency := _latency(entry, slo)) is not None]
    if len(latencies) < len(operations):
        what = f"the run was recorded without the response times of {_SUBJECTS[slo.of].removeprefix(' of ')}"
        return Judgement(Outcome.INVALID, (what,), None, None, None, None)
    known = [value for latency in latencies if (value := latency.at(slo.percentile)) is not None]
    requests = sum(entry.requests + entry.dropped for entry in operations)
    failed = sum(sum(entry.errors.values()) + entry.dropped for entry in operations)
    achieved = summary.generator.achieved
    growth = max((_growth(run, phase) for phase in measured), default=0.0)
    response, errors = max(known, default=None), failed / requests if requests else None
    told = summary.verdict.reasons
    # A store that did not survive its load has not sustained it, whatever its last figures were.
    lost = [reason.cause for reason in told if spoils(reason.code) and fault_of(reason.code) == "store"]
    reasons = (*lost, *broken(slo, rate, response, errors, achieved, growth))
    late = (summary.generator.lateness_p99 or 0.0) + (summary.generator.lag_p99 or 0.0)
    punctual = None if response is None else max(response - late, 0.0)
    excusable = not lost and not any(broken(slo, rate, punctual, errors, achieved, growth))
    decisive = []
    for reason in told:
        # The store's faults are what is asked here, and no ground to disbelieve the run.
        fault = fault_of(reason.code)
        excuses = fault == "generator" and reasons and (excusable or reason.code not in _LATE)
        if fault == "cluster" or excuses:
            decisive.append(reason.cause)
    if decisive:
        return Judgement(Outcome.INVALID, tuple(decisive), response, errors, achieved, growth)
    return Judgement(Outcome.FAILED if reasons else Outcome.PASSED, reasons, response, errors, achieved, growth)


def broken(
    slo: Slo, rate: float, response: float | None, errors: float | None, achieved: float | None, growth: float
) -> Iterator[str]:
    """Yield a sentence for each criterion that these figures do not meet."""
    if response is None:
        # Where nothing failed, nothing that failed was slow.
        if slo.of != "failures":
            yield "no request succeeded" if slo.of == "successes" else "no request was answered"
    elif response > slo.response:
        yield f"{slo.subject} was {format_duration(response)}, more than {format_duration(slo.response)}"
    if errors is not None and errors >= slo.errors:
        yield f"{format_share(errors, 2)} of the requests failed, at least {format_share(slo.errors, 2)}"
    if achieved is not None and achieved < ACHIEVED:
        yield f"{format_share(achieved, 1)} of the load was achieved, less than {format_share(ACHIEVED)}"
    if growth > _GROWTH * rate:
        yield f"requests in flight became more by {growth:.3g} per second"


def growth(backlog: Sequence[float]) -> float:
    """Return by how much requests in flight grow per second; 0 where that is not more than chance.

    The slope of the line of least squares, against its standard error at 95 %; seconds are not independent, so their
    number is reduced by the correlation of neighbours (n (1 - r)/(1 + r)).
    """
    levels = np.asarray(backlog, dtype=float)
    if len(levels) < 5 or not np.ptp(levels):
        return 0.0
    seconds = np.arange(len(levels)) - (len(levels) - 1) / 2
    slope = float(seconds @ levels / (seconds @ seconds))
    rest = levels - levels.mean() - slope * seconds
    power = float(rest @ rest)
    if not power:
        return max(slope, 0.0)
    correlation = min(max(float(rest[1:] @ rest[:-1]) / power, 0.0), 0.99)
    freedom = max(len(levels) * (1 - correlation) / (1 + correlation) - 2, 1.0)
    error = np.sqrt(power / freedom / float(seconds @ seconds) * len(levels) / (freedom + 2))
    return slope if slope > special.stdtrit(freedom, 0.95) * error else 0.0


def _latency(operation: OperationFigures, slo: Slo) -> Latency | None:
    """Return the response times that an SLO is about; None in runs of versions that did not record them."""
    return {"successes": operation.response, "all": operation.all, "failures": operation.failure}[slo.of]


def _growth(run: Run, phase: PhaseSummary) -> float:
    """Return the growth of the requests in flight over a phase's measured window, of all workers together."""
    rows = run.telemetry
    in_flight = rows.filter(pc.equal(rows["metric"], "in_flight"))
    # Of several ranks' workers only some have rows of their own, and there is a sum.
    together = in_flight.filter(pc.equal(in_flight["source"], "workers"))
    rows = together or in_flight.filter(pc.starts_with(in_flight["source"], "generator:"))
    within = pc.and_(
        pc.greater_equal(rows["time"], phase.begin - 5e-4), pc.less(rows["time"], phase.begin + phase.duration - 0.5)
    )
    sums = rows.filter(within).group_by("time").aggregate([("value", "sum")]).sort_by("time")
    return growth(sums["value_sum"].to_pylist())
