"""A scalability fit on the terminal: the sentence, the table of models, the warnings."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability import ModelFit, ScalabilityFit
from loadframe.report.fit.words import NAMES, sentence
from loadframe.report.numbers import estimate_text
from loadframe.units import format_change

_PARAMETERS = ("lambda", "serial", "sigma", "kappa", "ceiling")


def print_fit(console: Console, fit: ScalabilityFit, unit: str = "") -> None:
    """Print all that a person needs of a fit; `unit` follows throughputs, such as `requests/s`."""
    console.print(Text(sentence(fit, unit)), style="bold")
    console.print()
    console.print(models_table(fit))
    if fit.measured_at_one is not None:
        console.print(Text(f"\nmeasured at 1: {fit.measured_at_one:,.6g}{f' {unit}' if unit else ''}", style="dim"))
    print_findings(console, fit.warnings)


def models_table(fit: ScalabilityFit) -> Table:
    """Return the ladder, a column for each model: parameters with 95 % intervals, and how well it does."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("")
    models = list(fit.models.values())
    for model in models:
        best = model.name == fit.best
        table.add_column(
            f"{'→ ' if best else ''}{NAMES[model.name]}", style="" if best else "dim", justify="right", overflow="fold"
        )
    for name in (name for name in _PARAMETERS if any(name in model.parameters for model in models)):
        table.add_row(name, *(_two_lines(model.parameters.get(name)) for model in models))
    for name, text in (
        ("AICc", lambda model: "" if model.aicc is None else f"{model.aicc:.1f}"),
        ("R²", lambda model: "" if model.r_squared is None else f"{model.r_squared:.4f}"),
        (f"error at {fit.largest:g}", _error),
    ):
        table.add_row(name, *(text(model) for model in models))
    return table


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Print warnings, each with its remedy below it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for finding in findings:
        grid.add_row(Text("!", style="yellow"), Text(finding.cause, style="yellow"))
        grid.add_row("", Text(finding.remedy, style="dim"))
    if grid.row_count:
        console.print()
        console.print(grid)


def _two_lines(estimate: Estimate | None) -> str:
    return estimate_text(estimate).replace(" [", "\n\\[", 1) if estimate else ""


def _error(model: ModelFit) -> str:
    return "" if model.extrapolation_error is None else format_change(model.extrapolation_error)
