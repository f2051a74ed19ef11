"""The report on a capacity experiment."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from loadframe.analyze.capacity import (
    USERS,
    Capacities,
    Capacity,
    Demand,
    Kind,
    Outcome,
    curve,
    demand,
    read_capacities,
)
from loadframe.analyze.capacity.answers import warnings
from loadframe.analyze.capacity.demands import sentence as demand_sentence
from loadframe.analyze.cost import Cost, Prices, by_load, cheapest, cost
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.base.errors import BadInput
from loadframe.base.units import format_count
from loadframe.record import Run
from loadframe.report import capacity_words
from loadframe.report.fit import print_findings
from loadframe.report.fit import sentence as fit_sentence
from loadframe.report.kinds import Report
from loadframe.report.labels import treatment_text
from loadframe.report.page import Page, render
from loadframe.report.plots.capacity import capacity_plot, trials_plot
from loadframe.report.sections import Further, at_load, cheapest_text, further
from loadframe.report.setup import Facts, experiment_facts
from loadframe.report.tables import Cell, Number, Sections, Table, count_cell, seconds_cell, share_cell
from loadframe.report.terminal_table import TerminalTable

_TONES = {Outcome.PASSED: "valid", Outcome.FAILED: "invalid", Outcome.INVALID: "muted"}


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on the experiment in a folder: the capacity of each treatment, and the nodes for each demand.

    `bands` are the bounds of latency buckets, s. BadInput if it is not an experiment, or is broken. KeyError or
    TypeError for another kind.
    """
    capacities = read_capacities(path)
    fitted, refusal = _curve(capacities)
    demands = _demands(capacities, fitted)
    prices = Prices.of(capacities.folder.description) if capacities.bounds.over != USERS else None
    costs = _costs(capacities, prices) if prices else []
    asked = capacities.folder.description.get("demands", [])
    cheap = [
        (load, cheapest(entries, capacity_words.demand_text(one)[0]))
        for one in asked
        for load, entries in by_load(capacities.folder.description, costs)
    ]
    more = further(capacities.folder, bands, prices, costs)
    answers = [words for _, words in demands] + [
        at_load(load, cheapest_text(prices, answer)) for load, answer in cheap if prices
    ]
    document = capacity_words.document(capacities, demands) | more.document
    if cheap:
        document["cost"]["demands"] = [{**({"at": load} if load else {}), **answer.as_dict()} for load, answer in cheap]
    return Report(
        _page(capacities, fitted, refusal, answers, more.sections),
        document,
        lambda console: _show(capacities, answers, more, console),
        _unanswerable(capacities),
    )


def _unanswerable(capacities: Capacities) -> BadInput | None:
    """Return an error if, at every treatment, the searches found that no rate or number of users meets the SLO.

    Return None otherwise: also without treatments, and if one has no answer.
    """
    if not capacities.capacities or any(capacity.kind is not Kind.NONE for capacity in capacities.capacities):
        return None
    return BadInput(
        f"no {'number of users' if capacities.bounds.over == USERS else 'rate'} meets the SLO:"
        f" {capacity_words.slo_text(capacities.slo)}",
        where=str(capacities.folder.path),
        remedy="relax the SLO, give the store more resources, or lower search: least, which is"
        f" {format_count(capacities.bounds.least)} {capacity_words.unit_of(capacities.bounds.over)}",
    )


def _costs(capacities: Capacities, prices: Prices) -> list[Cost]:
    """Return the cost of each treatment that has a capacity, at that rate, in the order of treatments.

    With one search, the interval spans the rate that passed and the next one that failed. A capacity that is only an
    upper bound counts as 0/s.
    """
    costs = []
    for capacity in capacities.capacities:
        rate = capacity.rate
        if rate is None:
            continue
        if capacity.kind is Kind.UPPER_BOUND:
            # It sustains no rate for certain, so its cost has only a low end.
            rate = replace(rate, value=0.0)
        single = len(capacity.conclusive) == 1
        if single:
            # One search gives a bracket: failures at its answer leave only a lower rate as sustained.
            rate = Estimate(rate.value, capacity.sustained, capacity.bracket[1] if capacity.bracket else math.inf)
        costs.append(cost(prices, capacity.treatment, capacity.nodes, rate, by_one_search=single))
    return costs


