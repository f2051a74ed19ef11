"""Documents generated per second on one core, as bulk bodies, without sending them."""

import json
import shutil
import subprocess
from pathlib import Path

from loadframe.errors import BadInput, LoadframeError
from loadframe.units import format_count, format_size

ROOT = Path(__file__).parents[1]
DOCUMENTS = 1_000_000
#: Documents per second and core; a store takes a tenth of that.
AIM = 500_000


def main() -> None:
    """Generate trips with the engine's own example program and print the rate."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BadInput("cargo is not installed", remedy="install Rust 1.88 or later")
    command = [cargo, "run", "--release", "--locked", "--quiet", "-p", "loadframe-engine", "--example", "generate"]
    child = subprocess.run(
        [*command, "--", "nyc_taxi_trip", str(DOCUMENTS)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if child.returncode:
        raise LoadframeError(f"the generator did not run: {child.stderr.strip()[-2000:]}")
    result = json.loads(child.stdout)
    rate, data = result["documents_per_second"], result["bytes_per_second"]
    print(f"  {result['generator']}  {format_count(rate)} documents/s, {format_size(data)}/s on one core")
    print(f"  ratio to the aim of {format_count(AIM)}: {rate / AIM:.2f}")
