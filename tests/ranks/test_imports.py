"""Imports of a rank above 0: a thousand ranks start at once, often from one file system."""

import subprocess
import sys

FAR = {"numpy", "pyarrow", "pydantic", "psutil", "typer", "rich", "yaml", "scipy", "statistics", "mpi4py"}
NEAR = {f"loadframe.{name}" for name in ("ranks", "cli", "base")}


def test_a_rank_that_only_loads_imports_the_engine_and_little_else():
    probe = "import sys, loadframe.cli, loadframe.ranks.launch, loadframe.ranks.rank_process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & FAR
    parts = {".".join(name.split(".")[:2]) for name in modules if name.startswith("loadframe.")}
    assert parts == NEAR | {"loadframe._engine"}
