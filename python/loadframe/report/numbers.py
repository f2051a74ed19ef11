"""Numbers as people read them: with their interval, and with as many digits as the interval vouches for."""

import math

from loadframe.analyze.estimate import Estimate
from loadframe.units import format_count

_MOST_DECIMALS = 5


def estimate_text(estimate: Estimate) -> str:
    """Write `24.4 [18.3, 31.0]`; the interval's half-width has two digits, an open end is the sign for infinity."""
    if estimate.low == estimate.value == estimate.high:
        return format_count(estimate.value)
    value, low, high = (round_to(number, _resolution(estimate)) for number in vars(estimate).values())
    return f"{value} [{low}, {high}]"


def interval_text(estimate: Estimate) -> str:
    """Write the interval alone: `[18.3, 31.0]`."""
    low, high = (round_to(number, _resolution(estimate)) for number in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def round_to(value: float, resolution: float) -> str:
    """Write a number with two digits of `resolution`, and never more than four of its own."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    decimals = 1 - math.floor(math.log10(resolution)) if resolution > 0 else 3 - size
    decimals = min(decimals, 3 - size)
    if decimals > _MOST_DECIMALS:
        return f"{value:.{max(1, decimals + size + 1)}g}"
    rounded = round(value, decimals)
    # What is not zero must not read as zero.
    return f"{rounded:,.{max(decimals, 0)}f}" if rounded else f"{value:.1g}"


def share_text(share: float) -> str:
    """Write a share as a percentage: `3.1 %`, `0.04 %`."""
    return f"{format_count(100 * share)} %"


def change_text(change: float) -> str:
    """Write a relative change with its sign: `+3.1 %`, `-12 %`, `+1,240 %`."""
    return f"{100 * change:+,.1f} %" if abs(change) < 0.1 else f"{100 * change:+,.0f} %"


def _resolution(estimate: Estimate) -> float:
    """Return the half-width of the interval; the value's own thousandth where the interval is open."""
    if estimate.is_finite:
        return (estimate.high - estimate.low) / 2
    ends = (estimate.value, estimate.low, estimate.high)
    return max(abs(number) for number in ends if math.isfinite(number)) / 100
