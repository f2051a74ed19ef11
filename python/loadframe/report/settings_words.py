"""Sentences on a settings experiment: significant effects, the best combination, and its confirmation."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.settings.analysis import Response, SettingsAt, hidden_settings, short, term_name
from loadframe.analyze.settings.analysis import aliases_text as named_aliases
from loadframe.analyze.settings.model import Contrast
from loadframe.analyze.settings.ranking import RankedCombination
from loadframe.base.units import counted, format_change, format_count, format_share
from loadframe.report.compare_words import ratio_text
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import estimate_text, known_end_text, p_text

_LISTED = 4


def heading(result: SettingsAt) -> str:
    """Return the heading of a result: its phase, and after a comma its size, such as `nodes 2`, if it has one."""
    at = treatment_text(result.at)
    return f"{result.phase}, {at}" if at else result.phase


def lead(result: SettingsAt, levels: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the answer for one phase at one size: the effects on the first response, then the best combination.

    `levels` maps each setting to its levels, the default first.
    """
    if not result.course:
        return ["No answer: no run is valid."]
    words = []
    if result.responses:
        words.append(_effects(result, result.responses[0], levels))
    words.append(_winner(result))
    return words


def combination_text(result: SettingsAt, levels: Sequence[Any]) -> str:
    """Write the levels of a combination that differ from the default; `default` if none does.

    `levels` has the level of each of `result.factors`.
    """
    changed = [
        f"{short(name)} {level}"
        for name, level, default in zip(result.factors, levels, result.combinations[0], strict=True)
        if level != default
    ]
    return ", ".join(changed) or "default"


def term_text(result: SettingsAt, term: Sequence[int]) -> str:
    """Write the short names of a term's settings, joined by ` × `. `term` has their numbers in `result.factors`."""
    return term_name(tuple(term), result.factors)


def aliases_text(result: SettingsAt, response: Response, term: Sequence[int]) -> str:
    """Write the interactions that the design cannot separate from a term; empty without any.

    `term` has the numbers of its settings in `result.factors`.
    """
    return named_aliases(response.model, tuple(term), result.factors)


def effect_text(contrast: Contrast) -> str:
    """Write an effect as a ratio (1: no effect) with its 95 % interval, or the ratio alone if that is not finite.

    If failed runs leave an end open, write the other end: `below 1.2`, `above 0.8`, or `unknown` if neither is known.
    """
    return _ratio_text(contrast.ratio, contrast.low_open or contrast.high_open)


def is_open(result: SettingsAt, standing: RankedCombination) -> bool:
    """Return whether failures at a combination or at the default leave an end of its ratio open."""
    return standing.combination != 0 and any(number in result.failed for number in (0, standing.combination))


def standing_text(result: SettingsAt, standing: RankedCombination) -> str:
    """Write a combination's ratio to the default like an effect; failures of either one leave an end open."""
    return _ratio_text(standing.ratio, is_open(result, standing))


def _ratio_text(ratio: Estimate, is_open: bool) -> str:
    """Write a ratio with its interval, or alone if that is not finite.

    If `is_open`, write only `below` its high end, else `above` its low end, or `unknown` if neither is known.
    """
    if not is_open:
        return estimate_text(ratio) if ratio.is_finite else f"{ratio.value:.3g}"
    return known_end_text(ratio)


def level_text(result: SettingsAt, contrast: Contrast, levels: Mapping[str, Sequence[Any]]) -> str:
    """Write the level of an effect and the default: `256m instead of 128m`; for an interaction `beyond each alone`.

    Interactions of settings with more than two levels begin with the levels: `256m with 4, beyond each alone`.
    `levels` maps each setting to its levels, the default first.
    """
    named = [levels[result.factors[index]] for index in contrast.term]
    chosen = [str(names[level]) for names, level in zip(named, contrast.levels, strict=True)]
    if len(named) == 1:
        return f"{chosen[0]} instead of {named[0][0]}"
    beyond = "beyond each alone" if len(named) == 2 else "beyond each alone and in pairs"
    return f"{' with '.join(chosen)}, {beyond}" if max(map(len, named)) > 2 else beyond


def better_text(probability: float | None) -> str:
    """Write a probability (0 to 1) in %, limited to `< 0.1 %` and `> 99.9 %`; a dash for None."""
    if probability is None:
        return "–"
    return "> 99.9 %" if probability > 0.999 else "< 0.1 %" if probability < 0.001 else format_share(probability, 1)


def shrinkage_text(result: SettingsAt) -> str:
    """Return, as the end of a sentence, how ratios are shrunk for the selection of the best, or that it is unknown."""
    if all(standing.better is None for standing in result.standings):
        return "how much is unknown, because the run-to-run variance is unknown."
    which = "each ratio of a combination without failed runs" if result.failed else "each ratio"
    return f"{which} is therefore shrunk towards the common mean, beside the measured ratio."


