"""A settings experiment on the terminal: the answer, effects, the ranking, what to doubt."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from loadframe.analyze.effects.settings import Settings, SettingsAt
from loadframe.report.comparison.words import p_text
from loadframe.report.fit.terminal import print_findings
from loadframe.report.further import Further
from loadframe.report.numbers import estimate_text
from loadframe.report.settings import words
from loadframe.report.terminal_table import TerminalTable
from loadframe.report.trust import print_trust
from loadframe.terminal import PrintableConsole
from loadframe.units import format_share

_SHOWN = 8


def print_settings(settings: Settings, console: Console | None = None, further: Further | None = None) -> None:
    """Print a settings experiment in brief, on standard output unless another console is given."""
    console = console or PrintableConsole()
    description = settings.folder.description
    console.print(Text(description.get("question") or description["experiment"], style="bold"))
    for result in settings.results:
        console.print()
        if len(settings.results) > 1:
            console.print(Text(words.heading(result), style="bold"))
        for sentence in words.lead(result, description["factors"]):
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
    response = result.responses[0]
    aliased = {fit.term: words.aliases_text(result, response, fit.term) for fit in response.model.terms}
    further = any(aliased.values())
    table = TerminalTable(("setting", "share", "p", "ratio", "level", *(["or instead"] if further else [])))
    for fit in sorted(response.model.terms, key=lambda fit: -fit.share)[:_SHOWN]:
        p = response.adjusted.get(fit.term)
        contrasts = [contrast for contrast in response.model.contrasts if contrast.term == fit.term]
        name = Text(words.term_text(result, fit.term), style="" if response.claimed(fit.term) else "dim")
        first: list[Text | str] = [name, format_share(fit.share, 1), "" if p is None else p_text(p)]
        others = [aliased[fit.term]] if further else []
        if not contrasts:
            table.add(*first, "", "", *others)
        for contrast in contrasts:
            table.add(*first, words.effect_text(contrast), words.level_text(result, contrast, levels), *others)
            first, others = ["", "", ""], [""] * len(others)
    return table


def _ranking(result: SettingsAt) -> TerminalTable:
    name = f"combination, by {result.objective.phrase}"
    table = TerminalTable((name, "runs", "failed", "ratio", "as measured", "better", "CPU per request"))
    for standing in result.standings[:_SHOWN]:
        cost = result.costs.get(standing.combination)
        table.add(
            words.combination_text(result, result.combinations[standing.combination]),
            str(standing.runs),
            str(result.failed.get(standing.combination, (0, 0))[0] or ""),
            estimate_text(standing.ratio) if standing.ratio.is_finite else f"{standing.ratio.value:.3g}",
            f"{standing.measured:.3g}",
            words.better_text(standing.better),
            "" if cost is None else f"{cost:.2f}",
        )
    return table
