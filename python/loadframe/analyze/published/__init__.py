"""What a publication says, held beside what an experiment measured: as relative changes where figures are absolute."""

from loadframe.analyze.published.beside import Beside, MeasuredBeside, beside
from loadframe.analyze.published.figures import INSTANTS, MEASURES, PER_SECOND, SAMPLES, PublishedFigure

__all__ = ["INSTANTS", "MEASURES", "PER_SECOND", "SAMPLES", "Beside", "MeasuredBeside", "PublishedFigure", "beside"]
