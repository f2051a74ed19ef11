"""Runs, duration and expected precision of an experiment, before or during it, as values and text."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.experiment import read_experiment
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted, format_level, format_nodes, format_share
from loadframe.experiment.design import Design
from loadframe.experiment.design.estimate import (
    LONG,
    ResourceEstimate,
    estimate,
    least_estimate,
    length_text,
    why_unknown,
)
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.experiment import Experiment as PlannedExperiment
from loadframe.experiment.experiment import expression_values
from loadframe.experiment.file.existing import not_checked, not_observed
from loadframe.experiment.file.factors import Level
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.kinds import find
from loadframe.experiment.plan import SUPPOSED, Question, document, question_from_file, question_from_folder
from loadframe.experiment.plan import Plan as SimulatedPlan
from loadframe.experiment.plan import plan as simulated
from loadframe.experiment.power import WORSENINGS, Power
from loadframe.experiment.runner.folder import RecordedRuns, recorded_count
from loadframe.host import slurm
from loadframe.library.arguments import Count, Range, checked
from loadframe.library.experiment import Experiment
from loadframe.library.tables import Answer
from loadframe.simulate import Law

if TYPE_CHECKING:
    from rich.console import Console

    from loadframe.experiment.runner.loop import Deadline

#: More columns than any line of a design has.
_WIDEST = 10_000
#: Explanation of the table of designs.
_LEGEND = (
    "contention, coherency: expected 95 % interval of the fitted parameter (median of simulated experiments). peak:"
    " 5-95 % range of the fitted peak, ∞ if the curve has none. conclusive: share of experiments that report a peak. <:"
    " most informative design per run."
)


@dataclass(frozen=True)
class PlannedRuns:
    """An experiment that is ready to run: its definition, its design and its folder."""

    experiment: PlannedExperiment
    design: Design
    path: Path

    @cached_property
    def most(self) -> Design:
        """The largest possible design, if the number of runs depends on results."""
        return self.experiment.kind.largest_design(self.experiment)

    @cached_property
    def unknown(self) -> str | None:
        """Why the expected duration is a lower bound; None if it is predictable."""
        return why_unknown(self.experiment)

    def too_long(self) -> str | None:
        """Return the maximum duration as text if it is over a day, else None."""
        seconds = estimate(self.most, self.experiment)
        if seconds <= LONG:
            return None
        most_words = "" if len(self.most.runs) == len(self.design.runs) or self.unknown else "at most "
        return f"{most_words}{length_text(seconds, self.unknown is None)}"

    def extent_text(self) -> str:
        """Return number and duration of all runs as text, with the maximum, and why the duration is unknown, if so."""
        entries = self.experiment.kind.entries
        words = f"{counted(len(self.design.runs), *entries)}, {self._length_text(self.design)}"
        if len(self.most.runs) != len(self.design.runs):
            words += f", and at most {counted(len(self.most.runs), *entries)}, {self._length_text(self.most)}"
        return words if self.unknown is None else f"{words} ({self.unknown})"

    def left_text(self) -> str | None:
        """Return the number of recorded runs, and number and duration of the missing ones, as text.

        If none is missing, the text says how to repeat the experiment. None if no run is recorded.
        """
        count = recorded_count(self.experiment, self.design, self.path)
        if count is None:
            return None
        left, recorded = count.remaining(), f"{count.recorded_text()} in {self.path}"
        if not left.runs:
            return f"finished: {recorded}. To repeat the experiment, give another folder with --output"
        verb = "remains" if len(left.runs) == 1 else "remain"
        entries = counted(len(left.runs), *self.experiment.kind.entries)
        words = f"{recorded}; {entries} {verb}, {self._length_text(left)}"
        return words if self.unknown is None else f"{words} ({self.unknown})"

    def _length_text(self, runs: Design) -> str:
        """Return the expected duration of some runs as text."""
        seconds, least = estimate(runs, self.experiment), least_estimate(runs, self.experiment)
        return length_text(seconds, self.unknown is None, least)


def planned_runs(
    experiment: PlannedExperiment, output: str | os.PathLike[str] | None, *, samples: bool = False
) -> PlannedRuns:
    """Return an experiment with its design and its folder, `output` or by default results/NAME. Writes nothing.

    Rates that earlier runs in the folder measured improve the estimates. `samples` records each request. BadInput if
    `output` holds other data or another experiment, or is not writable.
    """
    path = Path(output) if output is not None else Path("results") / experiment.name
    ready = (experiment.with_samples() if samples else experiment).with_measured_rates(path)
    planned = PlannedRuns(ready, design(ready), path)
    # A dry run also shows a changed experiment before its user chooses another folder.
    if output is not None:
        RecordedRuns(path).require_fitting(describe(ready, planned.design))
    return planned


def job_deadline(report: Callable[[str], None]) -> "Deadline":
    """Return the end of the Slurm job that runs this process; NEVER outside of Slurm.

    If Slurm does not give the end of the job, calls `report` with a warning, and returns NEVER.
    """
    from loadframe.experiment.runner.loop import NEVER, Deadline

    try:
        given = slurm.current()
    except LoadframeError as error:
        report(f"the end of this job is unknown: {error.what}")
        return NEVER
    if given is None:
        return NEVER
    return Deadline(given.ends, f"job {given.job} of Slurm", lambda: slurm.of_job(given.job).ends)


class DryRun(Answer):
    """The runs of an experiment in their order, and their expected duration, as `run --dry-run` prints them.

    >>> dry = loadframe.dry_run(
    ...     loadframe.Experiment(
    ...         experiment="dry", kind="scale", store={"kind": "sim"}, workload=workload, factors={"clients": [1, 2]}
    ...     )
    ... )
    >>> [run["treatment"]["clients"] for run in sorted(dry.as_dict()["design"], key=lambda run: run["run"])]
    [1, 2]
    """

    @checked
    def __init__(self, planned: PlannedRuns) -> None:
        """Create the result from an experiment, its design and its folder."""
        super().__init__(_dry_document(planned), self._print)
        self._planned = planned

    def _print(self, console: "Console") -> None:
        """Print the extent, the table of the runs, the cores of the nodes, and facts that are not checked."""
        planned, loaded = self._planned, self._planned.experiment
        extent = f"{loaded.name}: {planned.left_text() or planned.extent_text()}"
        console.print(extent, markup=False, highlight=False, soft_wrap=True)
        table = _runs_table(planned)
        # Never cut names and levels: users copy and check them.
        table.width = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
        console.print(table, crop=False)
        cores = dict.fromkeys(filter(None, (_cores(loaded, run.treatment) for run in planned.design.runs)))
        for line in filter(None, (*cores, *not_observed(loaded), not_checked(loaded))):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


@checked
def dry_run(
    experiment: str | os.PathLike[str] | Experiment,
    *,
    output: str | os.PathLike[str] | None = None,
    samples: bool = False,
) -> DryRun:
    """Return the runs of an experiment and their expected duration. Starts and writes nothing.

    `output` and `samples` are those of `run`. Runs that the folder holds already do not count as remaining. BadInput
    for an experiment that was opened from its results.

    >>> planned = loadframe.Experiment(
    ...     experiment="nodes", kind="scale", store={"kind": "sim"}, workload=workload, factors={"nodes": [1, 2, 4]}
    ... )
    >>> loadframe.dry_run(planned, output="results/again").as_dict()["remaining_runs"]
    3
    """
    defined = experiment if isinstance(experiment, Experiment) else Experiment.load(experiment)
    return DryRun(planned_runs(defined.planned(), output, samples=samples))


def _dry_document(planned: PlannedRuns) -> dict[str, Any]:
    """Return the description of an experiment with its expected durations, s, and the values of its expressions."""
    loaded, most = planned.experiment, planned.most
    count = recorded_count(loaded, planned.design, planned.path)
    left = count.remaining() if count else most
    described = describe(loaded, planned.design)
    expected: dict[str, Any] = {
        "expected_seconds": round(estimate(planned.design, loaded)),
        "least_seconds": round(least_estimate(planned.design, loaded)),
        "most_runs": len(most.runs),
        "most_seconds": round(estimate(most, loaded)),
        "length_known": planned.unknown is None,
        "remaining_runs": len(left.runs),
        "remaining_seconds": round(estimate(left, loaded)),
    }
    if unseen := not_observed(loaded):
        expected["not_observed"] = unseen
    if unchecked := not_checked(loaded):
        expected["not_checked"] = unchecked
    for entry, run in zip(described["design"], planned.design.runs, strict=True):
        if values := expression_values(loaded, run.treatment):
            entry["follows"] = values
    return {**described, **expected}


def _runs_table(planned: PlannedRuns) -> Table:
    """Return the table of the runs: name, block, levels, values of the file's expressions, and the cluster."""
    runs = planned.design.runs
    table = Table(box=None, pad_edge=False)
    table.add_column("run")
    table.add_column("block", justify="right")
    factors = dict.fromkeys(name for run in runs for name in run.treatment)
    derived = {run.id: expression_values(planned.experiment, run.treatment) for run in runs}
    following = dict.fromkeys(name for values in derived.values() for name in values)
    for column in (*factors, *(f"= {name}" if name in factors else name for name in following)):
        table.add_column(column, justify="right")
    table.add_column("cluster")
    for group in planned.design.groups():
        for index, run in enumerate(group):
            levels = (
                escape(format_level(factor, run.treatment[factor])) if factor in run.treatment else ""
                for factor in factors
            )
            values = derived[run.id]
            follow = (f"{values[name]:,}" if name in values else "" for name in following)
            cluster = "" if index else "existing" if planned.experiment.exists else "new"
            table.add_row(run.id, str(run.block), *levels, *follow, cluster)
    return table


