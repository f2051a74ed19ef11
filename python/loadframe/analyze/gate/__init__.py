"""Gate for new runs: comparison with a baseline or a history, and absolute bounds."""

from loadframe.analyze.gate.checks import Check, Standing
from loadframe.analyze.gate.gate import Gate, judge_gate
from loadframe.analyze.gate.thresholds import CATCH, KINDS, LEAST, Bound, Thresholds

__all__ = ["CATCH", "KINDS", "LEAST", "Bound", "Check", "Gate", "Standing", "Thresholds", "judge_gate"]
