"""Which samplers look at a cluster: while load is on it, and while somebody watches it."""

from loadframe.cluster import Cluster
from loadframe.observe import CgroupSampler, HostSampler, ProcessSampler, Sampler, StoreSampler


def samplers(cluster: Cluster) -> list[Sampler]:
    """Return those of its nodes, of this machine, and of what the store itself tells."""
    return [
        # Asked at each look: nodes come and go.
        ProcessSampler(
            lambda: {node.name: node.pid for node in cluster.nodes if node.pid}, families=cluster.store.many_processes
        ),
        CgroupSampler(lambda: {node.name: node.control_groups for node in cluster.nodes if node.control_groups}),
        HostSampler(),
        StoreSampler(cluster.statistics),
    ]
