"""Dips that come again in words and as a table: how often, how deep, and what the store did in them."""

from loadframe.analyze.dips import DipsOfPhase
from loadframe.report.tables import Cell, Table
from loadframe.units import format_count, format_duration, format_share


def dips_text(at: DipsOfPhase) -> str:
    """Return a sentence on a phase's dips."""
    dips = at.dips
    words = (
        f"In {at.phase.name} throughput fell by {format_share(dips.depth)} every {format_duration(dips.period)}, for"
        f" {format_duration(dips.length)} each time; that cost {format_share(dips.share, 1)} of what would have been"
        " done without."
    )
    first = next(iter(at.activities), None)
    if first is None:
        return f"{words} No telemetry says what the store did meanwhile."
    if first.lost < 2 * first.seconds:
        return f"{words} Nothing that was watched falls together with them."
    return (
        f"{words} {format_share(first.lost)} of that was lost in seconds with more {first.words} than on average, which"
        f" are {format_share(first.seconds)} of all seconds."
    )


def dips_table(at: DipsOfPhase) -> Table | None:
    """Return what the store did in dips and out of them; None where nothing was watched."""
    if not at.activities:
        return None
    rows = [
        [
            Cell(activity.words, activity.metric),
            Cell(format_share(activity.lost)),
            Cell(format_share(activity.seconds)),
            Cell(format_count(activity.inside)),
            Cell(format_count(activity.outside)),
        ]
        for activity in at.activities
    ]
    note = (
        "Of the throughput that was lost in dips: the share that falls into seconds with more of it than on average,"
        " beside the share of all seconds that these are; much the same would be chance. What falls together with a dip"
        " need not be its cause. The last columns are in the metric's unit per second."
    )
    return Table(("the store's", "of the loss", "of all seconds", "in dips", "outside"), rows, note=note)
