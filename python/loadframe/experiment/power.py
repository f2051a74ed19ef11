"""Power of an experiment before its runs are made: gates, capacities, effects and differences.

Computed from the description of an experiment, which is the same before a run and after some.

The checks, their shares of the level and their thresholds are the gate's own. What has to be supposed is how much runs
vary; that p99 varies twice as much; that half of the variance is common to the operations of a run; and that blocks
differ, so that the blocks' number less one is what is known of the noise.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import special

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import RATES
from loadframe.analyze.settings.schemes import ADAPTIVE
from loadframe.base.units import format_share
from loadframe.experiment.experiment import Experiment
from loadframe.simulate.outlook import least_effect

#: How much single searches for a capacity scatter: shares of the noise of a run, and of the precision of the search.
#: These two reproduce the half-widths of the table in docs/experiments.md (benchmarks/simulate_capacity.py) for three
#: and five searches to within a third.
_OF_NOISE, _OF_PRECISION = 0.4, 0.2
#: A confirmation that sees no smaller difference than this decides nothing that anybody hopes for.
_LARGE = 0.5
#: The most runs of a side that are proposed.
_MOST = 100


@dataclass(frozen=True)
class Effect:
    """The least relative difference between two levels of a factor that the design sees, with 80 % power at 5 %."""

    factor: str
    runs: int  #: of each level
    least: float


@dataclass(frozen=True)
class PowerNotes:
    """What a kind's own design can know, in sentences; `warnings` are on what it never can."""

    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def effects(description: Mapping[str, Any], noise: float, budget: int | None) -> tuple[Effect, ...]:
    """Return what the designed runs see of each factor, at the level that has the fewest of them.

    `budget` is a number of runs that the design may not exceed. Where runs are searched for, none says anything alone.
    """
    if description["kind"] == "capacity" or description.get("scheme") in ADAPTIVE:
        return ()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in description["design"]:
        for factor, level in run["treatment"].items():
            counts[factor][repr(level)] += 1
    # In a comparison, what a variant sets is not varied for itself.
    known = description["factors"] if description["kind"] != "compare" else ("variant",)
    share = min(budget / len(description["design"]), 1.0) if budget is not None else 1.0
    rows = {name: int(min(levels.values()) * share) for name, levels in counts.items() if len(levels) > 1}
    return tuple(Effect(name, runs, least_effect(noise, runs, runs)) for name, runs in rows.items() if name in known)


def power_notes(description: Mapping[str, Any], noise: float) -> PowerNotes:
    """Return what is to be said of the kind; `noise` is the relative standard deviation of repeated runs."""
    kinds = {"capacity": _capacity, "settings": _settings, "compare": _compare, "elastic": _elastic}
    saying = kinds.get(description["kind"])
    return saying(description, noise) if saying else PowerNotes()


def capacity_half_width(searches: int, noise: float, precision: float) -> float:
    """Return about half of the width of a capacity's 95 % interval, relative to it; infinite for a single search."""
    if searches < 2:
        return math.inf
    scatter = math.hypot(_OF_NOISE * noise, _OF_PRECISION * precision)
    return float(special.stdtrit(searches - 1, 0.975)) * scatter / math.sqrt(searches)


def _capacity(description: Mapping[str, Any], noise: float) -> PowerNotes:
    searches, precision = description["repetitions"], description["search"]["precision"]
    shown = sorted({number for number in (searches, 3, 5, 10) if number > 1})
    widths = [f"{number} searches ± {_share(capacity_half_width(number, noise, precision))}" for number in shown]
    sentences = [
        f"Each search of a treatment ends in a bracket of {format_share(precision)}. The 95 % interval of the capacity"
        f" needs several searches: {', '.join(widths)}."
    ]
    warnings = []
    if searches == 1:
        warnings.append("one search at each treatment gives a bracket and no interval: say repetitions: 3 or more")
    elif searches == 2:
        warnings.append("two searches tell little of how searches differ: say repetitions: 3 or more")
    return PowerNotes(tuple(sentences), tuple(warnings))


