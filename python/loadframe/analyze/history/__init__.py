"""A history of runs: when did a figure change, and since when has it been as it is now?"""

from loadframe.analyze.history.change_points import ChangePoint, change_points

__all__ = ["ChangePoint", "change_points"]
