"""The simulated store in virtual time: sweeps of known truth, in seconds instead of hours."""

from loadframe.simulate.load import Load, closed

__all__ = ["Load", "closed"]
