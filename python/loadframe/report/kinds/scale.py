"""The report on a scale experiment."""

from pathlib import Path

from loadframe.analyze.sweep import read_sweep
from loadframe.report.kinds import Report
from loadframe.report.scale.page import sweep_page
from loadframe.report.scale.terminal import print_sweep


def read(path: Path) -> Report:
    """Return curves, fits and speed-ups of the experiment in that folder."""
    sweep = read_sweep(path)
    return Report(sweep_page(sweep), sweep.as_dict(), lambda console: print_sweep(sweep, console))
