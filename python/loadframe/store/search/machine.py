"""What Elasticsearch and OpenSearch ask of the machine as soon as they listen on an address that is not loopback.

They refuse to start without it (the vendors' bootstrap checks). What they ask of their configuration every node has
anyway: a heap of one size, and the nodes to look for. Left are open files, of which only the machine's owner can allow
more, and memory maps, which a node can do without at the price of slower reading.
"""

import resource
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from loadframe.errors import BadInput
from loadframe.store.base import NodeSpec

#: Open files of a process, and memory maps of one, that the servers ask for at least.
FILES, MAPS = 65_535, 262_144
_MAPPED = "node.store.allow_mmap"
#: The capability to raise one's own limits (see capabilities(7)), which the guards of nodes make use of.
_CAP_SYS_RESOURCE = 24


@dataclass(frozen=True)
class Machine:
    """How many files a server can have open here, and how many memory maps; -1 is without limit."""

    files: int
    maps: int

    @classmethod
    def here(cls) -> Self:
        """Look at this machine, and at what this process may do, as which guards start."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        status = Path("/proc/self/status").read_text()
        able = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
        if most != resource.RLIM_INFINITY and able >> _CAP_SYS_RESOURCE & 1:
            most = max(most, FILES)
        return cls(most, int(Path("/proc/sys/vm/max_map_count").read_text()))

    @property
    def opens_enough(self) -> bool:
        """Whether the servers find it enough."""
        return self.files == resource.RLIM_INFINITY or self.files >= FILES


def require(kind: str, machine: Machine, where: str | None = None) -> None:
    """Raise BadInput if no node of that kind starts on the machine at an address that is not loopback."""
    if not machine.opens_enough:
        raise BadInput(
            f"{kind} does not start at an address that is not loopback where a process may have no more than"
            f" {machine.files:,} files open; it wants {FILES:,}",
            where=where,
            remedy=f"allow more (`ulimit -Hn {FILES}`, LimitNOFILE in a unit of systemd, --ulimit nofile of a"
            " container), or take --host local",
        )


def adapted(kind: str, node: NodeSpec, machine: Machine) -> tuple[NodeSpec, dict[str, str]]:
    """Return the node with the settings that it needs on this machine, and for each the reason, for the manifest.

    What the user sets stays. BadInput where the node would not start.
    """
    if ip_address(node.address).is_loopback:
        return node, {}
    require(kind, machine, f"{node.name}, {node.address}")
    if machine.maps >= MAPS or _MAPPED in node.settings:
        return node, {}
    reason = f"the kernel allows {machine.maps:,} memory maps (vm.max_map_count), and {kind} wants {MAPS:,}"
    return replace(node, settings={**node.settings, _MAPPED: False}), {_MAPPED: f"false: {reason}"}
