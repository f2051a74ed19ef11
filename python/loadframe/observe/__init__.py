"""Samplers of nodes' processes and control groups, the machine, and the store's statistics.

They sample once a second into the run's telemetry. They get process ids, folders and functions, and do not depend on
clusters.
"""

from loadframe.base.machine_references import yardstick
from loadframe.observe.machine import CgroupSampler, HostSampler, OwnGroupSampler
from loadframe.observe.observer import Gap, HealthSampler, Observer, Sample, Sampler, SourcesSampler, StoreSampler
from loadframe.observe.process import JvmSampler, ProcessSampler, ProgramSampler, hidden_processes

__all__ = [
    "CgroupSampler",
    "Gap",
    "HealthSampler",
    "HostSampler",
    "JvmSampler",
    "Observer",
    "OwnGroupSampler",
    "ProcessSampler",
    "ProgramSampler",
    "Sample",
    "Sampler",
    "SourcesSampler",
    "StoreSampler",
    "hidden_processes",
    "yardstick",
]
