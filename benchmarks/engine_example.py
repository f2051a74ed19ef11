"""Runner for the engine's example programs, each of which measures one part and prints JSON objects, one per line."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError

ROOT = Path(__file__).parents[1]


def measured(example: str, *arguments: str, core: int | None = None) -> list[dict[str, Any]]:
    """Build the example in release mode, run it, on one core if given, and return the printed objects."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BadInput("cargo is not installed", remedy="install Rust 1.88 or later")
    command = [cargo, "run", "--release", "--locked", "--quiet", "-p", "loadframe-engine", "--example", example]
    pin = [] if core is None else ["taskset", "-c", str(core)]
    child = subprocess.run([*pin, *command, "--", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if child.returncode:
        raise LoadframeError(f"the example {example} did not run: {child.stderr.strip()[-2000:]}")
    return [json.loads(line) for line in child.stdout.splitlines()]
