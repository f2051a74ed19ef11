"""What each rank of a phase did and saw of itself, by which the verdict can name a rank and its machine."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from loadframe.record.schema.summary import GeneratorFigures, MachineFigures, RankFigures

#: A rank that did less than this share of what the ranks did at the median lags behind them.
STRAGGLING = 2 / 3
#: With fewer requests a rank's share is chance.
_ENOUGH = 100
#: Standard deviations of a count by which it must fall short before its scatter cannot be the reason.
_SIGMAS = 5


def rank_figures(outcome: Mapping[str, Any]) -> tuple[RankFigures, ...]:
    """Return the figures of each rank by the outcome of a phase; none where one process made the load."""
    # What a phase is too short for is None there.
    return tuple(
        RankFigures(
            rank=entry["rank"],
            machine=entry["machine"],
            requests=entry["requests"],
            successes=entry["successes"],
            began_late=entry["began_late"],
            last_done=entry["last_done"],
            cpu_share=entry["cpu_share"] or 0.0,
            cpu_share_peak=entry["cpu_share_peak"] or 0.0,
            waited_share=entry["waited_share"] or 0.0,
            lateness_p99=entry["lateness_p99"],
            lag_p99=entry["lag_p99"],
            longest_stall=entry["lag_max"],
            away_share=entry["away_share"] or 0.0,
            clock_offset=entry["clock_offset"],
            clock_uncertainty=entry["clock_uncertainty"],
            clock_change=entry["clock_change"],
        )
        for entry in outcome.get("by_rank", ())
        if "machine" in entry
    )


def machine_figures(outcome: Mapping[str, Any]) -> tuple[MachineFigures, ...]:
    """Return what was seen of the machines of the ranks; none where one process made the load."""
    return tuple(
        MachineFigures(machine, seen["stolen"], tuple(seen["yardstick"]), seen.get("throttled"))
        for machine, seen in sorted(outcome.get("by_machine", {}).items())
    )


def as_generator(figures: RankFigures, machine: MachineFigures | None, threads: int) -> GeneratorFigures:
    """Return a rank's figures as those of a generator with so many threads, to be judged as one."""
    return GeneratorFigures(
        threads=threads,
        cpu_share=figures.cpu_share,
        cpu_share_peak=figures.cpu_share_peak,
        waited_share=figures.waited_share,
        stolen_share=machine.stolen_share if machine else None,
        throttled_share=machine.throttled_share if machine else None,
        lateness_p99=figures.lateness_p99,
        lag_p99=figures.lag_p99,
        longest_stall=figures.longest_stall,
        away_share=figures.away_share,
    )


def stragglers(ranks: Sequence[RankFigures]) -> list[tuple[RankFigures, float]]:
    """Return the ranks that did much less than the others, or took much longer, with their share of the median; the
    worst first. Ranks with too few requests for a judgement are not among them."""
    if len(ranks) < 2:
        return []
    usual, usual_time = median(rank.requests for rank in ranks), median(rank.last_done for rank in ranks)
    shares = []
    for rank in ranks:
        if usual < _ENOUGH:
            break
        share = rank.requests / usual
        if rank.last_done > 0 and share > STRAGGLING:
            # Where each rank has as many requests as the others, it is late instead of short of some.
            share = min(share, usual_time / rank.last_done)
            if share < STRAGGLING:
                shares.append((rank, share))
        elif usual - rank.requests > _SIGMAS * usual**0.5:
            shares.append((rank, share))
    return sorted(shares, key=lambda pair: pair[1])
