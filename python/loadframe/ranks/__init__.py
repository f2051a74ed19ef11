"""Distributed load generation over MPI: processes (ranks), their messages, and their part in a phase.

Ranks above 0 import only this package, `base` and the engine.
"""