def _effects(result: SettingsAt, response: Response, levels: Mapping[str, Sequence[Any]]) -> str:
    """Return a sentence on the significant effects on one response, or why no effect is shown.

    It lists the four settings or interactions with the largest shares of the variation. Failed runs may change these
    shares, so it omits them then. `levels` maps each setting to its levels, the default first.
    """
    model = response.model
    ranked = sorted(model.terms, key=lambda fit: -fit.share)
    claimed = [fit for fit in ranked if response.claimed(fit.term)]
    measure = response.measure.phrase
    if all(fit.p is None for fit in ranked):
        sound = " at combinations without failures" if result.failed else ""
        return f"Inconclusive: whether a setting changes {measure} is unknown: too few valid runs{sound}."
    if not claimed and result.failed:
        return f"Inconclusive: which settings change {measure} is unknown, because the store failed {_where(result)}."
    untested = [term_text(result, fit.term) for fit in model.terms if fit.p is None and len(fit.term) == 1]
    if not claimed and (result.unknown or untested):
        named = ", ".join([*untested, *map(short, result.unknown)])
        return (
            f"Inconclusive: the effect of {named} on {measure} is unknown, and no other setting changes it"
            " by more than the run-to-run variance."
        )
    if not claimed and result.winner is not None:
        return (
            f"Inconclusive: no setting or interaction, averaged over all combinations, changes {measure} by more than"
            " the run-to-run variance."
        )
    if not claimed:
        return f"No setting changes {measure} by more than the run-to-run variance."
    parts = []
    for fit in claimed[:_LISTED]:
        effects = [one for one in model.contrasts if one.term == fit.term and one.excludes_none]
        largest = max(effects, key=lambda contrast: abs(contrast.value), default=None)
        figures = [] if result.failed else [f"{format_share(fit.share)} of the variation"]
        if largest:
            figures.append(f"ratio {effect_text(largest)}, {level_text(result, largest, levels)}")
        others = aliases_text(result, response, fit.term)
        name = f"{term_text(result, fit.term)}{f' (or {others})' if others else ''}"
        parts.append(f"{name} ({'; '.join(figures)})" if figures else name)
    more = f", and {len(claimed) - _LISTED} more" if len(claimed) > _LISTED else ""
    return f"Settings that change {measure}: {', '.join(parts)}{more}."


def _where(result: SettingsAt) -> str:
    """Write in how many runs the store failed, or at which combinations in every run, and why effects are unknown."""
    if hidden_settings(result.responses[0], result.factors):
        dead = [result.combinations[number] for number, (failed, total) in result.failed.items() if failed == total]
        listed = " and at ".join(combination_text(result, levels) for levels in dead)
        return f"in every run at {listed}, where settings may interact"
    failed = sum(failed for failed, _ in result.failed.values())
    return f"in {counted(failed, 'run')}, which bound each effect on one side at most"


def _winner(result: SettingsAt) -> str:
    """Return a sentence on the best combination, its lead and confirmation, or why none beats the default."""
    ranked = {standing.combination: standing for standing in result.standings}
    if 0 not in ranked and 0 in result.failed:
        return "No comparison: the store failed in every run at the default."
    if len(ranked) < 2:
        return "No comparison: only one combination has valid runs."
    if result.winner is None and result.unknown and result.standings[0].combination:
        named = ", ".join(map(short, result.unknown))
        return f"The best combination is unknown, as is the effect of {named}."
    if result.winner is None:
        beats = f"No combination beats the default in {result.objective.phrase}"
        candidates = [standing for number, standing in ranked.items() if number and number not in result.failed]
        if candidates and all(standing.better is None for standing in candidates):
            beats += " (not corrected for chance)"
        return f"{beats}{_failed_combinations(result)}."
    name = combination_text(result, result.winner)
    standing = next(
        (candidate for candidate in result.standings if result.combinations[candidate.combination] == result.winner),
        None,
    )
    again = _confirmed(result)
    words = again or f"{name} looks best, which may be chance: it was not measured again"
    if standing:
        change = f"{format_change(standing.measured - 1)} in {result.objective.phrase} against the default"
        words += f". In the selecting runs: {change}"
        if standing.better is None:
            words += ", not corrected for chance"
        else:
            words += (
                f" ({format_change(standing.ratio.value - 1)} after shrinkage), better with a probability of"
                f" {better_text(standing.better)}"
            )
    cost = result.costs.get(standing.combination) if standing else None
    if cost:
        words += f"; a request costs {format_count(cost)} times the CPU time"
    return f"{words}{_failed_combinations(result)}."


def _failed_combinations(result: SettingsAt) -> str:
    """Write, after `; `, the combinations other than the default at which the store failed; empty without any."""
    failing = [combination_text(result, result.combinations[number]) for number in result.failed if number]
    return f"; the store failed at {' and at '.join(failing)}, which counts against them" if failing else ""


def _confirmed(result: SettingsAt) -> str:
    """Return the result of the confirmation runs of the winner; empty without confirmation."""
    if result.confirmation is None or result.winner is None:
        return ""
    name = combination_text(result, result.winner)
    _, winner = result.confirmation.groups
    if winner.failed:
        failed = f"{len(winner.failed)} of {counted(len(winner.runs), 'run')}"
        return f"{name} looked best, but was not confirmed: measured again, the store failed in {failed}"
    again = next(
        (contrast for contrast in result.confirmation.contrasts if contrast.measure == result.objective),
        None,
    )
    if again is None:
        return f"{name} looked best: it was measured again, but none of these runs is valid"
    held = {
        "better": f"The best combination is {name}",
        "worse": f"{name} looked best, but was not confirmed",
        "alike": f"{name} looked best, but is no better",
        "inconclusive": f"{name} looked best, but the confirmation is inconclusive",
    }
    figures = f"ratio {ratio_text(again)}, p = {p_text(again.p)}".replace("= <", "<")
    return (
        f"{held[again.outcome]}: measured again, {format_change(again.ratio.value - 1)} in {result.objective.phrase}"
        f" against the default ({counted(len(again.second), 'run')} against {len(again.first)}; {figures})"
    )
