"""Cluster lifecycle: install the software, start nodes on a host under limits, change, observe and stop them."""

from loadframe.cluster.cluster import Cluster
from loadframe.cluster.node import Node
from loadframe.cluster.reach import access_to, require_reachable, share_a_node
from loadframe.cluster.scale_command import SCALED_WITHIN, ScaleCommand
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.base import Machine
from loadframe.host.limits import DiskLimits, Limits
from loadframe.host.link import Shape
from loadframe.host.placement import Placement
from loadframe.host.placement import parse as parse_machine
from loadframe.store import Balancing, below, is_path
from loadframe.store.access import Encryption

__all__ = [
    "SCALED_WITHIN",
    "Balancing",
    "Cluster",
    "ClusterSpec",
    "DiskLimits",
    "Encryption",
    "Limits",
    "Machine",
    "Node",
    "Placement",
    "ScaleCommand",
    "Shape",
    "access_to",
    "below",
    "is_path",
    "parse_machine",
    "require_reachable",
    "share_a_node",
]
