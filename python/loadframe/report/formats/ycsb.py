"""YCSB's text output, as with `measurement.interval=both`: `[READ], 99thPercentileLatency(us), 1234`.

`[READ]` has service times of successes, `[Intended-READ]` response times of successes, and `[Intended-READ-FAILED]`
response times of failures. Times are whole microseconds, as in YCSB. `Throughput(ops/sec)` counts failures, too.
"""

import re
from collections.abc import Iterator

from loadframe.analyze.experiment import validity
from loadframe.analyze.failures import recorded_reasons
from loadframe.record import Run
from loadframe.record.schema.figures import OperationFigures
from loadframe.record.schema.summary import PhaseSummary

#: YCSB's names of operations, by the names that `import ycsb` gives them.
_NAMES = {
    "read": "READ",
    "update": "UPDATE",
    "insert": "INSERT",
    "scan": "SCAN",
    "delete": "DELETE",
    "read_modify_write": "READ-MODIFY-WRITE",
}
_QUANTILES = (("50th", 0.5), ("90th", 0.9), ("95th", 0.95), ("99th", 0.99), ("99.9", 0.999))


def text(run: Run) -> str:
    """Return the measured phases of a run as YCSB prints them, times in whole microseconds.

    With several phases, names of sections begin with the phase's name.
    """
    lines = [f"[{section}], {measure}, {value}" for section, measure, value in _lines(run)]
    return "\n".join(lines) + "\n"


def _lines(run: Run) -> Iterator[tuple[str, str, object]]:
    """Yield section, measure and value of each line: overall figures, operations, status and verdict."""
    phases = run.summary.measured
    duration = sum(phase.duration for phase in phases)
    requests = sum(operation.requests for phase in phases for operation in phase.single.values())
    yield "OVERALL", "RunTime(ms)", round(1e3 * duration)
    yield "OVERALL", "Throughput(ops/sec)", requests / duration if duration else 0.0
    for phase in phases:
        for name, operation in phase.operations.items():
            section = ".".join([*([_safe(phase.name)] if len(phases) > 1 else []), _NAMES.get(name) or _safe(name)])
            yield from _operation(run, phase, name, section, operation)
    yield "LOADFRAME", "Status", _safe(run.summary.status)
    if run.summary.verdict:
        yield "LOADFRAME", "Valid", str(validity(run)).lower()
        for reason in recorded_reasons(run):
            yield "LOADFRAME", f"Reason={_safe(reason.code)}", _safe(reason.phase or "run")


def _operation(
    run: Run, phase: PhaseSummary, name: str, section: str, figures: OperationFigures
) -> Iterator[tuple[str, str, object]]:
    """Yield section, measure and value of each line of an operation: times (us), and counts by outcome.

    `name` is the operation in the record, `section` its name in the output. Kinds of times without requests are
    omitted.
    """
    known = set(run.histograms.tags())
    kinds = ((section, "service"), (f"Intended-{section}", "response"), (f"Intended-{section}-FAILED", "failure"))
    for title, kind in kinds:
        tag = f"{phase.name}/{name}/{kind}"
        histogram = run.histograms.total(tag) if tag in known else None
        if histogram is None or not histogram.count:
            if kind == "service":
                yield title, "Operations", 0
        else:
            yield title, "Operations", histogram.count
            yield title, "AverageLatency(us)", 1e6 * (histogram.mean or 0.0)
            yield title, "MinLatency(us)", _microseconds(histogram.quantile(0.5 / histogram.count))
            yield title, "MaxLatency(us)", _microseconds(histogram.max)
            for words, quantile in _QUANTILES:
                yield title, f"{words}PercentileLatency(us)", _microseconds(histogram.quantile(quantile))
        if kind == "service":
            yield title, "Return=OK", figures.successes
            for error, count in figures.errors.items():
                yield title, f"Return=ERROR-{_safe(error)}", count
            for outcome, count in (("DROPPED", figures.dropped), ("UNANSWERED", figures.in_flight_at_end)):
                if count:
                    yield title, f"Return={outcome}", count


def _safe(name: str) -> str:
    """Replace by a hyphen each character other than a letter, digit, underscore, dot or hyphen."""
    return re.sub(r"[^\w.-]", "-", name)


def _microseconds(seconds: float | None) -> int:
    """Convert seconds to whole microseconds, and None to 0."""
    return round(1e6 * (seconds or 0.0))
