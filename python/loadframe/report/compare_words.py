"""Sentences on a comparison: one for each contrast, and the number of runs of each group."""

import math
from collections import Counter
from collections.abc import Sequence

from loadframe.analyze.compare import Comparison, Contrast, Group
from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.estimate import half_width
from loadframe.analyze.rates import RATES
from loadframe.base.units import counted, format_change, format_count, format_rare, format_share, written_apart
from loadframe.report.labels import UNKNOWN, seconds_text, treatment_text
from loadframe.report.numbers import limit_text, measured_text, near_ends, p_text
from loadframe.report.run_status import why
from loadframe.report.tables import Cell, Number

#: Largest argument of exp() without overflow.
_MOST = 700.0
#: Phases of the workload `ycsb` that YCSB names by capitals.
_YCSB = tuple("abcdef")
#: Relative rounding error that a ratio may have.
_ROUNDED = 0.02
#: Label of a mean that leaves out failed runs or requests, and hint if that opens both ends of a ratio.
WITHOUT_FAILURES = "without failures"
_FAILURES = " [store failures]"
#: The words for outcomes in tables.
OUTCOMES = {"better": "better", "worse": "worse", "alike": "no difference that matters", "inconclusive": "inconclusive"}


def quantity(value: float, measure: Measure) -> str:
    """Write a value of a measure with its unit.

    `value` is in 1/s for rates, a share of one for errors (written in %), else in s.
    """
    if measure.kind == "errors":
        return format_rare(value)
    return f"{format_count(value)}/s" if measure.kind in RATES else seconds_text(value)


def number(value: float, measure: Measure, low: float | None = None, high: float | None = None) -> Number:
    """Return a value of a measure and the ends of its interval in the unit of CSV files: 1/s, s or %.

    `value`, `low` and `high` are in 1/s, s or shares. A low end of 0 or less becomes None (unknown), except for errors.
    """
    unit, factor = ("%", 100) if measure.kind == "errors" else ("1/s" if measure.kind in RATES else "s", 1)
    low = None if low is None or (low <= 0 and measure.kind != "errors") else factor * low
    return Number(factor * value, unit, low, None if high is None else factor * high)


def _with_unit(value: float, measure: Measure) -> str:
    """Write a value for a sentence that stands alone: a rate as `1,234 requests/s`, others as in `quantity`.

    `value` is in 1/s, s, or for errors a share of one.
    """
    return f"{format_count(value)} {RATES[measure.kind].unit}" if measure.kind in RATES else quantity(value, measure)


def means_cells(contrast: Contrast) -> list[Cell]:
    """Return a table cell for each group of a contrast, the baseline first, with its mean and 95 % interval.

    Ends more than a factor 1,000 from a mean are `unknown`, except for errors. Without a finite interval, the small
    text is `[generator limit]` if the load generator is the reason, else empty. It ends with `without failures` if the
    mean leaves out failed runs or requests.
    """
    measure = contrast.measure
    cells = []
    for mean, bounds, of_survivors in zip(contrast.means, contrast.bounds, contrast.of_survivors, strict=True):
        interval = limit_text(bounds).strip()
        known_low, known_high = None, None
        if mean.is_finite:
            # A share of failed requests can be close to 0.
            shown = mean if measure.kind == "errors" else near_ends(mean)
            low = _low_end(shown.low, quantity(mean.low, measure), measure)
            high = quantity(mean.high, measure) if shown.is_finite else UNKNOWN
            interval = f"[{low}, {high}]"
            known_low, known_high = shown.low, shown.high if shown.is_finite else None
        small = " ".join(filter(None, (interval, WITHOUT_FAILURES * of_survivors)))
        cells.append(
            Cell(quantity(mean.value, measure), small, number=number(mean.value, measure, known_low, known_high))
        )
    return cells


def _low_end(low: float, text: str, measure: Measure) -> str:
    """Return `text`, which writes the low end `low` of an interval, or `unknown` if that is 0 or less.

    No time or rate is zero; a share of errors can be, so its text stays.
    """
    return UNKNOWN if low <= 0 and measure.kind != "errors" else text


def name(contrast: Contrast) -> str:
    """Return the name of a contrast: its measure, and its treatment if it has one, such as `a read p50, nodes 2`."""
    at = treatment_text(contrast.treatment)
    return f"{contrast.measure.name}, {at}" if at else contrast.measure.name


