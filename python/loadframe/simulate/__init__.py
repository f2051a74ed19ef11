"""Simulation of a store in virtual time, to test analyses and designs against a known truth."""

from loadframe.simulate.load import Load, closed

__all__ = ["Load", "closed"]
