"""Numbers as people read them: with their interval, and with as many digits as the interval vouches for."""

import math

from loadframe.analyze.estimate import Estimate
from loadframe.base.units import format_count, format_duration

_MOST_DECIMALS = 5


def estimate_text(estimate: Estimate) -> str:
    """Write `24.4 [18.3, 31.0]`: the interval decides how many digits are worth reading; `∞` is an open end."""
    if estimate.low == estimate.value == estimate.high:
        return format_count(estimate.value)
    value, low, high = (round_to(number, _resolution(estimate)) for number in vars(estimate).values())
    return f"{value} [{low}, {high}]"


def measured_text(estimate: Estimate) -> str:
    """Write a mean of runs: with its interval where runs were repeated, alone where nothing says how it scatters.

    What is bounded from below alone is written with an open end.
    """
    known = estimate.is_finite or estimate.low > 0
    return estimate_text(estimate) if known else format_count(estimate.value)


def seconds_estimate(estimate: Estimate | None) -> str:
    """Write a mean of durations, s: with its interval where runs were repeated; a dash where it is not known."""
    if estimate is None:
        return "–"
    text = format_duration(estimate.value)
    if not estimate.is_finite:
        return text
    return f"{text} [{format_duration(estimate.low)}, {format_duration(estimate.high)}]"


def rate_text(rate: float, unit: str) -> str:
    """Write a throughput: `1,234 requests/s`; a dash where it is not finite."""
    return f"{format_count(rate)} {unit}" if math.isfinite(rate) else "–"


def interval_text(estimate: Estimate) -> str:
    """Write the interval alone: `[18.3, 31.0]`."""
    low, high = (round_to(number, _resolution(estimate)) for number in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def round_to(value: float, resolution: float) -> str:
    """Write a number to one digit of `resolution`, or two where that begins with 1 or 2; to four of its own at most."""
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
        # What is not zero must not read as zero.
        decimals, rounded = -size, round(value, -size)
    return f"{rounded:,.{max(decimals, 0)}f}" if decimals <= _MOST_DECIMALS else f"{value:.1g}"


def percent_text(estimate: Estimate) -> str:
    """Write an estimate of a share as percentages: `81 % [78, 84]`."""
    scaled = Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)
    if scaled.low == scaled.value == scaled.high or (scaled.low <= 0 and math.isinf(scaled.high)):
        return f"{format_count(scaled.value)} %"
    return f"{round_to(scaled.value, _resolution(scaled))} % {interval_text(scaled)}"


def _resolution(estimate: Estimate) -> float:
    """Return the half-width of the interval; the value's own thousandth where the interval is open."""
    if estimate.is_finite:
        return (estimate.high - estimate.low) / 2
    ends = (estimate.value, estimate.low, estimate.high)
    return max(abs(number) for number in ends if math.isfinite(number)) / 30
