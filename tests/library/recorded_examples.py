"""Recorded runs that the examples of docstrings and pages name."""

import json
from contextlib import chdir
from pathlib import Path

import loadframe
from recorded_history import write_history
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


#: Files to import or to ingest, by name.
FILES = {
    "workloadc": "recordcount=100\noperationcount=100\nreadproportion=1\nupdateproportion=0\n",
    "steps.json": json.dumps([{"search_queries": [{"body": {"query": {"match_all": {}}}}]}]),
    "mapping.json": json.dumps({"mappings": {"properties": {"price": {"type": "double"}}}}),
    "orders.ndjson": "".join(f'{{"id": {number}, "price": {number % 7}.5}}\n' for number in range(100)),
    "events.ndjson": "".join(
        json.dumps({"type": "line", "id": f"{number}", "time": "2017-03-01T12:00:00Z"}) + "\n" for number in range(3)
    ),
}
LOG = {
    "workload": "log",
    "collections": {"lines": {}},
    "sources": {"log": {"stdin": True, "events": {"kinds": {"line": {"id": "id", "time": "time"}}}}},
    "operations": {"store": {"take_in": {"collection": "lines"}}},
    "phases": [{"name": "ingest", "operation": "store", "source": "log", "until": "exhausted"}],
}
TRACK = {
    "indices": [{"name": "items"}],
    "schedule": [
        {
            "operation": {
                "name": "all",
                "operation-type": "search",
                "index": "items",
                "body": {"query": {"match_all": {}}, "size": "{{ hits | default(10) }}"},
            },
            "iterations": 5,
        }
    ],
}


def write_examples(folder: Path) -> loadframe.Workload:
    """Record the folders that examples name, below `results`; return their `workload`."""
    results = folder / "results"
    write_experiment(results / "nodes", Truth(), nodes=(1, 2), clients=(1, 2), repetitions=1)
    for name, seeds in (("old", range(6)), ("new", range(6, 12))):
        for seed in seeds:
            write_run(results / name, f"run-{seed}", Truth(noise=0.002), seed=seed)
    for name, text in FILES.items():
        (results / name).write_text(text)
    (results / "track").mkdir()
    (results / "track" / "track.json").write_text(json.dumps(TRACK))
    write_history(results / "nightly", runs=1)
    with chdir(folder):
        loadframe.Workload(LOG).save("log.yaml")
        workload = loadframe.Workload(WORKLOAD)
        settings = {"service": "2ms", "stall": "200ms", "stall_every": "2s"}
        loadframe.bench(loadframe.Workload(TAIL), store="sim", settings=settings, seed=1, output="results/tail")
        loadframe.run(loadframe.Experiment(CAPACITY, workload=workload), output="results/capacity")
    return workload
