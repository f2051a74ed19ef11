"""CSV for Apache Otava (formerly Hunter): a row for each run, a column for each metric; and its configuration.

Otava uses every row. The table therefore omits runs that failed, and runs that are invalid because of the load
generator or the cluster. The newest remaining run determines the columns. Otava requires a number in each column, so
the table also omits runs without one of these metrics.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from loadframe.analyze.failures import recorded_reasons
from loadframe.analyze.verdict.rules import effect_of, fault_of
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.report.setup import started

_TIME, _ATTRIBUTES = "time", ("run", "store", "version", "loadframe")
_STATISTICS = ("p50", "p90", "p99", "p999")


def table(runs: Sequence[Run]) -> str:
    """Return runs, given in order of time, as CSV.

    Times are in s, throughput in 1/s; `errors` is a share of due requests. Runs are omitted that failed, are unusable,
    or lack a metric of the newest usable run. BadInput if another run lacks its start time.
    """
    metrics = _columns(runs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_TIME, *_ATTRIBUTES, *metrics])
    for run in runs:
        figures = _figures(run)
        if set(metrics) <= set(figures):
            writer.writerow([started(run).isoformat(), *_attributes(run), *(figures[name] for name in metrics)])
    return text.getvalue()


def omitted(runs: Sequence[Run]) -> list[str]:
    """Return the names of the runs that `table` leaves out; all names if no run has a metric."""
    metrics = set(_columns(runs))
    return [run.path.name for run in runs if not metrics or not metrics <= set(_figures(run))]


def config_file(table: Path) -> Path:
    """Return the path of the configuration for a table: the same name with `.yaml`.

    BadInput if that is the table itself, or a file other than a configuration of Otava, such as an experiment.
    """
    file = table.with_suffix(".yaml")
    if file == table:
        raise BadInput(
            "Otava's configuration has the suffix .yaml and would replace the table",
            where=str(table),
            remedy="name a file such as runs.csv",
        )
    try:
        with file.open(encoding="utf-8", errors="replace") as existing:
            ours = existing.readline().startswith("tests:")
    except OSError:
        # Writing reports any other problem.
        ours = True
    if not ours:
        raise BadInput(
            "Otava's configuration would replace this file, which is not a configuration of Otava",
            where=str(file),
            remedy="give another name",
        )
    return file


def config(runs: Sequence[Run], file: Path) -> str:
    """Return the YAML configuration that reads the table in `file`, which is written as an absolute path.

    Otava takes an increase for better in throughput only. `runs` must not be empty.
    """
    test = {
        "type": "csv",
        "file": str(file.absolute()),
        "time_column": _TIME,
        "attributes": list(_ATTRIBUTES),
        "metrics": {
            name: {"column": name, "direction": 1 if name.endswith("throughput") else -1, "scale": 1}
            for name in _columns(runs)
        },
    }
    text: str = yaml.safe_dump({"tests": {runs[0].manifest.workload.name or "loadframe": test}}, sort_keys=False)
    return text


def _columns(runs: Sequence[Run]) -> list[str]:
    """Return the metrics of the last run that has any, which are the columns of the table; empty if none has."""
    return next((list(figures) for run in reversed(runs) if (figures := _figures(run))), [])


def _attributes(run: Run) -> list[Any]:
    """Return the values of the columns `_ATTRIBUTES` of a run, in their order.

    They are its name, the kind and version of the store, and the version of Loadframe; None if unknown.
    """
    manifest = run.manifest
    return [run.path.name, manifest.store.kind, manifest.store.version, manifest.versions.loadframe]


def _figures(run: Run) -> dict[str, float]:
    """Return throughput (1/s), times (s) and share of errors of the measured phases by `PHASE.OPERATION.METRIC`.

    Unknown figures are left out. The result is empty for a run that failed, is not judged, or is invalid by a fault of
    the generator or the cluster.
    """
    figures: dict[str, float | None] = {}
    judged = run.summary.status == "done" and run.summary.verdict is not None
    usable = judged and all(
        fault_of(reason.code) == "store" or effect_of(reason.code) == "result" for reason in recorded_reasons(run)
    )
    for phase in run.summary.measured if usable else ():
        for name, operation in phase.operations.items():
            prefix = f"{phase.name}.{name}"
            figures[f"{prefix}.throughput"] = operation.throughput
            for kind, latency in (("response", operation.response), ("service", operation.service)):
                figures |= {f"{prefix}.{kind}_{statistic}": latency.at(statistic) for statistic in _STATISTICS}
            due = operation.due
            figures[f"{prefix}.errors"] = (due - operation.successes) / due if due else None
    return {name: figure for name, figure in figures.items() if figure is not None}
