"""Start time of a run, for formats that require it."""

from datetime import UTC, datetime

from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.record.schema import MANIFEST_FILE


def started(run: Run) -> datetime:
    """Return the start time of a run, in UTC. BadInput if its manifest has none."""
    written, where = run.manifest.started, str(run.path / MANIFEST_FILE)
    if not written:
        remedy = "restore the manifest from its origin, or use another --format"
        raise BadInput("started is missing, which this format requires", where=where, remedy=remedy)
    try:
        return datetime.fromisoformat(written).astimezone(UTC)
    except ValueError:
        raise BadInput(f"started is not a time: {written!r}", where=where, remedy="measure again") from None
