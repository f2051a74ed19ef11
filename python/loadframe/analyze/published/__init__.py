"""What a publication says, held beside what an experiment measured: as relative changes where figures are absolute."""

from loadframe.analyze.published.beside import Beside, MeasuredBeside, beside
from loadframe.analyze.published.figures import INSTANTS, MEASURES, PublishedFigure

__all__ = ["INSTANTS", "MEASURES", "Beside", "MeasuredBeside", "PublishedFigure", "beside"]
