"""The engine on this process: runs a phase's plan and keeps what was measured when it is interrupted.

It also measures what the engine itself is good for on this machine.
"""

from loadframe.load.calibration import Calibration
from loadframe.load.generator import Generator
from loadframe.load.phase import (
    Outcome,
    PhaseFailed,
    Progress,
    check_operations,
    render_operations,
    run_phase,
    validate_plan,
)

__all__ = [
    "Calibration",
    "Generator",
    "Outcome",
    "PhaseFailed",
    "Progress",
    "check_operations",
    "render_operations",
    "run_phase",
    "validate_plan",
]
