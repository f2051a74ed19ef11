"""The page of a settings experiment: answers, effects and shares, interactions, the ranking, the confirmation."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadframe.analyze.effects.settings import Settings, SettingsAt, short
from loadframe.analyze.finding import Finding
from loadframe.analyze.rates import RATES
from loadframe.report.comparison.page import contrasts_table
from loadframe.report.comparison.words import p_text, quantity
from loadframe.report.numbers import estimate_text
from loadframe.report.page import render
from loadframe.report.plot import COLORS, MUTED, SYMBOLS, Axis, Figure, Line, Mark, Panel, Trace, numbers
from loadframe.report.settings import words
from loadframe.report.setup import experiment_facts
from loadframe.report.tables import Cell, Sections, Table
from loadframe.report.trust import runs_view
from loadframe.units import format_share

#: Interactions that are drawn, those with the largest shares.
_DRAWN = 4


@dataclass(frozen=True)
class ResultView:
    """One phase at one size as the page shows it."""

    heading: str
    lead: Sequence[str]
    effects: Sequence[tuple[str, Table]]
    interactions: Sequence[Figure]
    course: Figure | None
    ranking: Table | None
    confirmation: Table | None
    warnings: Sequence[Finding]


def settings_page(settings: Settings, further: Sections = (), over: Sections = ()) -> str:
    """Return the page of a settings experiment; `further` are sections that every kind of experiment has.

    `over` is that of curves over factors of numbers.
    """
    description = settings.folder.description
    example = next((run.run for run in settings.folder.runs if run.usable and run.run), None)
    return render(
        "settings.html.j2",
        title=f"{description['experiment']}: loadframe report",
        question=description.get("question") or f"Which settings matter for {description['workload']}?",
        experiment=description["experiment"],
        scheme=description["scheme"],
        results=[_view(result, description, f"s{index}") for index, result in enumerate(settings.results)],
        runs=runs_view(settings.folder),
        over=over,
        further=further,
        facts=experiment_facts(settings.folder, example),
        file=description.get("file", ""),
    )


def _view(result: SettingsAt, description: Mapping[str, Any], prefix: str) -> ResultView:
    return ResultView(
        heading=words.heading(result),
        lead=words.lead(result, description["factors"]),
        effects=[
            (response.measure.name, effects_table(result, index, description["factors"]))
            for index, response in enumerate(result.responses)
        ],
        interactions=interactions(result, prefix),
        course=None if result.responses or not result.course else course(result, f"{prefix}-course"),
        ranking=ranking_table(result) if result.standings else None,
        confirmation=contrasts_table(result.confirmation) if result.confirmation else None,
        warnings=result.warnings,
    )


def effects_table(result: SettingsAt, index: int, levels: Mapping[str, Sequence[Any]]) -> Table:
    """Return the terms of one response's model, the largest share first, then blocks and what is left."""
    response = result.responses[index]
    rows = []
    aliased = {fit.term: words.aliases_text(result, response, fit.term) for fit in response.model.terms}
    further = [Cell("")] if any(aliased.values()) else []
    for fit in sorted(response.model.terms, key=lambda fit: -fit.share):
        p = response.adjusted.get(fit.term)
        contrasts = [contrast for contrast in response.model.contrasts if contrast.term == fit.term]
        for number, contrast in enumerate(contrasts or [None]):
            ratio, _, interval = words.effect_text(contrast).partition(" ") if contrast else ("", "", "")
            first = number == 0
            rows.append(
                [
                    Cell(
                        words.term_text(result, fit.term) if first else "",
                        tone="" if response.claimed(fit.term) else "muted",
                    ),
                    Cell(words.level_text(result, contrast, levels) if contrast else ""),
                    Cell(ratio, interval),
                    Cell(format_share(fit.share, 1) if first else ""),
                    Cell(("–" if p is None else p_text(p)) if first else ""),
                    *([Cell(aliased[fit.term] if first else "", tone="muted")] if further else []),
                ]
            )
    rest = {"blocks": response.model.block_share, "scatter of runs": response.model.error_share}
    rows += [[Cell(name, tone="muted"), Cell(""), Cell(""), Cell(format_share(share, 1)), Cell(""), *further]
             for name, share in rest.items()]  # fmt: skip
    others = "the mean over the other settings" if response.model.balanced else "the setting alone, others at default"
    return Table(
        ("setting", "level", "ratio", "share of variation", "p", *(["or instead"] if further else [])),
        rows,
        names=2,
        note=f"Ratios are of {response.measure.phrase} to that at the default, {others}, with 95 % intervals. p is"
        " adjusted by Holm for all terms of all measures on this page; effects beyond the noise are in black."
        + (" The last column names what the design cannot separate from the effect." if further else ""),
    )


