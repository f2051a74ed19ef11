"""Pressure stalls: how long tasks have waited for a CPU, for memory or for storage (the kernel's accounting/psi)."""

from collections.abc import Mapping
from pathlib import Path

#: What is counted of each resource. That all tasks wait for a CPU says nothing of a machine, and little of a group.
_KINDS = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}


def of_machine(proc: Path) -> dict[str, float]:
    """Return the totals of the machine's tasks, in s."""
    return _stalls({resource: proc / "pressure" / resource for resource in _KINDS})


def of_group(folder: Path) -> dict[str, float]:
    """Return the totals of the tasks of a control group of version 2, in s."""
    return _stalls({resource: folder / f"{resource}.pressure" for resource in _KINDS})


def _stalls(files: Mapping[str, Path]) -> dict[str, float]:
    stalls = {}
    for resource, file in files.items():
        try:
            lines = file.read_text().splitlines()
        except OSError:
            # Not every kernel keeps them.
            continue
        for line in lines:
            kind, *figures = line.split()
            if kind in _KINDS[resource]:
                microseconds = dict(figure.split("=") for figure in figures)["total"]
                stalls[f"pressure.{resource}.{kind}"] = int(microseconds) / 1e6
    return stalls