def ratio_text(contrast: Contrast) -> str:
    """Write a contrast's ratio, group over baseline, with its 95 % interval: `1.1 [1.05, 1.16]`.

    An unknown end is `unknown`. Without an interval, the text may end with `[generator limit]` or `[store failures]`.
    """
    ratio = contrast.ratio
    if not ratio.is_finite and ratio.low <= 0:
        hint = _FAILURES if all(contrast.of_survivors) else limit_text(contrast.estimate.bounds)
        return f"{format_count(ratio.value)}{hint}"
    value, _, interval = measured_text(ratio).partition(" [")
    # A wide interval leaves one digit, which would contradict the means beside it.
    if abs(float(value.replace(",", "")) / ratio.value - 1) > _ROUNDED:
        value = format_count(ratio.value)
    if not interval:
        return value
    low, _, rest = interval.partition(", ")
    return f"{value} [{UNKNOWN if ratio.low <= 0 else low}, {rest}"


def sentence(contrast: Contrast, comparison: Comparison) -> str:
    """Return the means of a contrast, the change and the conclusion as a sentence, for a quotation.

    The change is relative to the baseline, for errors in percentage points. `comparison` gives the smallest difference
    that matters. `open_reason` has the reason of an inconclusive contrast.
    """
    before, after = (_with_unit(mean.value, contrast.measure) for mean in contrast.means)
    change = format_change(contrast.ratio.value - 1)
    if contrast.measure.kind == "errors":
        old, new = (mean.value for mean in contrast.means)
        before, after = written_apart(old, new, format_rare), written_apart(new, old, format_rare)
        points = format_rare(abs(new - old)).removesuffix(" %")
        change = f"{'-' if new < old else '+'}{points} percentage points"
    first, second = (f" {WITHOUT_FAILURES}" * hides for hides in contrast.of_survivors)
    values = f"{contrast.label} {after}{second}, {contrast.baseline} {before}{first}"
    figures = f"{_subject(contrast, comparison)}: {values}, {change}"
    interval = f"ratio {ratio_text(contrast)}, p = {p_text(contrast.p)}".replace("= <", "<")
    least = format_share(comparison.least)
    ending = {
        "better": f"{contrast.label} is better than {contrast.baseline} ({interval})",
        "worse": f"{contrast.label} is worse than {contrast.baseline} ({interval})",
        "alike": f"no difference of {least} or more ({interval})",
        "inconclusive": f"inconclusive for a difference of {least} ({interval})",
    }[contrast.outcome]
    return f"{figures}; {ending}{_survivors(contrast)}."


def _subject(contrast: Contrast, comparison: Comparison) -> str:
    """Write `phase load p50`, or `YCSB A throughput` for the phase `a` of the workload `ycsb`."""
    workloads = {run.manifest.workload.name for group in comparison.groups for run in group.usable}
    is_ycsb = workloads == {"ycsb"} and contrast.measure.phase in _YCSB
    return f"YCSB {name(contrast)[0].upper()}{name(contrast)[1:]}" if is_ycsb else f"phase {name(contrast)}"


def open_reason(contrast: Contrast, least: float) -> str:
    """Return why an inconclusive contrast is inconclusive: the first reason that applies. Its outcome is not checked.

    `least` is the smallest difference that matters, a share of one.
    """
    ratio, smallest = contrast.ratio, format_share(least)
    if any(contrast.of_survivors):
        return "the figures do not show all failures of the store"
    alike = 1 - least < ratio.low and ratio.high < 1 + least
    if (contrast.is_hidden and not ratio.low < 1 < ratio.high) or (any(contrast.with_failures) and alike):
        return "the store failed in runs, so no advantage is claimed for their group"
    if min(len(contrast.first), len(contrast.second)) < 2:
        return "a single run does not show the run-to-run variance"
    if not ratio.is_finite:
        unbounded = not contrast.estimate.bounds.is_exact
        return "the load generator left a figure without a bound" if unbounded else "too few runs for an interval"
    if contrast.few:
        return str(contrast.few)
    return _interval_reason(contrast, least, smallest)


