"""Statistical power of an experiment, computed from its description before or between runs.

Checks, significance levels and thresholds come from the gate. The run-to-run variance is given. Further assumptions:
p99 has twice the standard deviation of throughput, and half of the variance is common to all operations of a run.
Blocks differ, so the noise has one degree of freedom fewer than there are blocks.

`description` is the content of experiment.json, `noise` the relative standard deviation of repeated runs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import RATES
from loadframe.base import special
from loadframe.base.units import format_share
from loadframe.experiment.experiment import Experiment
from loadframe.simulate import least_effect

#: The standard deviation of one capacity search combines these shares of the run noise and of the search precision.
#: They reproduce the half-widths of benchmarks/simulate_capacity.py for three and five searches to within a third.
_OF_NOISE, _OF_PRECISION = 0.4, 0.2
#: Detectable difference above which a warning says that the confirmation has too few runs.
_LARGE = 0.5
#: Largest number of repetitions that a warning proposes.
_MOST = 100


@dataclass(frozen=True)
class Effect:
    """Smallest relative difference between two levels of a factor that the design detects: 80 % power, 5 % level."""

    factor: str
    runs: int  #: per level
    least: float


@dataclass(frozen=True)
class PowerNotes:
    """Sentences on the precision of a design; `warnings` name results that the design can never give."""

    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def runs_unknown(description: Mapping[str, Any]) -> bool:
    """Return whether an experiment is a search (capacity, `tpe`), whose number of runs follows from its results."""
    return description["kind"] == "capacity" or description.get("scheme") == "tpe"


def effects(description: Mapping[str, Any], noise: float, budget: int | None) -> tuple[Effect, ...]:
    """Return the detectable effect of each factor, as if each level had the runs of the level with the fewest.

    `noise` is the relative standard deviation of repeated runs. `budget` limits the total number of runs, and lowers
    all numbers of runs in proportion; None: no limit. Factors with one level are omitted; a comparison has only the
    factor `variant`. Empty for searches (capacity, `tpe`), whose runs are not known yet.
    """
    if runs_unknown(description):
        return ()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in description["design"]:
        for factor, level in run["treatment"].items():
            counts[factor][repr(level)] += 1
    # In a comparison, factors set by variants change together, so only the variant has an effect.
    known = description["factors"] if description["kind"] != "compare" else ("variant",)
    share = min(budget / len(description["design"]), 1.0) if budget is not None else 1.0
    rows = {name: int(min(levels.values()) * share) for name, levels in counts.items() if len(levels) > 1}
    return tuple(Effect(name, runs, least_effect(noise, runs, runs)) for name, runs in rows.items() if name in known)


def power_notes(description: Mapping[str, Any], noise: float) -> PowerNotes:
    """Return notes for the kind of experiment; a scale experiment has none.

    `noise` is the relative standard deviation of repeated runs.
    """
    kinds = {"capacity": _capacity, "settings": _settings, "compare": _compare, "elastic": _elastic}
    notes = kinds.get(description["kind"])
    return notes(description, noise) if notes else PowerNotes()


def capacity_half_width(searches: int, noise: float, precision: float) -> float:
    """Estimate the relative half-width of the 95 % interval of a capacity from a number of searches; infinite for one.

    `noise` is the relative standard deviation of repeated runs, `precision` the relative width of a search's bracket.
    """
    if searches < 2:
        return math.inf
    scatter = math.hypot(_OF_NOISE * noise, _OF_PRECISION * precision)
    return float(special.stdtrit(searches - 1, 0.975)) * scatter / math.sqrt(searches)


def _capacity(description: Mapping[str, Any], noise: float) -> PowerNotes:
    """Return notes for a capacity experiment: half-widths by number of searches, and a warning below three searches."""
    searches, precision = description["repetitions"], description["search"]["precision"]
    shown = sorted({number for number in (searches, 3, 5, 10) if number > 1})
    widths = [f"{number} searches ± {_share(capacity_half_width(number, noise, precision))}" for number in shown]
    sentences = [
        f"Each search narrows the capacity to a bracket of {format_share(precision)}. The 95 % interval of the capacity"
        f" needs several searches: {', '.join(widths)}."
    ]
    warnings = []
    if searches == 1:
        warnings.append("one search per treatment gives a bracket but no interval; set repetitions to 3 or more")
    elif searches == 2:
        warnings.append("two searches hardly show the variance between searches; set repetitions to 3 or more")
    return PowerNotes(tuple(sentences), tuple(warnings))


def _settings(description: Mapping[str, Any], noise: float) -> PowerNotes:
    """Return notes for a settings experiment: the difference that its confirmation detects, and warnings about it."""
    confirm, scheme = description["confirm"], description["scheme"]
    sentences, warnings = [], []
    if scheme == "tpe":
        sentences.append(
            f"Each of the {description['trials']} trials depends on the results before it, so the precision of single"
            " effects cannot be predicted."
        )
    least = least_effect(noise, confirm, confirm)
    if confirm == 0:
        warnings.append(
            "the winner is not confirmed by new runs (confirm: 0), so its result is biased upwards; set confirm: 5"
        )
    elif not math.isfinite(least):
        warnings.append(
            "the confirmation cannot decide: with one run each of winner and default, their variance is unknown;"
            " set confirm: 5"
        )
    else:
        sentences.append(
            f"The confirmation ({confirm} runs each of winner and default) detects a difference of {_share(least)}"
            " or more."
        )
        if least > _LARGE:
            warnings.append(
                f"the confirmation only detects differences of {_share(least)} or more; set confirm to 5 or more"
            )
    return PowerNotes(tuple(sentences), tuple(warnings))


def _compare(description: Mapping[str, Any], noise: float) -> PowerNotes:
    """Return notes for a comparison: a warning if its design cannot detect the difference `least`."""
    runs, wanted = description["repetitions"], description["least"]
    least = least_effect(noise, runs, runs)
    if not math.isfinite(least):
        return PowerNotes(warnings=("one run of each variant cannot show a difference; set repetitions to 3 or more",))
    if least <= wanted:
        return PowerNotes()
    enough = next((number for number in range(2, _MOST) if least_effect(noise, number, number) <= wanted), None)
    remedy = f"set repetitions to {enough}" if enough else f"even {_MOST} repetitions are too few"
    return PowerNotes(
        warnings=(f"`least` is {_share(wanted)}, but the design only detects {_share(least)} or more; {remedy}",)
    )


def _elastic(description: Mapping[str, Any], noise: float) -> PowerNotes:
    """Return notes for an elastic experiment: the change of throughput that it detects, or a warning."""
    runs = description["repetitions"]
    if not description["control"]:
        return PowerNotes(
            warnings=("without control runs, the effect of the event cannot be separated from the effect of the load",)
        )
    least = least_effect(noise, runs, runs)
    if not math.isfinite(least):
        return PowerNotes(warnings=("one run with and one without the event give no interval; set repetitions to 3",))
    sentence = f"{runs} runs with each event and {runs} without detect a throughput change of {_share(least)} or more."
    return PowerNotes((sentence,))


def _share(value: float) -> str:
    """Write a share of one as percentage with two significant digits."""
    return f"{100 * value:.2g} %"


#: Relative worsenings for which the table gives the power.
WORSENINGS = (0.05, 0.1, 0.2)
#: Standard deviation of a measure relative to the standard deviation of throughput; 1 where absent.
_VARIES = {"p99": 2.0}
#: Share of the variance that is common to all operations of a run.
_COMMON = 0.5
#: Kinds of experiments that a gate accepts.
_KINDS = ("compare", "scale")


@dataclass(frozen=True)
class GateShape:
    """Number of checks that a gate would make."""

    treatments: int
    operations: tuple[int, ...]  #: number of operations of each measured phase
    closed: tuple[bool, ...]  #: whether the load of each measured phase is closed loop

    def members(self, kind: str) -> int:
        """Return the number of checks of a kind, such as `throughput`, `errors` or `p99`, over all treatments.

        One check for each closed phase for a measure in `RATES`, for each phase for `errors`, and for each operation
        for other measures.
        """
        per_treatment = {**dict.fromkeys(RATES, sum(self.closed)), "errors": len(self.operations)}
        return self.treatments * per_treatment.get(kind, sum(self.operations))


@dataclass(frozen=True)
class Power:
    """Power of one kind of check."""

    check: str
    runs: int  #: on each side
    detected: tuple[float, ...]  #: probability of detecting each of the `WORSENINGS`
    finds: float  #: worsening that is detected with 80 % probability

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON: `power` maps each worsening, such as `0.05`, to the probability of detection.

        An infinite `finds` is null.
        """
        return {
            "check": self.check,
            "runs": self.runs,
            "power": {f"{worsening:g}": share for worsening, share in zip(WORSENINGS, self.detected, strict=True)},
            "finds": self.finds if math.isfinite(self.finds) else None,
        }


