"""JVM settings and machine limits of Elasticsearch and OpenSearch nodes.

On an address that is not loopback, nodes start only if they pass the vendors' bootstrap checks. Loadframe's
configuration passes the checks of heap and discovery. The limit of open files depends on the machine, and only its
administrator can raise it. Memory maps can be disabled, which slows reading.
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

#: Least memory that a node needs besides its heap, in bytes.
_BESIDES = 128 * 2**20

#: Options of the vendors' configuration. The collector is fixed, because the JVM would choose it by the number of CPUs,
#: and runs with different CPU limits would not be comparable.
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

#: The node attribute with the node's rack.
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
    """Return the heap in bytes, and the JVM's options: the vendors' and the user's.

    BadInput if the heap leaves less than 128 MiB of the node's memory limit.
    """
    return jvm.options(node, JVM, besides=_BESIDES)


def logging(package: str) -> str:
    """Return the text of log4j2.properties; `package` is the Java package of the server's classes."""
    return _LOGGING.replace("DEPRECATION", f"{package}.deprecation")


def check_settings(settings: Mapping[str, Any], ours: Set[str]) -> None:
    """Raise BadInput for a setting in `ours`, and for invalid JVM settings."""
    for key in settings:
        if key in ours:
            raise BadInput(f"the setting {key} is controlled by Loadframe", remedy="leave it out")
    jvm.check_settings(settings)


def require_heap(settings: Mapping[str, Any], memory: int | None) -> None:
    """Raise BadInput if the node's heap leaves less than 128 MiB of the limit `memory`, in bytes; None is unlimited.

    The heap is the setting `heap`; without it, half of the limit, but 256 MiB to 31 GiB.
    """
    jvm.heap_size(settings, memory, besides=_BESIDES)


def _rack(node: NodeSpec) -> dict[str, Any]:
    """Return the settings that name a node's rack and make the store place copies on different racks; empty without."""
    if not node.rack:
        return {}
    return {f"node.attr.{RACK}": node.rack, "cluster.routing.allocation.awareness.attributes": RACK}


def configuration(node: NodeSpec, settings: Mapping[str, Any]) -> str:
    """Return the text of a node's configuration: `settings`, its rack, and the user's settings, which override them.

    JSON values are valid YAML.
    """
    merged = {
        **settings,
        **_rack(node),
        **{key: value for key, value in node.settings.items() if key not in jvm.SETTINGS},
    }
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in merged.items())


#: Open files and memory maps of a process that the servers require.
FILES, MAPS = 65_535, 262_144
_MAPPED = "node.store.allow_mmap"
#: The capability to raise one's limits (see capabilities(7)), which the nodes' supervisors use.
_CAP_SYS_RESOURCE = 24


@dataclass(frozen=True)
class Machine:
    """Limits of open files and memory maps on a machine; -1 is unlimited."""

    files: int
    maps: int

    @classmethod
    def here(cls) -> Self:
        """Return this machine's limits of open files and memory maps, for this process; supervisors have the same.

        A process that may raise its limit of open files counts as having 65,535 at least.
        """
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        status = Path("/proc/self/status").read_text()
        able = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
        if most != resource.RLIM_INFINITY and able >> _CAP_SYS_RESOURCE & 1:
            most = max(most, FILES)
        return cls(most, int(Path("/proc/sys/vm/max_map_count").read_text()))

    @property
    def opens_enough(self) -> bool:
        """Whether the limit of open files satisfies the servers: 65,535 or more, or none."""
        return self.files == resource.RLIM_INFINITY or self.files >= FILES


def require(kind: str, machine: Machine, address: str, where: str | None = None) -> None:
    """Raise BadInput if the machine permits too few open files for a node at the address.

    Loopback has no minimum. `where` is the place that the error names.
    """
    if not ip_address(address).is_loopback and not machine.opens_enough:
        raise BadInput(
            f"{kind} needs {FILES:,} open files at an address that is not loopback; the limit of a process is"
            f" {machine.files:,}",
            where=where,
            remedy=f"raise it (`ulimit -Hn {FILES}`, LimitNOFILE in a systemd unit, --ulimit nofile of a"
            " container), or use --host local",
        )


def adapted(kind: str, node: NodeSpec, machine: Machine) -> tuple[NodeSpec, dict[str, str]]:
    """Return the node with the settings that this machine requires, and the reason of each, for the manifest.

    Disables memory maps if the machine allows too few and the user does not set that. BadInput for too few open files.
    A node at a loopback address is returned unchanged, without checks.
    """
    if ip_address(node.address).is_loopback:
        return node, {}
    require(kind, machine, node.address, f"{node.name}, {node.address}")
    if machine.maps >= MAPS or _MAPPED in node.settings:
        return node, {}
    reason = f"the kernel allows {machine.maps:,} memory maps (vm.max_map_count), and {kind} needs {MAPS:,}"
    return replace(node, settings={**node.settings, _MAPPED: False}), {_MAPPED: f"false: {reason}"}
