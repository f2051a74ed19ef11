"""Rules for weak comparisons: too few runs, drift, different conditions."""

from collections.abc import Iterable, Sequence

from loadframe.analyze.compare.groups import Difference, Group
from loadframe.analyze.compare.measures import Measure
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.finding import Finding, Rule
from loadframe.analyze.verdict.rules import fault_of
from loadframe.base.units import counted, format_share

#: Causes that one finding lists.
_SHOWN = 3


def _nothing_done(label: str, count: int, measure: Measure) -> str:
    """Return the cause: `count` runs of a group have the value 0 in a measure, which has no logarithm."""
    return (
        f"{counted(count, 'run')} of {label} had a {measure.phrase} of 0: ratios exclude these runs, because 0 has no"
        " logarithm"
    )


def _other_machine(first: str, second: str, differences: Sequence[Difference]) -> str:
    """Return the cause: both groups ran on different machines."""
    return f"{first} and {second} ran on different machines ({'; '.join(map(str, differences))})"


def _other_speed(first: str, second: str, factor: float) -> str:
    """Return the cause: the machine's speed changed between both groups.

    `factor` is its speed during the runs of `second` relative to those of `first`.
    """
    change = f"{format_share(abs(factor - 1))} {'faster' if factor > 1 else 'slower'}"
    return (
        f"the machine was {change} when {second} was measured than when {first} was, by the CPU time of a reference"
        " benchmark: this effect cannot be separated from a difference between the groups"
    )


def _other_load(first: str, second: str, differences: Sequence[Difference]) -> str:
    """Return the cause: both groups ran under different loads; the first three differences are listed."""
    listed = "; ".join(map(str, differences[:3]))
    more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
    return f"{first} and {second} ran under different loads ({listed}{more})"


def _other_length(label: str, count: int, other: str, phase: str) -> str:
    """Return the cause: `count` runs of a group have another length than most of `other`, which matters to maxima."""
    than = "most of its runs" if label == other else f"the runs of {other}"
    return (
        f"in phase {phase}, {counted(count, 'run')} of {label} measured for a much longer or shorter time than {than}:"
        " more requests have a larger maximum, so maxima exclude them"
    )


def _unmatched(label: str, count: int) -> str:
    """Return the cause: `count` treatments of a group lack a counterpart in the other."""
    return f"{counted(count, 'treatment')} of {label} {'is' if count == 1 else 'are'} missing in the other group"


TOO_FEW_RUNS = Rule(
    "too_few_runs",
    "{first:counted run} against {second} do not show the run-to-run variance: no difference can be significant, and no"
    " interval is known",
    "take at least three valid runs of each; `loadframe plan` shows which difference more runs would detect",
)
ONE_SESSION_EACH = Rule(
    "one_session_each",
    "{first} and {second} were measured in one session each, one after the other: a difference between the groups"
    " cannot be separated from one between the sessions. The intervals assume a standard deviation between sessions of"
    " {spread:share1}",
    "measure both in one session, interleaved, as experiments of kind compare do; or measure each in several sessions;"
    " or set the variance between sessions of this machine with --session-spread",
)
NOTHING_DONE = Rule(
    "nothing_done", _nothing_done, "find out why no request succeeded: this is worse than any ratio shows"
)
FAULTY_RUNS = Rule(
    "faulty_runs",
    "in {faulty} of {total:counted run} of {label} the store was at fault ({listed}): the figures include these runs,"
    " with the throughput and response times of their successes only",
    "see a run with `loadframe report {path}`; bound or measure errors, and response times of all requests (all-p99)",
)
FAILED_RUNS = Rule(
    "failed_runs",
    "the store failed in {failed} of {total:counted run} of {label}: {listed}. The figures include {included} of these"
    " runs, so no advantage is claimed",
    "find out why the store failed, and measure again",
)
EXCLUDED_RUNS = Rule(
    "excluded_runs",
    "{excluded} of {total:counted run} of {label} are excluded: they failed or are missing, or their generator or"
    " cluster was at fault ({listed})",
    "remove the cause and measure again",
)
NOT_INTERLEAVED = Rule(
    "not_interleaved",
    "all runs of {first} came before or after those of {second}: drift between them counts as a difference",
    "interleave them, as experiments of kind compare do, or repeat both and see whether the result holds",
)
OTHER_MACHINE = Rule(
    "other_machine",
    _other_machine,
    "measure both on one machine: machines usually differ by more than versions do",
)
OTHER_SPEED = Rule(
    "other_speed",
    _other_speed,
    "interleave them, as experiments of kind compare do, or measure on a machine with dedicated processors",
)
OTHER_LOAD = Rule(
    "other_load",
    _other_load,
    "unless you want to compare loads, give both the same workload, parameters and generator",
)
OTHER_LENGTH = Rule("other_length", _other_length, "measure all runs for the same time, or compare a percentile")
OTHER_TREATMENT = Rule(
    "other_treatment",
    "{first} and {second} were measured at different treatments ({difference})",
    "unless you want to compare treatments, name runs of one treatment",
)
UNMATCHED = Rule("unmatched", _unmatched, "compare runs of the same treatments, or two single treatments")


def faulty_runs(groups: Sequence[Group]) -> list[Finding]:
    """Return a finding for each group with runs in which the store was at fault."""
    return [
        FAULTY_RUNS(
            label=group.label,
            faulty=len(group.faulty),
            total=len(group.usable),
            listed=_faults(group.faulty),
            path=next((str(run.run.path) for run in group.faulty if run.run), "RUN"),
        )
        for group in groups
        if group.faulty
    ]


def _faults(runs: Sequence[RecordedRun]) -> str:
    """Return the first three causes by which the store was at fault, each with its runs, and the number of others."""
    causes: dict[str, list[str]] = {}
    for run in runs:
        for reason in run.reasons:
            if fault_of(reason.code) == "store":
                causes.setdefault(reason.cause, []).append(run.id)
    shown = [f"{', '.join(names)}: {cause}" for cause, names in list(causes.items())[:_SHOWN]]
    return "; ".join([*shown, f"and {counted(len(causes) - _SHOWN, 'more cause')}"] if len(causes) > _SHOWN else shown)


def runs_by_reason(runs: Iterable[RecordedRun]) -> str:
    """Return each reason with the names of its runs: how the store failed, or else why they are excluded."""
    reasons: dict[str, list[str]] = {}
    for run in runs:
        reasons.setdefault(run.why_failed or run.why, []).append(run.id)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())


def failed_and_excluded(groups: Sequence[Group]) -> list[Finding]:
    """Return a finding for each group with failed runs, and one for each group with runs excluded for other reasons."""
    findings: list[Finding] = []
    for group in groups:
        failed = group.failed
        excluded = [run for run in group.left_out if run not in failed]
        total = len(group.runs)
        if failed:
            listed = runs_by_reason(failed)
            included = len([run for run in failed if run in group.usable]) or "none"
            findings.append(
                FAILED_RUNS(label=group.label, failed=len(failed), total=total, listed=listed, included=included)
            )
        if excluded:
            listed = runs_by_reason(excluded)
            findings.append(EXCLUDED_RUNS(label=group.label, excluded=len(excluded), total=total, listed=listed))
    return findings


def interleaved(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two ascending lists of start times (text that sorts by time) overlap; False if one is empty."""
    return bool(first and second) and not (first[-1] < second[0] or second[-1] < first[0])