def _interval_reason(contrast: Contrast, least: float, smallest: str) -> str:
    """Return why an inconclusive contrast with a finite interval is inconclusive. Its outcome is not checked.

    `least` is the smallest difference that matters, a share of one, and `smallest` its text.
    """
    ratio = contrast.ratio
    alike, before, after = 1 - least < ratio.low and ratio.high < 1 + least, *contrast.short
    for label, short, hides in ((contrast.baseline, before, ratio.low > 1), (contrast.label, after, ratio.high < 1)):
        if short and (alike or hides):
            value = "maximum" if contrast.measure.is_maximum else contrast.measure.kind
            return (
                f"{label} has {short}, so its {value} may be too small; measure both for the same time at the same rate"
            )
    # An interval on one side of 1 does not prevent a conclusion, whatever widens it.
    shifted = not ratio.low <= 1 <= ratio.high and abs(ratio.value - 1) >= least
    delayed = not contrast.estimate.bounds.is_exact and not _is_wide(contrast.estimate.log_ratio, contrast, least)
    if delayed and not shifted:
        return "delays of the load generator widen the interval"
    if ratio.low <= 1 <= ratio.high:
        return f"the interval includes no difference and one of {smallest} or more; add runs"
    if abs(ratio.value - 1) < least:
        return f"the interval includes differences below and above {smallest}; add runs"
    rise = contrast.means[1].value - contrast.means[0].value
    if contrast.measure.kind == "errors" and (rise > 0) != (ratio.value > 1):
        return "the means and the ratio point in opposite directions, because single runs failed much more; add runs"
    return "p, adjusted for all rows (Holm) unlike the interval, is too large; add runs"


def open_reasons(comparison: Comparison) -> list[str]:
    """Return a sentence for each reason of inconclusive contrasts, in order of first appearance; empty if none.

    Its form is `inconclusive (a read p50; a read p99): the reason`.
    """
    return _open_reasons(comparison.contrasts, comparison)


def advice(comparison: Comparison) -> list[str]:
    """Return the sentences of `open_reasons` on the contrasts that `lead` gives with figures."""
    return _open_reasons(_main(comparison)[:_SHOWN], comparison)


def _open_reasons(contrasts: Sequence[Contrast], comparison: Comparison) -> list[str]:
    """Return the sentences of `open_reasons` on some contrasts of a comparison."""
    by_reason: dict[str, list[str]] = {}
    for contrast in contrasts:
        if contrast.outcome == "inconclusive":
            of_group = f" of {contrast.label}" if len(comparison.groups) > 2 else ""
            by_reason.setdefault(open_reason(contrast, comparison.least), []).append(f"{name(contrast)}{of_group}")
    return [f"inconclusive ({'; '.join(names)}): {reason}" for reason, names in by_reason.items()]


def _is_wide(log_ratio: float, contrast: Contrast, least: float) -> bool:
    """Return whether run-to-run variance alone makes the 95 % interval inconclusive, without the generator's delays.

    This is so if the interval includes 1 and reaches a difference of `least`, a share of one. `log_ratio` is the
    natural logarithm of the ratio.
    """
    estimate = contrast.estimate
    half = half_width(estimate.standard_error, estimate.freedom)
    low, high = math.exp(log_ratio - half), math.exp(min(log_ratio + half, _MOST))
    return low <= 1 <= high and not (1 - least < low and high < 1 + least)


def _survivors(contrast: Contrast) -> str:
    """Return the end of a sentence, after `; `, on failures of the store that the figures do not show; empty if none.

    For each group, it gives the number of runs in which the store failed, or says that too many requests failed.
    """
    sides = zip((contrast.baseline, contrast.label), contrast.failed, contrast.blind, strict=True)
    words = [
        f"the store failed in {counted(failed, 'run')} of {label}" if failed
        else f"too many requests of {label} failed: this figure does not include them"
        for label, failed, blind in sides if failed or blind
    ]  # fmt: skip
    return f"; {' and '.join(words)}" if words else ""


#: Most contrasts that the answer gives with figures.
_SHOWN = 6


def lead(comparison: Comparison) -> list[str]:
    """Return the answer: sentences on the first measure of each phase, at most six, then on the other measures.

    Of the other measures, only significant differences have a sentence, one for each group. If no contrast exists, the
    sentences say why.
    """
    if not comparison.contrasts:
        words = ["No answer: the valid runs of the groups have no measure that can be compared."]
        return words + [f"The store failed in {len(g.failed)} of {counted(len(g.runs), 'run')} of {g.label}."
                        for g in comparison.groups if g.failed]  # fmt: skip
    chosen = _main(comparison)
    words = [sentence(contrast, comparison) for contrast in chosen[:_SHOWN]]
    words += [f"The table has {len(chosen) - _SHOWN} more."] if len(chosen) > _SHOWN else []
    return words + _decided([contrast for contrast in comparison.contrasts if contrast not in chosen], comparison)