def _settings(description: Mapping[str, Any], noise: float) -> PowerNotes:
    confirm, scheme = description["confirm"], description["scheme"]
    sentences, warnings = [], []
    if scheme in ADAPTIVE:
        sentences.append(
            f"{description['trials']} trials are planned one after the other from the results so far, so nothing can be"
            " said beforehand of single effects."
        )
    least = least_effect(noise, confirm, confirm)
    if confirm == 0:
        warnings.append(
            "the winner is not measured again (confirm: 0), and the best of many is the luckiest: say confirm: 5"
        )
    elif not math.isfinite(least):
        warnings.append(
            "the confirmation can never decide: one run of the winner and one of the default say nothing of their"
            " scatter; say confirm: 5"
        )
    else:
        sentences.append(
            f"The confirmation, {confirm} runs of the winner beside {confirm} of the default, sees a difference of"
            f" {_share(least)} or more."
        )
        if least > _LARGE:
            warnings.append(
                f"the confirmation can hardly decide: it takes a difference of {_share(least)}; say confirm: 5 or more"
            )
    return PowerNotes(tuple(sentences), tuple(warnings))


def _compare(description: Mapping[str, Any], noise: float) -> PowerNotes:
    runs, wanted = description["repetitions"], description["least"]
    least = least_effect(noise, runs, runs)
    if not math.isfinite(least):
        return PowerNotes(warnings=("one run of each variant can never decide: say repetitions: 3 or more",))
    if least <= wanted:
        return PowerNotes()
    enough = next((number for number in range(2, _MOST) if least_effect(noise, number, number) <= wanted), None)
    remedy = f"it takes {enough} repetitions" if enough else f"not even {_MOST} repetitions suffice"
    return PowerNotes(
        warnings=(f"the least difference of interest, {_share(wanted)}, is smaller than what is seen: {remedy}",)
    )


def _elastic(description: Mapping[str, Any], noise: float) -> PowerNotes:
    runs = description["repetitions"]
    if not description["control"]:
        return PowerNotes(
            warnings=("without control runs the effect of the event cannot be separated from that of the load",)
        )
    least = least_effect(noise, runs, runs)
    if not math.isfinite(least):
        return PowerNotes(warnings=("one run with the event and one without have no interval: say repetitions: 3",))
    return PowerNotes(
        (f"{runs} runs with each event and {runs} without see a difference in throughput of {_share(least)} or more.",)
    )


def _share(value: float) -> str:
    return f"{100 * value:.2g} %"


#: The worsenings that the table has.
WORSENINGS = (0.05, 0.1, 0.2)
#: How many times as much as throughput the kinds of measures vary.
_VARIES = {"p99": 2.0}
#: The share of the variance that the operations of a run have in common.
_COMMON = 0.5
#: Kinds of experiments of which a gate can judge the runs.
_KINDS = ("compare", "scale")


@dataclass(frozen=True)
class GateShape:
    """How many treatments a gate would check, and what of each: the operations of its phases, and which are closed."""

    treatments: int
    operations: tuple[int, ...]
    closed: tuple[bool, ...]

    def members(self, kind: str) -> int:
        """Return how many checks of a kind there are."""
        # The statistics take a second to import.
        per_treatment = {**dict.fromkeys(RATES, sum(self.closed)), "errors": len(self.operations)}
        return self.treatments * per_treatment.get(kind, sum(self.operations))


@dataclass(frozen=True)
class Power:
    """How often a check detects each of the `WORSENINGS`, and what it detects in 80 %; `runs` is of each side."""

    check: str
    runs: int
    detected: tuple[float, ...]
    finds: float

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "check": self.check,
            "runs": self.runs,
            "power": {f"{worsening:g}": share for worsening, share in zip(WORSENINGS, self.detected, strict=True)},
            "finds": self.finds if math.isfinite(self.finds) else None,
        }


