"""Samplers of what lies beside the load: nodes' processes and control groups, this machine, the store's statistics.

They look once a second and write into the run's telemetry. They know process ids, folders and functions, not clusters.
"""

from loadframe.base.cpu_reference import yardstick
from loadframe.observe.cgroup import CgroupSampler, OwnGroupSampler
from loadframe.observe.machine import HostSampler
from loadframe.observe.observer import Observer
from loadframe.observe.process import JvmSampler, ProcessSampler
from loadframe.observe.sampler import Gap, Sample, Sampler
from loadframe.observe.sources import SourcesSampler
from loadframe.observe.store import HealthSampler, StoreSampler

__all__ = [
    "CgroupSampler",
    "Gap",
    "HealthSampler",
    "HostSampler",
    "JvmSampler",
    "Observer",
    "OwnGroupSampler",
    "ProcessSampler",
    "Sample",
    "Sampler",
    "SourcesSampler",
    "StoreSampler",
    "yardstick",
]
