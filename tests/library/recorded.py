"""Recorded runs for the examples of docstrings and for tests of the library."""

from pathlib import Path

from simulated import Truth, write_experiment


def write_examples(folder: Path) -> None:
    """Write the folders that docstrings name, below `results`."""
    write_experiment(folder / "results" / "nodes", Truth(), nodes=(1, 2), clients=(1, 2), repetitions=1)
