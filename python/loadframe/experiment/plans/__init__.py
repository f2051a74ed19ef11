"""Which combinations of levels are worth a run: pure, by numbers of levels, level 0 being each factor's default.

Own code rather than a library of designs: each is a few lines, and needs no more than arithmetic on small integers.
"""

from loadframe.experiment.plans.adaptive import spsa, tpe
from loadframe.experiment.plans.factorials import changes, full
from loadframe.experiment.plans.fractions import fraction, resolution_of
from loadframe.experiment.plans.screening import plackett_burman

__all__ = ["changes", "fraction", "full", "plackett_burman", "resolution_of", "spsa", "tpe"]
