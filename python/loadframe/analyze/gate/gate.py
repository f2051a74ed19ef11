"""New runs against earlier ones: regressions, what stays undecided, and since when the baseline has its level.

Of a history, only the runs since the last change count: what changed and was accepted is not to be compared with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.analyze.comparison import SESSION_SPREAD, Comparison, Contrast, Group, Measure, compare
from loadframe.analyze.comparison.doubts import OtherPace, failed_and_left_out, faulty_runs
from loadframe.analyze.comparison.estimate_ratio import RatioEstimate
from loadframe.analyze.comparison.groups import treatments_text
from loadframe.analyze.comparison.measures import measures_of
from loadframe.analyze.experiment import RecordedRun, excluded
from loadframe.analyze.finding import Finding
from loadframe.analyze.gate.bounds import against_bound
from loadframe.analyze.gate.checks import Check, Question, Standing, against_baseline, one_sided_p, together
from loadframe.analyze.gate.completeness import failed_runs, without_figure
from loadframe.analyze.gate.findings import MissingTreatments
from loadframe.analyze.gate.joint import families, joint_estimate, runs_at
from loadframe.analyze.gate.more_errors import errors_against_baseline, more_errors
from loadframe.analyze.gate.multiplicity import Graph
from loadframe.analyze.gate.thresholds import KINDS, Bound, Thresholds
from loadframe.analyze.history import since_last_change
from loadframe.errors import BadInput


@dataclass(frozen=True, eq=False)
class Gate:
    """What became of new runs: each check, what to doubt, and the comparison behind it (None without a baseline)."""

    label: str
    checks: tuple[Check, ...]
    warnings: tuple[Finding, ...]
    comparison: Comparison | None
    #: Whether something that had to be checked could not be, beside the checks that say so themselves.
    incomplete: bool
    #: The runs, new and earlier, that no figure contains.
    left_out: tuple[RecordedRun, ...] = ()

    @property
    def standing(self) -> Standing:
        """The worst of all checks; undecided if there is none."""
        standings = {check.standing for check in self.checks}
        if "regression" in standings:
            return "regression"
        return "undecided" if self.incomplete or not self.checks or "undecided" in standings else "passed"

    def as_dict(self) -> dict[str, Any]:
        """Return the gate for JSON."""
        return {
            "standing": self.standing,
            "runs": self.label,
            "checks": [check.as_dict() for check in self.checks],
            "warnings": [warning.as_dict() for warning in self.warnings],
            "excluded": excluded(self.left_out),
            "comparison": self.comparison and self.comparison.as_dict(),
        }


def judge_gate(
    new: Group,
    baseline: Group | None,
    thresholds: Thresholds,
    *,
    kinds: Sequence[str] = KINDS,
    history: bool = False,
    session_spread: float = SESSION_SPREAD,
    across: bool = False,
    watch: Sequence[str] = (),
) -> Gate:
    """Judge new runs. With `history`, the baseline's runs are one after another, and may have changed in between.

    `session_spread` is by how much two sessions are taken to differ where each side has one only. `watch` names
    operations whose checks get most of the level. BadInput where one treatment would be compared with another, unless
    that is wanted (`across`), and for a watched operation that was not measured.
    """
    _require_measured(new, watch)
    warnings: list[Finding] = [] if baseline else failed_and_left_out([new])
    checks = _bounds(new, thresholds.bounds)
    if baseline is None:
        warnings += faulty_runs([new])
        checks += [check for treatment in new.treatments for check in failed_runs(new.at(treatment), None, treatment)]
        return Gate(new.label, tuple(checks), tuple(warnings), None, False, new.left_out)
    if not across:
        _require_same_treatment(baseline, new)
    if history:
        # A share of errors that is nearly always 0 has no level that could shift.
        baseline, shifts = since_last_change(baseline, [kind for kind in kinds if kind != "errors"])
        warnings += shifts
    comparison = compare([baseline, new], kinds, level=thresholds.level, session_spread=session_spread, intended=across)
    pace = next((warning.factor for warning in comparison.warnings if isinstance(warning, OtherPace)), 1.0)
    checks += _against(comparison, thresholds, pace, session_spread, watch)
    for first, second, treatment in _pairs(baseline, new):
        failed = [*failed_runs(second, first, treatment), *without_figure(second, first, treatment, kinds)]
        checks += failed
        if second.usable:
            checks += _unknown(first, second, treatment, kinds, comparison, failed)
    missing = _missing(baseline, new)
    if missing:
        warnings.append(MissingTreatments(new.label, missing))
    warnings += comparison.warnings
    incomplete = bool(missing) or not comparison.contrasts
    left_out = (*new.left_out, *baseline.left_out)
    return Gate(new.label, tuple(checks), tuple(warnings), comparison, incomplete, left_out)


def _require_measured(new: Group, watch: Sequence[str]) -> None:
    """Refuse a watched operation that no run has."""
    known = {name for run in new.usable if run.run for phase in run.run.summary.phases for name in phase.operations}
    for name in watch:
        if name not in known:
            raise BadInput(
                f"--watch {name}: no run of {new.label} measured an operation of that name",
                remedy=f"name one of {', '.join(sorted(known)[:8])}" if known else "look at why runs were left out",
            )


def _against(
    comparison: Comparison, thresholds: Thresholds, pace: float, session_spread: float, watch: Sequence[str]
) -> list[Check]:
    """Return the checks against the baseline: of each kind first all together, then one by one."""
    baseline, new = comparison.groups
    contrasts = comparison.contrasts
    # What the checks are about, in the order of the graph's hypotheses: a contrast, or several together; and their p.
    about: list[tuple[Measure, RatioEstimate | None, Contrast | None, int]] = []
    ps: list[float] = []
    members, watched = [], []
    for kind, places in families(contrasts).items():
        members.append(len(places))
        chosen = [contrasts[place] for place in places]
        watched.append([index for index, contrast in enumerate(chosen) if contrast.measure.operation in watch])
        if len(chosen) > 1:
            joint = joint_estimate(chosen, baseline, new, session_spread) if kind != "errors" else None
            about.append((Measure("all phases", kind), joint, None, len(chosen)))
            ps.append(one_sided_p(joint, chosen[0].measure) if joint else 1.0)
        for candidate in chosen:
            about.append((candidate.measure, candidate.estimate, candidate, 1))
            sides = runs_at(baseline, candidate), runs_at(new, candidate)
            ps.append(
                more_errors(candidate.measure, *sides)
                if kind == "errors"
                else one_sided_p(candidate.estimate, candidate.measure)
            )
    graph = Graph(members, watched)
    adjusted = graph.adjust(ps)
    checks = []
    for (measure, detail, contrast, count), p, share in zip(about, adjusted, graph.weights.tolist(), strict=True):
        if detail is None:
            continue
        question = Question(measure, detail, thresholds, p, share, pace)
        if contrast is None:
            checks.append(together(question, count, "measures"))
        elif measure.kind == "errors":
            sides = runs_at(baseline, contrast), runs_at(new, contrast)
            checks.append(errors_against_baseline(contrast, question, *sides))
        else:
            runs = runs_at(new, contrast).usable
            checks.append(against_baseline(contrast, question, blind=measure.is_blind(runs)))
    return checks


def _require_same_treatment(baseline: Group, new: Group) -> None:
    if len(baseline.treatments) == len(new.treatments) == 1 and baseline.treatments != new.treatments:
        differing = treatments_text(baseline.treatments[0], new.treatments[0])
        raise BadInput(
            f"{baseline.label} and {new.label} were measured at different treatments ({differing})",
            remedy="give runs of one treatment, or say with --across-treatments that this difference is what to judge",
        )


def _pairs(baseline: Group, new: Group) -> list[tuple[Group, Group, Mapping[str, Any]]]:
    """Return which treatments are compared with which, as the comparison does."""
    if len(baseline.treatments) == len(new.treatments) == 1:
        return [(baseline, new, {})]
    return [
        (baseline.at(treatment), new.at(treatment), treatment)
        for treatment in baseline.treatments
        if treatment in new.treatments
    ]


def _unknown(
    first: Group,
    second: Group,
    treatment: Mapping[str, Any],
    kinds: Sequence[str],
    comparison: Comparison,
    said: Sequence[Check],
) -> list[Check]:
    """Return an undecided check for each measure of which nothing else says anything."""
    known = {contrast.measure for contrast in comparison.contrasts if contrast.treatment == treatment}
    known |= {check.measure for check in said}
    measures = measures_of([*first.usable, *second.usable], kinds)
    why = "not both the baseline and the new runs have recorded it"
    return [Check(measure, treatment, "undecided", why) for measure in measures if measure not in known]


def _missing(baseline: Group, new: Group) -> int:
    if len(baseline.treatments) == len(new.treatments) == 1:
        return 0
    return sum(treatment not in new.treatments for treatment in baseline.treatments)


def _bounds(new: Group, bounds: Sequence[Bound]) -> list[Check]:
    checks = []
    for bound in bounds:
        for treatment in new.treatments:
            runs = new.at(treatment).usable
            measures = measures_of(runs, [bound.kind]) or (Measure("all phases", bound.kind),)
            checks += [against_bound(measure, treatment, runs, bound) for measure in measures]
    return checks
