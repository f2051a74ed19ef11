"""Formatting of numbers with their intervals, rounded to the digits that the interval supports."""

import math

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.figures import EXACT, Stretch
from loadframe.base.units import format_count, format_duration
from loadframe.report.labels import UNKNOWN

_MOST_DECIMALS = 5
#: Most significant digits of an end that differs from 1.
_MOST_DIGITS = 8
#: Ends of an interval further from the value than this factor are `unknown`: two runs can give `[4e-07 us, 60000 h]`.
_FURTHEST = 1000.0


def near_ends(estimate: Estimate) -> Estimate:
    """Return a positive estimate with 0 and infinity for ends more than a factor 1,000 from the value.

    An estimate of 0 or less is returned as it is.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value <= 0:
        return estimate
    low = 0.0 if 0 < low < value / _FURTHEST else low
    return Estimate(value, low, high if high <= _FURTHEST * value else math.inf)


def estimate_text(estimate: Estimate) -> str:
    """Write `24 [18, 31]`, rounded by the width of the interval; an infinite end is `∞` or `-∞`.

    Write only the value, without brackets, if both ends equal it.
    """
    if estimate.low == estimate.value == estimate.high:
        return format_count(estimate.value)
    return f"{round_to(estimate.value, _resolutions(estimate)[0])} {_interval(estimate)}"


def measured_text(estimate: Estimate, bounds: Stretch = EXACT) -> str:
    """Write a mean of runs with its interval, without a unit.

    An infinite high end, and an end more than a factor 1,000 from the value, is `unknown`. If the interval is infinite
    and its low end is 0 or less, write the value alone, and `[generator limit]` if `bounds` are the reason.
    """
    if not estimate.is_finite and estimate.low <= 0:
        return f"{format_count(estimate.value)}{limit_text(bounds)}"
    near = near_ends(estimate)
    if near.low <= 0 < estimate.low:
        if math.isinf(near.high):
            return f"{format_count(estimate.value)} [{UNKNOWN}, {UNKNOWN}]"
        value, _, interval = estimate_text(near).partition(" [")
        return f"{value} [{UNKNOWN}, {interval.partition(', ')[2]}"
    return _finite(estimate_text(near))


def known_end_text(ratio: Estimate, unit: str = "") -> str:
    """Write the known end of a ratio if failures leave one open: `below 1.2`, `above 0.8`; `unknown` without one.

    With the unit %, the ratio is a share of one, and the text a percentage. The end does not read 1 or 100 %, unless it
    has that value.
    """
    factor, after = (100, " %") if unit == "%" else (1, "")
    word, end = ("below", factor * ratio.high) if math.isfinite(ratio.high) else ("above", factor * ratio.low)
    return UNKNOWN if word == "above" and end <= 0 else f"{word} {_unlike(factor, f'{end:.3g}', end)}{after}"


def _finite(text: str) -> str:
    """Replace `∞` by `unknown`, because an interval of measured values has finite ends."""
    return text.replace("∞", UNKNOWN)


#: Replaces an interval that the load generator's bounds make unknown.
GENERATOR_LIMIT = "[generator limit]"


def limit_text(bounds: Stretch) -> str:
    """Write ` [generator limit]` if the load generator leaves a value without a finite bound; empty otherwise.

    `bounds` are the factors between which its delays may have changed the value.
    """
    return "" if bounds.low > 0 and math.isfinite(bounds.high) else f" {GENERATOR_LIMIT}"


def seconds_estimate(estimate: Estimate | None) -> str:
    """Write a mean of durations, s, with its interval if that is finite; a dash for None.

    An end more than a factor 1,000 from the value is `unknown`.
    """
    if estimate is None:
        return "–"
    text = format_duration(estimate.value)
    if not estimate.is_finite:
        return text
    near = near_ends(estimate)
    low = UNKNOWN if near.low <= 0 < estimate.low else format_duration(estimate.low)
    high = UNKNOWN if math.isinf(near.high) else format_duration(estimate.high)
    return f"{text} [{low}, {high}]"


def rate_text(rate: float, unit: str) -> str:
    """Write a throughput: `1,234 requests/s`; a dash if it is not finite."""
    return f"{format_count(rate)} {unit}" if math.isfinite(rate) else "–"


def _interval(estimate: Estimate, one: float = 1.0) -> str:
    """Write only the interval of an estimate, rounded by its width: `[18, 31]`.

    No end reads `one`, the value of a ratio without an effect, unless it has that value.
    """
    _, low, high = _resolutions(estimate)
    return f"[{_end_text(estimate.low, low, one)}, {_end_text(estimate.high, high, one)}]"


def p_text(p: float) -> str:
    """Write a p value with two significant digits, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def round_to(value: float, resolution: float) -> str:
    """Write a number, rounded to the decimal place of the first digit of `resolution`, or of the second after 1 and 2.

    At most four significant digits; a resolution of 0 gives four. A nonzero number is never written as 0; an infinite
    one is `∞` or `-∞`.
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    decimals = 3 - size
    if resolution > 0:
        place = math.floor(math.log10(resolution))
        decimals = min(decimals, (1 if resolution < 3 * 10**place else 0) - place)
    if decimals > _MOST_DECIMALS:
        return f"{value:.{max(1, decimals + size + 1)}g}"
    rounded = round(value, decimals)
    if not rounded:
        # Never round a nonzero number to zero.
        decimals, rounded = -size, round(value, -size)
    return f"{rounded:,.{max(decimals, 0)}f}" if decimals <= _MOST_DECIMALS else f"{value:.1g}"


def percent_text(estimate: Estimate, bounds: Stretch = EXACT) -> str:
    """Write an estimate of a share of one as percentages: `81 % [78, 84]`.

    An infinite high end is `unknown`. If the low end is 0 or less, too, write the value alone, and `[generator limit]`
    if `bounds` are the reason.
    """
    scaled = Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)
    if scaled.low == scaled.value == scaled.high or (scaled.low <= 0 and math.isinf(scaled.high)):
        return f"{format_count(scaled.value)} %{limit_text(bounds)}"
    return f"{round_to(scaled.value, _resolutions(scaled)[0])} % {_finite(_interval(scaled, 100))}"


#: Intervals with a larger ratio of the distances of their ends from the value are rounded end by end.
_SKEWED = 2.0


def _resolutions(estimate: Estimate) -> tuple[float, float, float]:
    """Return the resolutions of the value, the low and the high end, in their unit.

    They are the half-width of the interval; if it is open, a thirtieth of its largest finite number. In a skewed
    interval, an end near the value, or near 0, has a finer one: rounded by the width, 1.2 would be 1.
    """
    below, above = estimate.value - estimate.low, estimate.high - estimate.value
    if not estimate.is_finite:
        ends = (estimate.value, estimate.low, estimate.high)
        largest = max(abs(number) for number in ends if math.isfinite(number))
        return (min([largest / 30, *(distance for distance in (below, above) if distance > 0)]),) * 3
    half = (estimate.high - estimate.low) / 2
    nearer = min(below, above)
    if nearer <= 0 or max(below, above) <= _SKEWED * nearer:
        return half, half, half
    low = min(half, below, abs(estimate.low) or half)
    return min(half, nearer), low, min(half, above)


def _end_text(end: float, resolution: float, one: float) -> str:
    """Write an end of an interval, rounded by `resolution`; with more digits if it would otherwise read `one`.

    `one` is the value of no effect.
    """
    return _unlike(one, round_to(end, resolution), end)


def _unlike(one: float, text: str, end: float) -> str:
    """Return the `text` of an `end`, or `end` with more digits if the text reads `one` and `end` differs."""
    digits = 2
    while math.isfinite(end) and end != one and float(text.replace(",", "")) == one and digits < _MOST_DIGITS:
        digits += 1
        text = f"{end:.{digits}g}"
    return text
