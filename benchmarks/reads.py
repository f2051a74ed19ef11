"""Cost of a driver for single documents: reads by id and updates per second of the generator's CPU time.

A comparison with YCSB is not possible, because package registries lack its bindings for these stores.
"""

import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import engine_run

from loadframe.base.units import format_count

CLIENTS = 16
RECORDS = 10_000
REQUESTS = 20_000
ROUNDS = 3
#: A record of YCSB: ten fields of a hundred letters.
RECORD = {f"field{n}": "x" * 100 for n in range(10)}
VARIABLES = {"n": {"uniform": [0, RECORDS - 1]}}


def measure(target: Mapping[str, Any], collection: str) -> None:
    """Fill an empty collection of the target, run all rounds, and print medians."""
    key = {"collection": collection, "id": "user${n}"}
    operations = {"read": {"read": key}, "update": {"update": {**key, "document": {"field0": "y" * 100}}}}
    _fill(target, collection)
    for name, operation in operations.items():
        plan = engine_run.phase(
            target, operation, {"closed": {"clients": CLIENTS}}, {"requests": REQUESTS}, variables=VARIABLES
        )
        spent = statistics.median(engine_run.measure(plan).per_cpu_second for _ in range(ROUNDS))
        print(f"  {name} by id, {CLIENTS} clients: {format_count(spent)} per CPU second, {1e6 / spent:.1f} us each")


def _fill(target: Mapping[str, Any], collection: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.json"
        lines = (json.dumps({"key": f"user{n}", **RECORD}) for n in range(RECORDS))
        records.write_text("\n".join(lines) + "\n")
        load = {"bulk": {"collection": collection, "corpus": "records", "size": 1000, "id": "key", "action": "create"}}
        corpora = {"records": {"files": [str(records)]}}
        engine_run.measure(engine_run.phase(target, load, {"closed": {"clients": 1}}, "exhausted", corpora=corpora))
