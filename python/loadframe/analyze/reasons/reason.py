"""The base of all reasons for which a run is invalid: a cause, a remedy, and whose fault it is.

Faults of the store are results: what the store did, it did. Faults of the generator, and a cluster that is not the one
that was asked for, are grounds to leave a run out of the figures.
"""

from abc import abstractmethod
from typing import Literal

from loadframe.analyze.finding import Finding

#: Whose fault it is. The default is the generator: an unknown reason must not turn into a result.
Fault = Literal["store", "generator", "cluster"]


class Reason(Finding):
    """Why a run is invalid, and whose fault that is."""

    code: str
    fault: Fault = "generator"
    #: Whether the run is left out of the figures, because they are not those of the store at its treatment.
    spoils: bool = True

    def as_dict(self) -> dict[str, str]:
        """Return code, cause and remedy for the summary."""
        return {"code": self.code, **super().as_dict()}

    @abstractmethod
    def _cause(self) -> str: ...
