"""What a node of Elasticsearch and one of OpenSearch have in common: a JVM, a log, and a file of settings."""

import json
import math
from collections.abc import Mapping, Set
from typing import Any

from loadframe.errors import BadInput
from loadframe.store.base import NodeSpec
from loadframe.units import format_size, parse_size

#: Without a memory limit. Enough for the workloads at laptop scale, and three nodes fit a small machine.
_DEFAULT_HEAP = 512 * 2**20
#: Under this a node spends its time in the garbage collector, or does not come up.
_LEAST_HEAP = 256 * 2**20
#: Above about 31 GiB a JVM loses compressed pointers and holds less, not more.
_GREATEST_HEAP = 31 * 2**30

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
    size = _heap(node)
    chosen = [f"-Xms{size}", f"-Xmx{size}", *JVM]
    if node.cpus is not None:
        chosen.append(f"-XX:ActiveProcessorCount={math.ceil(node.cpus)}")
    return size, chosen


def logging(package: str) -> str:
    """Return the log's configuration; `package` is that of the server's classes."""
    return _LOGGING.replace("DEPRECATION", f"{package}.deprecation")


def check_settings(settings: Mapping[str, Any], ours: Set[str]) -> None:
    """Raise BadInput for a setting that is `ours` to decide, or a heap that is no size."""
    for key in settings:
        if key in ours:
            raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
    if "heap" in settings:
        parse_size(settings["heap"])


def configuration(node: NodeSpec, settings: Mapping[str, Any]) -> str:
    """Return the file of settings: those given and the user's over them. JSON values are YAML values."""
    merged = {**settings, **{key: value for key, value in node.settings.items() if key != "heap"}}
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in merged.items())


def _heap(node: NodeSpec) -> int:
    """Bytes: as the settings say, or half of the memory limit, so that files are cached in the other half."""
    if "heap" in node.settings:
        heap = parse_size(node.settings["heap"])
    elif node.memory is not None:
        heap = min(max(node.memory // 2, _LEAST_HEAP), _GREATEST_HEAP)
    else:
        heap = _DEFAULT_HEAP
    if node.memory is not None and heap + 128 * 2**20 > node.memory:
        raise BadInput(
            f"a heap of {format_size(heap)} leaves a node of {format_size(node.memory)} too little besides",
            remedy="give the node at least 512m, or twice the heap",
        )
    return heap
