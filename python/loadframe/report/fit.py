"""Sentences, tables and terminal output of a scalability fit."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.finding import Finding
from loadframe.analyze.scalability import ModelFit, ScalabilityFit
from loadframe.base.units import format_change, format_changes, format_count
from loadframe.report.numbers import estimate_text, percent_text, round_to

#: Displayed names of the models.
NAMES = {"linear": "linear", "gustafson": "Gustafson", "amdahl": "Amdahl", "usl": "USL", "knee": "hard knee"}


def sentence(fit: ScalabilityFit, unit: str = "") -> str:
    """Return the conclusion of a fit, and in weak scaling the scaled speed-up by Gustafson's law.

    `unit` is the unit of throughputs, such as `requests/s`; empty omits it.
    """
    return " ".join([_sentence(fit, unit), *scaled_sentences(fit)])


def scaled_sentences(fit: ScalabilityFit) -> list[str]:
    """Return a list with a sentence on Gustafson's law; empty for strong scaling or an inconclusive fit.

    The sentence gives the serial share and the scaled speed-up at the largest size, or rejects the law.
    """
    scaled = fit.scaled_speedup(fit.largest)
    if scaled is None or not is_conclusive(fit):
        return []
    share = fit.models["gustafson"].parameters["serial"]
    law = f"a serial share of {percent_text(share)}, a scaled speed-up of {estimate_text(scaled)}"
    at = f"at {format_count(fit.largest)} {fit.over}"
    if "gustafson" in fit.possible:
        return [f"By Gustafson's law: {law} {at}."]
    return [f"Gustafson's law ({law} {at}) does not fit these data (beyond the noise)."]


def _sentence(fit: ScalabilityFit, unit: str) -> str:
    """Write where throughput peaks, or how it grows over the measured sizes by the best model.

    Write instead that the data are inconclusive, if intervals are unknown or the best model is not settled. `unit` is
    the unit of throughputs, such as `requests/s`; empty omits it.
    """
    measured = f"from {format_count(min(n for n, _ in fit.observations))} to {format_count(fit.largest)} {fit.over}"
    best, tail = fit.best_model, f" {unit}" if unit else ""
    if fit.unknown:
        return f"Inconclusive: {fit.unknown}."
    if not is_conclusive(fit):
        return f"Inconclusive: these data do not show how throughput grows {measured}."
    if fit.peak:
        past = fit.peak.n.value <= fit.largest
        peaks = "peaks" if past else "is expected to peak"
        beyond = "" if past else f", beyond the measured {format_count(fit.largest)}"
        return (
            f"Throughput {peaks} at {estimate_text(fit.peak.n)} {fit.over}{beyond},"
            f" with {estimate_text(fit.peak.throughput)}{tail} (USL: {_causes(best)})."
        )
    return f"Throughput {_growth(fit, measured, tail)} {_peak_clause(fit)}."


def _growth(fit: ScalabilityFit, measured: str, tail: str) -> str:
    """Write how throughput grows by the best model, as the middle of a sentence.

    `measured` is the text of the range of sizes; `tail` is the unit of throughputs after a space, or empty.
    """
    best = fit.best_model
    per_unit = f"{estimate_text(best.parameters['lambda'])}{tail}"
    if best.name == "linear":
        return f"grows linearly {measured}: {per_unit} each; no limit was reached, and"
    if best.name == "gustafson":
        return f"grows in a straight line {measured}, from {per_unit} at one;"
    if best.name == "amdahl":
        return f"flattens {measured} by Amdahl's law ({_causes(best)}){_ceiling(best, tail)};"
    if best.name == "knee":
        lam, ceiling = best.parameters["lambda"], best.parameters["ceiling"]
        knee = round_to(ceiling.value / lam.value, ceiling.value / lam.value / 10)
        return (
            f"grows linearly, {per_unit} each, up to a hard ceiling of {estimate_text(ceiling)}{tail} at about"
            f" {knee} {fit.over};"
        )
    return f"flattens {measured} ({_causes(best)});"


def _peak_clause(fit: ScalabilityFit) -> str:
    """Write why the report shows no peak: none exists, it is too far away, or the data are inconclusive.

    The fit must have no peak to show.
    """
    if fit.standing == "none":
        return f"no peak up to {format_count(fit.largest)} {fit.over}"
    if fit.standing == "beyond":
        return "the peak is too far beyond the measurements to be located"
    if "usl" not in fit.possible:
        return f"inconclusive whether throughput falls beyond it{_fall(fit)}"
    place = fit.candidate.n
    kappa = fit.models["usl"].parameters["kappa"]
    if set(fit.possible) == {"usl"} and kappa.low > 0 and place.is_finite:
        rivals = "but a curve that levels off without falling fits as well within the noise"
        return f"a peak is inconclusive: the USL has one at {estimate_text(place)} {fit.over}, {rivals}"
    if place.value <= fit.largest:
        rivals = "but models without a peak fit as well within the noise"
        return f"a peak is inconclusive: the USL has one at {estimate_text(place)} {fit.over}, {rivals}"
    least = f" at {format_count(place.low)} {fit.over} or more" if place.low > 1 else ""
    return f"a peak{least} is neither shown nor excluded"


def _fall(fit: ScalabilityFit) -> str:
    """Write the change of throughput from the first to the last size on the ceiling of the hard knee.

    It begins with `: it changes by` and has a 95 % interval; empty if the fit has no ceiling.
    """
    if fit.ceiling is None:
        return ""
    change, ends = fit.ceiling.change, f"from {format_count(fit.ceiling.first)} to {format_count(fit.ceiling.last)}"
    interval = format_changes(change.low, change.high)
    return f": it changes by {format_change(change.value)} {interval} {ends} {fit.over}"


def is_conclusive(fit: ScalabilityFit) -> bool:
    """Return whether the fit shows how throughput grows: its best model is settled."""
    return fit.best_model.settled


def _causes(model: ModelFit) -> str:
    """Write the contention (sigma), and the coherency (kappa) if the model has it, in % with their intervals."""
    words = [f"contention {percent_text(model.parameters['sigma'])}"]
    if "kappa" in model.parameters:
        words.append(f"coherency {percent_text(model.parameters['kappa'])}")
    return ", ".join(words)


def _ceiling(model: ModelFit, tail: str) -> str:
    """Write the throughput lambda/sigma that Amdahl's law approaches; empty if the interval of sigma reaches 0.

    `tail` is the unit of throughputs after a space, or empty.
    """
    lam, sigma = model.parameters["lambda"], model.parameters["sigma"]
    if sigma.low <= 0:
        return ""
    ceiling = lam.value / sigma.value
    return f" towards a ceiling of about {round_to(ceiling, ceiling / 20)}{tail}"


_PARAMETERS = ("lambda", "serial", "sigma", "kappa", "ceiling")


def print_fit(console: Console, fit: ScalabilityFit, unit: str = "") -> None:
    """Print the conclusion, the models, the throughput measured at size 1 if any, and the warnings of a fit.

    `unit` is the unit of throughputs.
    """
    console.print(Text(sentence(fit, unit)), style="bold")
    console.print()
    console.print(models_table(fit))
    if fit.measured_at_one is not None:
        console.print(Text(f"\nmeasured at 1: {fit.measured_at_one:,.6g}{f' {unit}' if unit else ''}", style="dim"))
    print_findings(console, fit.warnings)


def models_table(fit: ScalabilityFit) -> Table:
    """Return a table with a column for each model: parameters with 95 % intervals, and goodness of fit.

    The best model has an arrow and the others are dim. The last row is the error of a prediction of the largest size.
    """
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
    """Print warnings in yellow on the console, each with its remedy below it; nothing without any."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for finding in findings:
        grid.add_row(Text("!", style="yellow"), Text(finding.cause, style="yellow"))
        grid.add_row("", Text(finding.remedy, style="dim"))
    if grid.row_count:
        console.print()
        console.print(grid)


def _two_lines(estimate: Estimate | None) -> str:
    """Write an estimate with its interval on a second line; empty for None. The bracket is escaped for rich."""
    return estimate_text(estimate).replace(" [", "\n\\[", 1) if estimate else ""


def _error(model: ModelFit) -> str:
    """Write the relative error, in %, of a prediction of the largest size from the others; empty if unknown."""
    return "" if model.extrapolation_error is None else format_change(model.extrapolation_error)
