"""A settings experiment in words: what matters, which combination is best, whether that held when measured again."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.analyze.settings.analysis import Response, SettingsAt, short, term_name
from loadframe.analyze.settings.analysis import aliases_text as named_aliases
from loadframe.analyze.settings.model import Contrast
from loadframe.base.units import counted, format_change, format_count, format_share
from loadframe.report.compare_words import p_text, ratio_text
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import estimate_text

_LISTED = 4


def heading(result: SettingsAt) -> str:
    """Return what tells this result from others of the experiment: the phase, and the size."""
    at = treatment_text(result.at)
    return f"{result.phase}, {at}" if at else result.phase


def lead(result: SettingsAt, levels: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the sentences that answer, for one phase at one size; `levels` are each setting's, the default first."""
    if not result.course:
        return ["No answer: no run is valid."]
    words = []
    if result.responses:
        words.append(_effects(result, result.responses[0], levels))
    words.append(_winner(result))
    return words


def combination_text(result: SettingsAt, levels: Sequence[Any]) -> str:
    """Write the levels in which a combination differs from the default."""
    changed = [
        f"{short(name)} {level}"
        for name, level, default in zip(result.factors, levels, result.combinations[0], strict=True)
        if level != default
    ]
    return ", ".join(changed) or "default"


def term_text(result: SettingsAt, term: Sequence[int]) -> str:
    """Write a term: the settings that it is made of."""
    return term_name(tuple(term), result.factors)


def aliases_text(result: SettingsAt, response: Response, term: Sequence[int]) -> str:
    """Say which interactions the design cannot separate from a term; empty where there are none."""
    return named_aliases(response.model, tuple(term), result.factors)


def effect_text(contrast: Contrast) -> str:
    """Write an effect as a ratio with its interval."""
    ratio = contrast.ratio
    return estimate_text(ratio) if ratio.is_finite else f"{ratio.value:.3g}"


def level_text(result: SettingsAt, contrast: Contrast, levels: Mapping[str, Sequence[Any]]) -> str:
    """Write what is compared with the default: `heap 256m`, or for two settings `beyond each alone`."""
    if len(contrast.term) > 1:
        return "beyond each alone"
    named = levels[result.factors[contrast.term[0]]]
    return f"{named[contrast.levels[0]]} instead of {named[0]}"


def better_text(probability: float | None) -> str:
    """Write a probability without claiming certainty."""
    if probability is None:
        return "–"
    return "> 99.9 %" if probability > 0.999 else "< 0.1 %" if probability < 0.001 else format_share(probability, 1)


def shrinkage_text(result: SettingsAt) -> str:
    """Say how the lead of the first combination was corrected for chance."""
    if all(standing.better is None for standing in result.standings):
        return "the runs do not show how they scatter, so it is unknown how much of its lead is due to chance."
    return (
        "each ratio is therefore shrunk towards what the combinations have in common; the measured ratio stands"
        " beside it."
    )


def _effects(result: SettingsAt, response: Response, levels: Mapping[str, Sequence[Any]]) -> str:
    model = response.model
    ranked = sorted(model.terms, key=lambda fit: -fit.share)
    claimed = [fit for fit in ranked if response.claimed(fit.term)]
    what = response.measure.phrase
    if all(fit.p is None for fit in ranked):
        return f"Whether a setting changes {what} is unknown: the runs do not show how they scatter."
    if not claimed and result.winner is not None:
        return (
            f"Which setting changes {what} is not decided: no effect of a setting or an interaction, averaged over all"
            " combinations, stands out of the scatter of the runs."
        )
    if not claimed:
        return f"No setting changes {what} by more than the scatter of the runs."
    parts = []
    for fit in claimed[:_LISTED]:
        largest = max(
            (contrast for contrast in model.contrasts if contrast.term == fit.term),
            key=lambda contrast: abs(contrast.value),
            default=None,
        )
        size = f"; ratio {effect_text(largest)}, {level_text(result, largest, levels)}" if largest else ""
        others = aliases_text(result, response, fit.term)
        name = f"{term_text(result, fit.term)}{f' (or {others})' if others else ''}"
        parts.append(f"{name} ({format_share(fit.share)} of the variation{size})")
    more = f", and {len(claimed) - _LISTED} more" if len(claimed) > _LISTED else ""
    return f"What changes {what}: {', '.join(parts)}{more}."


def _winner(result: SettingsAt) -> str:
    ranked = {standing.combination: standing for standing in result.standings}
    if 0 not in ranked and 0 in result.failed:
        return "No comparison: the store failed in every run at the default."
    if len(ranked) < 2:
        return "No comparison: only one combination has valid runs."
    if result.winner is None:
        beats = f"Nothing beats the default in {result.objective.phrase}"
        candidates = [standing for number, standing in ranked.items() if number and number not in result.failed]
        if candidates and all(standing.better is None for standing in candidates):
            beats += " as measured, which includes chance"
        return f"{beats}{_passed_over(result)}."
    name = combination_text(result, result.winner)
    standing = next(
        (candidate for candidate in result.standings if result.combinations[candidate.combination] == result.winner),
        None,
    )
    again = _confirmed(result)
    words = again or f"{name} looks best, which may be chance: it was not measured again"
    if standing:
        chose = f"{format_change(standing.measured - 1)} in {result.objective.phrase} against the default"
        if standing.better is None:
            words += f". The runs that chose it have {chose}, which includes chance"
        else:
            words += (
                f". The runs that chose it have {chose}, or {format_change(standing.ratio.value - 1)} after shrinkage,"
                f" and a probability of {better_text(standing.better)} that it is better"
            )
    cost = result.costs.get(standing.combination) if standing else None
    if cost:
        words += f"; each request costs {format_count(cost)} times the CPU time"
    return f"{words}{_passed_over(result)}."


def _passed_over(result: SettingsAt) -> str:
    """Say at which combinations the store failed; empty without any."""
    failing = [combination_text(result, result.combinations[number]) for number in result.failed if number]
    return f"; the store failed at {' and at '.join(failing)}, which counts against them" if failing else ""


def _confirmed(result: SettingsAt) -> str:
    """Say what fresh runs show of the winner; empty if it was not measured again."""
    if result.confirmation is None or result.winner is None:
        return ""
    name = combination_text(result, result.winner)
    _, winner = result.confirmation.groups
    if winner.failed:
        failed = f"{len(winner.failed)} of {len(winner.runs)} runs"
        return f"{name} looked best, and did not hold: measured again, the store failed in {failed}"
    again = next(
        (contrast for contrast in result.confirmation.contrasts if contrast.measure == result.objective),
        None,
    )
    if again is None:
        return f"{name} looked best: measured again, but no run of it is valid"
    held = {
        "better": f"The best combination is {name}",
        "worse": f"{name} looked best, and did not hold",
        "alike": f"{name} looked best, and its lead was gone",
        "open": f"{name} looked best, which is not decided",
    }
    figures = f"ratio {ratio_text(again)}, p = {p_text(again.p)}".replace("= <", "<")
    return (
        f"{held[again.outcome]}: measured again, {format_change(again.ratio.value - 1)} in {result.objective.phrase}"
        f" against the default ({counted(len(again.second), 'run')} against {len(again.first)}; {figures})"
    )
