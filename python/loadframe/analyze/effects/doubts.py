"""What makes a settings experiment say less than it seems to."""

from dataclasses import dataclass

from loadframe.analyze.finding import Finding


@dataclass(frozen=True)
class Unrepeated(Finding):
    """No combination was run twice."""

    judged: bool

    def _cause(self) -> str:
        how = "effects are judged against each other (Lenth)" if self.judged else "no effect has an interval"
        return f"no combination has two valid runs, so that {how}"

    def _remedy(self) -> str:
        return "take two repetitions or more"


@dataclass(frozen=True)
class Mixed(Finding):
    """The scheme does not tell interactions apart."""

    kind: str

    def _cause(self) -> str:
        return (
            f"the scheme {self.kind} does not tell interactions apart: what looks like the effect of one setting may"
            " in part be that of two others together"
        )

    def _remedy(self) -> str:
        return "follow with a full or finer factorial of the few settings that stand out"


@dataclass(frozen=True)
class Incomplete(Finding):
    """Combinations without a valid run."""

    missing: int
    total: int

    def _cause(self) -> str:
        return f"{self.missing} of {self.total} combinations have no valid run, which unbalances the design"

    def _remedy(self) -> str:
        return "see why runs were left out, and make them again"


@dataclass(frozen=True)
class NotConfirmed(Finding):
    """The winner was not measured again."""

    winner: str

    def _cause(self) -> str:
        return f"{self.winner} was chosen for looking best, and whatever is chosen so looks better than it is"

    def _remedy(self) -> str:
        return "measure it again beside the default, as confirm: in the file does"
