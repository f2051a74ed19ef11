"""A single run as one JSON object for programs: its summary, and how sure its percentiles are."""

from typing import Any

from loadframe.analyze.percentiles import percentiles_document
from loadframe.record import Run


def run_document(run: Run) -> dict[str, Any]:
    """Return the run's path, its summary, and under `percentiles` the intervals by phase, operation and name, in s."""
    return {"run": str(run.path), **run.raw_summary, "percentiles": percentiles_document(run)}