def shape_of_file(experiment: Experiment) -> GateShape | None:
    """Return the checks that a gate would make on the experiment's runs, or None for kinds that it does not accept."""
    description = experiment.describe()
    if description["kind"] not in _KINDS:
        return None
    phases = [phase for phase in experiment.workload.file.phases if phase.name in experiment.measured]
    operations = [{name for stream in phase.named_streams for name in stream.weights} for phase in phases]
    closed = [not replace(experiment, measured=(phase.name,)).arrivals for phase in phases]
    runs = experiment.kind.design(experiment).describe()
    return GateShape(_treatments(description, runs), tuple(map(len, operations)), tuple(closed))


def shape_of_folder(description: Mapping[str, Any], runs: Sequence[RecordedRun]) -> GateShape | None:
    """Return the checks that a gate would make on recorded runs, or None for kinds that it does not accept.

    `runs` are the valid ones; None, too, if none has all measured phases. A phase is closed loop if no run has an open
    load.
    """
    entries = [[run.phase(name) for name in description["measure"]] for run in runs]
    whole = next((phases for phases in entries if all(phases)), None)
    if description["kind"] not in _KINDS or whole is None:
        return None
    measured = [phase for phase in whole if phase]
    closed = [not any(entry and entry.has_open_load for entry in phases) for phases in zip(*entries, strict=True)]
    number = _treatments(description, description["design"])
    return GateShape(number, tuple(len(phase.operations) for phase in measured), tuple(closed))


