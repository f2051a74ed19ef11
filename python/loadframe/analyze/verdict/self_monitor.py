"""Figures that the load generator recorded about itself, and about other programs, in one phase.

`outcome` is the engine's outcome of the phase (outcome.json).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.verdict.rules import ACHIEVED_LIMIT, UNREAD
from loadframe.record.schema.summary import GeneratorFigures, MachineFigures, RankFigures

if TYPE_CHECKING:
    from loadframe.record import HistogramLog


#: A rank with less than this share of the median work of the ranks is a straggler.
STRAGGLING = 2 / 3
#: Median requests per rank below which shares are not judged.
_ENOUGH = 100
#: Standard deviations of a count by which it must fall short before its scatter cannot be the reason.
_SIGMAS = 5
#: Standard deviations by which the requests in flight at the end of a window may exceed those at its start.
_IN_FLIGHT_DEVIATIONS = 3


def rank_figures(outcome: Mapping[str, Any]) -> tuple[RankFigures, ...]:
    """Return the figures of each rank from the outcome of a phase; empty if one process generated the load.

    Shares that were not sampled are 0.
    """
    # Shares are None if the phase was too short for samples.
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
    """Return the figures of the ranks' machines, by name, from the outcome of a phase; empty for a single process."""
    return tuple(
        MachineFigures(machine, seen["stolen"], tuple(seen["yardstick"]), seen.get("throttled"))
        for machine, seen in sorted(outcome.get("by_machine", {}).items())
    )


def as_generator(figures: RankFigures, machine: MachineFigures | None, threads: int) -> GeneratorFigures:
    """Return the figures of a rank in the form of a generator with `threads` threads.

    Stolen and throttled time are those of its machine, and None if `machine` is. Figures that a rank lacks are None.
    """
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


def stragglers(ranks: Sequence[RankFigures], clients: int | None = None) -> list[tuple[RankFigures, float]]:
    """Return the ranks that did much less work or took much longer than the median, with their share; the worst first.

    The share is a rank's work divided by the median work, or if that is above 2/3, the smaller of it and the median
    time divided by the rank's time. A straggler by time is below 2/3. One by work is at most 2/3, and its work is more
    than five standard deviations of a count below the median. `clients` is the number of clients of all ranks, if it is
    fixed: ranks that got none are left out. Empty if the median is below 100 requests.
    """
    if clients is not None and clients < len(ranks):
        # The other ranks have no client.
        idle = [rank for rank in ranks if not rank.requests and not rank.last_done][clients - len(ranks) :]
        ranks = [rank for rank in ranks if rank not in idle]
    if len(ranks) < 2:
        return []
    usual, usual_time = median(rank.requests for rank in ranks), median(rank.last_done for rank in ranks)
    shares = []
    for rank in ranks:
        if usual < _ENOUGH:
            break
        share = rank.requests / usual
        if rank.last_done > 0 and share > STRAGGLING:
            # If all ranks have a fixed number of requests, a slow rank finishes late.
            share = min(share, usual_time / rank.last_done)
            if share < STRAGGLING:
                shares.append((rank, share))
        elif usual - rank.requests > _SIGMAS * usual**0.5:
            shares.append((rank, share))
    return sorted(shares, key=lambda pair: pair[1])


Array = npt.NDArray[np.float64]

#: A worker's second that the phase's end cut shorter than this (s) is too short for a share.
_SHORT = 0.5


def generator_figures(
    outcome: dict[str, Any],
    series: pa.Table,
    telemetry: pa.Table,
    histograms: "HistogramLog",
    ceiling: float | None = None,
) -> GeneratorFigures:
    """Return the generator's figures in the measured window of the phase that `outcome` describes.

    Shares of CPU, waiting and stalls come from the worst worker or rank. `series` has the rows of this phase only.
    `ceiling` is the calibrated rate of one worker, requests/s; None if unknown.
    """
    start = outcome["offset"] + outcome["warmup"]
    end = start + outcome["measured"]
    threads = outcome["threads"] * outcome["ranks"]
    watched = between(telemetry, start, end)
    cpu, peak = _worker_shares(watched, "cpu_seconds")
    waited, _ = _worker_shares(watched, "waited_seconds")
    away, _ = _worker_shares(watched, "away_seconds")
    if ranks := rank_figures(outcome):
        # Telemetry of many workers has only the worst value of each second.
        cpu, peak = max(rank.cpu_share for rank in ranks), max(rank.cpu_share_peak for rank in ranks)
        waited, away = max(rank.waited_share for rank in ranks), max(rank.away_share for rank in ranks)
    lag = histograms.total("generator/lag", start, end)
    return GeneratorFigures(
        threads=threads,
        cpu_share=cpu,
        cpu_share_peak=peak,
        waited_share=waited,
        throttled_share=_mean(watched, "generator", "cgroup.throttled_time"),
        stolen_share=_mean(watched, "host", "cpu.stolen"),
        network_share=_mean(watched, "host", "network.share"),
        ceiling_share=_rate(outcome, series) / threads / ceiling if ceiling else None,
        lateness_p99=histograms.total("generator/lateness", start, end).quantile(0.99),
        lag_p99=lag.quantile(0.99),
        longest_stall=lag.max,
        away_share=away,
        achieved=achieved_share(outcome, series),
    )


