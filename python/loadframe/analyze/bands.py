"""Latency buckets: shares of an operation's requests by response time."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loadframe.analyze.estimate import Estimate, mean_share
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun, by_treatment
from loadframe.analyze.percentiles import at_most
from loadframe.analyze.sessions import sessions_of
from loadframe.base.errors import BadInput
from loadframe.base.units import format_duration
from loadframe.record import Run


@dataclass(frozen=True)
class Bands:
    """Successful requests per bucket (the last bucket is open-ended), and failed requests.

    Times have the precision of the histograms: three digits.
    """

    bounds: tuple[float, ...]  #: s, ascending
    counts: tuple[int, ...]  #: one more than bounds
    failed: int  #: includes dropped requests and those unanswered at the end

    @property
    def requests(self) -> int:
        """The number of due requests."""
        return sum(self.counts) + self.failed

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of all requests in each bucket, then the share of failed requests; 0 without requests."""
        return tuple(count / self.requests if self.requests else 0.0 for count in (*self.counts, self.failed))

    def as_dict(self) -> dict[str, Any]:
        """Return bounds (s), counts and shares for JSON."""
        return {
            "bounds": self.bounds,
            "counts": self.counts,
            "failed": self.failed,
            "shares": self.shares[:-1],
            "failed_share": self.shares[-1],
        }


@dataclass(frozen=True)
class BandsAt:
    """Bucket shares of an operation as means over the runs of one treatment, with intervals for several runs.

    Runs have equal weights, regardless of their number of requests.
    """

    phase: str
    treatment: Mapping[str, Any]
    operation: str
    bounds: tuple[float, ...]  #: s, ascending
    runs: int
    requests: int  #: sum over these runs
    shares: tuple[Estimate, ...]  #: 0 to 1, per bucket, then the failed requests

    def as_dict(self) -> dict[str, Any]:
        """Return the shares for JSON, bounds in s."""
        return {
            "phase": self.phase,
            "treatment": dict(self.treatment),
            "operation": self.operation,
            "bounds": self.bounds,
            "runs": self.runs,
            "requests": self.requests,
            "shares": [share.as_dict() for share in self.shares[:-1]],
            "failed_share": self.shares[-1].as_dict(),
        }


def check_bounds(bounds: Sequence[float]) -> tuple[float, ...]:
    """Return the bounds of latency buckets, s; BadInput unless they are above 0 and ascending."""
    if any(bound <= 0 for bound in bounds) or any(low >= high for low, high in pairwise(bounds)):
        shown = ", ".join(format_duration(bound) for bound in bounds)
        raise BadInput(
            f"latency bounds must be above 0 and ascending; got {shown}", remedy="write them as 100ms,1s,10s"
        )
    return tuple(bounds)


def band_names(bounds: Sequence[float]) -> list[str]:
    """Return the buckets in words: `up to 100 ms`, `100 ms to 1 s`, `above 1 s`."""
    words = [format_duration(bound) for bound in bounds]
    return [f"up to {words[0]}", *(f"{low} to {high}" for low, high in pairwise(words)), f"above {words[-1]}"]


def bands_of(run: Run, bounds: Sequence[float]) -> dict[str, dict[str, Bands]]:
    """Return the latency buckets of the measured windows by phase and operation."""
    known = set(run.histograms.tags())
    return {
        phase.name: {
            name: _bands(
                run,
                f"{phase.name}/{name}/response" if f"{phase.name}/{name}/response" in known else None,
                operation.due - operation.successes,
                tuple(bounds),
            )
            for name, operation in phase.operations.items()
        }
        for phase in run.summary.phases
    }


def bands_at(folder: RecordedExperiment, bounds: Sequence[float]) -> list[BandsAt]:
    """Return the latency buckets of the measured phases, over the included runs of each treatment.

    Runs without requests of an operation are omitted from its row.
    """
    measured = folder.description["measure"]
    rows: dict[str, list[BandsAt]] = {phase: [] for phase in measured}
    for treatment, runs in by_treatment(folder):
        seen: dict[tuple[str, str], list[tuple[RecordedRun, Bands]]] = defaultdict(list)
        for recorded, run in runs:
            for phase, operations in bands_of(run, bounds).items():
                for name, bands in operations.items():
                    if phase in rows and bands.requests:
                        seen[phase, name].append((recorded, bands))
        for (phase, name), several in seen.items():
            sessions = sessions_of([recorded for recorded, _ in several])
            counts = zip(*((*bands.counts, bands.failed) for _, bands in several), strict=True)
            requests = [bands.requests for _, bands in several]
            rows[phase].append(
                BandsAt(
                    phase,
                    treatment,
                    name,
                    tuple(bounds),
                    len(several),
                    sum(requests),
                    tuple(mean_share(list(zip(count, requests, strict=True)), sessions) for count in counts),
                )
            )
    return [row for phase in measured for row in rows[phase]]


def _bands(run: Run, tag: str | None, failed: int, bounds: tuple[float, ...]) -> Bands:
    histogram = run.histograms.total(tag) if tag else None
    if histogram is None or not histogram.count:
        return Bands(bounds, (0,) * (len(bounds) + 1), failed)
    below = [0, *(at_most(histogram, bound) for bound in bounds), histogram.count]
    return Bands(bounds, tuple(high - low for low, high in pairwise(below)), failed)
