"""A sweep as one JSON object for programs: what the report says, without its pictures."""

from typing import Any

from loadframe.analyze.sweep.curves import Curve, PhaseCurves
from loadframe.analyze.sweep.treatments import Treatment


def curves_document(curves: PhaseCurves) -> dict[str, Any]:
    """Return the figures of one phase: treatments, fits, speed-ups, warnings."""
    return {
        "phase": curves.phase,
        "operation": curves.operation,
        "levels": dict(curves.others),
        "treatments": [_treatment(treatment) for treatment in curves.treatments],
        "failed": [
            {
                "nodes": level.nodes,
                "clients": level.clients,
                "failed": level.failed,
                "runs": level.total,
                **level.as_dict(),
            }
            for level in curves.failed
        ],
        "over_clients": [_curve(curve) for curve in curves.over_clients],
        "over_nodes": curves.over_nodes and _curve(curves.over_nodes),
        "speedups": [
            {
                "nodes": row.treatment.nodes,
                "clients": row.treatment.clients,
                "throughput": row.treatment.throughput.as_dict(),
                "without_luck": row.treatment.without_luck,
                "speedup": row.speedup.as_dict(),
                "efficiency": row.efficiency.as_dict(),
            }
            for row in curves.speedups
        ],
        "bends": [
            {"nodes": bend.nodes, "clients": bend.clients, "effective": bend.effective, **bend.as_dict()}
            for bend in curves.bends
        ],
        "calibrations": [vars(calibration) for calibration in curves.calibrations],
        "warnings": [warning.as_dict() for warning in curves.warnings],
    }


def _treatment(treatment: Treatment) -> dict[str, Any]:
    return {
        "nodes": treatment.nodes,
        "clients": treatment.clients,
        "runs": [point.run for point in treatment.points],
        "throughput": treatment.throughput.as_dict(),
        "response_p50": treatment.response_p50,
        "response_p99": treatment.response_p99,
        "response_p50_low": treatment.response_p50_low,
        "response_p99_low": treatment.response_p99_low,
        "parallelism": treatment.parallelism,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {"nodes": curve.nodes, "fit": curve.fit and curve.fit.as_dict(), "refusal": curve.refusal}