def combine(figures: list[GeneratorFigures]) -> GeneratorFigures:
    """Return the worst value of each figure over several phases: the smallest achieved share, else the largest.

    Unknown values are left out; a figure that is unknown in all phases stays None.
    """

    def worst(values: Iterable[float | None]) -> float | None:
        """Return the largest known value; None if all are None."""
        return max((value for value in values if value is not None), default=None)

    achieved = [figure.achieved for figure in figures if figure.achieved is not None]
    return GeneratorFigures(
        threads=max((figure.threads for figure in figures), default=0),
        cpu_share=max((figure.cpu_share for figure in figures), default=0.0),
        cpu_share_peak=max((figure.cpu_share_peak for figure in figures), default=0.0),
        waited_share=max((figure.waited_share for figure in figures), default=0.0),
        throttled_share=worst(figure.throttled_share for figure in figures),
        stolen_share=worst(figure.stolen_share for figure in figures),
        network_share=worst(figure.network_share for figure in figures),
        ceiling_share=worst(figure.ceiling_share for figure in figures),
        lateness_p99=worst(figure.lateness_p99 for figure in figures),
        lag_p99=worst(figure.lag_p99 for figure in figures),
        longest_stall=worst(figure.longest_stall for figure in figures),
        away_share=worst(figure.away_share for figure in figures),
        achieved=min(achieved, default=None),
    )


def between(telemetry: pa.Table, start: float, end: float) -> pa.Table:
    """Return the samples from `start` until `end`, without it, in s since the run began.

    Both limits are lowered by 0.5 ms, because times may differ by rounding errors.
    """
    # Times are sums of the same floats in both places; half a millisecond is far more than they can differ by.
    time = telemetry["time"]
    return telemetry.filter(pc.and_(pc.greater_equal(time, start - 5e-4), pc.less(time, end - 5e-4)))


_PROGRAMS, _PROGRAM, _MACHINE = "cpu.programs", "cpu.program:", "machine:"


@dataclass(frozen=True)
class OtherPrograms:
    """Programs that Loadframe did not start on a machine with nodes: means over a window, as shares of all cores."""

    machine: str | None  #: the machine of the command has None
    share: float  #: use by these programs
    busy: float  #: use by all programs
    programs: Mapping[str, float]  #: by name, the busiest first


def other_programs(telemetry: pa.Table, start: float, end: float) -> list[OtherPrograms]:
    """Return the mean CPU use of other programs on each machine from `start` until `end`, s since the run began.

    Machines without samples of other programs are left out.
    """
    rows = between(telemetry, start, end)
    rows = rows.filter(pc.starts_with(rows["metric"], "cpu."))
    sums: dict[str, dict[str, list[float]]] = {}
    for source, metric, value in zip(*(rows[name].to_pylist() for name in ("source", "metric", "value")), strict=True):
        sums.setdefault(source, {}).setdefault(metric, []).append(value)
    machines = []
    for source, metrics in sums.items():
        if not (samples := len(metrics.get(_PROGRAMS, ()))):
            continue
        # A program that a sample does not name used less than 1 %.
        named = {
            metric.removeprefix(_PROGRAM): math.fsum(values) / samples
            for metric, values in metrics.items()
            if metric.startswith(_PROGRAM)
        }
        machines.append(
            OtherPrograms(
                source.removeprefix(_MACHINE) if source.startswith(_MACHINE) else None,
                math.fsum(metrics[_PROGRAMS]) / samples,
                fmean(metrics.get("cpu.busy", [0.0])),
                dict(sorted(named.items(), key=lambda entry: -entry[1])),
            )
        )
    return machines


def _worker_shares(watched: pa.Table, metric: str) -> tuple[float, float]:
    """Return the greatest share of time that a worker spent on `metric`: over the window, and in one second.

    `watched` is telemetry of the window, `metric` a time in s, such as `cpu_seconds`. Seconds cut to under 0.5 s do not
    count for the second share. Both are 0 without samples.
    """
    rows = watched.filter(pc.starts_with(watched["source"], "generator:"))
    mean = peak = 0.0
    for worker in pc.unique(rows["source"]).to_pylist():
        samples = rows.filter(pc.equal(rows["source"], worker)).sort_by("time")
        spent, wall = (
            samples.filter(pc.equal(samples["metric"], name))["value"].to_numpy() for name in (metric, "wall_seconds")
        )
        if wall.sum() > 0:
            mean = max(mean, float(spent.sum() / wall.sum()))
        whole = wall >= _SHORT
        if whole.any():
            peak = max(peak, float((spent[whole] / wall[whole]).max()))
    return mean, peak


