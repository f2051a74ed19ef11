"""The engine on this process: runs a phase's plan and keeps what was measured when it is interrupted."""

from loadframe.load.phase import Outcome, Progress, check_operations, run_phase

__all__ = ["Outcome", "Progress", "check_operations", "run_phase"]
