"""What of a run is compared: throughput of each measured phase, percentiles of each operation's response time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadframe.analyze.experiment import RecordedRun

#: The percentiles that a summary has, by how they are called.
PERCENTILES = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max", "mean": "mean"}
#: What may be asked for by name, and in which direction it is better.
KINDS = ("throughput", *PERCENTILES, "errors")
USUAL = ("throughput", "p50", "p99")


@dataclass(frozen=True)
class Measure:
    """One figure of a run: throughput (1/s), a response time (s) or the share of requests that failed, of a phase.

    `operation` is None where all of the phase's operations count together.
    """

    phase: str
    kind: str
    operation: str | None = None

    @property
    def better(self) -> Literal["higher", "lower"]:
        """The direction in which it is better."""
        return "higher" if self.kind == "throughput" else "lower"

    @property
    def unit(self) -> str:
        """The unit of its values; a share has none."""
        return {"throughput": "1/s", "errors": ""}.get(self.kind, "s")

    @property
    def name(self) -> str:
        """Its name for people: `range_100 p99`, and with the phase's name where the operation has another."""
        words = [self.phase] + ([self.operation] if self.operation not in (None, self.phase) else [])
        return " ".join([*words, self.kind])

    @property
    def phrase(self) -> str:
        """The same within a sentence: `p99 of range_100`, `throughput of a`, `p99 of read in a`."""
        own = self.operation in (None, self.phase)
        return f"{self.kind} of {self.phase if own else f'{self.operation} in {self.phase}'}"

    def of(self, run: RecordedRun) -> float | None:
        """Return the run's value; None where it measured no such thing, or nothing succeeded."""
        entry = run.phase(self.phase)
        if entry is None:
            return None
        operations = entry["operations"]
        if self.kind == "throughput":
            return sum(float(operation["throughput"]) for operation in operations.values())
        if self.kind == "errors":
            failed, requests = self.failures(run)
            return failed / requests if requests else None
        value = operations.get(self.operation, {}).get("response", {}).get(PERCENTILES[self.kind])
        return None if value is None else float(value)

    def failures(self, run: RecordedRun) -> tuple[int, int]:
        """Return how many requests of the phase did not succeed, and how many there were."""
        operations = (run.phase(self.phase) or {"operations": {}})["operations"].values()
        requests = sum(operation["requests"] for operation in operations)
        return requests - sum(operation["successes"] for operation in operations), requests

    def as_dict(self) -> dict[str, Any]:
        """Return what it is, for JSON."""
        return {"measure": self.kind, "phase": self.phase, "operation": self.operation, "unit": self.unit}


def measures_of(runs: Sequence[RecordedRun], kinds: Sequence[str] = USUAL) -> tuple[Measure, ...]:
    """Return the measures that these runs have, in the order of phases, kinds and operations.

    The throughput of open pacing is what was offered, and is none of them.
    """
    found: dict[Measure, None] = {}
    for phase in _phases(runs):
        entries = [entry for run in runs if (entry := run.phase(phase))]
        operations = dict.fromkeys(name for entry in entries for name in entry["operations"])
        opened = any("open" in stream["pacing"] for entry in entries for stream in entry["streams"])
        for kind in kinds:
            if kind == "errors" or (kind == "throughput" and not opened):
                found[Measure(phase, kind)] = None
            elif kind in PERCENTILES:
                found |= {Measure(phase, kind, operation): None for operation in operations}
    return tuple(found)


def _phases(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the names of the phases that were measured; of those that prepare only where there are no others."""
    phases = [phase for run in runs if run.run for phase in run.run.summary.get("phases", [])]
    measured = dict.fromkeys(phase["name"] for phase in phases if not phase["prepares"])
    return list(measured or dict.fromkeys(phase["name"] for phase in phases))
