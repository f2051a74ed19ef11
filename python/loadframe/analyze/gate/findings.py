"""Findings of a gate: missing treatments."""

from dataclasses import dataclass

from loadframe.analyze.finding import Finding


@dataclass(frozen=True)
class MissingTreatments(Finding):
    """Treatments of the baseline that the new runs lack."""

    label: str
    count: int

    def _cause(self) -> str:
        return f"{self.label} lacks {self.count} of the baseline's treatments, about which nothing can be told"

    def _remedy(self) -> str:
        return "measure all of them, or give a baseline of fewer"
