"""The MongoDB driver's own cost: reads by id and updates per second of the generator's CPU time, against a real server.

YCSB, whose figure they would stand beside, has no MongoDB binding in the package registries, only its core.
"""

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks import engine_run

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.units import format_count

CLIENTS = 16
RECORDS = 10_000
REQUESTS = 20_000
ROUNDS = 3
#: A record of YCSB: ten fields of a hundred letters.
RECORD = {f"field{n}": "x" * 100 for n in range(10)}

KEY = {"collection": "records", "id": "user${n}"}
OPERATIONS = {"read": {"read": KEY}, "update": {"update": {**KEY, "document": {"field0": "y" * 100}}}}
VARIABLES = {"n": {"uniform": [0, RECORDS - 1]}}


def main() -> None:
    """Take all rounds and print medians."""
    with Cluster.start(ClusterSpec(store="mongodb")) as cluster, tempfile.TemporaryDirectory() as folder:
        target = {"driver": "mongodb", "hosts": cluster.addresses}
        records = Path(folder) / "records.json"
        lines = (json.dumps({"key": f"user{n}", **RECORD}) for n in range(RECORDS))
        records.write_text("\n".join(lines) + "\n")
        cluster.create_collection("records", {})
        load = {"bulk": {"collection": "records", "corpus": "records", "size": 1000, "id": "key", "action": "create"}}
        corpora = {"records": {"files": [str(records)]}}
        engine_run.measure(engine_run.phase(target, load, {"closed": {"clients": 1}}, "exhausted", corpora=corpora))
        for name, operation in OPERATIONS.items():
            plan = engine_run.phase(
                target, operation, {"closed": {"clients": CLIENTS}}, {"requests": REQUESTS}, variables=VARIABLES
            )
            spent = statistics.median(engine_run.measure(plan).per_cpu_second for _ in range(ROUNDS))
            print(f"  {name} by id, {CLIENTS} clients: {format_count(spent)} per CPU second, {1e6 / spent:.1f} us each")