def _only_nodes(capacities: Capacities) -> bool:
    """Return whether the number of nodes is the only factor, so that one curve exists."""
    return all(set(capacity.treatment) <= {"nodes"} for capacity in capacities.capacities)


def _curve(capacities: Capacities) -> tuple[ScalabilityFit | None, str | None]:
    """Return the fit of capacity over nodes and None, or None and the reason why there is none."""
    if not _only_nodes(capacities):
        return None, "factors other than nodes vary"
    return curve(capacities.capacities, int(capacities.folder.description.get("seed") or 0))


def _demands(capacities: Capacities, fitted: ScalabilityFit | None) -> list[tuple[Demand, str]]:
    """Return the answer to each demand of the experiment and its sentence; empty if factors other than nodes vary."""
    if not _only_nodes(capacities):
        return []
    answers = []
    known = any(capacity.rate for capacity in capacities.capacities)
    largest = max((capacity.nodes for capacity in capacities.capacities if known and capacity.conclusive), default=0)
    codes = {warning.code for warning in warnings(capacities)}
    unit = capacity_words.unit_of(capacities.bounds.over)
    words_of = {
        capacity.nodes: f"{capacity_words.rate_text(capacity)} {unit}"
        for capacity in capacities.capacities
        # The interval of an upper bound, whose low end is not known, has no meaningful high end.
        if capacity.rate and capacity.kind is not Kind.UPPER_BOUND
    }
    for asked in capacities.folder.description.get("demands", []):
        rate, words = capacity_words.demand_text(asked, capacities.bounds.over)
        answer = demand(rate, words, capacities.capacities, fitted, codes)
        answers.append((answer, demand_sentence(answer, largest, unit, words_of)))
    return answers


def _page(
    capacities: Capacities,
    fitted: ScalabilityFit | None,
    refusal: str | None,
    demands: list[str],
    sections: Sections,
) -> Page:
    """Return the page. `refusal` is the reason if `fitted` is None, and `demands` are the answers to demands.

    `sections` are those that all kinds of experiments have.
    """
    description = capacities.folder.description
    several = len({capacity.nodes for capacity in capacities.capacities if capacity.rate}) > 1 and _only_nodes(
        capacities
    )
    unit = capacity_words.unit_of(capacities.bounds.over)
    columns, rows = _capacity_rows(capacities)
    cells = [list(map(Cell, row)) for row in rows]
    sizes = Table(columns, cells, caption="Sustained load of each treatment") if len(rows) > 1 else None
    example = next((run.run for run in capacities.folder.runs if run.run and run.status == "done"), None)
    return render(
        "capacity.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"How much load does {description['experiment']} sustain?",
        experiment=description["experiment"],
        slo=capacity_words.slo_text(capacities.slo),
        # The demands are the question; the capacities are the basis of their answers.
        sentences=[
            *demands,
            *(capacity_words.sentence(capacity) for capacity in capacities.capacities),
        ],
        shown=len(demands) if sizes and demands else max(len(demands), 2),
        sizes=sizes,
        warned=capacity_words.warned_text(capacities),
        limits=capacity_words.limits(capacities),
        warnings=warnings(capacities),
        curve=capacity_plot(capacities.capacities, fitted, "capacity") if several else None,
        curve_words=fit_sentence(fitted, unit) if fitted else f"No curve: {refusal}.",
        searches=[
            (
                treatment_text(capacity.treatment) or "The store",
                trials_plot(capacity, capacities, f"trials-{index}").titled(
                    "trials", treatment_text(capacity.treatment)
                ),
                _deciding(capacity),
                _trials(capacity),
            )
            for index, capacity in enumerate(capacities.capacities)
        ],
        further=sections,
        facts=_facts(capacities, example),
        file=description.get("file", ""),
    )


