"""What weakens the conclusions of a settings experiment."""

from dataclasses import dataclass

from loadframe.analyze.finding import Finding


@dataclass(frozen=True)
class Unrepeated(Finding):
    """The valid runs leave nothing to estimate the scatter of runs from."""

    judged: bool
    #: Whether some combination has two valid runs nevertheless.
    repeated: bool

    def _cause(self) -> str:
        how = "effects are judged against each other (Lenth)" if self.judged else "no effect has an interval"
        if self.repeated:
            return (
                "effects and differences between blocks use up the valid runs, and none shows how runs scatter,"
                f" so that {how}"
            )
        return f"no combination has two valid runs, so that {how}"

    def _remedy(self) -> str:
        return "look at why runs were left out, and repeat them" if self.repeated else "take two repetitions or more"


@dataclass(frozen=True)
class NothingVaried(Finding):
    """The valid runs do not allow the effect of any setting to be estimated."""

    def _cause(self) -> str:
        return "no effect can be estimated: no setting differs between valid runs without others differing with it"

    def _remedy(self) -> str:
        return "look at why runs were left out, and repeat them"


@dataclass(frozen=True)
class Aliased(Finding):
    """Effects that were found may be those of interactions which the design mixes with them."""

    scheme: str
    #: What was found, and what else it may be.
    effects: tuple[tuple[str, str], ...]

    def _cause(self) -> str:
        effects = "; ".join(f"what is shown as the effect of {name} may be that of {others}"
                            for name, others in self.effects)  # fmt: skip
        return f"the scheme {self.scheme} cannot separate interactions: {effects}"

    def _remedy(self) -> str:
        return (
            "run a full or finer factorial of the few settings that stand out, or the same design with all levels"
            " exchanged (its fold-over)"
        )


@dataclass(frozen=True)
class InteractionsUnknown(Finding):
    """Interactions of settings were not measured, or cannot be separated from those of others."""

    scheme: str
    alone: bool

    def _cause(self) -> str:
        if self.alone:
            return f"the scheme {self.scheme} changes one setting at a time: interactions of settings were not measured"
        return f"the scheme {self.scheme} cannot separate interactions of two settings from each other"

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
        return "look at why runs were left out, and repeat them"


@dataclass(frozen=True)
class FailedCombination(Finding):
    """A combination at which the store failed: its figures are those of the runs that survived."""

    combination: str
    failed: int
    total: int
    #: The runs by their reasons.
    listed: str

    def _cause(self) -> str:
        rest = "no figure says anything of it" if self.failed == self.total else "its figures are of the other runs"
        return f"the store failed in {self.failed} of {self.total} runs at {self.combination} ({self.listed}): {rest}"

    def _remedy(self) -> str:
        return "find out why the store failed before you choose this combination, or one that is next to it"


@dataclass(frozen=True)
class NotConfirmed(Finding):
    """The winner was not measured again."""

    winner: str

    def _cause(self) -> str:
        return f"{self.winner} was chosen because it looked best, so its lead is overestimated"

    def _remedy(self) -> str:
        return "measure it again together with the default, with confirm: in the experiment file"
