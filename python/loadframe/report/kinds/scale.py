"""The report on a scale experiment."""

from collections.abc import Sequence
from pathlib import Path

from loadframe.analyze.sweep import read_sweep
from loadframe.report.further import further
from loadframe.report.kinds import Report
from loadframe.report.scale.page import sweep_page
from loadframe.report.scale.terminal import print_sweep


def read(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return curves, fits and speed-ups of the experiment in that folder."""
    sweep = read_sweep(path)
    more = further(sweep.folder, bands)
    return Report(
        sweep_page(sweep, more.sections, more.curves),
        sweep.as_dict() | more.document,
        lambda console: print_sweep(sweep, console, more),
    )
