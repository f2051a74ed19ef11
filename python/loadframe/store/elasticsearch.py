"""Elasticsearch 6.8: a node's configuration and command line, from the vendor's own distribution."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.errors import BadInput
from loadframe.store import search_jvm
from loadframe.store.base import Installation, NodePlan, NodeSpec
from loadframe.store.distribution import Archive, Distribution, Jar
from loadframe.store.search import SearchStore

_DISTRIBUTION = Distribution(
    store="elasticsearch",
    version="6.8.23",
    # 17 was tried and runs it, 21 does not.
    java=11,
    java_most=17,
    jars=(),
    modules=(),
    folders=("plugins",),
    archive=Archive(
        Jar(
            "org.elasticsearch.distribution.zip:elasticsearch:6.8.23",
            place=".",
            size=149_356_678,
            sha256="490e9b9fbab9ffb3499938c45850318bd6554d439497842450b60ef22c114fb6",
            packaging="zip",
        ),
        root="elasticsearch-6.8.23",
        # A native program for each system, which every node would start and none needs.
        without=("modules/x-pack-ml/",),
    ),
)

#: Decided by loadframe, since the cluster would not be found or would reach out of its folder otherwise.
_OURS = {
    "cluster.name",
    "discovery.zen.minimum_master_nodes",
    "discovery.zen.ping.unicast.hosts",
    "http.port",
    "network.host",
    "node.name",
    "path.data",
    "path.logs",
    "transport.tcp.port",
}


class Elasticsearch(SearchStore):
    """Elasticsearch: 6.8.23 is started here; 6.2 and newer are spoken to where they run."""

    kind = "elasticsearch"
    refuses_root = True
    versions = ("6.8.23",)
    #: All: before 7.9 a node refuses to be asked for one that it does not have.
    _sections = ""

    def distribution(self, version: str) -> Distribution:
        """Return the vendor's archive."""
        if version not in self.versions:
            raise BadInput(
                f"elasticsearch {version} is not among the embedded versions",
                remedy=f"take {', '.join(self.versions)}, or start that version yourself and give its --hosts",
            )
        return _DISTRIBUTION

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Settings are those of elasticsearch.yml, and `heap`, such as 1g."""
        search_jvm.check_settings(settings, _OURS)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Bind one address, elect by a majority of the founders, and leave the disk's fill level out."""
        if installation.java is None:
            raise BadInput("elasticsearch needs a Java runtime", remedy="see `loadframe doctor`")
        heap, options = search_jvm.options(node)
        # The dates of that age are those of Java 8.
        options.append("-Djava.locale.providers=COMPAT")
        argv = (
            str(installation.java / "bin" / "java"),
            *options,
            f"-Djava.io.tmpdir={node.folder / 'tmp'}",
            f"-XX:ErrorFile={node.folder / 'logs' / 'jvm-error.log'}",
            f"-Des.path.home={installation.home}",
            f"-Des.path.conf={node.folder / 'config'}",
            "-Des.distribution.flavor=default",
            "-Des.distribution.type=zip",
            "-cp",
            f"{installation.home}/lib/*",
            "org.elasticsearch.bootstrap.Elasticsearch",
        )
        return NodePlan(
            files={
                "config/elasticsearch.yml": _configuration(node),
                "config/log4j2.properties": search_jvm.logging("org.elasticsearch"),
            },
            folders=("config", "data", "logs", "tmp"),
            argv=argv,
            environment={"ES_TMPDIR": str(node.folder / "tmp"), "LANG": "C.UTF-8"},
            facts={"heap": heap, "jvm_options": options},
        )

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create an index as `SearchStore` does; before version 7 its mappings are those of the one type `_doc`."""
        body = json.loads(json.dumps(definition))
        if "mappings" in body and int(self.software(self.version(addresses))["version"].split(".")[0]) < 7:
            body["mappings"] = {"_doc": body["mappings"]}
        super().create_collection(addresses, name, body, nodes)


def _configuration(node: NodeSpec) -> str:
    settings = {
        "cluster.name": node.cluster,
        "node.name": node.name,
        "path.data": str(node.folder / "data"),
        "path.logs": str(node.folder / "logs"),
        "network.host": node.address,
        "http.port": node.port,
        "transport.tcp.port": node.peer_port,
        "discovery.zen.ping.unicast.hosts": list(node.peers),
        "discovery.zen.minimum_master_nodes": len(node.founders) // 2 + 1,
        # A developer's disk is often fuller than a server's; that must not turn the cluster red.
        "cluster.routing.allocation.disk.threshold_enabled": False,
        # Nothing of these is measured, and each costs a node time when it starts.
        "xpack.monitoring.enabled": False,
        "xpack.security.enabled": False,
        "xpack.watcher.enabled": False,
    }
    return search_jvm.configuration(node, settings)


STORE = Elasticsearch()
