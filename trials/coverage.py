"""Simulations of the statistics in full size. A trial fails if a coverage or error rate misses its target."""

import contextlib
import importlib
import io
from collections.abc import Iterator
from pathlib import Path

from trials.trial import Trial

SIMULATIONS = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("simulate_*.py"))


def trials(_: int) -> Iterator[Trial]:
    """Yield a trial for each simulation of `benchmarks/`."""
    for name in SIMULATIONS:
        yield Trial(name.removeprefix("simulate_").replace("_", " "), lambda name=name: _attempt(name))  # type: ignore[misc]


def _attempt(name: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        importlib.import_module(f"benchmarks.{name}").main()
    lines = printed.getvalue().splitlines()
    return f"promises kept; `python -m benchmarks.{name}` prints its {len(lines)} lines"
