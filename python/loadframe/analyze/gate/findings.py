"""What to know before believing a gate: runs that were left out, missing treatments."""

from dataclasses import dataclass

from loadframe.analyze.finding import Finding


@dataclass(frozen=True)
class InvalidRuns(Finding):
    """Runs that were left out."""

    label: str
    left_out: int
    total: int

    def _cause(self) -> str:
        return (
            f"{self.left_out} of {self.total} runs of {self.label} are left out: they failed or are missing, or their"
            " generator or cluster was at fault"
        )

    def _remedy(self) -> str:
        return "`loadframe report` says why; mend that and measure again"


@dataclass(frozen=True)
class MissingTreatments(Finding):
    """Treatments of the baseline that the new runs lack."""

    label: str
    count: int

    def _cause(self) -> str:
        return f"{self.label} lacks {self.count} of the baseline's treatments, about which nothing can be told"

    def _remedy(self) -> str:
        return "measure all of them, or give a baseline of fewer"
