"""What is counted by the second, requests or documents: what it is called, its unit, and where records have it.

They have a module of their own, so that plans can name them without importing a fit. Everything that counts requests
counts documents, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from loadframe.record.schema.summary import PhaseSummary

RateName = Literal["throughput", "documents"]


@dataclass(frozen=True)
class Rate:
    """One of them: the name of the measure, its unit, what is counted, and its column in the series of a run."""

    name: RateName
    unit: str
    counted: str
    column: str

    def of(self, phase: "PhaseSummary") -> float:
        """Return its mean over a phase's measured window, 1/s; of operations that stand for others only the others."""
        return phase.throughput if self.name == "throughput" else phase.documents_per_second


#: By their names: requests that were answered well, and documents that the store took or returned.
RATES: Mapping[str, Rate] = {
    "throughput": Rate("throughput", "requests/s", "requests", "successes"),
    "documents": Rate("documents", "documents/s", "documents", "documents"),
}
THROUGHPUT = RATES["throughput"]
#: What a phase that takes in events does, unless documents are asked for: each event is written to one document.
EVENTS = Rate("documents", "events/s", "events", "documents")


def rate_of(description: Mapping[str, Any]) -> Rate:
    """Return what an experiment (its experiment.json) is judged by; requests unless its objective is documents."""
    return RATES.get(description.get("objective") or "", THROUGHPUT)
