"""JVM settings and machine facts of Elasticsearch and OpenSearch nodes.

They refuse to start without it (the vendors' bootstrap checks). What they ask of their configuration every node has
anyway: a heap of one size, and the nodes to look for. Left are open files, of which only the machine's owner can allow
more, and memory maps, which a node can do without at the price of slower reading.
"""

import json
import resource
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from loadframe.base.errors import BadInput
from loadframe.store import jvm
from loadframe.store.base import NodeSpec

#: Bytes that a node takes besides its heap at least.
_BESIDES = 128 * 2**20

#: The collector and its two thresholds are those of the vendor's own configuration, whatever the number of CPUs: a
#: sweep over CPUs must not change the collector on its way, as the JVM would do if it were left to choose.
JVM = (
    "-XX:+UseG1GC",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:+AlwaysPreTouch",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:-UsePerfData",
    "-Xss1m",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Djna.nosys=true",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disableJmx=true",
)

#: The attribute that names a node's rack.
RACK = "rack_id"
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1.} %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.deprecation.name = DEPRECATION
logger.deprecation.level = error
"""


def options(node: NodeSpec) -> tuple[int, list[str]]:
    """Return the heap in bytes, and the JVM's options with it."""
    return jvm.options(node, JVM, besides=_BESIDES)


def logging(package: str) -> str:
    """Return the log's configuration; `package` is that of the server's classes."""
    return _LOGGING.replace("DEPRECATION", f"{package}.deprecation")


def check_settings(settings: Mapping[str, Any], ours: Set[str]) -> None:
    """Raise BadInput for a setting that is `ours` to decide, or an invalid one of the JVM."""
    for key in settings:
        if key in ours:
            raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
    jvm.check_settings(settings)


def require_heap(settings: Mapping[str, Any], memory: int | None) -> None:
    """Raise BadInput for a heap that leaves a node too little of its memory limit."""
    jvm.heap_size(settings, memory, besides=_BESIDES)


def _rack(node: NodeSpec) -> dict[str, Any]:
    """Return what tells a node its rack, and that copies of a shard belong on different ones."""
    if not node.rack:
        return {}
    return {f"node.attr.{RACK}": node.rack, "cluster.routing.allocation.awareness.attributes": RACK}


def configuration(node: NodeSpec, settings: Mapping[str, Any]) -> str:
    """Return the file of settings: those given and the user's over them. JSON values are YAML values."""
    merged = {
        **settings,
        **_rack(node),
        **{key: value for key, value in node.settings.items() if key not in jvm.SETTINGS},
    }
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in merged.items())


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
