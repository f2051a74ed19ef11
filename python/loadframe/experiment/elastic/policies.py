"""Scaling policies: small functions from what is seen of a cluster to how many nodes it should have."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.experiment.file.elastic import PolicyEntry


@dataclass(frozen=True)
class Observed:
    """What a policy decides by: means over the time since it was asked last. Times in s, rates in 1/s."""

    time: float  #: since the measured window began
    nodes: int
    cpu: float  #: share of what the nodes may use
    throughput: float  #: of what the experiment counts: requests, documents or events
    errors: float
    response_p99: float | None  #: the greatest of these seconds; None where nothing was answered in any


Policy = Callable[[Observed], int]


def thresholds(below: float, above: float) -> Policy:
    """Return the policy that adds a node above a CPU share and removes one below another."""

    def decide(seen: Observed) -> int:
        return seen.nodes + (seen.cpu > above) - (seen.cpu < below)

    return decide


def target_tracking(share: float) -> Policy:
    """Return the policy that keeps the CPU share near a target, supposing that it is inverse to the nodes."""

    def decide(seen: Observed) -> int:
        return math.ceil(seen.nodes * seen.cpu / share - 1e-9)

    return decide


def policy_of(entry: PolicyEntry, folder: Path) -> Policy:
    """Return the policy of an entry; a Python function's file begins at `folder`. BadInput if it does not exist."""
    if entry.thresholds is not None:
        return thresholds(entry.thresholds.below, entry.thresholds.above)
    if entry.target is not None:
        return target_tracking(entry.target)
    return _load_function(entry.python or "", folder)


def _load_function(words: str, folder: Path) -> Policy:
    """Return a user's function, written `FILE.py:FUNCTION`."""
    name, _, function = words.rpartition(":")
    path = folder / name
    if not name or not path.is_file():
        raise BadInput(f"the policy {words!r} does not exist", remedy="write FILE.py:FUNCTION, from this file's folder")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"the policy's file cannot be loaded: {type(error).__name__}: {error}"
        raise BadInput(what, where=str(path), remedy="mend it; `python FILE.py` shows where it fails") from error
    policy = getattr(module, function, None)
    if not callable(policy):
        raise BadInput(f"{path.name} has no function {function!r}", where=str(path))
    checked: Policy = policy
    return checked
