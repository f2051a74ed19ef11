"""Programs that rank 0 starts on other ranks, and queries to ranks, under a real mpirun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import PATIENCE

pytestmark = pytest.mark.store

SCRIPT = """
import sys
from loadframe.ranks.launch import run
from loadframe.ranks import place
from loadframe.ranks.coordinator import present

def command():
    hub = present()
    program = hub.start(1, ["sh", "-c", "echo of rank $OMPI_COMM_WORLD_RANK; cat; echo gone >&2; exit 3"])
    heard = program.receive()
    program.send(b"x" * 300_000)
    while len(heard) < 300_000:
        heard += program.receive()
    program.close()
    print(heard.lstrip(b"ofrank \\n").count(b"x"), program.status(), program.words(), flush=True)
    missing = hub.start(1, ["/no/such/program"])
    print(missing.receive(), missing.status(), missing.words(), flush=True)
    print(sorted(hub.ask("distances", ["127.0.0.1:1"]).items()), flush=True)
    return 0

sys.exit(run(place(), command))
"""


def test_a_rank_serves_a_program_and_answers():
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    mpirun = Path(sys.executable).with_name("mpirun")
    done = subprocess.run(
        [mpirun, *root, "--oversubscribe", "-n", "2", sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "300000 3 gone",
        "b'' 127 /no/such/program: No such file or directory",
        "[(0, [None]), (1, [None])]",
    ]
