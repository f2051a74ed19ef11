"""Results of checks, fits, comparisons, gates and capacity experiments."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loadframe.analyze.capacity import read_capacities
from loadframe.analyze.compare import Comparison as ComparedGroups
from loadframe.analyze.compare import Group
from loadframe.analyze.experiment import read_experiment
from loadframe.analyze.gate import Gate as JudgedGate
from loadframe.analyze.gate import Standing
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import counted
from loadframe.library.arguments import Positive, checked, in_python
from loadframe.library.gate_history import record_gate
from loadframe.library.reports import Report
from loadframe.library.tables import Answer, Table, html_table, table_of
from loadframe.report.fit import print_fit
from loadframe.report.gate import junit, markdown, print_gate
from loadframe.report.kinds import capacity as capacity_report
from loadframe.report.kinds.compare import comparison_page, print_comparison


@dataclass(frozen=True)
class Check:
    """One operation of a workload, sent once; without a store, only its request.

    >>> checked = loadframe.check(workload, store="sim", offline=True)
    >>> checked[0].operation, checked[0].answer
    ('search', None)
    """

    phase: str
    operation: str
    request: str | None
    answer: str | None = None
    #: The error class and message of a failure.
    error: str | None = None
    message: str | None = None
    documents: int | None = None
    service_time: float | None = None
    #: Whether a successful read returned nothing.
    empty: bool = False


class Checks(Sequence[Check]):
    """The checked operations, in the order of the workload.

    >>> loadframe.check(workload, store="sim", offline=True)[0].answer is None
    True
    """

    def __init__(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Create the checks from the answers of operations; ignores keys that `Check` does not have."""
        names = Check.__dataclass_fields__
        self._checks = [Check(**{name: answer[name] for name in names if name in answer}) for answer in answers]

    @property
    def passed(self) -> bool:
        """Whether no operation failed."""
        return not any(check.error for check in self._checks)

    def __getitem__(self, index: Any) -> Any:
        """Return a check by its index, or a list of checks for a slice."""
        return self._checks[index]

    def __len__(self) -> int:
        return len(self._checks)

    def __iter__(self) -> Iterator[Check]:
        """Yield the checks."""
        return iter(self._checks)

    def __repr__(self) -> str:
        return f"<Checks of {counted(len(self), 'operation')}: {sum(bool(check.error) for check in self)} failed>"

    def _repr_html_(self) -> str:
        """Return an HTML table for a notebook, with a row for each operation."""
        columns = ("phase", "operation", "error", "message", "documents", "service_time")
        return html_table(columns, [[getattr(check, name) for name in columns] for check in self._checks])


class Fit(Answer):
    """Fitted scalability models.

    >>> fit = loadframe.fit({1: 955, 2: 1878, 4: 3548, 8: 6531, 16: 9897, 32: 12730})
    >>> fit.predict(64) > 0
    True
    """

    @checked
    def __init__(self, fit: ScalabilityFit) -> None:
        """Create the result of a fit."""
        super().__init__(fit.as_dict(), lambda console: print_fit(console, fit))
        self._fit = fit

    @property
    def best(self) -> str:
        """The name of the best model."""
        return self._fit.best

    @property
    def models(self) -> dict[str, Any]:
        """The parameters with intervals and the goodness of fit of each model, by its name."""
        return dict(self.as_dict()["models"])

    @property
    def peak(self) -> dict[str, Any] | None:
        """The size of maximum throughput with its interval; None if the best model has none."""
        peak: dict[str, Any] | None = self.as_dict()["peak"]
        return peak

    @checked
    def predict(self, n: Positive) -> float:
        """Return the throughput of the best model at size `n`, in the unit of the data."""
        import numpy as np

        return float(self._fit.best_model.predicted(np.array([float(n)]))[0])


class Comparison(Answer):
    """A comparison of groups of runs with the baseline.

    >>> comparison = loadframe.compare("results/old", "results/new")
    >>> comparison.contrasts.columns[:4]
    ['measure', 'phase', 'operation', 'group']
    """

    @checked
    def __init__(self, comparison: ComparedGroups) -> None:
        """Create the result of a comparison."""
        super().__init__(comparison.as_dict(), lambda console: print_comparison(comparison, console))
        self._comparison = comparison

    @property
    def baseline(self) -> str:
        """The name of the group that the others are compared with."""
        return self._comparison.groups[0].label

    @cached_property
    def contrasts(self) -> Table:
        """A row for each measure and group: the ratio to the baseline with its interval, p, outcome and both means.

        Outcomes: `better`, `worse`, `alike` (the whole interval is within `least`), `inconclusive`. Unknown ends of
        intervals are null. `baseline_of_survivors` and `group_of_survivors` say that a mean leaves out failures.
        """
        rows = [
            {
                "measure": it.measure.kind,
                "phase": it.measure.phase,
                "operation": it.measure.operation,
                "group": it.label,
                "baseline": it.baseline,
                "treatment": dict(it.treatment),
                "ratio": it.ratio.value,
                **{name: it.measure.interval(it.ratio, of_ratio=True)[name] for name in ("low", "high")},
                "p": it.p,
                "outcome": it.outcome,
                **{
                    f"{side}_{name}": number
                    for side, mean in zip(("baseline", "group"), it.means, strict=True)
                    for name, number in zip(("mean", "low", "high"), it.measure.interval(mean).values(), strict=True)
                },
                "baseline_of_survivors": it.of_survivors[0],
                "group_of_survivors": it.of_survivors[1],
            }
            for it in self._comparison.contrasts
        ]
        return Table("contrasts", lambda: table_of(rows, ("measure", "phase", "operation", "group")))

    def report(self) -> Report:
        """Return the report: the comparison as a page, as text and as values."""
        page = comparison_page(self._comparison)
        return Report(page, self.as_dict(), lambda console: print_comparison(self._comparison, console))


