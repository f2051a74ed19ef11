"""Gate for new runs: comparison with a baseline or a history, and absolute bounds."""

from loadframe.analyze.gate.checks import CATCH, KINDS, LEAST, Bound, Check, Standing, Thresholds
from loadframe.analyze.gate.gate import Gate, judge_gate

__all__ = ["CATCH", "KINDS", "LEAST", "Bound", "Check", "Gate", "Standing", "Thresholds", "judge_gate"]
