"""A comparison in words: a sentence for each contrast, and what each came to."""

from collections.abc import Sequence

from loadframe.analyze.compare import Comparison, Contrast
from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.rates import RATES
from loadframe.base.units import format_change, format_count, format_share
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.numbers import estimate_text

#: What outcomes are called in tables.
OUTCOMES = {"better": "better", "worse": "worse", "alike": "no difference that matters", "open": "not decided"}


def quantity(value: float, measure: Measure) -> str:
    """Write a value of a measure with its unit."""
    if measure.kind == "errors":
        return format_share(value, 2)
    return f"{format_count(value)}/s" if measure.kind in RATES else seconds_text(value)


def name(contrast: Contrast) -> str:
    """Write what is compared: the measure, and the treatment where there are several."""
    at = treatment_text(contrast.treatment)
    return f"{contrast.measure.name}, {at}" if at else contrast.measure.name


def ratio_text(contrast: Contrast) -> str:
    """Write the ratio with its interval, or alone where too few runs bound it."""
    ratio = contrast.ratio
    return estimate_text(ratio) if ratio.is_finite else f"{ratio.value:.3g}"


def p_text(p: float) -> str:
    """Write a p value."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def sentence(contrast: Contrast, comparison: Comparison) -> str:
    """Say what one contrast means."""
    before, after = (quantity(value, contrast.measure) for value in contrast.medians)
    figures = (
        f"{name(contrast)}: {contrast.label} {after}, {contrast.baseline} {before},"
        f" {format_change(contrast.ratio.value - 1)}"
    )
    interval = f"ratio {ratio_text(contrast)}, p = {p_text(contrast.p)}".replace("= <", "<")
    least = format_share(comparison.least)
    ending = {
        "better": f"that is better ({interval})",
        "worse": f"that is worse ({interval})",
        "alike": f"a difference of {least} or more is excluded ({interval})",
        "open": f"these runs do not decide whether the difference is {least} or more ({interval})",
    }[contrast.outcome]
    return f"{figures}; {ending}{_survivors(contrast)}."


def _survivors(contrast: Contrast) -> str:
    """Say on which side the figures leave failed runs or requests out; empty where they do not."""
    sides = zip((contrast.baseline, contrast.label), contrast.failed, contrast.blind, strict=True)
    words = [
        f"the store failed in {failed} run{'s' * (failed != 1)} of {label}" if failed
        else f"too many requests of {label} failed for this figure to show them"
        for label, failed, blind in sides if failed or blind
    ]  # fmt: skip
    return f"; {' and '.join(words)}" if words else ""


def lead(comparison: Comparison) -> list[str]:
    """Return the sentences that answer: one for each contrast of the first measure, at most six."""
    if not comparison.contrasts:
        words = ["No answer: the groups have no measure in common in their valid runs."]
        return words + [f"The store failed in {len(g.failed)} of {len(g.runs)} runs of {g.label}."
                        for g in comparison.groups if g.failed]  # fmt: skip
    first = comparison.contrasts[0].measure
    chosen = [contrast for contrast in comparison.contrasts if contrast.measure == first]
    words = [sentence(contrast, comparison) for contrast in chosen[:6]]
    words += [f"The table has {len(chosen) - 6} more."] if len(chosen) > 6 else []
    return words + _decided([contrast for contrast in comparison.contrasts if contrast.measure != first])


def _decided(others: Sequence[Contrast]) -> list[str]:
    """Return a sentence for each group whose other measures are decided: `new is worse in p50, p99 and max.`"""
    words = []
    for label in dict.fromkeys(contrast.label for contrast in others):
        parts = []
        for outcome in ("worse", "better"):
            names = [name(contrast) for contrast in others if (contrast.label, contrast.outcome) == (label, outcome)]
            if names:
                shown = names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more"]
                listed = f"{'; '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
                parts.append(f"{outcome} in {listed}")
        if parts:
            words.append(f"{label} is {', and '.join(parts)}.")
    return words


def runs_text(comparison: Comparison) -> str:
    """Say how many runs each group has, and how many were left out."""
    parts = []
    for group in comparison.groups:
        counts = ((len(group.left_out), "left out"), (len(group.failed), "failed"))
        told = ", ".join(f"{count} {what}" for count, what in counts if count)
        left = f" ({told})" if told else ""
        parts.append(f"{group.label}: {len(group.usable)} run{'s' * (len(group.usable) != 1)}{left}")
    return "; ".join(parts)


def note(comparison: Comparison) -> str:
    """Return how to read the table."""
    robust = comparison.groups[0].robust
    ratio = "that of trimmed means of logarithms (estimate: robust)" if robust else "that of geometric means"
    return (
        f"The ratio is {ratio} with its 95 % interval, by a t test on logarithms that accounts for blocks and sessions"
        " in which the runs were made. p is adjusted by Holm for all rows. Cliff's delta is +1 where every run of the"
        " group is above every run of the baseline."
    )
