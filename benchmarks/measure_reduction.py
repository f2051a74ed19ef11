"""Cost of reducing one second of 10,000 simulated ranks, and the end of their phase.

The engine's example program `reduce` measures all merges in sequence. Messages are measured between two ranks on this
machine. Each level of the tree adds `LATENCY` and `BANDWIDTH` of Gigabit Ethernet, and the polling interval of a rank.
Then 16 real ranks run here, and each second is timed until rank 0 has written it to disk.
"""

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import engine_example, engine_run, rank_run

from loadframe.base.errors import LoadframeError
from loadframe.base.units import format_duration, format_size
from loadframe.ranks.phase_participant import ALERT

RANKS = 10_000
#: s per message, B/s.
LATENCY, BANDWIDTH = 100e-6, 110e6
#: Targets: s for the reduction of one second, s and B for the end of the phase.
SECOND, END, MEMORY = 0.5, 5.0, 256e6
#: Number of real ranks, run length in s, and requests/s.
REAL, SECONDS, RATE = 16, 15, 1_600

PING_PONG = """
import sys, time
from mpi4py import MPI
world, size, rounds = MPI.COMM_WORLD, int(sys.argv[1]), 200
other, buffer = 1 - world.rank, bytearray(int(sys.argv[1]))
best = 1.0
for _ in range(rounds):
    began = time.perf_counter()
    if world.rank == 0:
        world.Send(buffer, other)
        world.Recv(buffer, other)
    else:
        world.Recv(buffer, other)
        world.Send(buffer, other)
    best = min(best, (time.perf_counter() - began) / 2)
if world.rank == 0:
    print(best)
"""


def main() -> None:
    """Print the figures and their ratios to the targets."""
    (told,) = engine_example.measured("reduce", str(RANKS))
    print(f"  {told['ranks']} ranks, {told['operations']} operations, {told['requests']} requests in the second")
    print(f"  encoding it on a rank: {format_duration(told['encoding'])}")
    levels = told["levels"]
    print(f"  size: {format_size(levels[0]['bytes'])} of one rank, {format_size(told['bytes'])} of all")
    merges, slowest = (sum(level[key] for level in levels) for key in ("mean", "slowest"))
    wire = sum(LATENCY + level["bytes"] / BANDWIDTH for level in levels)
    looks = ALERT * len(levels)
    total = told["encoding"] + slowest + wire + looks + told["recording"]
    print(
        f"  {len(levels)} levels: merges {format_duration(merges)} (each level's slowest: {format_duration(slowest)}),"
    )
    print(f"  messages at {format_duration(LATENCY)} and {format_size(BANDWIDTH)}/s: {format_duration(wire)}")
    print(f"  a rank looks every {format_duration(ALERT)} for them, which adds up to {format_duration(looks)}")
    _messages(levels)
    print(f"  writing it down on rank 0: {format_duration(told['recording'])}")
    print(f"  a second is reduced in {format_duration(total)}, ratio to the aim: {total / SECOND:.2f}")
    outcome = told["outcome"]
    sent = 2 * outcome["bytes"] / BANDWIDTH
    end = outcome["seconds"] + sent
    print(
        f"  the end: {format_size(outcome['bytes'])} of outcomes, added and written on rank 0 in"
        f" {format_duration(outcome['seconds'])}, on the way for {format_duration(sent)};"
        f" ratio to the aim: {end / END:.2f}"
    )
    print(
        f"  memory for it on rank 0: {format_size(outcome['memory'])},"
        f" ratio to the aim: {outcome['memory'] / MEMORY:.2f}"
    )
    _real()


def _real() -> None:
    pacing = {"open": {"rate": RATE, "arrivals": "poisson"}}
    ranked = rank_run.measure(REAL, engine_run.phase({"driver": "null"}, {}, pacing, {"duration": SECONDS}))
    middle, longest = statistics.median(ranked.delays), max(ranked.delays)
    print(f"  {REAL} real ranks here: a second is on rank 0's disk {format_duration(middle)} after its end,")
    print(f"  at most {format_duration(longest)}, ratio to the aim: {longest / SECOND:.2f}; ", end="")
    print(f"rank 0 took {format_size(ranked.memory)} in all")


def _messages(levels: list[dict[str, Any]]) -> None:
    mpirun = Path(sys.executable).with_name("mpirun")
    if not mpirun.exists():
        print("  messages between two ranks here: not measured, loadframe[mpi] is not installed")
        return
    options = [str(mpirun), "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", PING_PONG]
    for size in (64, max(level["bytes"] for level in levels)):
        child = subprocess.run([*options, str(size)], capture_output=True, text=True, check=False)
        if child.returncode:
            raise LoadframeError(f"mpirun failed: {child.stderr.strip()[-2000:]}")
        seconds = float(child.stdout)
        print(f"  a message of {format_size(size)} between two ranks here: {seconds * 1e6:.0f} us")
