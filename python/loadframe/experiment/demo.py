"""The experiment of `loadframe demo`: with CPU limits if this machine enforces them, otherwise one core per node."""

import os
import re
import tempfile
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.cluster import ClusterSpec, Limits
from loadframe.experiment.experiment import Experiment
from loadframe.experiment.file.reader import load_experiment

#: Cluster sizes in demo.yaml. Without CPU limits, only sizes with a core for each node and the generator are used.
_NODES = (1, 2, 4)


def demo_experiment() -> Experiment:
    """Return the demo experiment for this machine; BadInput without CPU limits and with fewer than three cores."""
    _, obstacle = ClusterSpec().place().machines[0].limited_by(Limits(cpus=0.1), Path.cwd())
    text = demo_text(sorted(os.sched_getaffinity(0)), obstacle)
    with tempfile.TemporaryDirectory(prefix="loadframe-demo-") as folder:
        path = Path(folder) / "demo.yaml"
        path.write_text(text, encoding="utf-8")
        return load_experiment(path)


def demo_text(cores: Sequence[int], obstacle: str | None) -> str:
    """Return the experiment file for a machine with these usable cores.

    `obstacle` is the reason why CPU limits cannot be enforced; None if they can. Without limits, fewer than three cores
    raise BadInput.
    """
    text = (files("loadframe.experiment") / "demo.yaml").read_text(encoding="utf-8")
    if obstacle is None:
        # The first core is reserved for the generator, unless it is the only one.
        others = f", cores: {_listed(cores[1:])}" if len(cores) > 1 else ""
        return _replaced(text, ", cores: 1}", others + "}")
    nodes = [number for number in _NODES if number < len(cores)]
    if len(nodes) < 2:
        count = "1 core" if len(cores) == 1 else f"{len(cores)} cores"
        raise BadInput(
            f"the demo needs CPU limits, which cannot be enforced here, or three cores: one for each of two nodes and"
            f" one for the generator. This machine has {count}",
            where=obstacle,
            remedy="run it as root or on a machine with more cores; with systemd, try `systemd-run --user --scope -p"
            " Delegate=yes loadframe demo`",
        )
    text = re.sub(r"limits: \{.*\}", "limits: {cores: 1 each}", text)
    return _replaced(text, f"nodes: {list(_NODES)}", f"nodes: {nodes}")


def _replaced(text: str, before: str, after: str) -> str:
    assert text.count(before) == 1, f"demo.yaml must contain {before!r} exactly once"
    return text.replace(before, after)


def _listed(cores: Collection[int]) -> str:
    """Return core numbers in the syntax of the file: `1`, or `"1,2,3"`."""
    words = ",".join(map(str, cores))
    return words if len(cores) == 1 else f'"{words}"'
