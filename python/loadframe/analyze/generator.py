"""What the generator saw of itself in one phase's measured window: the figures that its verdict rests on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from loadframe._engine import HistogramLog

#: A worker's second that the phase's end cut shorter than this (s) is too short for a share.
_SHORT = 0.5


@dataclass(frozen=True)
class GeneratorFigures:
    """One phase's generator: CPU shares of its busiest worker (0..1), lateness and lag (s), achieved over offered rate.

    `cpu_share` is the greatest mean over the window, `cpu_share_peak` the greatest of one second. Lateness and lag are
    None where nothing was recorded, `achieved` where no stream has open pacing.
    """

    threads: int
    cpu_share: float
    cpu_share_peak: float
    lateness_p99: float | None
    lag_p99: float | None
    achieved: float | None


def generator_figures(
    outcome: dict[str, Any], series: pa.Table, telemetry: pa.Table, histograms: "HistogramLog"
) -> GeneratorFigures:
    """Compute the figures of the phase that `outcome` is about; `series` holds that phase's rows only."""
    start = outcome["offset"] + outcome["warmup"]
    end = start + outcome["measured"]
    mean, peak = _cpu_shares(telemetry, start, end)
    return GeneratorFigures(
        threads=outcome["threads"] * outcome["ranks"],
        cpu_share=mean,
        cpu_share_peak=peak,
        lateness_p99=histograms.total("generator/lateness", start, end).quantile(0.99),
        lag_p99=histograms.total("generator/lag", start, end).quantile(0.99),
        achieved=_achieved(outcome, series),
    )


def combine(figures: list[GeneratorFigures]) -> dict[str, Any]:
    """Return the worst of several phases' figures as the summary's `generator`."""

    def worst(values: list[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    achieved = [each.achieved for each in figures if each.achieved is not None]
    return {
        "threads": max((each.threads for each in figures), default=0),
        "cpu_share": max((each.cpu_share for each in figures), default=0.0),
        "cpu_share_peak": max((each.cpu_share_peak for each in figures), default=0.0),
        "lateness_p99": worst([each.lateness_p99 for each in figures]),
        "lag_p99": worst([each.lag_p99 for each in figures]),
        "achieved": min(achieved, default=None),
    }


def _cpu_shares(telemetry: pa.Table, start: float, end: float) -> tuple[float, float]:
    source, time = telemetry["source"], telemetry["time"]
    # Times are sums of the same floats in both places; half a millisecond is far more than they can differ by.
    within = pc.and_(pc.greater_equal(time, start - 5e-4), pc.less(time, end - 5e-4))
    rows = telemetry.filter(pc.and_(pc.starts_with(source, "generator:"), within))
    mean = peak = 0.0
    for worker in pc.unique(rows["source"]).to_pylist():
        own = rows.filter(pc.equal(rows["source"], worker)).sort_by("time")
        cpu, wall = (
            own.filter(pc.equal(own["metric"], metric))["value"].to_numpy()
            for metric in ("cpu_seconds", "wall_seconds")
        )
        if wall.sum() > 0:
            mean = max(mean, float(cpu.sum() / wall.sum()))
        whole = wall >= _SHORT
        if whole.any():
            peak = max(peak, float((cpu[whole] / wall[whole]).max()))
    return mean, peak


def _achieved(outcome: dict[str, Any], series: pa.Table) -> float | None:
    """Return requests done in the window over requests due in it, for the open streams together; at most 1.

    Both are counted, so that a Poisson schedule's own scatter is none of the store's. A backlog that grows shows as
    requests due in the window and done after it.
    """
    streams = [stream["name"] for stream in outcome["streams"] if "open" in stream["pacing"]]
    if not streams:
        return None
    rows = series.filter(pc.is_in(series["stream"], pa.array(streams)))
    measured = rows.filter(pc.equal(rows["segment"], "measure"))
    unanswered = sum(each["in_flight_at_end"] for each in outcome["operations"] if each["stream"] in streams)
    due: int = _sum(measured, "requests") + _sum(measured, "dropped") + unanswered
    if not due:
        return None
    warmup, measured_for = outcome["warmup"], outcome["measured"]
    second = rows["second"].to_numpy()
    share = np.where(second < warmup + measured_for, np.clip(second + 1 - warmup, 0, 1), 0)
    done = float((share * rows["requests"].to_numpy()).sum())
    # As many as fit into one response time are in flight at the end of any window, and at its start too, unless the
    # warm-up was shorter than that.
    filling: float = max(_first_response(rows) - warmup, 0) * due / measured_for
    return min((done + filling) / due, 1.0)


def _first_response(rows: pa.Table) -> float:
    """Return the median response time, s, of the first second in which anything succeeded; 0 if nothing did."""
    answered = rows.filter(pc.is_valid(rows["response_p50"])).sort_by("second")
    return float(answered["response_p50"][0].as_py()) if answered.num_rows else 0.0


def _sum(table: pa.Table, column: str) -> int:
    total: int | None = pc.sum(table[column]).as_py()
    return total or 0
