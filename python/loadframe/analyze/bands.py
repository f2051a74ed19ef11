"""Which share of an operation's requests was answered within which time: bands of response time."""

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
    """How many requests succeeded within each band, the last of which has no end, and how many failed.

    Times are as precise as the histograms: to three digits.
    """

    bounds: tuple[float, ...]  #: s, rising
    counts: tuple[int, ...]  #: one more than bounds
    failed: int  #: also what was dropped, or had no answer at the end

    @property
    def requests(self) -> int:
        """All that were due."""
        return sum(self.counts) + self.failed

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of all requests in each band, and last of those that failed; 0 where there were none."""
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
    """The same shares of an operation as means over the runs of one treatment, with intervals where there are several.

    Each run counts alike, however many requests it made.
    """

    phase: str
    treatment: Mapping[str, Any]
    operation: str
    bounds: tuple[float, ...]  #: s, rising
    runs: int
    requests: int  #: of all these runs
    shares: tuple[Estimate, ...]  #: 0 to 1, in each band, and last of those that failed

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, bounds in s."""
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
    """Return the bounds of bands, s; BadInput where they are not above 0 and rising."""
    if any(bound <= 0 for bound in bounds) or any(low >= high for low, high in pairwise(bounds)):
        shown = ", ".join(format_duration(bound) for bound in bounds)
        raise BadInput(
            f"bands end at times above 0 that rise, and not at {shown}", remedy="write them such as 100ms,1s,10s"
        )
    return tuple(bounds)


def band_names(bounds: Sequence[float]) -> list[str]:
    """Return what the bands are called: `up to 100 ms`, `100 ms to 1 s`, `above 1 s`."""
    words = [format_duration(bound) for bound in bounds]
    return [f"up to {words[0]}", *(f"{low} to {high}" for low, high in pairwise(words)), f"above {words[-1]}"]


def bands_of(run: Run, bounds: Sequence[float]) -> dict[str, dict[str, Bands]]:
    """Return the bands of response times by phase and operation, of the measured windows."""
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
    """Return the bands of the measured phases, over the runs of each treatment that figures rest on.

    A run in which an operation had no request says nothing of it.
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
