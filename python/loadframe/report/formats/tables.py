"""JSON lines and a Markdown table: an entry for each operation of each phase."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from loadframe.analyze.experiment import RecordedRun, validity
from loadframe.analyze.failures import recorded_reasons
from loadframe.base.units import format_count, format_duration
from loadframe.record import Run
from loadframe.record.schema.figures import Latency, OperationFigures
from loadframe.record.schema.summary import PhaseSummary, RecordedFigure
from loadframe.report.gate import escaped
from loadframe.report.run_status import bounds_of


def json_lines(runs: Sequence[Run]) -> str:
    """Return a JSON object for each operation of each phase, with times in s; a run without phases has one object.

    `states` is the quality of the operation's figures by the verdict; its `throughput` and `errors` are of the phase.
    """
    lines = []
    for run in runs:
        about = _about(run)
        qualities = RecordedRun(run.path.name, None, {}, run).qualities
        entries = [_entry(qualities, phase, *entry) for phase in run.summary.phases for entry in _items(phase)]
        lines += [about | entry for entry in entries or [{}]]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _items(phase: PhaseSummary) -> list[tuple[str, OperationFigures]]:
    """Return name and figures of each operation of a phase."""
    return list(phase.operations.items())


def _about(run: Run) -> dict[str, Any]:
    """Return the keys that all JSON objects of a run share: setup, status and verdict."""
    manifest, summary = run.manifest, run.summary
    return {
        "run": run.path.name,
        "started": manifest.started,
        "workload": manifest.workload.name,
        "store": manifest.store.kind,
        "version": manifest.store.version,
        "nodes": manifest.store.nodes,
        "treatment": dict(manifest.treatment),
        "status": summary.status,
        "failure_cause": summary.failure,
        "valid": validity(run),
        "reasons": [{"code": it.code, "phase": it.phase, "cause": it.cause} for it in recorded_reasons(run)],
    }


def _entry(
    qualities: Sequence[RecordedFigure], phase: PhaseSummary, name: str, figures: OperationFigures
) -> dict[str, Any]:
    """Return the values of one operation of a phase: counts, rates (1/s), times (s), and the states of its figures.

    `qualities` are those of the run's figures.
    """
    return {
        "phase": phase.name,
        "operation": name,
        "prepares": phase.prepares,
        "warmup": phase.warmup,
        "duration": phase.duration,
        "requests": figures.requests,
        "successes": figures.successes,
        "errors": dict(figures.errors),
        "dropped": figures.dropped,
        "unanswered": figures.in_flight_at_end,
        "throughput": figures.throughput,
        "documents_per_second": figures.documents_per_second,
        **{
            kind: asdict(latency) if isinstance(latency := getattr(figures, kind), Latency) else None
            for kind in ("response", "service", "failure", "all")
        },
        **({"kernel_times": asdict(figures.kernel_times)} if figures.kernel_times else {}),
        "states": _states(qualities, phase, name),
    }


def _states(qualities: Sequence[RecordedFigure], phase: PhaseSummary, operation: str) -> dict[str, str]:
    """Return figure -> `good`, `bounded` or `unknown` for the figures of a phase and of one operation."""
    of_phase = [figure for figure in qualities if figure.phase == phase.name]
    return {figure.figure: figure.state for figure in of_phase if figure.operation in (None, operation)}


_COLUMNS = ("run", "phase", "operation", "requests/s", "p50", "p99", "p99.9", "p99 service", "failed", "verdict")


def markdown(runs: Sequence[Run]) -> str:
    """Return a Markdown table of the measured phases, and a list of failures, reasons and bounded figures.

    A run without a measured phase has a row of dashes.
    """
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * 3}{'--:|' * 6}---|"]
    for run in runs:
        words = {None: "not judged", True: "valid", False: "not valid"}[validity(run)]
        words += ", bounded" if RecordedRun(run.path.name, None, {}, run).bounded else ""
        outcome = words if run.summary.status == "done" else f"{run.summary.status}, {words}"
        rows = [_cells(phase, name, figures) for phase in run.summary.measured for name, figures in _items(phase)]
        for cells in rows or [("–",) * (len(_COLUMNS) - 2)]:
            lines.append(f"| {' | '.join(map(escaped, (run.path.name, *cells, outcome)))} |")
    reasons = [
        f"- {escaped(f'{run.path.name}: {text}')}"
        for run in runs
        for text in (
            *filter(None, [run.summary.failure]),
            *(reason.cause for reason in recorded_reasons(run)),
            *bounds_of(run),
        )
    ]
    return "\n".join([*lines, *(["", *reasons] if reasons else [])]) + "\n"


def _cells(phase: PhaseSummary, name: str, figures: OperationFigures) -> tuple[str, ...]:
    """Return the cells of an operation from `phase` to `failed`, in the order of `_COLUMNS`."""
    times = [figures.response.at(statistic) for statistic in ("p50", "p99", "p999")] + [figures.service.p99]
    failed = figures.due - figures.successes
    return (
        phase.name,
        name,
        format_count(figures.throughput),
        *("–" if time is None else format_duration(time) for time in times),
        f"{format_count(failed)} of {format_count(figures.due)}",
    )