class Gate(Answer):
    """The outcome of a gate.

    >>> gate = loadframe.gate("results/new", bounds=["p99<=10s", "errors<=1%"])
    >>> gate.passed
    True
    >>> gate.require()
    """

    @checked
    def __init__(self, gate: JudgedGate, groups: Sequence[Group]) -> None:
        """Create the result of a gate on groups of runs, the new one first."""
        super().__init__(gate.as_dict(), lambda console: print_gate(gate, console))
        self._gate = gate
        self._groups = groups

    @property
    def standing(self) -> Standing:
        """`passed`, `regression`, or `undecided` for an inconclusive gate."""
        return self._gate.standing

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return self.standing == "passed"

    def require(self) -> None:
        """Raise LoadframeError for a regression or a broken bound.

        An inconclusive gate raises nothing.
        """
        if self.standing == "regression":
            failed = [check for check in self._gate.checks if check.standing == "regression"]
            raise LoadframeError(
                "; ".join(f"{check.words}: {check.why}" for check in failed) or "a regression",
                remedy="compare the runs, or accept the change by a new baseline",
            )

    @cached_property
    def checks(self) -> Table:
        """A row for each check: name, standing, reason as text (`why`), treatment and p (null without a test)."""
        rows = [
            {
                "check": it.name,
                "standing": it.standing,
                "why": in_python(it.why),
                "treatment": dict(it.treatment),
                "p": it.p,
            }
            for it in self._gate.checks
        ]
        return Table("checks", lambda: table_of(rows, ("check", "standing", "why")))

    @checked
    def record(self, folder: str | os.PathLike[str], commit: str | None = None) -> Path:
        """Copy the new runs and the outcome to a history folder, for `history`; return the new folder in it.

        Creates `folder` if it is missing, and measures this machine for the log. Without `commit`, it comes from
        GITHUB_SHA, CI_COMMIT_SHA or GIT_COMMIT. BadInput if the folder cannot be written.
        """
        return record_gate(Path(folder), self._gate, self._groups[0], commit)

    def markdown(self) -> str:
        """Return the outcome as Markdown."""
        return in_python(markdown(self._gate))

    def junit(self) -> str:
        """Return the outcome as JUnit XML."""
        return in_python(junit(self._gate))


class Capacity(Answer):
    """The sustained loads of a capacity experiment.

    >>> loadframe.capacity("results/capacity").capacities.columns[:3]
    ['nodes', 'rate', 'low']
    """

    @checked
    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Analyse the folder of a capacity experiment; BadInput for another kind."""
        path = Path(path)
        kind = read_experiment(path).description["kind"]
        if kind != "capacity":
            raise BadInput(
                f"the experiment is of kind {kind}, not capacity", where=str(path), remedy="run one of kind capacity"
            )
        report = capacity_report.read(path)
        super().__init__(report.document, report.show)
        self._path = path

    @cached_property
    def capacities(self) -> Table:
        """A row for each treatment: the sustained rate (1/s) or number of users with its 95 % interval.

        An end that the searches do not bound is null. `over` is `rate` or `users`, `standing` tells how the end of the
        searches bounds the value. `passed` and `failed` are the loads tried next to the capacity by a single search.
        """
        rows = []
        for capacity in read_capacities(self._path).capacities:
            estimate = capacity.rate.as_dict() if capacity.rate else dict.fromkeys(("value", "low", "high"))
            passed, failed = capacity.bracket or (None, None)
            rows.append(
                {
                    "nodes": capacity.nodes,
                    "rate": estimate["value"],
                    "low": estimate["low"],
                    "high": estimate["high"],
                    "passed": passed,
                    "failed": failed,
                    "over": capacity.over,
                    "standing": capacity.kind.value,
                    "treatment": dict(capacity.treatment),
                }
            )
        return Table("capacities", lambda: table_of(rows, ("nodes", "rate", "low", "high")))
