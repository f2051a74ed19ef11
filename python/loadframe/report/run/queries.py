"""The MPI benchmarker's result format, for the analysis scripts that read it: per query and rank a list of requests.

`[{"OPERATION": {"0": [{"latency": s, "docs": n}, ..., {"error_code": text}, ...]}}, ...]`, one mapping for each phase
that was measured. A run records histograms and no single requests. So each second's latencies are read back from its
histogram, exact to three digits and in ascending order within the second; `docs` is the mean of that second. All ranks
were merged when the run was recorded, and stand as rank 0. The latency is the service time, as the benchmarker's.
"""

from collections.abc import Iterator
from typing import Any

from loadframe.record import Run
from loadframe.record.schema import ERROR_CLASSES
from loadframe.record.schema.summary import PhaseSummary

Request = dict[str, float | str]


def queries(run: Run) -> list[dict[str, dict[str, list[Request]]]]:
    """Return a run in the benchmarker's format: latencies in seconds, errors by the name of their class."""
    rows = [row for row in run.series.to_pylist() if row["segment"] == "measure"]
    phases = run.summary.measured
    return [{name: {"0": list(_requests(run, phase, name, rows))} for name in phase.operations} for phase in phases]


def _requests(run: Run, phase: PhaseSummary, operation: str, rows: list[dict[str, Any]]) -> Iterator[Request]:
    seconds = [row for row in rows if row["phase"] == phase.name and row["operation"] == operation]
    documents = {second: _mean_documents(seconds, second) for second in {row["second"] for row in seconds}}
    tag = f"{phase.name}/{operation}/service"
    if tag in run.histograms.tags():
        for start, histogram in run.histograms.seconds(tag):
            docs = documents.get(round(start - phase.start), 0.0)
            for index in range(histogram.count):
                latency = histogram.quantile((index + 0.5) / histogram.count)
                yield {"latency": latency or 0.0, "docs": docs}
    for error in ERROR_CLASSES:
        for _ in range(sum(row[f"error_{error.name}"] or 0 for row in seconds)):
            yield {"error_code": error.name}


def _mean_documents(rows: list[dict[str, Any]], second: int) -> float:
    """Return the documents of a request that succeeded in a second, on average; whole where it is."""
    documents = sum(row["documents"] for row in rows if row["second"] == second)
    successes = sum(row["successes"] for row in rows if row["second"] == second)
    return documents / successes if successes else 0.0
