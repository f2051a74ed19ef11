"""What a node of Elasticsearch and one of OpenSearch have in common: a JVM, a log, and a file of settings."""

import json
from collections.abc import Mapping, Set
from typing import Any

from loadframe.errors import BadInput
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
