"""Folders of capacity experiments whose trials pass or fail as told."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulated import Truth, write_run

#: Longest p99 of the SLO, s; trials that pass are far below it, trials that fail far above.
LIMIT = 1.0


def write_capacity(
    path: Path, trials: Mapping[int, Sequence[tuple[float, bool]]], *, searches: int = 1, **changed: Any
) -> Path:
    """Write a search for each number of nodes from its trials: rates, 1/s, and whether they pass.

    `changed` replaces keys of experiment.json.
    """
    (path / "runs").mkdir(parents=True)
    design = []
    for block in range(1, searches + 1):
        for nodes, tried in trials.items():
            for number, (rate, passes) in enumerate(tried):
                name, treatment = f"b{block}-nodes{nodes}-t{number}", {"nodes": nodes, "rate": rate}
                clients = 1 if passes else round(20 * LIMIT * rate)
                truth = Truth(lam=rate / clients, sigma=0, kappa=0, node_sigma=nodes, noise=0, rate=rate,
                              warmup=1, seconds=5)  # fmt: skip
                write_run(path / "runs", name, truth, clients=clients, seed=len(design), treatment=treatment,
                          block=block, repetition=block)  # fmt: skip
                design.append({"run": name, "block": block, "treatment": treatment})
    rates = [rate for tried in trials.values() for rate, _ in tried]
    description = {
        "experiment": "known",
        "kind": "capacity",
        "store": {"kind": "sim", "nodes": 1},
        "workload": "nyc_taxis",
        "factors": {"nodes": list(trials)},
        "measure": ["range_100"],
        "prepare": [],
        "slo": {"response": LIMIT, "percentile": "p99", "errors": 0.01},
        "search": {"start": min(rates), "least": 1.0, "most": max(rates), "factor": 2.0, "precision": 0.5},
        "demands": [],
        "repetitions": searches,
        "seed": 1,
        "file": "",
        "design": design,
    }
    (path / "experiment.json").write_text(json.dumps(description | changed))
    return path
