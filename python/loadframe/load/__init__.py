"""Execution of phases on the engine, and calibration of the load generator on this machine."""

from loadframe.load.calibrate import Calibration
from loadframe.load.phase import (
    Adjustment,
    Closing,
    FirstEvent,
    Generator,
    OpenMeasures,
    Outcome,
    PhaseFailed,
    Progress,
    ReadMeasures,
    Requests,
    SourceProgress,
    check_operations,
    preview_lines,
    render_operations,
    run_phase,
    validate_plan,
)
from loadframe.ranks.coordinator import present

__all__ = [
    "Adjustment",
    "Calibration",
    "Closing",
    "FirstEvent",
    "Generator",
    "OpenMeasures",
    "Outcome",
    "PhaseFailed",
    "Progress",
    "ReadMeasures",
    "Requests",
    "SourceProgress",
    "check_operations",
    "present",
    "preview_lines",
    "render_operations",
    "run_phase",
    "validate_plan",
]
