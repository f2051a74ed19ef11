"""Elasticsearch: configuration and command line of nodes, for embedded 6.8 and installations of 6.8 to 9.

Versions differ in the start program, discovery, the parts to disable, and mapping types.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store import distribution
from loadframe.store.access import AUTHORITY, CERTIFICATE, KEY, Encryption, refuse_settings
from loadframe.store.base import FoundInstallation, Installation, Member, NodePlan, NodeSpec, Watch
from loadframe.store.distribution import Archive, Distribution, Jar, Offer, vendor_architecture, version_numbers
from loadframe.store.search import SearchStore, membership, node_settings

_DISTRIBUTION = Distribution(
    store="elasticsearch",
    version="6.8.23",
    # Tested: 17 runs it, 21 does not.
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
        # A native program per system, which each node would start needlessly.
        without=("modules/x-pack-ml/",),
    ),
)

#: Settings that Loadframe controls, so that it finds the cluster and the cluster stays in its folder.
_OURS = {
    "cluster.name",
    "cluster.initial_master_nodes",
    *membership.SEEDED,
    "discovery.zen.minimum_master_nodes",
    "discovery.zen.ping.unicast.hosts",
    "http.port",
    "network.host",
    "node.name",
    "path.data",
    "path.logs",
    "transport.port",
    "transport.tcp.port",
}

#: Prefix of settings that Loadframe also controls in an encrypted cluster, except ciphers and protocols.
_SECURITY = "xpack.security."
_OF_ENCRYPTION = (".cipher_suites", ".supported_protocols")

#: The first versions with data streams, and with sorts of mixed types.
_DATA_STREAMS, _MIXED_SORTS = (7, 9), (7, 2)
#: The first version that excludes nodes from elections by names in the query. Version 8 refuses names in the path.
_VOTES_IN_QUERY = (7, 8)
#: Lowest Java version for each major version, and the highest known to work without the bundled Java.
_JAVA = {6: (11, 17), 7: (11, 17), 8: (17, None), 9: (21, None)}
#: Major versions that the vendor offers as archives per architecture, and their location.
_OFFERED = (7, 8, 9)
_VENDOR = "https://artifacts.elastic.co/downloads/elasticsearch"


#: Ciphers of version 7 and later. The defaults of version 6 are insecure, and the generator rejects them.
_CIPHERS = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")


class Elasticsearch(SearchStore):
    """Elasticsearch. Loadframe starts 6.8 and newer, and supports running clusters of 6.2 and newer."""

    kind = "elasticsearch"
    maker = ("Elastic", "https://www.elastic.co/elasticsearch", "Elasticsearch")
    port = 9200
    oldest = (6, 2)
    ages = True  # the JIT compiler needs minutes
    refuses_root = True
    versions = ("6.8.23",)
    offered = f"{_OFFERED[0]} to {_OFFERED[-1]}"
    #: All sections: before 7.9 a node rejects requests that name a section it does not have.
    _sections = ""

    def distribution(self, version: str) -> Distribution:
        """Return the vendor's archive of an embedded version; BadInput for other versions."""
        if version not in self.versions:
            raise BadInput(
                f"elasticsearch {version} is not an embedded version",
                remedy=f"use {', '.join(self.versions)}, a version that the vendor offers ({self.offered}), or "
                "give an installation of that version with --home",
            )
        return _DISTRIBUTION

    def offer(self, version: str) -> Offer | None:
        """Return the vendor's archive, which bundles Java, or None for major versions without one.

        BadInput for an incomplete version, or a machine that the vendor does not support.
        """
        if _major(version) not in _OFFERED:
            return None
        version_numbers(self.kind, version)
        name = f"elasticsearch-{version}-linux-{vendor_architecture(self.kind)}.tar.gz"
        return Offer(self.kind, version, _VENDOR, name, "sha512")

    def installation(self, home: Path | None) -> FoundInstallation | None:
        """Return the user's installation, None without `home`; BadInput for another layout, or outside 6.8 to 9."""
        if home is None:
            return None
        version = distribution.of_jar(home, self.kind, ("elasticsearch",))
        if _number(version) < (6, 8) or _number(version)[0] not in _JAVA:
            raise BadInput(
                f"Loadframe cannot start elasticsearch {version}, only 6.8 to {max(_JAVA)}",
                where=str(home),
                remedy="start it yourself and name it with --hosts",
            )
        least, most = _JAVA[_number(version)[0]]
        jdk = distribution.jdk(home)
        return FoundInstallation(version, home, least, None if jdk else most, jdk)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput for settings that Loadframe controls, and for invalid JVM settings (`heap`, `jvm`)."""
        node_settings.check_settings(settings, _OURS)

    def require_encryption(
        self,
        encryption: Encryption,
        settings: Mapping[str, Any],
        nodes: int,
        installation: Installation | None = None,
    ) -> None:
        """With encryption, raise BadInput for security settings, and for an installation without the security module.

        Settings of ciphers and protocols are accepted.
        """
        refuse_settings(
            encryption, settings, lambda name: name.startswith(_SECURITY) and not name.endswith(_OF_ENCRYPTION)
        )
        if encryption.any and installation and not (installation.home / "modules" / "x-pack-security").is_dir():
            raise BadInput(
                "this Elasticsearch does not have the security module, which encrypts connections",
                where=str(installation.home),
                remedy="use the vendor's archive with all modules, or leave encryption out",
            )

    def require_machine(self, settings: Mapping[str, Any], memory: int | None, address: str) -> None:
        """Raise BadInput for a heap that leaves less than 128 MiB of `memory`, and too few open files for `address`.

        `memory` is the limit in bytes, None without one; by default, the heap is half of it, but at least 256 MiB. A
        loopback address needs no minimum of open files.
        """
        node_settings.require_heap(settings, memory)
        node_settings.require(self.kind, node_settings.Machine.here(), address)

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Return the plan of a node that binds one address, elects by majority, and ignores the disk's fill level.

        BadInput without Java, or if the node would not start on this machine.
        """
        if installation.java is None:
            raise BadInput("elasticsearch needs a Java runtime", remedy="see `loadframe doctor`")
        node, adapted = node_settings.adapted(self.kind, node, node_settings.Machine.here())
        heap, options = node_settings.options(node)
        version = _number(installation.version or _DISTRIBUTION.version)
        paths = [f"-Djava.io.tmpdir={node.folder / 'tmp'}", f"-XX:ErrorFile={node.folder / 'logs' / 'jvm-error.log'}"]
        files = {
            "config/elasticsearch.yml": _configuration(node, installation.home, version),
            "config/log4j2.properties": node_settings.logging("org.elasticsearch"),
            **(node.certificates.files() if node.certificates else {}),
        }
        environment = {"ES_TMPDIR": str(node.folder / "tmp"), "LANG": "C.UTF-8"}
        if version < (7,):
            # Version 6 parses dates with the locale data of Java 8.
            options.append("-Djava.locale.providers=COMPAT")
            argv = (
                str(installation.java / "bin" / "java"),
                *options,
                *paths,
                f"-Des.path.home={installation.home}",
                f"-Des.path.conf={node.folder / 'config'}",
                "-Des.distribution.flavor=default",
                "-Des.distribution.type=zip",
                "-cp",
                f"{installation.home}/lib/*",
                "org.elasticsearch.bootstrap.Elasticsearch",
            )
        else:
            # The installation's script knows the server's command line.
            argv = (str(installation.home / "bin" / "elasticsearch"),)
            java = str(installation.java)
            environment |= {"ES_PATH_CONF": str(node.folder / "config"), "ES_JAVA_HOME": java, "JAVA_HOME": java}
            environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
            files[membership.SEEDS] = membership.seeds(node.peers)
            files["config/jvm.options"] = "".join(f"{option}\n" for option in (*options, *paths))
        return NodePlan(
            files=files,
            folders=("config", "data", "logs", "tmp"),
            argv=argv,
            environment=environment,
            facts={"heap": heap, "jvm_options": options, "adapted": adapted},
        )

    def join(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Wait until the node is a member; before version 7 also raise the election quorum."""
        super().join(addresses, member, watch)
        if self._elects_by_number(addresses):
            self._count_voters(addresses)

    def leave(self, addresses: Sequence[str], member: Member, watch: Watch) -> None:
        """Move all shards off the node, wait until it holds none, and take its vote; before version 7 lower the quorum.

        BadInput if the others cannot hold all replicas, or cannot elect a master. `watch` gets the shards left.
        """
        if not self._elects_by_number(addresses):
            return super().leave(addresses, member, watch)
        membership.require_electors(self.request, addresses, member)
        membership.leave(self.request, addresses, member, watch)
        return self._count_voters(addresses, without=member.name)

    def forget(self, addresses: Sequence[str], member: Member) -> None:
        """Allow shards on nodes of that name again, and (from version 7 on) restore votes that `leave` removed."""
        if not self._elects_by_number(addresses):
            return super().forget(addresses, member)
        return membership.allow(self.request, addresses, member.name)

    def stay(self, addresses: Sequence[str], member: Member) -> None:
        """Allow the node shards again, and restore its vote."""
        if not self._elects_by_number(addresses):
            return super().stay(addresses, member)
        self._count_voters(addresses)
        return membership.allow(self.request, addresses, member.name)

    def _elects_by_number(self, addresses: Sequence[str]) -> bool:
        """Whether a setting determines the election quorum, as before version 7, rather than the cluster."""
        return self._version_number(addresses) < (7,)

    def resign(self, addresses: Sequence[str], member: Member) -> None:
        """Exclude the node from elections; before version 7, set the election quorum as if the node had left."""
        if not self._elects_by_number(addresses):
            return super().resign(addresses, member)
        return self._count_voters(addresses, without=member.name)

    def _count_voters(self, addresses: Sequence[str], without: str = "") -> None:
        """Set the election quorum to a majority of the electable nodes, not counting the node named `without`.

        The quorum is a persistent cluster setting.
        """
        voters = set(membership.names(self.request, addresses, "master")) - {without}
        membership.require_majority(self.request, addresses, len(voters))

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Create an index from `settings` and `mappings`, a data stream, or a rolling alias; wait for its primaries.

        Without a number of shards there are `nodes`. Before version 7 the mappings belong to the type `_doc`. BadInput
        for a data stream before 7.9.
        """
        body = json.loads(json.dumps(definition))
        version = self._version_number(addresses)
        if "mappings" in body and version < (7,):
            body["mappings"] = {"_doc": body["mappings"]}
        if body.get("data_stream") and version < _DATA_STREAMS:
            what = f"the collection {name!r} is a data stream, which this Elasticsearch does not support"
            raise BadInput(what, remedy="use 7.9 or later, or rollover: true")
        super().create_collection(addresses, name, body, nodes)

    def _composes(self, addresses: Sequence[str]) -> bool:
        """Whether the cluster has composable index templates and data streams, from 7.9 on."""
        return self._version_number(addresses) >= _DATA_STREAMS

    def _votes_in_query(self, addresses: Sequence[str]) -> bool:
        """Whether the cluster expects the names of nodes to exclude from elections in the query, from 7.8 on."""
        return self._version_number(addresses) >= _VOTES_IN_QUERY

    def _sorts_mixed(self, addresses: Sequence[str]) -> bool:
        """Whether the cluster sorts a field whose types differ between indices, from 7.2 on."""
        return self._version_number(addresses) >= _MIXED_SORTS

    def _version_number(self, addresses: Sequence[str]) -> tuple[int, ...]:
        """Return major and minor version of the running cluster."""
        return _number(self.software(self.version(addresses))["version"])


def _major(version: str) -> int | None:
    """Return the major version, or None if the version does not start with a number."""
    first = version.partition(".")[0]
    return int(first) if first.isdigit() else None


def _number(version: str) -> tuple[int, ...]:
    """Return major and minor version: (8, 1) for `8.1.2`; ValueError if these are not numbers."""
    return tuple(int(part) for part in version.partition("-")[0].split(".")[:2])


def _configuration(node: NodeSpec, home: Path, version: tuple[int, ...]) -> str:
    """Return the text of elasticsearch.yml for a node of `version` (major, minor), installed in `home`.

    The user's settings override Loadframe's.
    """
    settings: dict[str, Any] = {
        "cluster.name": node.cluster,
        "node.name": node.name,
        "path.data": str(node.folder / "data"),
        "path.logs": str(node.folder / "logs"),
        "network.host": node.address,
        "http.port": node.port,
        # A developer's disk is often nearly full; that must not turn the cluster red.
        "cluster.routing.allocation.disk.threshold_enabled": False,
    }
    if version < (7,):
        settings |= {
            "transport.tcp.port": node.peer_port,
            "discovery.zen.ping.unicast.hosts": list(node.peers),
            # The quorum of the initial nodes. Nodes that join or leave change it in the running cluster.
            "discovery.zen.minimum_master_nodes": membership.majority(
                len(node.peers if node.electors is None else node.electors)
            ),
        }
    else:
        settings |= {
            # Renamed in 7.1; both names work until 8.
            "transport.port" if version >= (7, 1) else "transport.tcp.port": node.peer_port,
            **membership.SEEDED,
            "cluster.initial_master_nodes": membership.founders(node),
        }
    settings |= membership.roles(node, by_name=version >= (8,))
    # These parts are not measured and slow a node's start. Security, on by default since 8, would need certificates
    # and a password. A build without these parts rejects their settings.
    if version < (7,):
        settings |= {f"xpack.{part}.enabled": False for part in ("monitoring", "security", "watcher")}
    else:
        for part, module in {"ml": "x-pack-ml", "security": "x-pack-security", "watcher": "x-pack-watcher"}.items():
            if (home / "modules" / module).is_dir():
                settings[f"xpack.{part}.enabled"] = False
        if version >= (7, 14) and (home / "modules" / "ingest-geoip").is_dir():
            # It would download data from the vendor.
            settings["ingest.geoip.downloader.enabled"] = False
    if node.certificates:
        settings |= _encrypted(node, version)
    return node_settings.configuration(node, settings)


def _encrypted(node: NodeSpec, version: tuple[int, ...]) -> dict[str, Any]:
    """Return the settings for TLS of a node of `version` (major, minor), for the connections that its encryption names.

    They enable security, and give anonymous users all rights.
    """
    files = {"certificate_authorities": AUTHORITY, "certificate": CERTIFICATE, "key": KEY}
    settings: dict[str, Any] = {
        "xpack.security.enabled": True,
        "xpack.security.authc.anonymous.username": "anybody",
        "xpack.security.authc.anonymous.roles": "superuser",
        "xpack.security.transport.ssl.verification_mode": "full",
    }
    for layer, encrypted in (("http", node.encryption.clients), ("transport", node.encryption.nodes)):
        settings[f"xpack.security.{layer}.ssl.enabled"] = encrypted
        if encrypted:
            for name, file in files.items():
                settings[f"xpack.security.{layer}.ssl.{name}"] = str(node.folder / file)
            if version < (7,):
                settings[f"xpack.security.{layer}.ssl.cipher_suites"] = list(_CIPHERS)
    return settings


STORE = Elasticsearch()
