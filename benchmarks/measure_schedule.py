"""Cost for a generator of finding its requests in the common schedule, which must not grow with their number."""

import json
import shutil
import subprocess
from pathlib import Path

from loadframe.base.errors import BadInput, LoadframeError

ROOT = Path(__file__).parents[1]
#: Maximum CPU time of a generator per request, s, for the largest number of generators.
AIM = 5e-6


def main() -> None:
    """Print the costs by number of generators, and the ratio of the largest to the target."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BadInput("cargo is not installed", remedy="install Rust 1.88 or later")
    command = [cargo, "run", "--release", "--locked", "--quiet", "-p", "loadframe-engine", "--example", "schedule"]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if child.returncode:
        raise LoadframeError(f"the example failed: {child.stderr.strip()[-2000:]}")
    rows = [json.loads(line) for line in child.stdout.splitlines()]
    for row in rows:
        print(
            f"  {row['generators']} generators: a Poisson arrival {row['arrival'] * 1e9:.0f} ns,"
            f" the number of an insert of a mix {row['number'] * 1e9:.0f} ns"
        )
    worst = max(row["arrival"] + row["number"] for row in rows)
    print(f"  ratio of the greatest to the aim of {AIM * 1e6:.0f} us: {worst / AIM:.2f}")