def ranking_table(result: SettingsAt) -> Table:
    """Return every combination against the default, best first."""
    rows = []
    for standing in result.standings:
        levels = result.combinations[standing.combination]
        cost = result.costs.get(standing.combination)
        ratio, _, interval = (
            estimate_text(standing.ratio) if standing.ratio.is_finite else f"{standing.ratio.value:.3g}"
        ).partition(" ")
        tone = "best" if levels == result.winner else ""
        rows.append(
            [
                Cell(words.combination_text(result, levels), tone=tone),
                Cell(str(standing.runs)),
                Cell(str(result.failed.get(standing.combination, (0, 0))[0])),
                Cell(ratio, interval, tone),
                Cell(f"{standing.measured:.3g}"),
                Cell(words.better_text(standing.better)),
                Cell("–" if cost is None else f"{cost:.2f}"),
            ]
        )
    return Table(
        (
            "combination",
            "runs",
            "failed",
            f"{result.objective.phrase}, ratio",
            "as measured",
            "better than the default",
            "CPU per request, ratio",
        ),
        rows,
        note="Ratios are to the default, with 95 % intervals from a spread that all combinations share. The first of"
        f" many owes some of its lead to chance: {words.shrinkage_text(result)}",
    )


def interactions(result: SettingsAt, prefix: str) -> list[Figure]:
    """Draw the objective at the levels of two settings, for the pairs with the largest shares."""
    if not result.responses:
        return []
    pairs = [fit for fit in result.responses[0].model.terms if len(fit.term) == 2]
    chosen = sorted(pairs, key=lambda fit: -fit.share)[:_DRAWN]
    return [_interaction(result, fit.term, f"{prefix}-i{index}") for index, fit in enumerate(chosen)]


def _interaction(result: SettingsAt, term: Sequence[int], name: str) -> Figure:
    over, by = term
    cells: dict[Any, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, value in result.course:
        levels = result.combinations[number]
        cells[str(levels[by])][str(levels[over])].append(np.log(value))
    scale, unit = _unit(result)
    traces = [
        Trace(
            list(values_at),
            numbers([scale * float(np.exp(np.mean(values))) for values in values_at.values()]),
            f"{short(result.factors[by])} {label}",
            Line(COLORS[index % len(COLORS)]),
            Mark(COLORS[index % len(COLORS)], SYMBOLS[index % len(SYMBOLS)]),
        )
        for index, (label, values_at) in enumerate(cells.items())
    ]
    return Figure(
        name,
        Axis(short(result.factors[over]), "category"),
        [Panel(Axis(f"{result.objective.kind}, {unit}", from_zero=True))],
        traces,
        f"{words.term_text(result, term)}: geometric means over runs. Lines that keep their ratio do not interact.",
        width=440,
        height=300,
    )


def _unit(result: SettingsAt) -> tuple[float, str]:
    """Return the unit in which the objective is drawn, and what values are multiplied with for it."""
    kind = result.objective.kind
    return (1.0, RATES[kind].unit) if kind in RATES else (1e3, "ms")


def course(result: SettingsAt, name: str) -> Figure:
    """Draw an optimiser's trials in their order, and the best so far."""
    values = np.array([value for _, value in result.course])
    higher = result.objective.better == "higher"
    best = np.maximum.accumulate(values) if higher else np.minimum.accumulate(values)
    scale, unit = _unit(result)
    trials = [float(number) for number in range(1, len(values) + 1)]
    texts = [
        f"{words.combination_text(result, result.combinations[number])}\n{quantity(value, result.objective)}"
        for number, value in result.course
    ]
    return Figure(
        name,
        Axis("trial", whole=True),
        [Panel(Axis(f"{result.objective.kind}, {unit}", from_zero=True))],
        [
            Trace(trials, numbers(scale * values), "trials", mark=Mark(COLORS[0]), texts=texts),
            Trace(trials, numbers(scale * best), "best so far", Line(MUTED, steps=True), hover=False),
        ],
        "Each mark is a trial; the first is the default. The best of single trials, "
        f"{quantity(float(best[-1]), result.objective)}, owes some of its lead to luck.",
    )
