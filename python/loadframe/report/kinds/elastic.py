"""The report on an elastic experiment."""

from collections.abc import Sequence
from pathlib import Path

from loadframe.analyze.elasticity import Elasticity, read_elasticity
from loadframe.errors import BadInput
from loadframe.record.schema.event_kinds import FIRED, NEVER
from loadframe.report.elastic.page import elastic_page
from loadframe.report.elastic.terminal import print_elasticity
from loadframe.report.further import further
from loadframe.report.kinds import Report


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return what happened in each transition of the experiment in that folder."""
    elasticity = read_elasticity(path)
    more = further(elasticity.folder, bands)
    return Report(
        elastic_page(elasticity, more.sections),
        elasticity.as_dict() | more.document,
        lambda console: print_elasticity(elasticity, console, more),
        _unanswerable(elasticity),
    )


def _unanswerable(elasticity: Elasticity) -> BadInput | None:
    """Return what is wrong where nothing was changed in any run, since no trigger fired in its time."""
    runs = [run.run for run in elasticity.folder.runs if run.treatment.get("event") and run.status == "done"]
    kinds = [{event["kind"] for event in run.events} for run in runs if run]
    if not kinds or any(FIRED in seen or NEVER not in seen for seen in kinds):
        return None
    return BadInput(
        "no trigger fired in its time in any run, so no cluster was changed",
        where=str(elasticity.folder.path),
        remedy="lower its thresholds, put more load on, or give it more time (within, duration)",
    )
