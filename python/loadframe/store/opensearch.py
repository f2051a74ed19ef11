"""OpenSearch: a node's configuration and command line, from the embedded distribution."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadframe.errors import BadInput
from loadframe.store import distribution
from loadframe.store.base import Installation, NodePlan, NodeSpec
from loadframe.store.distribution import Distribution
from loadframe.store.search import SearchStore
from loadframe.units import format_size, parse_size

#: Without a memory limit. Enough for the workloads at laptop scale, and three nodes fit a small machine.
_DEFAULT_HEAP = 512 * 2**20
#: Under this a node spends its time in the garbage collector, or does not come up.
_LEAST_HEAP = 256 * 2**20
#: Above about 31 GiB a JVM loses compressed pointers and holds less, not more.
_GREATEST_HEAP = 31 * 2**30

#: Decided by loadframe, since the cluster would not be found or would reach out of its folder otherwise.
_OURS = {
    "cluster.name",
    "cluster.initial_cluster_manager_nodes",
    "cluster.initial_master_nodes",
    "discovery.seed_hosts",
    "http.port",
    "network.host",
    "node.name",
    "path.data",
    "path.logs",
    "transport.port",
}

#: The collector and its two thresholds are those of the vendor's own configuration, whatever the number of CPUs: a
#: sweep over CPUs must not change the collector on its way, as the JVM would do if it were left to choose.
_JVM = (
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
logger.deprecation.name = org.opensearch.deprecation
logger.deprecation.level = error
"""


class OpenSearch(SearchStore):
    """OpenSearch from the Maven repository, with the modules that searching, scripting and scaled numbers need."""

    kind = "opensearch"
    refuses_root = True
    versions = ("3.8.0",)

    def distribution(self, version: str) -> Distribution:
        """Return the jars of that version, and a descriptor for each module."""
        if version not in self.versions:
            raise BadInput(
                f"opensearch {version} is not among the embedded versions",
                remedy=f"take {', '.join(self.versions)}, or start that version yourself and give its --hosts",
            )
        listed = distribution.read(Path(__file__).with_name(f"opensearch-{version}.json"))
        descriptors = [
            (f"modules/{module.name}/plugin-descriptor.properties", _descriptor(module, listed))
            for module in listed.modules
        ]
        # The server wants these folders to be there, even if nothing is in them.
        return replace(listed, texts=tuple(descriptors), folders=("bin", "plugins"))

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are those of opensearch.yml, and `heap`, such as 1g."""
        for key in settings:
            if key in _OURS:
                raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
        if "heap" in settings:
            parse_size(settings["heap"])

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Bind one address, elect among the founders, and leave the disk's fill level out of the allocation."""
        if installation.java is None:
            raise BadInput("opensearch needs a Java runtime", remedy="see `loadframe doctor`")
        heap = _heap(node)
        options = [f"-Xms{heap}", f"-Xmx{heap}", *_JVM]
        if node.cpus is not None:
            options.append(f"-XX:ActiveProcessorCount={math.ceil(node.cpus)}")
        files = {"config/opensearch.yml": _configuration(node), "config/log4j2.properties": _LOGGING}
        argv = (
            str(installation.java / "bin" / "java"),
            *options,
            f"-Djava.io.tmpdir={node.folder / 'tmp'}",
            f"-XX:ErrorFile={node.folder / 'logs' / 'jvm-error.log'}",
            f"-Dopensearch.path.home={installation.home}",
            f"-Dopensearch.path.conf={node.folder / 'config'}",
            "-Dopensearch.distribution.type=tar",
            "-Dopensearch.bundled_jdk=false",
            "-cp",
            f"{installation.home}/lib/*",
            "org.opensearch.bootstrap.OpenSearch",
        )
        return NodePlan(
            files=files,
            folders=("data", "logs", "tmp"),
            argv=argv,
            environment={"OPENSEARCH_TMPDIR": str(node.folder / "tmp"), "LANG": "C.UTF-8"},
            facts={"heap": heap, "jvm_options": options},
        )


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


def _configuration(node: NodeSpec) -> str:
    settings: dict[str, Any] = {
        "cluster.name": node.cluster,
        "node.name": node.name,
        "path.data": str(node.folder / "data"),
        "path.logs": str(node.folder / "logs"),
        "network.host": node.address,
        "http.port": node.port,
        "transport.port": node.peer_port,
        "discovery.seed_hosts": list(node.peers),
        **({"cluster.initial_cluster_manager_nodes": list(node.founders)} if node.founders else {}),
        # A developer's disk is often fuller than a server's; that must not turn the cluster red.
        "cluster.routing.allocation.disk.threshold_enabled": False,
        **{key: value for key, value in node.settings.items() if key != "heap"},
    }
    # JSON values are YAML values.
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def _descriptor(module: distribution.Module, listed: Distribution) -> str:
    return (
        f"name={module.name}\n"
        f"description=The module {module.name}\n"
        f"version={listed.version}\n"
        f"opensearch.version={listed.version}\n"
        f"java.version={listed.java}\n"
        f"classname={module.plugin_class}\n"
        "has.native.controller=false\n"
        "custom.foldername=\n"
        "extended.plugins=\n"
    )


STORE = OpenSearch()
