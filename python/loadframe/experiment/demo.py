"""The experiment of `loadframe demo`, as this machine can do it: with CPU limits, or with a core for each node."""

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

#: The numbers of nodes of the file, as far as there are cores for them where nodes cannot be limited.
_NODES = (1, 2, 4)


def demo_experiment() -> Experiment:
    """Return the demo's experiment for this machine; BadInput where it has too few cores and no way to limit nodes."""
    _, obstacle = ClusterSpec().place().machines[0].limited_by(Limits(cpus=0.1), Path.cwd())
    text = demo_text(sorted(os.sched_getaffinity(0)), obstacle)
    with tempfile.TemporaryDirectory(prefix="loadframe-demo-") as folder:
        path = Path(folder) / "demo.yaml"
        path.write_text(text, encoding="utf-8")
        return load_experiment(path)


def demo_text(cores: Sequence[int], obstacle: str | None) -> str:
    """Return the experiment's file for a machine on which these cores can be used.

    `obstacle` says why nodes cannot be limited there; None where they can. BadInput for too few cores without limits.
    """
    text = (files("loadframe.experiment") / "demo.yaml").read_text(encoding="utf-8")
    if obstacle is None:
        # The generator has the first core for itself. A single core is shared.
        others = f", cores: {_listed(cores[1:])}" if len(cores) > 1 else ""
        return _replaced(text, ", cores: 1}", others + "}")
    nodes = [number for number in _NODES if number < len(cores)]
    if len(nodes) < 2:
        count = "1 core" if len(cores) == 1 else f"{len(cores)} cores"
        raise BadInput(
            f"the demo takes CPU limits, which cannot be enforced here, or three cores: one for each of two nodes and"
            f" one for the generator. {count} can be used here",
            where=obstacle,
            remedy="run it as root, or on a machine with more cores; with systemd, `systemd-run --user --scope -p"
            " Delegate=yes loadframe demo` may do",
        )
    text = re.sub(r"limits: \{.*\}", "limits: {cores: 1 each}", text)
    return _replaced(text, f"nodes: {list(_NODES)}", f"nodes: {nodes}")


def _replaced(text: str, before: str, after: str) -> str:
    assert text.count(before) == 1, f"the demo's file has {before!r} once"
    return text.replace(before, after)


def _listed(cores: Collection[int]) -> str:
    """Write numbers of cores as the file has them: `1`, or `"1,2,3"`."""
    words = ",".join(map(str, cores))
    return words if len(cores) == 1 else f'"{words}"'
