"""A settings experiment on the terminal: the answer, effects, the ranking, what to doubt."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadframe.analyze.effects.settings import Settings, SettingsAt
from loadframe.report import settings_words as words
from loadframe.report.comparison_words import p_text
from loadframe.report.fit_terminal import print_findings
from loadframe.report.numbers import estimate_text
from loadframe.report.trust import print_trust
from loadframe.units import format_share

_SHOWN = 8


def print_settings(settings: Settings, console: Console | None = None) -> None:
    """Print a settings experiment in brief, on standard output unless another console is given."""
    console = console or Console()
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
            console.print(_effects(result, description["factors"]))
        if result.standings:
            console.print()
            console.print(_ranking(result))
        print_findings(console, result.warnings)
    console.print()
    print_trust(settings.folder, console)


def _effects(result: SettingsAt, levels: Mapping[str, Sequence[Any]]) -> Table:
    response = result.responses[0]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("setting")
    for header in ("share", "p", "ratio"):
        table.add_column(header, justify="right")
    table.add_column("level")
    aliased = {fit.term: words.aliases_text(result, response, fit.term) for fit in response.model.terms}
    if any(aliased.values()):
        table.add_column("or instead")
    for fit in sorted(response.model.terms, key=lambda fit: -fit.share)[:_SHOWN]:
        p = response.adjusted.get(fit.term)
        contrasts = [each for each in response.model.contrasts if each.term == fit.term]
        name = Text(words.term_text(result, fit.term), style="" if response.claimed(fit.term) else "dim")
        first: list[Text | str] = [name, format_share(fit.share, 1), "" if p is None else p_text(p)]
        others = [Text(aliased[fit.term])] if any(aliased.values()) else []
        if not contrasts:
            table.add_row(*first, "", "", *others)
        for each in contrasts:
            table.add_row(*first, Text(words.effect_text(each)), Text(words.level_text(result, each, levels)), *others)
            first, others = ["", "", ""], []
    return table


def _ranking(result: SettingsAt) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(f"combination, by {result.objective.phrase}")
    for header in ("runs", "ratio", "as measured", "better", "CPU per request"):
        table.add_column(header, justify="right")
    for each in result.standings[:_SHOWN]:
        cost = result.costs.get(each.combination)
        ratio = estimate_text(each.ratio) if each.ratio.is_finite else f"{each.ratio.value:.3g}"
        table.add_row(
            Text(words.combination_text(result, result.combinations[each.combination])),
            str(each.runs),
            Text(ratio),
            f"{each.measured:.3g}",
            words.better_text(each.better),
            "" if cost is None else f"{cost:.2f}",
        )
    return table
