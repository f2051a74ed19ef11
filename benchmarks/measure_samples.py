"""Cost of recording each request individually: ratio of CPU per request with and without samples, and disk space.

Requests go to a null search server on another core. Rounds with and without samples alternate, and the medians are
compared. The CPU time covers the whole process during the load: workers and writing thread. Conversion of the samples
to a table follows the load and is shown separately. The null driver, which sends nothing, isolates the cost.
"""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import engine_run
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count, format_duration, format_size
from loadframe.load import run_phase
from loadframe.record import RunWriter, schema

CLIENTS = 32
SECONDS = 5
ROUNDS = 5
#: Maximum ratio of the costs.
AIM = 1.05


def main() -> None:
    """Measure both drivers and print them."""
    server_core, client_core = cores()
    with null_server(server_core) as address:
        targets = {
            "search": ({"driver": "search", "hosts": [address]}, {"request": {"method": "GET", "path": "/"}}),
            "null": ({"driver": "null"}, {}),
        }
        for driver, (target, operation) in targets.items():
            plan = engine_run.phase(target, operation, {"closed": {"clients": CLIENTS}}, {"duration": SECONDS})
            costs: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(ROUNDS):
                for samples, spent in costs.items():
                    measured = engine_run.measure({**plan, "samples": samples}, client_core)
                    spent.append(measured.cpu / measured.requests)
            without, sampled = (statistics.median(costs[samples]) for samples in (False, True))
            ratios = sorted(more / less for less, more in zip(*costs.values(), strict=True))
            print(
                f"  {driver:7} {format_duration(without)} of CPU a request, {format_duration(sampled)} with samples:"
                f" ratio {sampled / without:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f} in {ROUNDS} rounds),"
                f" to be below {AIM:.2f} for search"
            )
        _table(targets["null"][0])


def _table(target: dict[str, str]) -> None:
    """Print the time to create the table of many requests, and its bytes per request."""
    plan = engine_run.phase(target, {}, {"closed": {"clients": CLIENTS}}, {"requests": 2_000_000}, samples=True)
    with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder), "run") as writer:
        run_phase(plan, writer.phase(plan["phase"], 0.0), tell=lambda _: None)
        began = time.process_time()
        writer.join()
        spent = time.process_time() - began
        size = (writer.folder / schema.SAMPLES_FILE).stat().st_size
        print(
            f"  a table of {format_count(2_000_000)} requests: {format_duration(spent)} of CPU, {format_size(size)},"
            f" {size / 2_000_000:.1f} B each"
        )
