"""Sentences about the quality of a run's figures, and about delayed acknowledgements."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from loadframe.analyze.delayed import delayed_of
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.figures import VALUE
from loadframe.base.units import format_count, format_duration
from loadframe.record import Run
from loadframe.record.schema.summary import PhaseSummary, RecordedFigure, RecordedReason

Tone = Literal["valid", "bounded", "invalid"]

#: Phases that a sentence names.
_LISTED = 4
_UNITS: dict[str, str] = {"throughput": "requests/s", "documents": "documents/s"}
_NAMES = {"response": "response times", "service": "service times", "all": "response times with failures"}


def standing_of(run: Run) -> tuple[Tone, str]:
    """Return the tone and a sentence on whether the figures of a run are valid."""
    recorded = RecordedRun(run.path.name, None, {}, run)
    if not recorded.sound:
        return "invalid", "Invalid: do not rely on these figures."
    if recorded.bounded:
        return "bounded", "Bounded: delays or limits of the load generator affect some figures; see their bounds."
    if recorded.reasons:
        return "valid", "Valid: the problems below are results of the store."
    return "valid", "Valid: no problem was found."


def bounds_of(run: Run) -> list[str]:
    """Return a line for each figure of a run that is bounded or unknown.

    Response times with failures have a line only if response times of successes are good.
    """
    recorded = RecordedRun(run.path.name, None, {}, run)
    limited = [entry for entry in recorded.qualities if entry.state != "good"]
    responses = {(entry.phase, entry.operation) for entry in limited if entry.figure == "response"}
    return [_line(it) for it in limited if it.figure != "all" or (it.phase, it.operation) not in responses]


def merged_reasons(reasons: Iterable[RecordedReason]) -> list[tuple[str, str]]:
    """Return the cause and the remedy of each rule that applies; further phases follow the cause of the first."""
    by_code: dict[str, list[RecordedReason]] = {}
    for reason in reasons:
        by_code.setdefault(reason.code, []).append(reason)
    merged = []
    for first, *others in by_code.values():
        phases = list(dict.fromkeys(other.phase for other in others if other.phase and other.phase != first.phase))
        more = f"; also in {listed(phases)}" if phases else ""
        merged.append((f"{first.cause}{more}", first.remedy))
    return merged


def listed(words: Sequence[str]) -> str:
    """Write `a, b and c`. Above four words, write the first three and the number of the others."""
    shown = list(words) if len(words) <= _LISTED else [*words[: _LISTED - 1], f"{len(words) - _LISTED + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""


def _line(entry: RecordedFigure) -> str:
    name = _NAMES.get(entry.figure, entry.figure)
    of = f"{name} of {entry.operation} in {entry.phase}" if entry.operation else f"{name} of {entry.phase}"
    why = f" ({', '.join(entry.reasons)})" if entry.reasons else ""
    if entry.state == "unknown":
        return f"{of}: unknown{why}"
    if entry.figure in _UNITS:
        return f"{of}: bounded, {_span(entry, VALUE, format_count)} {_UNITS[entry.figure]}{why}"
    spans = [f"{name} {_span(entry, name, format_duration)}" for name in ("p50", "p99") if name in entry.low]
    return f"{of}: bounded, {', '.join(spans)}{why}"


def _span(entry: RecordedFigure, statistic: str, text: Callable[[float], str]) -> str:
    high = entry.high.get(statistic)
    return f"{text(entry.low.get(statistic, 0.0))}{' or more' if high is None else f' to {text(high)}'}"


def delayed_texts(run: Run, phase: PhaseSummary) -> list[str]:
    """Return a sentence if answers of a phase seem to wait for delayed acknowledgements."""
    return [
        f"in {at.phase} nearly all answers of {', '.join(at.operations)} take about {format_duration(at.median)}"
        f" ({_idle(at.cpu)}), which is typical of delayed acknowledgements. Set TCP_NODELAY in the service, or write"
        " each answer in one call."
        for at in filter(None, [delayed_of(run, phase)])
    ]


def _idle(cpu: float | None) -> str:
    if cpu is None:
        return "the CPU of the service was not observed; check that it is idle"
    return f"of which {format_duration(cpu)} are CPU time"
