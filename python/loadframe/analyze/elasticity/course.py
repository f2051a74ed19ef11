"""One run, second by second, and what was done to its cluster meanwhile. Times in s since the measured window began."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.record import Run

Series = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Kinds of events, as those write them who change clusters.
FIRED, REQUESTED, JOINED, BALANCED = "trigger fired", "node requested", "node joined", "cluster balanced"
NEVER = "trigger never fired"
LEAVING, LEFT, KILLED = "node leaving", "node left", "node killed"


@dataclass(frozen=True)
class Event:
    """Something that was done to the cluster, or that was seen of it."""

    time: float
    kind: str
    nodes: tuple[str, ...] = ()
    step: int | None = None
    words: str = ""


@dataclass(frozen=True, eq=False)
class Course:
    """Figures of each whole second, all operations together; response times are those of the main operation.

    Second i covers `start` + i to `start` + i + 1. Response times are those of the requests that were answered in a
    second and of those that waited all through it, as long as they had waited by then; see `waiting`. `quiet` are
    seconds in which nothing was asked for. `missing` are copies of data that no node serves, where the store was asked;
    `left` is what was to be moved, in `unit`, at the instants when the change told of it.
    """

    start: float
    successes: Series  #: 1/s
    failures: Series  #: 1/s, failed or never sent
    response_p50: Series  #: s; not a number in a second without an answer where nobody is known to have waited
    response_p99: Series
    response_mean: Series
    response_deviation: Series  #: half the width of the middle 68 %
    events: tuple[Event, ...]
    missing: tuple[tuple[float, float], ...] = ()
    left: tuple[tuple[float, float], ...] = ()
    unit: str = ""
    quiet: Flags | None = None

    @property
    def idle(self) -> Flags:
        """Whether nothing was asked for in a second; where that was not recorded, something was."""
        return np.zeros(len(self.successes), dtype=bool) if self.quiet is None else self.quiet

    @property
    def unknown(self) -> Flags:
        """Whether a second without an answer has no response time although something was asked for."""
        return ~np.isfinite(self.response_p99) & ~self.idle

    @property
    def times(self) -> Series:
        """The middle of each second."""
        middles: Series = self.start + np.arange(len(self.successes), dtype=float) + 0.5
        return middles

    @property
    def end(self) -> float:
        """When the last second is over."""
        return self.start + len(self.successes)

    def within(self, begin: float, end: float) -> slice:
        """Return the seconds of a stretch of time: that in which one ends is the next one's first."""
        first = max(math.floor(begin - self.start + 1e-9), 0)
        return slice(first, max(min(math.floor(end - self.start + 1e-9), len(self.successes)), first))


def read_course(run: Run) -> Course | None:
    """Return the course of a run's measured phase; None where it did not come so far."""
    phases = [phase for phase in run.summary.get("phases", []) if not phase["prepares"]]
    if not phases:
        return None
    phase = phases[0]
    zero = phase["start"] + phase["warmup"]
    first, last = math.ceil(phase["warmup"]), math.floor(phase["warmup"] + phase["duration"])
    length = max(last - first, 0)
    series = run.series
    of_phase = pc.and_(pc.equal(series["phase"], phase["name"]), pc.less(series["second"], last))
    of_phase = pc.and_(of_phase, pc.greater_equal(series["second"], first))
    rows = series.filter(pc.and_(of_phase, pc.is_in(series["operation"], pa.array(list(phase["operations"])))))
    second = rows["second"].to_numpy() - first
    successes = np.bincount(second, weights=rows["successes"].to_numpy(), minlength=length)
    failed = rows["requests"].to_numpy() - rows["successes"].to_numpy() + rows["dropped"].to_numpy()
    main = max(phase["operations"], key=lambda name: phase["operations"][name]["successes"])
    tags = [f"{phase['name']}/{main}/response{suffix}" for suffix in ("/warmup", "")]
    units = [(entry["time"] - zero, str(entry["unit"])) for entry in run.events if entry["kind"] == "balancing"]
    response = _response(run, tags, phase["start"], first, length)
    return Course(
        start=first - phase["warmup"],
        successes=successes.astype(float),
        failures=np.bincount(second, weights=failed, minlength=length).astype(float),
        response_p50=response[0],
        response_p99=response[1],
        response_mean=response[2],
        response_deviation=response[3],
        events=tuple(_event(entry, zero) for entry in run.events),
        missing=_samples(run, "data.missing", zero),
        left=_left(run, zero, units),
        unit=units[-1][1] if units else "",
    )


def _response(run: Run, tags: list[str], start: float, first: int, length: int) -> Series:
    """Return median, 99th percentile, mean and deviation by second."""
    found = np.full((4, length), np.nan)
    known = set(run.histograms.tags())
    for tag in tags:
        for time, histogram in run.histograms.seconds(tag) if tag in known else ():
            second = round(time - start) - first
            if 0 <= second < length and histogram.count:
                low, high = histogram.quantile(0.16), histogram.quantile(0.84)
                spread = ((high or 0.0) - (low or 0.0)) / 2
                found[:, second] = (histogram.quantile(0.5), histogram.quantile(0.99), histogram.mean, spread)
    return found


def _event(entry: Mapping[str, Any], zero: float) -> Event:
    words = str(entry.get("change") or entry.get("seen") or entry.get("cause") or "")
    nodes = entry.get("nodes")
    named = tuple(nodes) if isinstance(nodes, list) else ()
    return Event(entry["time"] - zero, entry["kind"], named, entry.get("step"), words)


def _left(run: Run, zero: float, units: list[tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    """Return what was left in the last unit that the change told of: data, after nodes to join."""

    def unit(time: float) -> str:
        return next((unit for since, unit in reversed(units) if since <= time), "")

    return tuple(
        (time, value) for time, value in _samples(run, "balancing.left", zero) if units and unit(time) == units[-1][1]
    )


def _samples(run: Run, metric: str, zero: float) -> tuple[tuple[float, float], ...]:
    table = run.telemetry
    rows = table.filter(pc.and_(pc.equal(table["source"], "cluster"), pc.equal(table["metric"], metric)))
    pairs = zip(rows["time"].to_pylist(), rows["value"].to_pylist(), strict=True)
    return tuple(sorted((time - zero, value) for time, value in pairs))
