"""A history of runs: when did a figure change, and since when has it been as it is now?"""

from loadframe.analyze.history.change_points import ChangePoint, change_points
from loadframe.analyze.history.since_change import Shift, ShortHistory, since_last_change

__all__ = ["ChangePoint", "Shift", "ShortHistory", "change_points", "since_last_change"]