def powers(shape: GateShape, repetitions: int, noise: float) -> tuple[Power, ...]:
    """Return the power of each kind of check, for `repetitions` runs on each side and for twice as many.

    A kind with several checks has a row for all of them together, and one for a single check. `noise` is the relative
    standard deviation of repeated runs within a block.
    """
    # Imported here because the gate takes a second to import.
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
    """Return the variance of the mean over all checks of a kind, relative to the variance of one check.

    Runs are independent of each other; operations of a run share `_COMMON` of the variance.
    """
    in_run = shape.members(kind) / shape.treatments
    return (_COMMON + (1 - _COMMON) / in_run) / shape.treatments


def _power(check: str, kind: str, runs: int, spread: float, share: float) -> Power:
    """Return the power of one check of a kind, with `runs` runs on each side; `check` is its name for display.

    `spread` is the relative standard deviation of a run's figure, `share` the check's share of the significance level.
    """
    from loadframe.analyze.gate import Thresholds
    from loadframe.analyze.gate.power import detectable, power

    thresholds = Thresholds()
    error, freedom, level = spread * math.sqrt(2 / runs), runs - 1, thresholds.level * share
    least, higher = thresholds.least_of(kind), kind in RATES
    return Power(
        check,
        runs,
        tuple(power(worsening, error, freedom, level, least, higher_is_better=higher) for worsening in WORSENINGS),
        detectable(error, freedom, level, least, higher_is_better=higher),
    )


def _treatments(description: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of treatments in `runs` (`Design.describe`), without the factors that variants set."""
    set_by_variants = {name for sets in description.get("variants", {}).values() for name in sets}
    names = [name for name in description["factors"] if name not in set_by_variants]
    return len({repr([run["treatment"].get(name) for name in names]) for run in runs})