def _mean(watched: pa.Table, source: str, metric: str) -> float | None:
    """Return the mean of a metric of one source, or None without samples."""
    of_it = pc.and_(pc.equal(watched["source"], source), pc.equal(watched["metric"], metric))
    mean: float | None = pc.mean(watched.filter(of_it)["value"]).as_py()
    return mean


def _rate(outcome: dict[str, Any], series: pa.Table) -> float:
    """Return the finished requests per second of the measured window, with any outcome; 0 without a window."""
    measured = series.filter(pc.equal(series["segment"], "measure"))
    return _sum(measured, "requests") / outcome["measured"] if outcome["measured"] else 0.0


def achieved_share(outcome: dict[str, Any], series: pa.Table) -> float | None:
    """Return requests done in the window divided by requests due in it, over all open streams, or None without any.

    None also if none was due, or if the window is too short. The share exceeds 1 if the window answered a backlog of
    the warm-up. Due requests are counted, so that the variation of a Poisson schedule is not attributed to the store. A
    growing backlog lowers the share: its requests are due in the window and done after it.
    """
    streams = [stream["name"] for stream in outcome["streams"] if "open" in stream["pacing"]]
    if not streams:
        return None
    rows = series.filter(pc.is_in(series["stream"], pa.array(streams, pa.string())))
    unanswered = sum(
        operation["in_flight_at_end"] for operation in outcome["operations"] if operation["stream"] in streams
    )
    # A window that begins with an empty queue has nothing in flight at its start, but at its end.
    begins_empty = (outcome.get("window") or {}).get("queue_empty_at") is not None
    waiting = _first_response(rows.filter(pc.equal(rows["segment"], "measure"))) if begins_empty else 0.0
    return done_in_window(rows, unanswered, outcome["warmup"], outcome["measured"], waiting=waiting)


def done_in_window(
    rows: pa.Table, unanswered: int, warmup: float, measured_for: float, *, waiting: float = 0.0
) -> float | None:
    """Return requests done in a window divided by requests due in it; None if none was due or it is too short.

    `rows` come from the series, warm-up included. The window begins after `warmup` s and lasts `measured_for` s.
    `unanswered` requests were due and never done. Requests may be held back on purpose for `waiting` s. The window is
    too short if this time, and the first response time beyond the warm-up, exceed half of it. Some requests are in
    flight at the end of any window. If they, or the variation of their number, explain all missing requests, the share
    is raised, to at most 1.
    """
    measured = rows.filter(pc.equal(rows["segment"], "measure"))
    due: int = _sum(measured, "requests") + _sum(measured, "dropped") + unanswered
    if not due or not measured_for:
        # It was interrupted before its window began.
        return None
    second, requests = rows["second"].to_numpy(), rows["requests"].to_numpy()
    due_before = rows["segment"].to_numpy(zero_copy_only=False) != "measure"
    inside = (second + 1 > warmup) & (second < warmup + measured_for)
    # If the warm-up ends within a second, only requests due before its end can be done before it.
    inside_share = np.where(due_before & (second < warmup), _done_later(rows, warmup), 1.0)
    done = float((inside_share * requests)[inside].sum())
    # As many as fit into one response time are in flight at the end of any window, and at its start too, unless the
    # warm-up was shorter than that; and more are kept back at its end than at its start, or fewer.
    filling = max(_first_response(rows) - warmup, 0) + waiting
    if filling > measured_for / 2:
        # Nearly all of it may be in flight at the end of so short a window.
        return None
    share = done / due
    late = due - done - unanswered
    if 0 < late <= _IN_FLIGHT_DEVIATIONS * math.sqrt(2 * _in_flight(rows, measured_for) + 1):
        # Of the requests in flight, fewer were brought from the warm-up than are left at the end.
        filling = max(filling, measured_for * late / due)
    filled = min(share + filling / measured_for, 1.0)
    return float(filled if filled >= ACHIEVED_LIMIT > share else share)


