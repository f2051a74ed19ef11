"""Expected precision of an experiment and the best next design, from its file or from the folder with its runs.

The figures are simulated (`loadframe.simulate`) with a scaling law that is assumed, or fitted to recorded runs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.analyze.experiment import RecordedRun, read_experiment
from loadframe.analyze.rates import Rate, rate_of
from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.experiment.design.estimate import ResourceEstimate, resource_estimate
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.power import (
    Effect,
    GateShape,
    Power,
    PowerNotes,
    effects,
    power_notes,
    powers,
    runs_unknown,
    shape_of_file,
    shape_of_folder,
)
from loadframe.simulate import Law, Outlook, candidates, outlook

if TYPE_CHECKING:
    from loadframe.analyze.scalability import ScalabilityFit

#: Assumed without data: a store that peaks at 44 nodes, and the run-to-run variance of a quiet machine.
SUPPOSED = Law(sigma=0.03, kappa=5e-4, noise=0.03)
#: Origin of a law whose parameters come from recorded runs.
_FITTED = "fitted to the recorded runs"
#: Largest size that is simulated.
_LARGEST = 1024


@dataclass(frozen=True)
class Question:
    """An experiment to plan: its description, the scaling curve and the store's scaling law.

    Only scale experiments have a curve; for other kinds only `law.noise` is used.
    """

    #: The content of `experiment.json`, with the design.
    description: Mapping[str, Any]
    #: The factor on the axis of the curve (`nodes` or `clients`), and its levels.
    over: str | None
    sizes: tuple[int, ...]
    law: Law
    #: Source of the law, for display.
    origin: str
    #: Number of valid runs recorded so far.
    valid_runs: int
    #: Checks of a gate on these runs; None if the gate does not accept this kind.
    gate: GateShape | None = None
    #: Expected duration and machines; None if a folder was given.
    resource_estimate: ResourceEstimate | None = None

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.description["experiment"])

    @property
    def kind(self) -> str:
        """The experiment's kind."""
        return str(self.description["kind"])

    @property
    def fitted(self) -> bool:
        """Whether the scaling law was fitted to recorded runs; otherwise it is assumed."""
        return self.origin == _FITTED

    @property
    def repetitions(self) -> int:
        """Number of runs of each treatment."""
        return int(self.description.get("repetitions", 1))

    @property
    def others(self) -> int:
        """Number of treatments of a size: combinations of the levels of other factors than that of the curve.

        If expressions give the sizes different numbers, this is the largest.
        """
        treatments = {repr(sorted(run["treatment"].items())): run["treatment"] for run in self.description["design"]}
        return max(Counter(repr(at.get(self.over)) for at in treatments.values()).values(), default=1)


@dataclass(frozen=True)
class Plan:
    """Expected precision of the candidate designs."""

    question: Question
    outlooks: tuple[Outlook, ...]
    effects: tuple[Effect, ...]
    #: Power of a gate on such runs.
    powers: tuple[Power, ...]
    #: Notes for the kind of experiment.
    notes: PowerNotes

    @property
    def best(self) -> Outlook | None:
        """The design with the narrowest interval of coherency for its number of runs, or None without designs."""
        return min(self.outlooks, key=lambda design: _width(design) * math.sqrt(design.runs), default=None)


def question_from_file(experiment: Experiment, assumed: Law, generators: int | None = None) -> Question:
    """Return the question for an experiment file, with the law `assumed`; `generators` counts machines for ranks."""
    description = describe(experiment, design(experiment))
    resources = resource_estimate(experiment, generators)
    return Question(description, *_over(description), assumed, "assumed", 0, shape_of_file(experiment), resources)


def question_from_folder(path: Path, assumed: Law) -> Question:
    """Return the question for an experiment folder, with the law fitted to its valid runs.

    Without a fit of a curve, sigma and kappa are those of `assumed`; the noise, too, if no treatment was repeated.
    BadInput if the folder is not an experiment.
    """
    folder = read_experiment(path)
    description = folder.description
    over, sizes = _over(description)
    usable = [run for run in folder.runs if run.sound]
    law, origin = assumed, "assumed; the recorded runs do not determine it"
    noise = _noise(usable, description["measure"][0], rate_of(description))
    if noise is not None:
        law, origin = Law(law.sigma, law.kappa, noise), "assumed; run-to-run variance from the recorded runs"
    fitted = _fitted(path, over) if over else None
    if fitted is not None:
        usl = fitted.models["usl"].parameters
        law = Law(max(usl["sigma"].value, 0.0), usl["kappa"].value, law.noise)
        origin = _FITTED
    return Question(description, over, sizes, law, origin, len(usable), shape_of_folder(description, usable))


