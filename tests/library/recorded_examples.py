"""Recorded runs that the examples of docstrings and pages name."""

from contextlib import chdir
from pathlib import Path

import loadframe
from simulated import Truth, write_experiment, write_run

WORKLOAD = {
    "workload": "searches",
    "collections": {"items": {}},
    "operations": {"search": {"search": {"collection": "items", "size": 1}}},
    "phases": [{"name": "search", "operation": "search", "clients": 2, "duration": "1s"}],
}
TAIL = {
    "workload": "tail",
    "collections": {"items": {}},
    "operations": {"read": {"search": {"collection": "items", "size": 1}}, "scan": {"search": {"collection": "items"}}},
    "phases": [{"name": "mixed", "mix": {"read": 3, "scan": 1}, "clients": 2, "duration": "5s"}],
}
CAPACITY = {
    "experiment": "capacity",
    "kind": "capacity",
    "store": {"kind": "sim", "settings": {"service": "10ms", "distribution": "constant"}},
    "slo": {"response": "100ms"},
    "search": {"start": "60/s", "least": "30/s", "most": "200/s", "factor": 1.5},
    "arrivals": "constant",
    "duration": "1s",
}


def write_examples(folder: Path) -> loadframe.Workload:
    """Record the folders that examples name, below `results`; return their `workload`."""
    results = folder / "results"
    write_experiment(results / "nodes", Truth(), nodes=(1, 2), clients=(1, 2), repetitions=1)
    for name, seeds in (("old", range(6)), ("new", range(6, 12))):
        for seed in seeds:
            write_run(results / name, f"run-{seed}", Truth(noise=0.002), seed=seed)
    with chdir(folder):
        workload = loadframe.Workload(WORKLOAD)
        settings = {"service": "2ms", "stall": "200ms", "stall_every": "2s"}
        loadframe.bench(loadframe.Workload(TAIL), store="sim", settings=settings, seed=1, output="results/tail")
        loadframe.run(loadframe.Experiment(CAPACITY, workload=workload), output="results/capacity")
    return workload
