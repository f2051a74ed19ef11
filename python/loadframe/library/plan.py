"""Expected precision of an experiment, before or during it, as values and text."""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from rich.text import Text

from loadframe.analyze.estimate import Estimate
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_share
from loadframe.experiment.design.estimate import ResourceEstimate, length_text
from loadframe.experiment.design.plans import design
from loadframe.experiment.experiment import Experiment as PlannedExperiment
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.kinds import find
from loadframe.experiment.plan import SUPPOSED, Question, document, question_from_file, question_from_folder
from loadframe.experiment.plan import Plan as SimulatedPlan
from loadframe.experiment.plan import plan as simulated
from loadframe.experiment.power import WORSENINGS, Power
from loadframe.experiment.runner.folder import recorded_count
from loadframe.library.arguments import Count, Range, checked
from loadframe.library.experiment import Experiment
from loadframe.library.reports import Answer
from loadframe.simulate import Law

if TYPE_CHECKING:
    from rich.console import Console

#: Explanation of the table of designs.
_LEGEND = (
    "contention, coherency: expected 95 % interval of the fitted parameter (median of simulated experiments). peak:"
    " 5-95 % range of the fitted peak, ∞ if the curve has none. conclusive: share of experiments that report a peak. <:"
    " most informative design per run."
)


class Plan(Answer):
    """The expected precision of an experiment.

    >>> loadframe.plan("results/nodes").as_dict()["made"]
    4
    """

    def __init__(self, planned: SimulatedPlan, finished: str | None) -> None:
        """Create the result of a plan; `finished` is a sentence if all runs of the experiment are recorded."""
        super().__init__(
            {**document(planned), "finished": finished is not None}, lambda console: _show(console, planned, finished)
        )


@checked
def plan(
    experiment: str | os.PathLike[str] | Experiment,
    *,
    sigma: float | None = None,
    kappa: float | None = None,
    noise: float | None = None,
    budget: Count | None = None,
    generators: Annotated[int, Range(0)] | None = None,
) -> Plan:
    """Simulate how precise an experiment will be. Starts nothing.

    Without recorded runs, contention (`sigma`), coherency (`kappa`) and run-to-run variance (`noise`) are assumed. From
    the folder of an unfinished experiment, its runs provide them. `budget` is the maximum number of runs of a design,
    `generators` the number of machines for ranks only.

    >>> planned = loadframe.Experiment(
    ...     experiment="nodes", kind="scale", store={"kind": "sim"}, workload=workload, factors={"nodes": [1, 2, 4]}
    ... )
    >>> loadframe.plan(planned, noise=0.05, budget=9).as_dict()["law"]["noise"]
    0.05
    """
    law = assumed_law(sigma, kappa, noise)
    if isinstance(experiment, Experiment):
        recorded = experiment._recorded
        return plan_of(recorded.path if recorded else experiment.planned(), law, budget, generators)
    path = Path(experiment)
    return plan_of(path if path.is_dir() else load_experiment(path), law, budget, generators)


def plan_of(experiment: Path | PlannedExperiment, law: Law, budget: int | None, generators: int | None) -> Plan:
    """Return the plan of an experiment, or of the folder of an unfinished one; `law` is assumed without runs."""
    if isinstance(experiment, Path):
        question, folder, loaded = question_from_folder(experiment, law), experiment, None
    else:
        question, folder, loaded = question_from_file(experiment, law, generators), None, experiment
    return Plan(simulated(question, budget), _finished(folder, loaded, question))


def assumed_law(
    sigma: float | None, kappa: float | None, noise: float | None, written: Callable[[str], str] = str
) -> Law:
    """Return the scaling law with these values, and defaults for None. BadInput for values outside 0 to below 1.

    `sigma` is the contention, `kappa` the coherency, `noise` the relative standard deviation between runs. `written`
    returns the name of an argument for messages.
    """
    for name, value in (("sigma", sigma), ("kappa", kappa), ("noise", noise)):
        if value is not None and not 0 <= value < 1:
            raise BadInput(
                f"{written(name)} must be at least 0 and below 1; got {value:g}", remedy="give a share such as 0.03"
            )
    return Law(
        SUPPOSED.sigma if sigma is None else sigma,
        SUPPOSED.kappa if kappa is None else kappa,
        SUPPOSED.noise if noise is None else noise,
    )


def _finished(path: Path | None, loaded: PlannedExperiment | None, question: Question) -> str | None:
    """Return a sentence if all planned runs of an experiment are recorded, else None.

    They are in `path`, by default the default folder of the experiment `loaded`; `question` was read from one of them.
    """
    folder = path or Path("results") / question.name
    if loaded is not None:
        count = recorded_count(loaded, design(loaded), folder)
        if count is None or count.remaining().runs:
            return None
        words = count.recorded_text()
    else:
        runs = [entry["run"] for entry in question.description.get("design", ())]
        if not runs or any(not (folder / "runs" / run).exists() for run in runs):
            return None
        words = (
            "the run of the design is recorded"
            if len(runs) == 1
            else f"all {len(runs)} runs of the design are recorded"
        )
    return f"Finished: {words} in {folder}. To repeat the experiment, run it with another folder in --output."