def shown_sentences(comparison: Comparison) -> int:
    """Return how many sentences of `lead` a page shows at once: at least two."""
    return max(min(len(_main(comparison)), _SHOWN), 2)


def _main(comparison: Comparison) -> list[Contrast]:
    """Return the contrasts of the first measure of each phase."""
    first: dict[str, Measure] = {}
    for contrast in comparison.contrasts:
        first.setdefault(contrast.measure.phase, contrast.measure)
    return [contrast for contrast in comparison.contrasts if contrast.measure == first[contrast.measure.phase]]


def _decided(others: Sequence[Contrast], comparison: Comparison) -> list[str]:
    """Return a sentence for each group with significant differences among the contrasts `others`.

    For example `new is worse than old in phase a p50.` It names at most six worse and six better contrasts.
    """
    words = []
    for label in dict.fromkeys(contrast.label for contrast in others):
        parts: list[str] = []
        for outcome in ("worse", "better"):
            names = [
                _subject(contrast, comparison)
                for contrast in others
                if (contrast.label, contrast.outcome) == (label, outcome)
            ]
            if names:
                shown = names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more"]
                listed = f"{'; '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
                than = "" if parts else f" than {others[0].baseline}"
                parts.append(f"{outcome}{than} in {listed}")
        if parts:
            words.append(f"{label} is {', and '.join(parts)}.")
    return words


def limited_text(comparison: Comparison) -> str:
    """Return how many usable runs the load generator limited, as a sentence; empty if none."""
    bounded = sum(run.bounded for group in comparison.groups for run in group.usable)
    return f"The load generator limited {counted(bounded, 'run')}, which widens the intervals." if bounded else ""


def warned_text(comparison: Comparison) -> str:
    """Return a warning that counts, by cause, the valid runs with figures that a rule shifts; empty if none."""
    return warned.warning if (warned := comparison.warned) else ""


def inconclusive_text(comparison: Comparison) -> str:
    """Return how many contrasts are inconclusive, as a sentence; empty if none."""
    contrasts = comparison.contrasts
    open_ = sum(contrast.outcome == "inconclusive" for contrast in contrasts)
    if not open_:
        return ""
    return f"{open_} of {counted(len(contrasts), 'contrast')} {'is' if open_ == 1 else 'are'} inconclusive."


def runs_text(comparison: Comparison) -> str:
    """Return how many runs of each group are used, how many failed, and how many are left out and why.

    The first group is marked as the baseline.
    """
    return "; ".join(
        f"{group.label}{'' if index else ' (baseline)'}: {counted(len(group.usable), 'run')}"
        f"{f' ({rest})' if (rest := _unused_text(group)) else ''}"
        for index, group in enumerate(comparison.groups)
    )


def _unused_text(group: Group) -> str:
    """Write `2 left out: lateness p99 is 3 ms; 1 failed`; empty if no run is left out or failed.

    Failed runs are those in which the store failed, whether left out or not. With several reasons, only the most
    frequent one is named, with its number of runs.
    """
    parts = []
    if group.left_out:
        (reason, runs), *others = Counter(why(run) for run in group.left_out).most_common()
        more = f" ({counted(runs, 'run')}), and other reasons" if others else ""
        parts.append(f"{len(group.left_out)} left out: {reason}{more}")
    if group.failed:
        parts.append(f"{len(group.failed)} failed")
    return "; ".join(parts)


def note(comparison: Comparison) -> str:
    """Return the note on the table's columns: means, intervals, ratios, p, delta, and shares of failures if any."""
    robust = comparison.groups[0].robust
    means = "trimmed means of logarithms (estimate: robust)" if robust else "geometric means"
    shares = (
        " Shares of failed requests are arithmetic means; their ratio is of geometric means, with half a failure added"
        " to each run."
        if any(contrast.measure.kind == "errors" for contrast in comparison.contrasts)
        else ""
    )
    failures = (
        f" Figures {WITHOUT_FAILURES} are of the runs and requests in which the store did not fail."
        if any(any(contrast.of_survivors) for contrast in comparison.contrasts)
        else ""
    )
    return (
        f"Figures of groups are {means} over runs, with 95 % intervals from the variance of the group's own runs."
        " Delays of the load generator can make an end unknown. The ratio is a ratio of these means, adjusted for"
        " blocks. Its 95 % interval comes from a t test on logarithms that accounts for blocks and sessions. p is"
        " adjusted by Holm for all rows, unlike the intervals. Cliff's delta is +1 if every run of the group is above"
        f" every run of the baseline.{shares}{failures}"
    )
