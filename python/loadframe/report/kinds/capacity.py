"""The report on a capacity experiment."""

from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from loadframe.analyze.capacity import Capacities, Capacity, Demand, Kind, Outcome, curve, demand, read_capacities
from loadframe.analyze.capacity.demand import sentence as demand_sentence
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.errors import BadInput
from loadframe.report import capacity_words as words
from loadframe.report.capacity_plots import capacity_plot, trials_plot
from loadframe.report.fit_words import sentence as fit_sentence
from loadframe.report.kinds import Report
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.page import render
from loadframe.report.setup import design_facts, manifest_facts
from loadframe.report.tables import Cell, Table
from loadframe.units import format_share

_TONES = {Outcome.PASSED: "valid", Outcome.FAILED: "invalid", Outcome.INVALID: "muted"}


def read(path: Path) -> Report:
    """Return each treatment's capacity, and the nodes that the file's demands need."""
    found = read_capacities(path)
    fitted, refusal = _curve(found)
    demands = _demands(found, fitted)
    return Report(
        _page(found, fitted, refusal, [sentence for _, sentence in demands]),
        words.document(found, demands),
        lambda console: _show(found, demands, console),
        _unanswerable(found),
    )


def _unanswerable(found: Capacities) -> BadInput | None:
    """Return what is wrong where no treatment has a rate that meets the SLO."""
    if not found.capacities or any(each.kind is not Kind.NONE for each in found.capacities):
        return None
    return BadInput(
        f"no rate meets the SLO: {words.slo_text(found.slo)}",
        where=str(found.folder.path),
        remedy="ask for less, give the store more, or search lower with search: least",
    )


def _only_nodes(found: Capacities) -> bool:
    """Whether nodes are all that differs, so that there is one curve."""
    return all(set(each.treatment) <= {"nodes"} for each in found.capacities)


def _curve(found: Capacities) -> tuple[ScalabilityFit | None, str | None]:
    if not _only_nodes(found):
        return None, "other factors than nodes vary, so there is no one curve"
    return curve(found.capacities, int(found.folder.description.get("seed") or 0))


def _demands(found: Capacities, fitted: ScalabilityFit | None) -> list[tuple[Demand, str]]:
    if not _only_nodes(found):
        return []
    answers = []
    largest = max((each.nodes for each in found.capacities if each.rate), default=0)
    for asked in found.folder.description.get("demands", []):
        rate, said = words.demand_text(asked)
        answer = demand(rate, said, found.capacities, fitted)
        answers.append((answer, demand_sentence(answer, largest)))
    return answers


def _page(found: Capacities, fitted: ScalabilityFit | None, refusal: str | None, demands: list[str]) -> str:
    description = found.folder.description
    several = len({each.nodes for each in found.capacities if each.rate}) > 1 and _only_nodes(found)
    example = next((run.run for run in found.folder.runs if run.run and run.status == "done"), None)
    facts = [design_facts(description, len(found.folder.runs))]
    if example:
        facts += manifest_facts(example.manifest)
    return render(
        "capacity.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How much load does {description['experiment']} hold?",
        experiment=description["experiment"],
        slo=words.slo_text(found.slo),
        sentences=[*(words.sentence(each, found.slo) for each in found.capacities), *demands],
        limits=words.limits(found),
        curve=capacity_plot(found.capacities, fitted, "capacity") if several else None,
        curve_words=fit_sentence(fitted, "requests/s") if fitted else f"No curve: {refusal}.",
        searches=[
            (treatment_text(each.treatment) or "The store", trials_plot(each, found, f"trials-{index}"), _trials(each))
            for index, each in enumerate(found.capacities)
        ],
        facts=facts,
        file=description.get("file", ""),
    )


def _trials(capacity: Capacity) -> Table:
    rows = [
        [
            Cell(each.run),
            Cell(each.judgement.outcome.value, tone=_TONES[each.judgement.outcome]),
            Cell("; ".join(each.judgement.reasons)),
            Cell(f"{each.rate:g}"),
            Cell(seconds_text(each.judgement.response)),
            Cell("–" if each.judgement.errors is None else format_share(each.judgement.errors, 2)),
            Cell("–" if each.judgement.achieved is None else format_share(each.judgement.achieved, 1)),
        ]
        for search in capacity.searches
        for each in search.attempts
    ]
    return Table(("run", "outcome", "why", "requests/s", "response", "errors", "achieved"), rows, names=3)


def _show(found: Capacities, demands: list[tuple[Demand, str]], console: Console) -> None:
    description = found.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    console.print(Text(words.slo_text(found.slo), style="dim"))
    console.print()
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("", "requests/s", "trials"):
        grid.add_column(header, justify="left" if not header else "right")
    for each in found.capacities:
        name = treatment_text(each.treatment) or f"nodes {each.nodes}"
        grid.add_row(name, words.rate_text(each), str(sum(len(search.attempts) for search in each.searches)))
    console.print(grid)
    console.print()
    for each in found.capacities:
        console.print(Text(words.sentence(each, found.slo)))
    for _, sentence in demands:
        console.print(Text(sentence))
    for line in words.limits(found):
        console.print(Text(line, style="dim"))
