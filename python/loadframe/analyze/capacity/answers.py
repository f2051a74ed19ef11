"""From an experiment's folder to capacities: what each search found, over repetitions, and over nodes.

The trials of a folder are judged and handed to the search again, in the order in which they were made; so report and
search can never disagree.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy import special

from loadframe.analyze.capacity.criteria import Judgement, Slo, judge
from loadframe.analyze.capacity.search import Answer, Bounds, Kind, Next, Outcome, Trial, search
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, read_experiment
from loadframe.record import Run

RATE = "rate"


@dataclass(frozen=True)
class Attempt:
    """A run of a search: its rate (1/s) and what it says."""

    run: str
    rate: float
    judgement: Judgement


@dataclass(frozen=True)
class Search:
    """One search, as far as it has come: in one block, at one treatment (without the rate)."""

    block: int | None
    treatment: Mapping[str, Any]
    attempts: tuple[Attempt, ...]
    end: Next | Answer

    @property
    def answer(self) -> Answer | None:
        """The answer; None while trials are missing."""
        return self.end if isinstance(self.end, Answer) else None

    @property
    def nearest(self) -> Attempt | None:
        """The trial that failed at the lowest rate above the answer, if there is one: what was in the way."""
        held = (self.answer and self.answer.rate) or 0.0
        failed = [each for each in self.attempts if each.judgement.outcome is Outcome.FAILED and each.rate > held]
        return min(failed, key=lambda each: each.rate, default=None)


@dataclass(frozen=True)
class Capacity:
    """What a treatment sustains, 1/s: of one search, from the answer to the rate above it that failed; of several the
    mean of their answers with its 95 % interval. None when no search has an answer."""

    treatment: Mapping[str, Any]
    nodes: int
    searches: tuple[Search, ...]
    rate: Estimate | None
    #: Why it may be more than the rate says, or unknown; the worst of its searches.
    kind: Kind


@dataclass(frozen=True, eq=False)
class Capacities:
    """A capacity experiment, analysed."""

    folder: RecordedExperiment
    slo: Slo
    bounds: Bounds
    capacities: tuple[Capacity, ...]


def read_capacities(path: Path) -> Capacities:
    """Read and analyse an experiment's folder; BadInput where it is none or broken."""
    folder = read_experiment(path)
    description = folder.description
    slo, bounds = Slo(**description["slo"]), Bounds(**description["search"])
    grouped: dict[str, list[RecordedRun]] = {}
    for run in folder.runs:
        grouped.setdefault(repr((run.block, without_rate(run.treatment))), []).append(run)
    searches = [_search(runs, slo, bounds, description["measure"]) for runs in grouped.values()]
    by_treatment: dict[str, list[Search]] = {}
    for each in searches:
        by_treatment.setdefault(repr(sorted(each.treatment.items())), []).append(each)
    default = int(description["store"].get("nodes", 1))
    found = [_capacity(each, default) for each in by_treatment.values()]
    return Capacities(folder, slo, bounds, tuple(sorted(found, key=lambda each: each.nodes)))


def without_rate(treatment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is the same in all trials of a search."""
    return {name: level for name, level in treatment.items() if name != RATE}


@functools.lru_cache(maxsize=10_000)
def judged(path: Path, slo: Slo, phases: tuple[str, ...], rate: float) -> Judgement:
    """Judge a run folder, which never changes once it is there."""
    return judge(Run(path), slo, phases, rate)


def _search(runs: Sequence[RecordedRun], slo: Slo, bounds: Bounds, phases: Sequence[str]) -> Search:
    attempts = []
    for run in runs:
        rate = float(run.treatment[RATE])
        if run.run is not None:
            attempts.append(Attempt(run.id, rate, judged(run.run.path, slo, tuple(phases), rate)))
    end = search(bounds, [Trial(each.rate, each.judgement.outcome) for each in attempts])
    return Search(runs[0].block, without_rate(runs[0].treatment), tuple(attempts), end)


#: From the least to the most that an answer leaves open.
_WORTH = (Kind.BRACKETED, Kind.AT_MOST, Kind.LOWER_BOUND, Kind.NONE, Kind.UNKNOWN)


def _capacity(searches: Sequence[Search], default_nodes: int) -> Capacity:
    answers = [each.answer for each in searches if each.answer]
    kinds = [answer.kind for answer in answers] or [Kind.UNKNOWN]
    treatment = searches[0].treatment
    nodes = int(treatment.get("nodes") or default_nodes)
    return Capacity(treatment, nodes, tuple(searches), _estimate(answers), max(kinds, key=_WORTH.index))


def _estimate(answers: Sequence[Answer]) -> Estimate | None:
    known = [answer for answer in answers if answer.rate is not None]
    if not known:
        return None
    rates = [answer.rate for answer in known if answer.rate is not None]
    if len(rates) == 1:
        above = known[0].above if known[0].kind is Kind.BRACKETED else None
        return Estimate(rates[0], rates[0], math.inf if above is None else above)
    half = float(special.stdtrit(len(rates) - 1, 0.975)) * stdev(rates) / math.sqrt(len(rates))
    # What the search leaves open upwards stays open, however well the searches agree.
    open_above = any(answer.kind is not Kind.BRACKETED for answer in known)
    steps = [answer.above / answer.rate for answer in known if answer.above and answer.rate]
    high = math.inf if open_above else (fmean(rates) + half) * max(fmean(steps), 1.0)
    return Estimate(fmean(rates), max(fmean(rates) - half, 0.0), high)
