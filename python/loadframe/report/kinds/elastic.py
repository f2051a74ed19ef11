"""The report on an elastic experiment."""

from pathlib import Path

from loadframe.analyze.elasticity import read_elasticity
from loadframe.report.elastic_page import elastic_page
from loadframe.report.elastic_terminal import print_elasticity
from loadframe.report.kinds import Report


def read(path: Path) -> Report:
    """Return what happened in each transition of the experiment in that folder."""
    found = read_elasticity(path)
    return Report(elastic_page(found), found.as_dict(), lambda console: print_elasticity(found, console))
