"""What weakens a comparison: too few runs, an order that hides drift, different conditions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadframe.analyze.compare.differences import Difference
from loadframe.analyze.compare.groups import Group
from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding
from loadframe.base.units import format_share


@dataclass(frozen=True)
class TooFewRuns(Finding):
    """There are too few runs to estimate how runs scatter."""

    first: int
    second: int

    def _cause(self) -> str:
        return (
            f"{self.first} run{'s' * (self.first != 1)} against {self.second} do not show how"
            " much runs scatter, so no difference can be significant and no interval is known"
        )

    def _remedy(self) -> str:
        return "take at least three valid runs of each; `loadframe plan` says what more of them would detect"


@dataclass(frozen=True)
class OneSessionEach(Finding):
    """The baseline was measured in one session, the other group in another."""

    first: str
    second: str
    #: The standard deviation, relative, that two sessions are taken to have.
    spread: float

    def _cause(self) -> str:
        return (
            f"{self.first} and {self.second} were measured in one session each, one after the other: these runs"
            " cannot separate a difference between the groups from one between the sessions. The intervals assume that"
            f" sessions differ by {format_share(self.spread, 1)} (standard deviation) when nothing has changed"
        )

    def _remedy(self) -> str:
        return (
            "measure both in one session, in turns, as experiments of kind compare do; or each in several sessions;"
            " or give the difference between sessions of this machine with --session-spread"
        )


@dataclass(frozen=True)
class NothingDone(Finding):
    """Runs whose value is 0, which has no ratio."""

    label: str
    count: int
    measure: Measure

    def _cause(self) -> str:
        runs = "one run" if self.count == 1 else f"{self.count} runs"
        return (
            f"{runs} of {self.label} had a {self.measure.phrase} of 0: ratios leave them out, since 0 has no logarithm"
        )

    def _remedy(self) -> str:
        return "find out why nothing succeeded: this is worse than any ratio shows"


@dataclass(frozen=True)
class FaultyRuns(Finding):
    """Runs that count although the store was at fault."""

    label: str
    faulty: int
    total: int

    def _cause(self) -> str:
        return (
            f"in {self.faulty} of {self.total} runs of {self.label} the store was at fault (errors, drops,"
            " unsteadiness): they are included, with the throughput and response times of their successes only"
        )

    def _remedy(self) -> str:
        return "`loadframe report` says why; bound or measure errors, and response times of all requests (all-p99)"


@dataclass(frozen=True)
class FailedRuns(Finding):
    """Runs in which the store failed as a whole: other figures of the group are those of the survivors."""

    label: str
    failed: int
    total: int
    #: The runs by their reasons.
    listed: str

    def _cause(self) -> str:
        return (
            f"the store failed in {self.failed} of {self.total} runs of {self.label}: {self.listed}."
            " The figures say nothing of failed runs, so no advantage is claimed"
        )

    def _remedy(self) -> str:
        return "find out why the store failed, and measure again"


@dataclass(frozen=True)
class LeftOutRuns(Finding):
    """Runs without figures for reasons that are not the store's."""

    label: str
    left_out: int
    total: int
    #: The runs by their reasons.
    listed: str

    def _cause(self) -> str:
        return (
            f"{self.left_out} of {self.total} runs of {self.label} are left out: they failed or are missing, or their"
            f" generator or cluster was at fault ({self.listed})"
        )

    def _remedy(self) -> str:
        return "remove the cause and measure again"


@dataclass(frozen=True)
class NotInterleaved(Finding):
    """All runs of one came before all of the other."""

    first: str
    second: str

    def _cause(self) -> str:
        return (
            f"the runs of {self.first} were all made before or after those of {self.second}:"
            " whatever drifted in between counts as a difference"
        )

    def _remedy(self) -> str:
        return "interleave them, as experiments of kind compare do, or repeat both and see whether the result holds"


@dataclass(frozen=True)
class OtherMachine(Finding):
    """The machines differ."""

    first: str
    second: str
    differences: tuple[Difference, ...]

    def _cause(self) -> str:
        return (
            f"{self.first} and {self.second} were measured on different machines"
            f" ({'; '.join(str(difference) for difference in self.differences)})"
        )

    def _remedy(self) -> str:
        return "measure both on one machine: machines usually differ by more than versions do"


@dataclass(frozen=True)
class OtherPace(Finding):
    """The machine was faster or slower."""

    first: str
    second: str
    #: How many times as fast as in the first group's minutes.
    factor: float

    def _cause(self) -> str:
        faster = self.factor > 1
        share = self.factor - 1 if faster else 1 - self.factor
        return (
            f"the machine was {format_share(share)} {'faster' if faster else 'slower'} when {self.second} was measured"
            f" than when {self.first} was, by the CPU time of a fixed computation: its effect cannot be"
            " separated from theirs"
        )

    def _remedy(self) -> str:
        return "interleave them, as experiments of kind compare do, or measure on a machine with dedicated processors"


@dataclass(frozen=True)
class OtherLoad(Finding):
    """The load or its generator differ."""

    first: str
    second: str
    differences: tuple[Difference, ...]

    def _cause(self) -> str:
        listed = "; ".join(str(difference) for difference in self.differences[:3])
        more = f"; and {len(self.differences) - 3} more" if len(self.differences) > 3 else ""
        return f"{self.first} and {self.second} ran under different loads ({listed}{more})"

    def _remedy(self) -> str:
        return "if that is not what is compared, give both the same workload, parameters and generator"


@dataclass(frozen=True)
class OtherTreatment(Finding):
    """One treatment is compared with another."""

    first: str
    second: str
    #: In what they differ.
    difference: str

    def _cause(self) -> str:
        return f"{self.first} and {self.second} were measured at different treatments ({self.difference})"

    def _remedy(self) -> str:
        return "if that is not what is compared, name runs of one treatment"


@dataclass(frozen=True)
class Unmatched(Finding):
    """Treatments that only one side has."""

    label: str
    count: int

    def _cause(self) -> str:
        some = "one treatment" if self.count == 1 else f"{self.count} treatments"
        return f"{some} of {self.label} {'has' if self.count == 1 else 'have'} no counterpart to be compared with"

    def _remedy(self) -> str:
        return "compare runs of the same treatments, or two single treatments"


def faulty_runs(groups: Sequence[Group]) -> list[Finding]:
    """Return a finding for each group in some of whose runs the store was at fault."""
    return [FaultyRuns(group.label, len(group.faulty), len(group.usable)) for group in groups if group.faulty]


def runs_by_reason(runs: Iterable[RecordedRun]) -> str:
    """Return each reason with the names of its runs: how the store failed, or else why they are left out."""
    reasons: dict[str, list[str]] = {}
    for run in runs:
        reasons.setdefault(run.why_failed or run.why, []).append(run.id)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())


def failed_and_left_out(groups: Sequence[Group]) -> list[Finding]:
    """Return a finding for the failed runs of each group, and one for those that are left out for other reasons."""
    findings: list[Finding] = []
    for group in groups:
        failed = group.failed
        left_out = [run for run in group.left_out if run not in failed]
        total = len(group.runs)
        if failed:
            findings.append(FailedRuns(group.label, len(failed), total, runs_by_reason(failed)))
        if left_out:
            findings.append(LeftOutRuns(group.label, len(left_out), total, runs_by_reason(left_out)))
    return findings


def interleaved(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two sorted lists of instants overlap."""
    return bool(first and second) and not (first[-1] < second[0] or second[-1] < first[0])
