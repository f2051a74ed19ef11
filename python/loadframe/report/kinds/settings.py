"""Report on a settings experiment: page and terminal output."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from loadframe.analyze.compare import Measure
from loadframe.analyze.cost import Prices, costs_of
from loadframe.analyze.estimate import Estimate, half_width
from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.finding import Finding
from loadframe.analyze.rates import RATES
from loadframe.analyze.settings.analysis import Response, Settings, SettingsAt, read_settings, short
from loadframe.base.terminal import PrintableConsole
from loadframe.base.units import counted, format_share
from loadframe.report import compare_words, settings_words
from loadframe.report.compare_words import quantity
from loadframe.report.fit import print_findings
from loadframe.report.kinds import Report
from loadframe.report.kinds.compare import contrasts_table
from loadframe.report.numbers import p_text
from loadframe.report.page import Page, render
from loadframe.report.plot import COLORS, MUTED, SYMBOLS, Axis, Figure, LineStyle, Mark, Panel, Trace, numbers
from loadframe.report.plots.forest import Effect, forest
from loadframe.report.run_status import print_trust
from loadframe.report.sections import Further, further
from loadframe.report.setup import experiment_facts
from loadframe.report.tables import Cell, Number, Sections, Table, p_cell, ratio_cell, runs_view, share_cell
from loadframe.report.terminal_table import TerminalTable

#: The number of drawn interactions, those with the largest shares.
_DRAWN = 4
#: The number of drawn effects of one measure.
_EFFECTS = 30
#: The smallest share that is not written as 0.0 %.
_LEAST_SHARE = 0.0005


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


def settings_page(settings: Settings, further: Sections = (), over: Sections = ()) -> Page:
    """Return the page of a settings experiment.

    `further` are the sections that all kinds of experiments have, `over` the section of curves over numeric factors.
    """
    description = settings.folder.description
    example = next((run.run for run in settings.folder.runs if run.sound and run.run), None)
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
    """Return the result of one phase as the page shows it; `prefix` begins the identifiers of its plots.

    `description` is the content of experiment.json.
    """
    return ResultView(
        heading=(heading := settings_words.heading(result)),
        lead=settings_words.lead(result, description["factors"]),
        effects=[
            (
                response.measure.name,
                replace(
                    effects_table(result, index, description["factors"]),
                    figures=[
                        figure.titled(heading, "effects", response.measure.name)
                        for figure in effects_plots(result, index, description["factors"], f"{prefix}-e{index}")
                    ],
                ),
            )
            for index, response in enumerate(result.responses)
        ],
        interactions=interactions(result, prefix, description["factors"]),
        course=None
        if result.responses or not result.course
        else course(result, f"{prefix}-course").titled(heading, "trials"),
        ranking=ranking_table(result) if result.standings else None,
        confirmation=contrasts_table(result.confirmation) if result.confirmation else None,
        warnings=result.warnings,
    )


def effects_plots(result: SettingsAt, index: int, levels: Mapping[str, Sequence[Any]], name: str) -> list[Figure]:
    """Return one plot of the ratios of response number `index` with their intervals; empty without ratios.

    It has at most 30 ratios, from the terms with the largest shares of the variation. `levels` maps each setting to its
    levels, the default first. `name` is the plot's identifier.
    """
    response = result.responses[index]
    effects = []
    for fit in sorted(response.model.terms, key=lambda fit: -fit.share):
        for contrast in (contrast for contrast in response.model.contrasts if contrast.term == fit.term):
            label = (
                f"{settings_words.term_text(result, fit.term)}: {settings_words.level_text(result, contrast, levels)}"
            )
            is_significant = response.claimed(fit.term)
            outcome = "significant" if is_significant else "not significant"
            text = f"{label}\n{settings_words.effect_text(contrast)}"
            # Where failures leave an end open, the ratio is that of the survivors, and only the other end is known.
            is_open = contrast.low_open or contrast.high_open
            ratio = replace(contrast.ratio, value=math.nan) if is_open else contrast.ratio
            effects.append(Effect(label, ratio, text, outcome, is_significant))
    omitted = len(effects) - _EFFECTS
    more = f" {counted(omitted, 'smaller effect')} in the table only." if omitted > 0 else ""
    figure = forest(
        effects[:_EFFECTS],
        name,
        f"{response.measure.phrase}, ratio to the default",
        "Each mark is an effect with its 95 % interval, if runs bound it. The line at 1 is the default:"
        f" effects whose intervals cross it may be chance.{more}",
    )
    return [figure] if figure else []


def effects_table(result: SettingsAt, index: int, levels: Mapping[str, Sequence[Any]]) -> Table:
    """Return the terms of response number `index`, the largest share first, then the other shares of the variation.

    A term has a row for each of its levels, with the ratio to the default. `levels` maps each setting to its levels,
    the default first.
    """
    response = result.responses[index]
    rows = []
    aliased = {fit.term: settings_words.aliases_text(result, response, fit.term) for fit in response.model.terms}
    further = [Cell("")] if any(aliased.values()) else []
    for fit in sorted(response.model.terms, key=lambda fit: -fit.share):
        p = response.adjusted.get(fit.term)
        contrasts = [contrast for contrast in response.model.contrasts if contrast.term == fit.term]
        for number, contrast in enumerate(contrasts or [None]):
            first = number == 0
            rows.append(
                [
                    Cell(
                        settings_words.term_text(result, fit.term) if first else "",
                        tone="" if response.claimed(fit.term) else "muted",
                    ),
                    Cell(settings_words.level_text(result, contrast, levels) if contrast else ""),
                    ratio_cell(settings_words.effect_text(contrast), contrast.ratio) if contrast else Cell(""),
                    share_cell(fit.share, 1) if first else Cell(""),
                    p_cell(p) if first else Cell(""),
                    *([Cell(aliased[fit.term] if first else "", tone="muted")] if further else []),
                ]
            )
    rest = {"blocks": response.model.block_share, "run-to-run variance": response.model.error_share}
    if response.model.unseparated_share >= _LEAST_SHARE:
        rest["effects that the runs do not separate"] = response.model.unseparated_share
    rows += [[Cell(name, tone="muted"), Cell(""), Cell(""), share_cell(share, 1), Cell(""), *further]
             for name, share in rest.items()]  # fmt: skip
    others = "means over the other settings" if response.model.balanced else "with other settings at their defaults"
    return Table(
        ("setting", "level", "ratio", "share of variation", "p", *(["or instead"] if further else [])),
        rows,
        names=2,
        note=f"Ratios of {response.measure.phrase} to the default, {others}, with 95 % intervals. p is"
        " adjusted by Holm for all terms of all measures on this page. Significant effects are in black."
        + (" Last column: effects that the design cannot separate from this one." if further else ""),
        caption=f"Effects of the settings on {response.measure.phrase}",
    )


def ranking_table(result: SettingsAt) -> Table:
    """Return a row for each combination in the order of the ranking, the best first, with ratios to the default."""
    rows, means = [], _means(result)
    for standing in result.standings:
        levels = result.combinations[standing.combination]
        mean = means.get(standing.combination)
        cost = result.costs.get(standing.combination)
        tone = "best" if levels == result.winner else ""
        rows.append(
            [
                Cell(settings_words.combination_text(result, levels), tone=tone),
                Cell(str(standing.runs)),
                Cell(str(result.failed.get(standing.combination, (0, 0))[0])),
                Cell("–")
                if mean is None
                else Cell(quantity(mean, result.objective), number=compare_words.number(mean, result.objective)),
                ratio_cell(settings_words.standing_text(result, standing), standing.ratio, tone=tone),
                Cell(f"{standing.measured:.3g}", number=Number(standing.measured)),
                Cell(
                    settings_words.better_text(standing.better),
                    number=Number(None if standing.better is None else 100 * standing.better, "%"),
                ),
                Cell("–" if cost is None else f"{cost:.2f}", number=Number(cost)),
            ]
        )
    which = " without failed runs" if result.failed else ""
    return Table(
        (
            "combination",
            "runs",
            "failed",
            "mean",
            f"{result.objective.phrase}, ratio",
            "as measured",
            "better than the default",
            "CPU per request, ratio",
        ),
        rows,
        note=f"Ratios to the default, with 95 % intervals from a variance pooled over all combinations{which}. Part of"
        f" the lead of the best is chance: {settings_words.shrinkage_text(result)}",
        caption="Combinations of settings, the best first",
    )


def _means(result: SettingsAt) -> dict[int, float]:
    """Return the geometric mean of the objective at each combination without failed runs, by the combination's number.

    Geometric, as the ratios compare logarithms. In the objective's unit: 1/s or s.
    """
    values: dict[int, list[float]] = defaultdict(list)
    for combination, value in result.course:
        if combination not in result.failed:
            values[combination].append(value)
    return {combination: geometric_mean(known) for combination, known in values.items()}


def interactions(result: SettingsAt, prefix: str, levels: Mapping[str, Sequence[Any]]) -> list[Figure]:
    """Draw the objective at the levels of two settings, for the four interactions with the largest shares.

    Return an empty list without responses. `prefix` begins the identifiers of the plots; `levels` maps each setting to
    its levels.
    """
    if not result.responses:
        return []
    pairs = [fit for fit in result.responses[0].model.terms if len(fit.term) == 2]
    chosen = sorted(pairs, key=lambda fit: -fit.share)[:_DRAWN]
    heading = settings_words.heading(result)
    return [
        _interaction(result, fit.term, f"{prefix}-i{index}", levels).titled(
            heading, settings_words.term_text(result, fit.term)
        )
        for index, fit in enumerate(chosen)
    ]


def _interaction(result: SettingsAt, term: Sequence[int], name: str, levels: Mapping[str, Sequence[Any]]) -> Figure:
    """Draw the means of the objective over the levels of one setting of `term`, a line for each level of the other.

    `term` has the numbers of two settings: the first is the x axis. `name` is the plot's identifier. Rates are in 1/s,
    times in ms.
    """
    over, by = term
    cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, value in result.course:
        combination = result.combinations[number]
        cells[str(combination[by])][str(combination[over])].append(math.log(value))
    ordered = [_in_order(levels[result.factors[factor]]) for factor in (by, over)]
    scale, unit = _unit(result)
    error, freedom = _run_to_run(result)
    failed = {str(result.combinations[number][by]) for number in result.failed}
    traces = []
    for index, label in enumerate(label for label in ordered[0] if label in cells):
        color = COLORS[index % len(COLORS)]
        values_at = {level: cells[label][level] for level in ordered[1] if level in cells[label]}
        means = np.array([np.mean(values) for values in values_at.values()])
        halves = np.array([half_width(error / math.sqrt(len(values)), freedom) for values in values_at.values()])
        bounded = label not in failed and bool(np.isfinite(halves).all())
        traces.append(
            Trace(
                list(values_at),
                numbers(scale * np.exp(means)),
                f"{short(result.factors[by])} {label}",
                LineStyle(color),
                Mark(color, SYMBOLS[index % len(SYMBOLS)]),
                low=numbers(scale * np.exp(means - halves)) if bounded else (),
                high=numbers(scale * np.exp(means + halves)) if bounded else (),
            )
        )
    intervals = "with 95 % intervals from the run-to-run variance"
    if not freedom:
        intervals = "without intervals, because the run-to-run variance is unknown"
    elif failed:
        intervals += ", except for lines with failed runs"
    return Figure(
        name,
        Axis(short(result.factors[over]), "category"),
        [Panel(Axis(f"{result.objective.kind}, {unit}", from_zero=True))],
        traces,
        f"{settings_words.term_text(result, term)}: geometric means over runs, {intervals}. Parallel lines do"
        " not interact.",
        width=440,
        height=300,
    )


def _in_order(levels: Sequence[Any]) -> list[str]:
    """Return levels as text: ascending if all are numbers, else in the given order."""
    numeric = all(isinstance(level, int | float) for level in levels)
    return [str(level) for level in (sorted(levels) if numeric else levels)]


def _run_to_run(result: SettingsAt) -> tuple[float, int]:
    """Return the pooled standard deviation of logarithms within a combination, and its degrees of freedom.

    Combinations at which the store failed do not count. (0.0, 0) without other repeated combinations.
    """
    by_combination: dict[int, list[float]] = defaultdict(list)
    for number, value in result.course:
        if number not in result.failed:
            by_combination[number].append(math.log(value))
    freedom = sum(len(logs) - 1 for logs in by_combination.values())
    squares = sum(float(((np.array(logs) - np.mean(logs)) ** 2).sum()) for logs in by_combination.values())
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def _unit(result: SettingsAt) -> tuple[float, str]:
    """Return the factor from recorded values to the drawn unit of the objective, and the unit: 1/s or ms."""
    kind = result.objective.kind
    return (1.0, RATES[kind].unit) if kind in RATES else (1e3, "ms")


def course(result: SettingsAt, name: str) -> Figure:
    """Draw the trials of an optimiser in order, and the best value so far. `name` is the plot's identifier.

    The result must have a trial. Rates are drawn in 1/s, times in ms.
    """
    values = np.array([value for _, value in result.course])
    higher = result.objective.better == "higher"
    best = np.maximum.accumulate(values) if higher else np.minimum.accumulate(values)
    scale, unit = _unit(result)
    trials = [float(number) for number in range(1, len(values) + 1)]
    texts = [
        f"{settings_words.combination_text(result, result.combinations[number])}\n{quantity(value, result.objective)}"
        for number, value in result.course
    ]
    return Figure(
        name,
        Axis("trial", whole=True),
        [Panel(Axis(f"{result.objective.kind}, {unit}", from_zero=True))],
        [
            Trace(trials, numbers(scale * values), "trials", mark=Mark(COLORS[0]), texts=texts),
            Trace(trials, numbers(scale * best), "best so far", LineStyle(MUTED, steps=True), hover=False),
        ],
        "Each mark is a trial; the first is the default. The best single trial, "
        f"{quantity(float(best[-1]), result.objective)}, is biased by chance.",
    )


_SHOWN = 8


def print_settings(settings: Settings, console: Console | None = None, further: Further | None = None) -> None:
    """Print a settings experiment in brief, on standard output unless another console is given.

    Each phase and size has its answer, effects, ranking and warnings. Then follow the `further` tables and the used
    runs.
    """
    console = console or PrintableConsole()
    description = settings.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for result in settings.results:
        console.print()
        if len(settings.results) > 1:
            console.print(Text(settings_words.heading(result), style="bold"))
        for sentence in settings_words.lead(result, description["factors"]):
            console.print(Text(sentence))
        if result.responses:
            console.print()
            _effects(result, description["factors"]).print(console)
        if result.standings:
            console.print()
            _ranking(result).print(console)
        print_findings(console, result.warnings)
    console.print()
    if further:
        further.print(console)
    print_trust(settings.folder, console)


def _effects(result: SettingsAt, levels: Mapping[str, Sequence[Any]]) -> TerminalTable:
    """Return the terms with the eight largest shares of the first response as a table for the terminal.

    `levels` maps each setting to its levels, the default first.
    """
    response = result.responses[0]
    aliased = {fit.term: settings_words.aliases_text(result, response, fit.term) for fit in response.model.terms}
    further = any(aliased.values())
    table = TerminalTable(("setting", "share", "p", "ratio", "level", *(["or instead"] if further else [])))
    for fit in sorted(response.model.terms, key=lambda fit: -fit.share)[:_SHOWN]:
        p = response.adjusted.get(fit.term)
        contrasts = [contrast for contrast in response.model.contrasts if contrast.term == fit.term]
        name = Text(settings_words.term_text(result, fit.term), style="" if response.claimed(fit.term) else "dim")
        first: list[Text | str] = [name, format_share(fit.share, 1), "" if p is None else p_text(p)]
        others = [aliased[fit.term]] if further else []
        if not contrasts:
            table.add(*first, "", "", *others)
        for contrast in contrasts:
            table.add(
                *first,
                settings_words.effect_text(contrast),
                settings_words.level_text(result, contrast, levels),
                *others,
            )
            first, others = ["", "", ""], [""] * len(others)
    return table


def _ranking(result: SettingsAt) -> TerminalTable:
    """Return the eight best combinations as a table for the terminal, the best first, with ratios to the default."""
    name = f"combination, by {result.objective.phrase}"
    table = TerminalTable((name, "runs", "failed", "mean", "ratio", "better", "CPU per request"))
    means = _means(result)
    for standing in result.standings[:_SHOWN]:
        cost = result.costs.get(standing.combination)
        table.add(
            settings_words.combination_text(result, result.combinations[standing.combination]),
            str(standing.runs),
            str(result.failed.get(standing.combination, (0, 0))[0] or ""),
            quantity(mean, result.objective) if (mean := means.get(standing.combination)) else "",
            settings_words.standing_text(result, standing),
            settings_words.better_text(standing.better),
            "" if cost is None else f"{cost:.2f}",
        )
    return table


def settings_document(settings: Settings) -> dict[str, Any]:
    """Return the analysis of all phases and sizes, the runs and the excluded runs as a dictionary for JSON."""
    description = settings.folder.description
    return {
        "experiment": description["experiment"],
        "question": description.get("question"),
        "scheme": description["scheme"],
        "results": [_result(result) for result in settings.results],
        "runs": [run.as_dict() for run in settings.folder.runs],
        **excluded_document(settings.folder),
    }


def _result(result: SettingsAt) -> dict[str, Any]:
    """Return the result of one phase at one size for JSON."""
    levels = [dict(zip(result.factors, combination, strict=True)) for combination in result.combinations]
    means = _means(result)
    return {
        "at": dict(result.at),
        "phase": result.phase,
        "objective": result.objective.as_dict(),
        "responses": [_response(response, result) for response in result.responses],
        "ranking": [
            {
                "levels": levels[standing.combination],
                "runs": standing.runs,
                "failed_runs": result.failed.get(standing.combination, (0, 0))[0],
                "mean": means.get(standing.combination),
                "ratio": _ratio(result.objective, standing.ratio, is_open=settings_words.is_open(result, standing)),
                "ratio_measured": standing.measured,
                "probability_better": standing.better,
                "cpu_cost": result.costs.get(standing.combination),
            }
            for standing in result.standings
        ],
        "failed": [
            {"levels": levels[number], "failed": failed, "runs": total}
            for number, (failed, total) in result.failed.items()
        ],
        "winner": result.winner and dict(zip(result.factors, result.winner, strict=True)),
        "confirmation": result.confirmation and result.confirmation.as_dict(),
        "course": [{"levels": levels[number], "value": value} for number, value in result.course],
        "warnings": [warning.as_dict() for warning in result.warnings],
    }


def _ratio(measure: Measure, ratio: Estimate, *, is_open: bool) -> dict[str, float | None]:
    """Return a ratio for JSON; `is_open`: failures leave an end open, so the survivors' value is null."""
    return measure.interval(ratio, of_ratio=True) | ({"value": None} if is_open else {})


