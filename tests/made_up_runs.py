"""Runs that no folder holds, made of the models of their records."""

from pathlib import Path

from loadframe.record import Manifest, Run, Summary
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import Latency, OperationFigures
from loadframe.record.schema.summary import PhaseSummary, RecordedReason, RecordedVerdict, StreamSummary

VALID = RecordedVerdict(valid=True)


class MadeUp(Run):
    """A run with the summary and manifest that a test gives."""

    def __init__(self, summary, manifest=None, path="e/runs/r"):
        self.path = Path(path)
        self.__dict__.update(summary=summary, manifest=manifest or Manifest(FORMAT))


def invalid(*codes):
    """Return the verdict on a run with these reasons; a valid one without any."""
    return RecordedVerdict(not codes, tuple(RecordedReason(code, f"because of {code}", "mend it") for code in codes))


def summary(*phases, verdict=VALID, **parts):
    """Return the summary of a run that is done and valid."""
    return Summary("done", phases=phases, verdict=verdict, **parts)


def phase(name, operations, *, clients=1, **parts):
    """Return a phase of a closed loop, after 1 s of warm-up."""
    times = {"start": 0.5, "warmup": 1.0, "duration": 9.0} | parts
    stream = StreamSummary("main", {"closed": {"clients": clients, "think_time": 0.0}})
    return PhaseSummary(name=name, streams=(stream,), operations=operations, **times)


def operation(throughput, **parts):
    """Return an operation without failures; `parts` replace some of its fields."""
    counts = {"requests": 1000, "successes": 1000, "documents": 0, "errors": {}, "dropped": 0, "in_flight_at_end": 0}
    whole = {"throughput": throughput, "documents_per_second": 0.0, "response": Latency(), "service": Latency()}
    return OperationFigures(**(counts | whole | parts))