def _in_flight(rows: pa.Table, measured_for: float) -> float:
    """Return the mean requests in flight if each takes its operation's normal response time, by Little's law.

    The normal one is the shortest median of a second, which a backlog or a cold start does not lengthen. `rows` come
    from the series, `measured_for` is the length of the window, s, above 0.
    """
    answered = rows.filter(pc.and_(pc.equal(rows["segment"], "measure"), pc.is_valid(rows["response_p50"])))
    keys = [name for name in ("stream", "operation") if name in rows.column_names]
    sums = answered.group_by(keys).aggregate([("requests", "sum"), ("response_p50", "min")])
    total = pc.sum(pc.multiply(sums["requests_sum"], sums["response_p50_min"])).as_py()
    return (total or 0.0) / measured_for


def _done_later(rows: pa.Table, warmup: float) -> Array:
    """Return by row which share of the requests due in the warm-up's last, partial second was done after it.

    `rows` come from the series; the warm-up lasts `warmup` s. It is assumed that requests are done evenly until one
    response time after the warm-up, or until the second is over.
    """
    begun = warmup - math.floor(warmup)
    after = np.minimum(np.nan_to_num(rows["response_p50"].to_numpy(zero_copy_only=False).astype(float)), 1 - begun)
    share: Array = after / np.maximum(begun + after, np.finfo(float).tiny)
    return share


def _first_response(rows: pa.Table) -> float:
    """Return the median response time, s, of the first second in which anything succeeded; 0 if nothing did."""
    answered = rows.filter(pc.is_valid(rows["response_p50"])).sort_by("second")
    return float(answered["response_p50"][0].as_py()) if answered.num_rows else 0.0


def _sum(table: pa.Table, column: str) -> int:
    """Return the sum of a column; 0 without rows."""
    total: int | None = pc.sum(table[column]).as_py()
    return total or 0


def reader_share(name: str, outcome: dict[str, Any], telemetry: pa.Table) -> float | None:
    """Return the mean CPU share of the busiest thread that read the source `name`, in the measured window.

    If the window is too short for a sample, it is the share of the whole phase. None if unknown.
    """
    start = outcome["offset"] + outcome["warmup"]
    watched = between(telemetry, start, start + outcome["measured"])
    of_it = pc.and_(pc.equal(watched["source"], f"source:{name}"), pc.equal(watched["metric"], "reader_cpu"))
    mean: float | None = pc.mean(watched.filter(of_it)["value"]).as_py()
    spent, whole = outcome["sources"][name].get("reader_cpu"), outcome["warmup"] + outcome["measured"]
    if mean is None and spent and whole:
        return float(max(spent) / whole)
    return mean


def unread_share(name: str, outcome: dict[str, Any], telemetry: pa.Table) -> float | None:
    """Return the share of samples in which 32 KiB or more of a source were unread, or None without samples.

    Only samples in the measured window count, and only if lines arrived or bytes were unread. `name` is that of the
    source.
    """
    start = outcome["offset"] + outcome["warmup"]
    watched = between(telemetry, start, start + outcome["measured"])
    watched = watched.filter(pc.equal(watched["source"], f"source:{name}"))
    of = {
        metric: {row["time"]: row["value"] for row in watched.filter(pc.equal(watched["metric"], metric)).to_pylist()}
        for metric in ("lines", "unread")
    }
    known = [unread >= UNREAD for time, unread in of["unread"].items() if unread or of["lines"].get(time)]
    return sum(known) / len(known) if known else None


def offered_share(outcome: dict[str, Any], series: pa.Table) -> float | None:
    """Return events done divided by events due, for generators and replayed logs, or None without such a source.

    Of several sources, the smallest share counts. Events count that were due in the measured window, up to the last due
    time. If the source was behind at the end of the phase, it has not made all due events: the share is reduced by its
    delay in proportion. Events that wait for their request to fill do not count as missing.
    """
    shares = []
    for stream in outcome["streams"]:
        source = stream["pacing"].get("source", {}).get("source")
        said = outcome.get("sources", {}).get(source) or {}
        offered = said.get("offered")
        if not offered or offered["until"] <= outcome["warmup"]:
            continue
        until = min(offered["until"], outcome["warmup"] + outcome["measured"])
        parts = [f"{part['operation']}.{part['part']}" for part in outcome["parts"] if part["stream"] == stream["name"]]
        rows = series.filter(
            pc.and_(
                pc.equal(series["stream"], stream["name"]), pc.is_in(series["operation"], pa.array(parts, pa.string()))
            )
        )
        made = (offered["made"] - outcome["warmup"]) / (offered["until"] - outcome["warmup"])
        measured = until - outcome["warmup"]
        done = done_in_window(rows, said["left_over"], outcome["warmup"], measured, waiting=offered["flush"])
        shares.append(done * max(made, 0.0) if done is not None else None)
    known = [share for share in shares if share is not None]
    return min(known, default=None)


def smaller_share(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two shares; the other one if one is None, and None if both are."""
    return min((share for share in (one, other) if share is not None), default=None)
