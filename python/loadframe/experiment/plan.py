"""What to measure next, and what an experiment can know: from its file before a run, from its folder after some.

Figures come from virtual time (`loadframe.simulate.outlook`); what they rest on is either supposed, or fitted to the
runs that are there.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.analyze.experiment import RecordedRun, read_experiment
from loadframe.analyze.rates import Rate, rate_of
from loadframe.base.errors import BadInput
from loadframe.experiment.design.blocks import describe, design
from loadframe.experiment.design.estimate import ResourceEstimate, resource_estimate
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.power import (
    Effect,
    GateShape,
    Power,
    PowerNotes,
    effects,
    power_notes,
    powers,
    shape_of_file,
    shape_of_folder,
)
from loadframe.simulate.outlook import Law, Outlook, candidates, outlook

if TYPE_CHECKING:
    from loadframe.analyze.scalability import ScalabilityFit

#: Supposed where nothing is known: a store that peaks at 44 nodes, and runs that vary as they do on a quiet machine.
SUPPOSED = Law(sigma=0.03, kappa=5e-4, noise=0.03)
#: The largest size that is simulated.
_LARGEST = 1024


@dataclass(frozen=True)
class Question:
    """What is planned: the experiment, the size of a curve that is varied and its levels, and the store's law.

    Only a scale experiment draws a curve; of others nothing but the noise of the law counts.
    """

    #: What the experiment's folder says of it, the design included.
    description: Mapping[str, Any]
    over: str | None
    sizes: tuple[int, ...]
    law: Law
    #: Where the law is from, in words.
    origin: str
    #: Runs that are there already.
    valid_runs: int
    #: What a gate would check of the runs; None where it judges none of this kind.
    gate: GateShape | None = None
    #: What it holds for how long, in one go; None of a folder, where some of it is done.
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
    def repetitions(self) -> int:
        """How often each treatment is run."""
        return int(self.description.get("repetitions", 1))


@dataclass(frozen=True)
class Plan:
    """What the designs that come into question can know."""

    question: Question
    outlooks: tuple[Outlook, ...]
    effects: tuple[Effect, ...]
    #: What a gate on such runs would find.
    powers: tuple[Power, ...]
    #: What the kind's own method can find, and what it never can.
    notes: PowerNotes

    @property
    def best(self) -> Outlook | None:
        """The design that learns most about coherency for its number of runs."""
        return min(self.outlooks, key=lambda design: _width(design) * math.sqrt(design.runs), default=None)


def question_from_file(experiment: Experiment, supposed: Law, generators: int | None = None) -> Question:
    """Return the question of an experiment that was not run; `generators` are machines for ranks alone."""
    description = describe(experiment, design(experiment))
    held = resource_estimate(experiment, generators)
    return Question(description, *_over(description), supposed, "supposed", 0, shape_of_file(experiment), held)


def question_from_folder(path: Path, supposed: Law) -> Question:
    """Return the question of an experiment of which runs are there: its law is what they say, as far as they do."""
    folder = read_experiment(path)
    description = folder.description
    over, sizes = _over(description)
    usable = [run for run in folder.runs if run.sound]
    law, origin = supposed, "supposed, since the runs that are there do not say"
    noise = _noise(usable, description["measure"][0], rate_of(description))
    if noise is not None:
        law, origin = Law(law.sigma, law.kappa, noise), "supposed; the scatter is that of the runs that are there"
    fitted = _fitted(path, over) if over else None
    if fitted is not None:
        usl = fitted.models["usl"].parameters
        law = Law(max(usl["sigma"].value, 0.0), usl["kappa"].value, law.noise)
        origin = "fitted to the runs that are there"
    return Question(description, over, sizes, law, origin, len(usable), shape_of_folder(description, usable))


def plan(question: Question, budget: int | None) -> Plan:
    """Say what the design, and others near it, can know; `budget` is a number of runs that none may exceed."""
    if budget is not None and budget < 1:
        raise BadInput(f"a budget of {budget} runs", remedy="give it 1 or more")
    outlooks = []
    if question.over and len(question.sizes) > 1:
        for name, sizes, repetitions in candidates(question.sizes, question.repetitions, budget):
            if sizes[-1] <= _LARGEST:
                outlooks.append(outlook(name, sizes, repetitions, question.law))
    noise, gate = question.law.noise, question.gate
    return Plan(
        question,
        tuple(outlooks),
        effects(question.description, noise, budget),
        powers(gate, question.repetitions, noise) if gate else (),
        power_notes(question.description, noise),
    )


def document(planned: Plan) -> dict[str, Any]:
    """Return the plan for JSON; what is not bounded is null."""
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
    return design.kappa.high - design.kappa.low


def _over(description: Mapping[str, Any]) -> tuple[str | None, tuple[int, ...]]:
    """Return the size over which a scale experiment draws a curve, nodes before clients, and its levels."""
    levels: Mapping[str, Sequence[Any]] = description["factors"] if description["kind"] == "scale" else {}
    for name in ("nodes", "clients"):
        if len(levels.get(name, ())) > 1:
            return name, tuple(sorted(int(level) for level in levels[name]))
    return None, ()


def _fitted(path: Path, over: str | None) -> "ScalabilityFit | None":
    from loadframe.analyze.scale.sweep import read_sweep

    for curves in read_sweep(path).curves:
        drawn = [curves.over_nodes] if over == "nodes" else [*curves.over_clients]
        fits = [curve.fit for curve in drawn if curve and curve.fit]
        if fits:
            return fits[0]
    return None


def _noise(runs: Sequence[RecordedRun], phase: str, rate: Rate) -> float | None:
    """Return the relative standard deviation of runs of the same treatment; None where none was repeated."""
    groups: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if entry := run.phase(phase):
            throughput = rate.of(entry)
            if throughput > 0:
                groups[repr(sorted(run.treatment.items()))].append(math.log(throughput))
    squares = sum((value - sum(group) / len(group)) ** 2 for group in groups.values() for value in group)
    freedom = sum(len(group) - 1 for group in groups.values())
    return math.sqrt(squares / freedom) if freedom and squares else None