def shape_of_file(experiment: Experiment) -> GateShape | None:
    """Return what a gate would check of an experiment's runs; None for kinds that it does not judge."""
    description = experiment.describe()
    if description["kind"] not in _KINDS:
        return None
    phases = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
    operations = [{name for stream in phase.named_streams for name in stream.weights} for phase in phases]
    closed = [not any(stream.is_open for stream in phase.named_streams) for phase in phases]
    return GateShape(_treatments(description), tuple(map(len, operations)), tuple(closed))


def shape_of_folder(description: Mapping[str, Any], runs: Sequence[RecordedRun]) -> GateShape | None:
    """Return the same of an experiment's folder; None, too, where no run has measured anything yet."""
    entries = [[run.phase(name) for name in description["measure"]] for run in runs]
    whole = next((phases for phases in entries if all(phases)), None)
    if description["kind"] not in _KINDS or whole is None:
        return None
    measured = [phase for phase in whole if phase]
    closed = [not phase.has_open_load for phase in measured]
    return GateShape(_treatments(description), tuple(len(phase.operations) for phase in measured), tuple(closed))


def powers(shape: GateShape, repetitions: int, noise: float) -> tuple[Power, ...]:
    """Return the power of each kind of check, with that number of runs on each side and with twice as many.

    `noise` is the relative standard deviation of repeated runs within a block.
    """
    # The gate takes a second to import, and most kinds of experiments ask for none.
    from loadframe.analyze.gate import KINDS
    from loadframe.analyze.gate.power import WATCHED, Graph

    kinds = [kind for kind in KINDS if shape.members(kind)]
    counts = [shape.members(kind) for kind in kinds]
    weights = Graph(counts).weights.tolist()
    rows = []
    for runs in (repetitions, 2 * repetitions):
        place = 0
        for kind, count in zip(kinds, counts, strict=True):
            spread = noise * _VARIES.get(kind, 1.0)
            if kind != "errors":
                if count > 1:
                    together = spread * math.sqrt(_averaged(shape, kind))
                    rows.append(_power(f"{kind}, all {count} together", kind, runs, together, weights[place]))
                words = f"{kind}, one of {count}" if count > 1 else kind
                rows.append(_power(words, kind, runs, spread, weights[place + (count > 1)]))
                if count > 1 and shape.treatments == 1 and kind not in RATES:
                    rows.append(_power(f"{words}, with --watch", kind, runs, spread, WATCHED / len(kinds)))
            place += count + (count > 1)
    return tuple(rows)


def _averaged(shape: GateShape, kind: str) -> float:
    """Return the variance of the mean over all checks of a kind, over that of one: runs are independent."""
    in_run = shape.members(kind) / shape.treatments
    return (_COMMON + (1 - _COMMON) / in_run) / shape.treatments


def _power(check: str, kind: str, runs: int, spread: float, share: float) -> Power:
    from loadframe.analyze.gate import Thresholds
    from loadframe.analyze.gate.power import detectable, power

    thresholds = Thresholds()
    error, freedom, level = spread * math.sqrt(2 / runs), runs - 1, thresholds.level * share
    # The statistics take a second to import.
    least, higher = thresholds.least_of(kind), kind in RATES
    return Power(
        check,
        runs,
        tuple(power(worsening, error, freedom, level, least, higher_is_better=higher) for worsening in WORSENINGS),
        detectable(error, freedom, level, least, higher_is_better=higher),
    )


def _treatments(description: Mapping[str, Any]) -> int:
    """Return at how many treatments new runs are held against old ones; what variants set is not a part of them."""
    set_by_variants = {name for sets in description.get("variants", {}).values() for name in sets}
    return math.prod(len(levels) for name, levels in description["factors"].items() if name not in set_by_variants)
