"""The samplers that suit a cluster, from what its nodes say of themselves; of the cluster it knows nothing else."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from loadframe.observe.cgroup import CgroupSampler
from loadframe.observe.machine import HostSampler
from loadframe.observe.process import ProcessSampler
from loadframe.observe.sampler import Sampler
from loadframe.observe.statistics import StoreSampler


class Watched(Protocol):
    """A node: its name, its process if that is on this machine, and the folders of its control groups."""

    @property
    def name(self) -> str:
        """What the store's statistics call it, too."""

    @property
    def pid(self) -> int | None:
        """Its process here, if there is one."""

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """Controller (`cpu`, `memory`) -> folder; empty without limits."""


def cluster_samplers(
    nodes: Callable[[], Sequence[Watched]], statistics: Callable[[], Mapping[str, Mapping[str, float]]]
) -> list[Sampler]:
    """Return samplers for this machine, for the nodes that run on it and for what the store says of all its nodes.

    `nodes` is asked at every look, so that nodes which join or leave are seen to do so.
    """
    return [
        HostSampler(),
        ProcessSampler(lambda: {node.name: node.pid for node in nodes() if node.pid is not None}),
        CgroupSampler(lambda: {node.name: node.control_groups for node in nodes()}),
        StoreSampler(statistics),
    ]