def _show(console: "Console", planned: SimulatedPlan, finished: str | None) -> None:
    """Print the expected precision on a console: question, duration, designs, notes, warnings, effects, powers.

    `finished` is printed instead of the duration, unless it is None.
    """
    question, law = planned.question, planned.question.law
    console.print(Text(f"{question.name}: expected precision", style="bold"))
    valid = f"{counted(question.valid_runs, 'valid run')} so far"
    variance = f"run-to-run variance {100 * law.noise:.3g} % ({question.origin}); {valid}."
    curve = f"contention {100 * law.sigma:.3g} %, coherency {100 * law.kappa:.3g} %, " if question.over else ""
    article = "An" if question.kind[0] in "aeiou" else "A"
    console.print(Text(f"{article} {question.kind} experiment: {curve}{variance}"))
    if finished:
        console.print(Text(finished))
    elif question.resource_estimate:
        console.print(Text(_extent_text(question.resource_estimate, question.kind)))
        for sentence in question.resource_estimate.missing:
            console.print(Text(f"! {sentence}", style="yellow"))
    if planned.outlooks:
        console.print()
        console.print(_designs(planned))
        console.print(Text(_LEGEND, style="dim"))
        console.print(Text(_advice(planned)))
    elif question.over:
        console.print(Text("No design within --budget has three sizes, which a curve requires."))
    if planned.notes.sentences:
        console.print()
        for sentence in planned.notes.sentences:
            console.print(Text(sentence))
    if planned.notes.warnings:
        console.print()
        for warning in planned.notes.warnings:
            console.print(Text(f"! {warning}", style="yellow"))
    if planned.effects:
        console.print()
        for effect in planned.effects:
            console.print(Text(_effect_text(effect.factor, effect.runs, effect.least)))
    if planned.powers:
        console.print()
        console.print(
            Text("As a gate, with a baseline in the same blocks, it would detect a worsening with this probability:")
        )
        console.print(_powers(planned.powers))
        console.print(
            Text(
                "Percentages: probability that the gate stops this worsening.",
                style="dim",
            )
        )
        console.print(
            Text(
                "finds: the worsening that it detects in four of five cases. The variance of p99 is assumed to be twice"
                " that of throughput.",
                style="dim",
            )
        )


def _designs(planned: SimulatedPlan) -> Table:
    """Return the table of designs with their simulated precision; `<` marks the best."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("design")
    table.add_column(planned.question.over or "")
    for header in ("runs", "contention, %", "coherency, %", "peak, 5-95 %", "conclusive"):
        table.add_column(header, justify="right")
    for row in planned.outlooks:
        table.add_row(
            row.name + (" <" if row is planned.best else ""),
            f"{', '.join(map(str, row.sizes))} x {row.repetitions}",
            str(row.runs),
            _percent(row.sigma),
            _percent(row.kappa),
            f"{row.peak.low:.0f} to {row.peak.high:.0f}".replace("inf", "∞"),
            format_share(row.claimed),
        )
    return table


def _powers(powers: Sequence[Power]) -> Table:
    """Return the table of a gate's checks: the probability to detect each worsening."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("check")
    for header in ("runs per side", *(f"{format_share(worsening)} worse" for worsening in WORSENINGS), "finds"):
        table.add_column(header, justify="right")
    for row in powers:
        finds = format_share(row.finds) if math.isfinite(row.finds) else "nothing"
        table.add_row(row.check, str(row.runs), *(format_share(share) for share in row.detected), finds)
    return table


def _percent(estimate: Estimate) -> str:
    """Return the bounds of an estimate of a share as percentages, such as `1.2 to 3.4`."""
    return f"{100 * estimate.low:.2g} to {100 * estimate.high:.2g}"


def _advice(planned: SimulatedPlan) -> str:
    """Return sentences on the assumed or fitted curve and the most informative design, which must exist."""
    best, law, over = planned.best, planned.question.law, planned.question.over
    assert best
    values = f"contention {100 * law.sigma:.3g} %, coherency {100 * law.kappa:.3g} %"
    peak = f"a peak at {law.peak:.0f} {over}" if math.isfinite(law.peak) else "no peak"
    if planned.question.fitted:
        curve = f"The curve that was fitted to the recorded runs ({values}) has {peak}."
    else:
        curve = f"The simulation assumes {peak} ({values}); set your own with --sigma and --kappa."
    more = best.runs - planned.question.valid_runs
    cost = counted(more, "more run") if planned.question.valid_runs and more > 0 else counted(best.runs, "run")
    return (
        f"{curve} The most informative design per run is"
        f" {best.name!r}: {over} {', '.join(map(str, best.sizes))}, {best.repetitions} times each ({cost})."
    )


def _extent_text(held: ResourceEstimate, kind: str) -> str:
    """Return a sentence on the number of runs, their duration, the machines and the node-hours."""
    machines = held.machines + held.generators
    entries = counted(held.runs, *find(kind).entries)
    words = (
        f"{entries} {'takes' if held.runs == 1 else 'take'} {length_text(held.seconds, held.known, held.least_seconds)}"
    )
    if machines == 1:
        return f"{words} on this machine."
    parts = f"{held.machines} for nodes and {held.generators} for ranks only" if held.generators else "all for nodes"
    hours = f"{'' if held.known else 'at least '}{held.machine_hours:.3g} node-hours"
    return f"{words} in one job of {machines} machines ({parts}): {hours}."


def _effect_text(factor: str, runs: int, least: float) -> str:
    """Return a sentence on the smallest difference (a share, `least`) that `runs` of each level of a factor can detect.

    An infinite `least` means that the runs do not show the variance.
    """
    if not math.isfinite(least):
        return (
            f"{factor}: one run of each level does not show the variance, so the experiment cannot detect differences."
        )
    return (
        f"{factor}: {runs} runs of each level detect a difference of {100 * least:.2g} % or more"
        " (in 80 of 100 experiments, at the 5 % level)."
    )
