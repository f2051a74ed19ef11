"""What a gate on an experiment's runs can find, before they are made: the power of its checks, by computation.

The checks, their shares of the level and their thresholds are the gate's own. What has to be supposed is how much runs
vary; that p99 varies twice as much; that half of the variance is common to the operations of a run; and that blocks
differ, so that the blocks' number less one is what is known of the noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import RATES
from loadframe.experiment.experiment import Experiment

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
    from loadframe.analyze.gate.multiplicity import WATCHED, Graph

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
