"""Scaling policies: functions from observed metrics to the number of nodes."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.experiment.file.elastic import PolicyEntry


@dataclass(frozen=True)
class Observed:
    """Input of a policy: means since its last decision. Times in s, rates in 1/s."""

    time: float  #: since the start of the measured window
    nodes: int
    cpu: float  #: share of the CPU limit of the nodes
    throughput: float  #: in the unit of the objective: requests, documents or events
    errors: float
    response_p99: float | None  #: maximum over the seconds; None without answers


Policy = Callable[[Observed], int]


def thresholds(below: float, above: float) -> Policy:
    """Return the policy that adds a node above one CPU share and removes a node below another."""

    def decide(seen: Observed) -> int:
        return seen.nodes + (seen.cpu > above) - (seen.cpu < below)

    return decide


def target_tracking(share: float) -> Policy:
    """Return the policy that keeps the CPU share near a target, assuming it is inversely proportional to nodes."""

    def decide(seen: Observed) -> int:
        return math.ceil(seen.nodes * seen.cpu / share - 1e-9)

    return decide


def policy_of(entry: PolicyEntry, folder: Path) -> Policy:
    """Return the policy of an entry; Python files are relative to `folder`. BadInput for a missing function."""
    if entry.thresholds is not None:
        return thresholds(entry.thresholds.below, entry.thresholds.above)
    if entry.target is not None:
        return target_tracking(entry.target)
    return _load_function(entry.python or "", folder)


def _load_function(words: str, folder: Path) -> Policy:
    """Import a user's file and return its function, given as `FILE.py:FUNCTION`. BadInput if either fails."""
    name, _, function = words.rpartition(":")
    path = folder / name
    if not name or not path.is_file():
        raise BadInput(f"the policy {words!r} does not exist", remedy="write FILE.py:FUNCTION, relative to this file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"cannot load the policy file: {type(error).__name__}: {error}"
        raise BadInput(what, where=str(path), remedy="run `python FILE.py` to see where it fails") from error
    policy = getattr(module, function, None)
    if not callable(policy):
        raise BadInput(f"{path.name} has no function {function!r}", where=str(path))
    checked: Policy = policy
    return checked
