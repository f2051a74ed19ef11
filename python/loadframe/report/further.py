"""Report sections for all kinds of experiments: published figures, latency buckets, CPU, executions, stored events."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from loadframe.analyze.cost import Cost, Prices
from loadframe.analyze.executions import executions_at
from loadframe.analyze.experiment import RecordedExperiment, by_treatment
from loadframe.analyze.percentiles import bands_at
from loadframe.analyze.processes import processes_at
from loadframe.analyze.published import beside
from loadframe.analyze.scale.curves import curves_over
from loadframe.analyze.stored import stored_at
from loadframe.report.labels import treatment_text
from loadframe.report.plot import Figure
from loadframe.report.plots.run import resources_over_time
from loadframe.report.plots.scale import over_factor_section
from loadframe.report.published import published_on_terminal, published_section
from loadframe.report.sections import (
    COST,
    EXECUTIONS,
    STORED_EVENTS,
    cost_on_terminal,
    cost_table,
    experiment_bands,
    experiment_bands_on_terminal,
    experiment_cpu,
    experiment_cpu_on_terminal,
    experiment_executions,
    experiment_executions_on_terminal,
    experiment_stored,
    experiment_stored_on_terminal,
    within_text,
)
from loadframe.report.tables import Sections, Table
from loadframe.report.terminal_table import TerminalTable

#: Tables of CPU or executions with more rows than this are not printed on the terminal; the page has them.
_ROWS = 12


@dataclass(frozen=True)
class Further:
    """Sections of the page with their titles, tables of the terminal, and keys of the JSON document.

    `curves` is the section of curves over numeric factors; pages show it before the other sections.
    """

    curves: Sections
    sections: Sections
    tables: Sequence[TerminalTable | str]
    document: dict[str, Any]

    def print(self, console: Console) -> None:
        """Print the tables and sentences, with an empty line after each."""
        for table in self.tables:
            if isinstance(table, str):
                console.print(Text(table))
            else:
                table.print(console)
            console.print()


def further(
    folder: RecordedExperiment,
    bounds: Sequence[float] = (),
    prices: Prices | None = None,
    costs: Sequence[Cost] = (),
) -> Further:
    """Return the sections, tables and JSON keys of an experiment; latency buckets only if `bounds` (s) are given."""
    sections: list[tuple[str, Table]] = []
    tables: list[TerminalTable | str] = []
    document: dict[str, Any] = {}
    curves = curves_over(folder) if _combines(folder) else ()
    if curves:
        document["over_factors"] = [curve.as_dict() for curve in curves]
    if figures := beside(folder):
        sections.append(("Published and measured", published_section(figures)))
        tables.append(published_on_terminal(figures))
        document["published"] = [figure.as_dict() for figure in figures]
    if prices and costs:
        sections.append((COST, cost_table(prices, costs)))
        tables.append(cost_on_terminal(prices, costs))
        document["cost"] = {"currency": prices.currency, "treatments": [entry.as_dict() for entry in costs]}
        if folder.description["kind"] != "capacity":
            # A capacity experiment has its own SLO, and names the cheapest cluster for each demand.
            words, answer = within_text(prices, costs)
            sections[-1] = (COST, replace(sections[-1][1], note=f"{words} {sections[-1][1].note}"))
            tables.append(words)
            document["cost"]["within"] = answer.as_dict()
    if bounds:
        bands = bands_at(folder, bounds)
        sections.append(("Latency buckets", experiment_bands(bands, bounds)))
        tables.append(experiment_bands_on_terminal(bands, bounds))
        document["bands"] = [row.as_dict() for row in bands]
    used = processes_at(folder)
    if shown := experiment_cpu(used):
        sections.append(("CPU of each process", replace(shown, figures=_resources(folder))))
        document["cpu"] = [row.as_dict() for row in used]
        if len(used) <= _ROWS:
            tables.append(experiment_cpu_on_terminal(used))
    executions = executions_at(folder)
    if executions_table := experiment_executions(executions):
        sections.append((EXECUTIONS, executions_table))
        document["executions"] = [row.as_dict() for row in executions]
        if len(executions) <= _ROWS:
            tables.append(experiment_executions_on_terminal(executions))
    events = stored_at(folder)
    if stored := experiment_stored(events):
        sections.append((STORED_EVENTS, stored))
        tables.append(experiment_stored_on_terminal(events))
        document["stored"] = [row.as_dict() for row in events]
    over: Sections = [("Curves over numeric factors", over_factor_section(curves))] if curves else []
    return Further(over, sections, tables, document)


def _resources(folder: RecordedExperiment) -> list[Figure]:
    """Draw CPU and network of nodes over time in the first run of the first and of the last treatment."""
    at = [(treatment, runs[0]) for treatment, runs in by_treatment(folder) if runs]
    figures = []
    for treatment, (recorded, run) in [at[0], at[-1]] if len(at) > 1 else at:
        if figure := resources_over_time(run, re.sub(r"[^\w-]+", "-", f"resources-{recorded.id}")):
            words = ", ".join(filter(None, (f"Run {recorded.id}", treatment_text(treatment))))
            figures.append(replace(figure, caption=f"{words}. {figure.caption}"))
    return figures


def _combines(folder: RecordedExperiment) -> bool:
    """Return whether the design crosses its factors, so that curves over one factor exist."""
    description = folder.description
    return bool(description["kind"] == "scale" or description.get("scheme") == "full")