def _response(response: Response, result: SettingsAt) -> dict[str, Any]:
    """Return the model of one response for JSON: terms, effects, and the other shares of the variation."""
    model = response.model
    return {
        **response.measure.as_dict(),
        "terms": [
            {
                "factors": [result.factors[index] for index in fit.term],
                "share": fit.share,
                "p": response.adjusted.get(fit.term),
                "claimed": response.claimed(fit.term),
                "aliases": [
                    {"factors": [result.factors[index] for index in alias.term], "part": alias.part}
                    for alias in model.aliases.get(fit.term, ())
                ],
            }
            for fit in model.terms
        ],
        "effects": [
            {
                "factors": [result.factors[index] for index in contrast.term],
                "levels": list(contrast.levels),
                "ratio": _ratio(response.measure, contrast.ratio, is_open=contrast.low_open or contrast.high_open),
            }
            for contrast in model.contrasts
        ],
        "block_share": model.block_share,
        "error_share": model.error_share,
        "unseparated_share": model.unseparated_share,
    }


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on the experiment in a folder: effects, ranking and confirmation.

    `bands` are the bounds of latency buckets, s. BadInput if it is not an experiment, or is broken. KeyError for
    another kind.
    """
    settings = read_settings(path)
    prices = Prices.of(settings.folder.description)
    more = further(settings.folder, bands, prices, costs_of(settings.folder, prices) if prices else ())
    return Report(
        settings_page(settings, more.sections, more.curves),
        settings_document(settings) | more.document,
        lambda console: print_settings(settings, console, more),
    )
