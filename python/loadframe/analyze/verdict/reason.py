"""The base of all reasons for which a run is invalid: a cause, a remedy, and whose fault it is.

Faults of the store are results: what the store did, it did. Faults of the generator, and a cluster that is not the one
that was asked for, are grounds to leave a run out of the figures.
"""

from abc import abstractmethod
from typing import Literal

from loadframe.analyze.finding import Finding

#: Whose fault it is. The default is the generator: an unknown reason must not turn into a result.
Fault = Literal["store", "generator", "cluster"]

#: What a reason does to the figures of its phase (see `figures`), and by how much:
#: result     nothing: it is what the store did;
#: late       response times hold the lateness of requests; counts and service times hold;
#: delayed    response and service times hold the delays of the event loops, and closed loops did less for them;
#: saturated  throughput is a lower bound; response and service times are upper bounds;
#: partial    the load was incomplete for a part of the window (`missing_share`);
#: unknown    no figure is one of the store at its treatment.
Effect = Literal["result", "late", "delayed", "saturated", "partial", "unknown"]


class Reason(Finding):
    """Why a run is invalid, and whose fault that is."""

    code: str
    fault: Fault = "generator"
    #: The default is the gravest: an unknown reason must not turn into a figure.
    effect: Effect = "unknown"

    def as_dict(self) -> dict[str, str]:
        """Return code, cause and remedy for the summary, and the phase that the reason is about."""
        phase: str | None = getattr(self, "phase", None)
        return {"code": self.code, **super().as_dict()} | ({"phase": phase} if phase is not None else {})

    @abstractmethod
    def _cause(self) -> str: ...


class StoreResult(Reason):
    """A reason that is a result of the store: it changes no figure."""

    fault = "store"
    effect = "result"
