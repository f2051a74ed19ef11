"""Dips that come again in words and as a table: how often, how deep, and what the store did in them."""

from collections.abc import Sequence

from loadframe.analyze.dips import DipsOfPhase
from loadframe.report.tables import Cell, Table
from loadframe.units import format_count, format_duration, format_share


def dips_text(at: DipsOfPhase) -> str:
    """Return a sentence on a phase's dips."""
    dips = at.dips
    when = (
        f"every {format_duration(dips.period)}, for {format_duration(dips.length)} each time"
        if dips.period
        else f"in {len(dips.begins)} dips at irregular distances, for {format_duration(dips.length)} on average"
    )
    words = (
        f"In {at.phase.name} throughput fell by {format_share(dips.depth)} {when}; that cost"
        f" {format_share(dips.share, 1)} of what would have been done without them."
    )
    if not at.activities:
        return f"{words} No telemetry says what the store did meanwhile."
    if (explained := at.explained) is None:
        return f"{words} {_undecided(at)}"
    named = _listed([activity.doing.words for activity in at.claimed])
    return (
        f"{words} {format_share(explained.lost)} of that was lost in seconds with more {named} than on average, which"
        f" are {format_share(explained.seconds)} of all seconds; chance would do as much in {_chance(at)} of cases."
    )


def _undecided(at: DipsOfPhase) -> str:
    """Say that nothing that was watched falls together with the dips, or no more than chance may explain."""
    first = at.activities[0]
    if first.overlap.lost < 2 * first.overlap.seconds:
        return "Nothing that was watched falls together with them."
    return (
        f"{format_share(first.overlap.lost)} of that was lost in seconds with more {first.doing.words} than on average,"
        f" which are {format_share(first.overlap.seconds)} of all seconds; since chance would do as much in"
        f" {format_share(first.overlap.p)} of cases, this run does not decide whether they are the reason."
    )


def _chance(at: DipsOfPhase) -> str:
    most = max(activity.overlap.p for activity in at.claimed)
    return format_share(most, 1)


def _listed(words: Sequence[str]) -> str:
    """Write `merges`, `merges or refreshes`, `merges, refreshes or flushes`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def dips_table(at: DipsOfPhase) -> Table | None:
    """Return what the store did in dips and out of them; None where nothing was watched."""
    if not at.activities:
        return None
    rows = [
        [
            Cell(activity.doing.words, activity.doing.metric),
            Cell(format_share(activity.overlap.lost)),
            Cell(format_share(activity.overlap.seconds)),
            Cell(f"{activity.overlap.p:.2g}", tone="best" if activity.overlap.claimed else ""),
            Cell(format_count(activity.inside)),
            Cell(format_count(activity.outside)),
        ]
        for activity in at.activities
    ]
    note = (
        "Of the throughput that was lost in dips: the share that falls into seconds with more of it than on average,"
        " beside the share of all seconds that these are. p: how often as much would fall into it by chance, in any of"
        " what was watched, if the one had nothing to do with the other (all shifts of the one against the other). What"
        " falls together with a dip need not be its cause. The last columns are in the metric's unit per second."
    )
    return Table(("the store's", "of the loss", "of all seconds", "p", "in dips", "outside"), rows, note=note)
