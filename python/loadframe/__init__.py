"""Loadframe: load tests of data stores."""

__version__ = "0.1.0"
