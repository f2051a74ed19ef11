"""Experiment files: their models, factors, expressions and published figures."""
