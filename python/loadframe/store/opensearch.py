"""OpenSearch: configuration and command line of nodes, from embedded versions or an installation."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store import distribution
from loadframe.store.base import FoundInstallation, Installation, NodePlan, NodeSpec
from loadframe.store.distribution import Distribution
from loadframe.store.search import SearchStore, membership, node_settings

#: Settings that Loadframe controls, so that it finds the cluster and the cluster stays in its folder.
_OURS = {
    "cluster.name",
    "cluster.initial_cluster_manager_nodes",
    "cluster.initial_master_nodes",
    *membership.SEEDED,
    "http.port",
    "network.host",
    "node.name",
    "path.data",
    "path.logs",
    "transport.port",
}


#: Version 2 has a security manager, which restricts modules unless a policy file next to them permits everything.
_POLICY = "grant { permission java.security.AllPermission; };\n"


class OpenSearch(SearchStore):
    """OpenSearch from the Maven repository, with the modules for searching, scripting and scaled numbers."""

    kind = "opensearch"
    maker = ("OpenSearch contributors", "https://opensearch.org", "OpenSearch")
    port = 9200
    oldest = (1,)
    ages = True  # the JIT compiler needs minutes
    refuses_root = True
    versions = ("3.8.0", "2.19.6")

    def distribution(self, version: str) -> Distribution:
        """Return the jars of an embedded version, with a descriptor (and in version 2 a policy file) for each module.

        BadInput for other versions.
        """
        if version not in self.versions:
            raise BadInput(
                f"opensearch {version} is not an embedded version",
                remedy=f"use {', '.join(self.versions)}, or give an installation of that version with --home",
            )
        listed = distribution.embedded_files(self.kind, version)
        descriptors = [
            (f"modules/{module.name}/plugin-descriptor.properties", _descriptor(module, listed))
            for module in listed.modules
        ]
        if listed.java_most is not None:
            descriptors += [(f"modules/{module.name}/plugin-security.policy", _POLICY) for module in listed.modules]
        # The server requires these folders, even if they are empty.
        return replace(listed, texts=tuple(descriptors), folders=("bin", "plugins"))

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return the user's installation, in the layout of the vendor's archive; None without `home`.

        BadInput if `home` has another layout.
        """
        if home is None:
            return None
        version = distribution.of_jar(home, self.kind, ("opensearch",))
        modern, jdk = int(version.split(".")[0]) >= 3, distribution.jdk(home)
        return FoundInstallation(version, home, 21 if modern else 11, None if modern or jdk else 23, jdk)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for settings that Loadframe controls, and for invalid JVM settings (`heap`, `jvm`)."""
        node_settings.check_settings(settings, _OURS)

    def require_machine(self, settings: Mapping[str, Any], memory: int | None, address: str) -> None:
        """Raise BadInput for a heap that leaves less than 128 MiB of `memory`, and too few open files for `address`.

        `memory` is the limit in bytes, None without one; by default, the heap is half of it, but at least 256 MiB. A
        loopback address needs no minimum of open files.
        """
        node_settings.require_heap(settings, memory)
        node_settings.require(self.kind, node_settings.Machine.here(), address)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of a node that binds one address; founders elect the first manager among the electable ones.

        Shards are allocated at any fill level of the disk. BadInput without Java, or if the node would not start on
        this machine.
        """
        if installation.java is None:
            raise BadInput("opensearch needs a Java runtime", remedy="see `loadframe doctor`")
        node, adapted = node_settings.adapted(self.kind, node, node_settings.Machine.here())
        heap, options = node_settings.options(node)
        old = int(installation.version.split(".")[0]) < 3 if installation.version else not _has_agent(installation.home)
        if old:
            # Version 2 installs a security manager, which Java 18 and later forbid by default.
            options.append("-Djava.security.manager=allow")
        files = {
            "config/opensearch.yml": _configuration(node, installation.home),
            "config/log4j2.properties": node_settings.logging("org.opensearch"),
            membership.SEEDS: membership.seeds(node.peers),
        }
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
            # The server creates a keystore in its config folder.
            folders=("config", "data", "logs", "tmp"),
            argv=argv,
            environment={"OPENSEARCH_TMPDIR": str(node.folder / "tmp"), "LANG": "C.UTF-8"},
            facts={"heap": heap, "jvm_options": options, "adapted": adapted},
        )


def _has_agent(home: Path) -> bool:
    """Whether the installation contains the Java agent of version 3, which replaces the security manager."""
    return next((home / "lib").glob("opensearch-agent-*.jar"), None) is not None


def _configuration(node: NodeSpec, home: Path) -> str:
    """Return the text of opensearch.yml for a node installed in `home`; the user's settings override Loadframe's."""
    settings: dict[str, Any] = {
        "cluster.name": node.cluster,
        "node.name": node.name,
        "path.data": str(node.folder / "data"),
        "path.logs": str(node.folder / "logs"),
        "network.host": node.address,
        "http.port": node.port,
        "transport.port": node.peer_port,
        **membership.SEEDED,
        "cluster.initial_cluster_manager_nodes": membership.founders(node),
        **membership.roles(node, by_name=True),
        # A developer's disk is often nearly full; that must not turn the cluster red.
        "cluster.routing.allocation.disk.threshold_enabled": False,
    }
    if (home / "plugins" / "opensearch-security").is_dir():
        # The vendor's archive contains this plugin, with which nodes do not start without certificates.
        settings["plugins.security.disabled"] = True
    return node_settings.configuration(node, settings)


def _descriptor(module: distribution.Module, listed: Distribution) -> str:
    """Return the text of a module's plugin-descriptor.properties, for the version of `listed`."""
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