def plan(question: Question, budget: int | None) -> Plan:
    """Return an experiment's expected precision: simulated designs, detectable effects, and the power of a gate.

    With a scaling curve, simulates the design and alternatives to it with at most `budget` runs each; otherwise the
    plan has no designs. Designs with sizes above 1,024 are omitted. `budget` also limits the runs for the effects;
    None: no limit. A warning names a budget below the runs of the experiment. BadInput for a budget below 1.
    """
    if budget is not None and budget < 1:
        raise BadInput(
            f"--budget must be at least 1; got {budget}", remedy="give the number of runs that you can afford"
        )
    outlooks, others = [], question.others
    if question.over and len(question.sizes) > 1:
        for name, sizes, repetitions in candidates(question.sizes, question.repetitions, budget, others):
            if sizes[-1] <= _LARGEST:
                outlooks.append(outlook(name, sizes, repetitions, question.law, others=others))
    noise, gate = question.law.noise, question.gate
    notes = power_notes(question.description, noise)
    return Plan(
        question,
        tuple(outlooks),
        effects(question.description, noise, budget),
        powers(gate, question.repetitions, noise) if gate else (),
        PowerNotes((*_other_factors(question), *notes.sentences), (*_over_budget(question, budget), *notes.warnings)),
    )


def _other_factors(question: Question) -> list[str]:
    """Return a sentence on the factors other than the curve's; empty without such factors or without a curve."""
    if not question.over or question.others == 1:
        return []
    names = [name for name, at in question.description["factors"].items() if name != question.over and len(at) > 1]
    same = len(question.sizes) * question.others * question.repetitions == len(question.description["design"])
    return [
        f"The curve is over {question.over}. Each size has {'' if same else 'up to '}{question.others} runs in each"
        f" repetition, for the levels of {' and '.join(names)}; a curve uses one of them."
    ]


def _over_budget(question: Question, budget: int | None) -> list[str]:
    """Return a warning if the budget is below the runs of the design, or if a search decides the number of runs.

    Empty otherwise, and without a budget.
    """
    if budget is None:
        return []
    description = question.description
    if runs_unknown(description):
        return [f"the budget of {counted(budget, 'run')} limits nothing: the search decides how many runs it needs"]
    if budget >= len(description["design"]):
        return []
    return [
        f"the budget of {counted(budget, 'run')} is below the {counted(len(description['design']), 'run')} of the"
        " experiment; remove levels or repetitions from its file"
    ]


def document(planned: Plan) -> dict[str, Any]:
    """Return the plan as JSON values; unbounded figures are null."""
    question = planned.question
    best = planned.best
    return {
        "experiment": question.name,
        "kind": question.kind,
        "over": question.over,
        "law": {"sigma": question.law.sigma, "kappa": question.law.kappa, "noise": question.law.noise},
        "origin": question.origin,
        "made": question.valid_runs,
        "designs": [
            {
                "name": design.name,
                "sizes": list(design.sizes),
                "repetitions": design.repetitions,
                "runs": design.runs,
                "sigma": design.sigma.as_dict(),
                "kappa": design.kappa.as_dict(),
                "peak": design.peak.as_dict(),
                "claimed": design.claimed,
            }
            for design in planned.outlooks
        ],
        "best": best.name if best else None,
        "effects": [
            {
                "factor": effect.factor,
                "runs": effect.runs,
                "least": effect.least if math.isfinite(effect.least) else None,
            }
            for effect in planned.effects
        ],
        "gate": [power.as_dict() for power in planned.powers],
        "extent": question.resource_estimate.as_dict() if question.resource_estimate else None,
        "sentences": list(planned.notes.sentences),
        "warnings": list(planned.notes.warnings),
    }


def _width(design: Outlook) -> float:
    """Return the width of a design's expected interval of coherency (kappa of the USL); infinite if unbounded."""
    return design.kappa.high - design.kappa.low


def _over(description: Mapping[str, Any]) -> tuple[str | None, tuple[int, ...]]:
    """Return the factor on a scaling curve's axis, the first of `nodes` and `clients` with several levels.

    Also return its levels, ascending. None and () for other kinds than scale, or without such a factor.
    """
    levels: Mapping[str, Sequence[Any]] = description["factors"] if description["kind"] == "scale" else {}
    for name in ("nodes", "clients"):
        if len(levels.get(name, ())) > 1:
            return name, tuple(sorted(int(level) for level in levels[name]))
    return None, ()


def _fitted(path: Path, over: str | None) -> "ScalabilityFit | None":
    """Return the first fit of a curve over `nodes` or `clients` in an experiment's folder, or None without one.

    BadInput if the folder does not hold a valid experiment.
    """
    from loadframe.analyze.scale.sweep import read_sweep

    for curves in read_sweep(path).curves:
        drawn = [curves.over_nodes] if over == "nodes" else [*curves.over_clients]
        fits = [curve.fit for curve in drawn if curve and curve.fit]
        if fits:
            return fits[0]
    return None


def _noise(runs: Sequence[RecordedRun], phase: str, rate: Rate) -> float | None:
    """Return the standard deviation of the logarithm of a phase's rate within treatments, pooled over them.

    None if no treatment was repeated, or if repeated runs do not differ. Runs without the phase or a rate are ignored.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if entry := run.phase(phase):
            throughput = rate.of(entry)
            if throughput > 0:
                groups[repr(sorted(run.treatment.items()))].append(math.log(throughput))
    squares = sum((value - sum(group) / len(group)) ** 2 for group in groups.values() for value in group)
    freedom = sum(len(group) - 1 for group in groups.values())
    return math.sqrt(squares / freedom) if freedom and squares else None