def _cores(loaded: PlannedExperiment, treatment: Mapping[str, Level]) -> str | None:
    """Return the cores of each node of a treatment as text, or the reason why they cannot be assigned.

    Return None if the nodes share their cores.
    """
    from loadframe.cluster import Cluster
    from loadframe.experiment.runner.loop import spec_of

    spec = spec_of(loaded, treatment)
    try:
        assigned = Cluster.cores(spec)
    except BadInput as error:
        return f"cores of {format_nodes(spec.nodes)}: {error.what}"
    if assigned is None:
        return None
    return f"cores of {format_nodes(spec.nodes)}: {'; '.join(', '.join(map(str, node)) for node in assigned)}"


class Plan(Answer):
    """The expected precision of an experiment.

    >>> loadframe.plan("results/nodes").as_dict()["made"]
    4
    """

    @checked
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
    """Return the plan of an experiment, or of the folder of an unfinished one; `law` is assumed without runs.

    `budget` is the maximum number of runs of a design. `generators` is for an experiment, and unused for a folder.
    """
    if isinstance(experiment, Path):
        question, folder, loaded = question_from_folder(experiment, law), experiment, None
    else:
        question, folder, loaded = question_from_file(experiment, law, generators), None, experiment
        path = Path("results") / question.name
        if recorded_count(loaded, design(loaded), path):
            question = replace(question, valid_runs=sum(run.sound for run in read_experiment(path).runs))
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
    times = "once" if best.repetitions == 1 else f"{best.repetitions} times"
    return (
        f"{curve} The most informative design per run is"
        f" {best.name!r}: {over} {', '.join(map(str, best.sizes))}, {times} each ({cost})."
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
    if not runs:
        return f"{factor}: the budget is below one run of each level, so the experiment cannot detect differences."
    if not math.isfinite(least):
        return (
            f"{factor}: one run of each level does not show the variance, so the experiment cannot detect differences."
        )
    return (
        f"{factor}: {runs} runs of each level detect a difference of {100 * least:.2g} % or more"
        " (in 80 of 100 experiments, at the 5 % level)."
    )