def _capacity_rows(capacities: Capacities) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and rows of the table of capacities: a row for each treatment.

    Documents/s have a column if they differ from requests/s at any treatment.
    """
    counted = any(capacity_words.counts_documents(capacity) for capacity in capacities.capacities)
    columns = ("treatment", capacity_words.unit_of(capacities.bounds.over), *("documents/s",) * counted, "trials")
    rows = [
        (
            _subject(capacity),
            capacity_words.rate_text(capacity),
            *(capacity_words.documents_text(capacity),) * counted,
            str(sum(len(search.attempts) for search in capacity.searches)),
        )
        for capacity in capacities.capacities
    ]
    return columns, rows


def _facts(capacities: Capacities, example: Run | None) -> list[Facts]:
    """Return the facts of the setup, with the limits of the search and the demands, which have units, in the design."""
    over, description = capacities.bounds.over, capacities.folder.description
    demands = [capacity_words.demand_text(asked, over) for asked in description.get("demands", [])]
    written = [words or f"{format_count(load)} {capacity_words.unit_of(over)}" for load, words in demands]
    pairs = [("search", capacity_words.search_text(capacities.bounds))]
    pairs += [("demands", "; ".join(written))] if written else []
    design, *others = experiment_facts(capacities.folder, example)
    return [Facts(design.title, [*design.pairs, *pairs]), *others]


def _deciding(capacity: Capacity) -> Table:
    """Return a table of the trials that decide each finished search; see `Search.deciding`."""
    trials = _trials(capacity)
    rows = {row[0].text: row for row in trials.rows}
    return Table(
        ("search", *trials.columns),
        [
            [Cell("–" if search.block is None else str(search.block)), *rows[attempt.run]]
            for search in capacity.searches
            for attempt in search.deciding
        ],
        names=4,
        caption=f"Deciding trials of each search, {_subject(capacity)}",
    )


def _trials(capacity: Capacity) -> Table:
    """Return a table of all trials of a treatment: outcome, reasons, level (requests/s or users) and figures.

    The rate that random arrivals offered has a column if any trial has it.
    """
    random = any(attempt.offered is not None for search in capacity.searches for attempt in search.attempts)
    rows = [
        [
            Cell(attempt.run),
            Cell(attempt.judgement.outcome.value, tone=_TONES[attempt.judgement.outcome]),
            Cell(
                "; ".join([*attempt.judgement.reasons, *["not counted by the search"] * (attempt in search.uncounted)])
            ),
            Cell(f"{attempt.rate:g}", number=Number(attempt.rate)),
            *([count_cell(attempt.offered)] if random else []),
            seconds_cell(attempt.judgement.response, attempt.judgement.operation or ""),
            share_cell(attempt.judgement.errors, 2),
            share_cell(attempt.judgement.achieved, 1),
        ]
        for search in capacity.searches
        for attempt in search.attempts
    ]
    return Table(
        (
            *("run", "outcome", "why", capacity_words.unit_of(capacity.over)),
            *(["offered"] if random else []),
            *("response", "errors", "achieved"),
        ),
        rows,
        names=3,
        caption=f"Trials of the searches, {_subject(capacity)}",
    )


def _subject(capacity: Capacity) -> str:
    """Return the treatment of a capacity for a caption, or its number of nodes."""
    return treatment_text(capacity.treatment) or f"nodes {capacity.nodes}"


def _show(capacities: Capacities, answers: Sequence[str], more: Further, console: Console) -> None:
    """Print the answers to demands, the capacity of each treatment, the further tables, and warnings."""
    description = capacities.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    console.print(Text(capacity_words.slo_text(capacities.slo), style="dim"))
    console.print()
    for words in answers:
        console.print(Text(words, style="bold"))
    if answers:
        console.print()
    columns, rows = _capacity_rows(capacities)
    table = TerminalTable(columns)
    for row in rows:
        table.add(*row)
    table.print(console)
    console.print()
    more.print(console)
    for capacity in capacities.capacities:
        console.print(Text(capacity_words.sentence(capacity)))
    for line in capacity_words.limits(capacities):
        console.print(Text(line, style="dim"))
    for line in filter(None, [capacity_words.warned_text(capacities), *capacity_words.invalid_trials(capacities)]):
        console.print(Text(line, style="yellow"))
    for run in capacities.folder.failed:
        console.print(Text(f"{run.id}: the store failed: {run.why_failed}", style="yellow"))
    print_findings(console, warnings(capacities))
