"""Whether new runs may pass: held against a baseline or a history, and against absolute bounds."""

from loadframe.analyze.gate.checks import Bound, Check, Standing
from loadframe.analyze.gate.gate import CATCH, KINDS, LEAST, Gate, Thresholds, judge_gate

__all__ = ["CATCH", "KINDS", "LEAST", "Bound", "Check", "Gate", "Standing", "Thresholds", "judge_gate"]
