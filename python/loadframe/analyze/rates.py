"""Rates: requests, documents or events per second, with their names, units and columns.

A separate module, so that plans can name rates without importing a fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from loadframe.record.schema.summary import PhaseSummary

RateName = Literal["throughput", "documents"]


@dataclass(frozen=True)
class Rate:
    """One rate: the name of the measure, its unit, the counted items, and its column in the series of a run."""

    name: RateName
    unit: str
    counted: str
    column: str

    def of(self, phase: "PhaseSummary") -> float:
        """Return the phase's rate in this unit: the mean over the measured window, 1/s, of all operations together."""
        return phase.throughput if self.name == "throughput" else phase.documents_per_second


#: By name: successful requests, and documents that the store accepted or returned.
RATES: Mapping[str, Rate] = {
    "throughput": Rate("throughput", "requests/s", "requests", "successes"),
    "documents": Rate("documents", "documents/s", "documents", "documents"),
}
THROUGHPUT = RATES["throughput"]
#: Default rate of a phase that ingests events: each event is written to one document.
EVENTS = Rate("documents", "events/s", "events", "documents")


def rate_of(description: Mapping[str, Any]) -> Rate:
    """Return the rate in documents/s or requests/s that an experiment's `objective` names.

    Requests/s without an objective and for any other name. `description`: the content of experiment.json.
    """
    return RATES.get(description.get("objective") or "", THROUGHPUT)
