"""Configuration of a Cassandra node: cassandra.yaml, JVM options and logging."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.store import jvm
from loadframe.store.access import AUTHORITY, BUNDLE
from loadframe.store.base import NodeSpec

#: Least memory that a node needs besides its heap, in bytes: code, threads, network and file buffers.
_BESIDES = 256 * 2**20

#: Tokens per node; the vendor's default.
TOKENS = 16

#: When the commit log is synchronised: every 10 s, after the answers to writes.
COMMITLOG_SYNC = "periodic"
#: Settings that Loadframe controls, so that it finds the cluster and the cluster stays in its folder.
OURS = {
    "authenticator",
    "role_manager",
    "cdc_raw_directory",
    "client_encryption_options",
    "cluster_name",
    "commitlog_directory",
    "data_file_directories",
    "hints_directory",
    "initial_token",
    "listen_address",
    "native_transport_port",
    "num_tokens",
    "partitioner",
    "rpc_address",
    "saved_caches_directory",
    "seed_provider",
    "server_encryption_options",
    "storage_port",
}

#: JDK packages that the server accesses, from the vendor's options for Java 17.
_EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
)
_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)

#: JVM options that open these packages to the server and its tools.
MODULES = (
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
)

#: Options of the vendor's configuration. The collector is fixed, because the JVM would choose it by the number of CPUs,
#: and runs with different CPU limits would not be comparable.
_JVM = (
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=2",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-XX:+AlwaysPreTouch",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-XX:ThreadPriorityPolicy=0",
    "-Xss1m",
    "-Djava.security.manager=allow",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dfile.encoding=UTF-8",
)

#: On one machine, all nodes learn of a ring change within moments.
RING_DELAY = 2000
_SERVER = (
    f"-Dcassandra.ring_delay_ms={RING_DELAY}",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.consistent.rangemovement=true",
)

#: Name and password of a new cluster's first user.
INITIAL_USER = "cassandra"
#: Replication factor of roles: above any cluster's size, so that each node has all roles.
COPIES_OF_ROLES = 1000


def initial_roles(node: NodeSpec) -> list[str]:
    """Return the JVM options for cheap password hashes and, on founders, for roles.

    Founders create the first user without delay, with a copy of its role on each founder.
    """
    # A random password needs no slow hash, which would burden each new connection.
    cheap = "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4"
    if not node.founders:
        return [cheap]
    return [
        cheap,
        "-Dcassandra.superuser_setup_delay_ms=500",
        f"-Dcassandra.system_auth.default_rf={len(node.founders)}",
    ]


LOGGING = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""


def require_heap(settings: Mapping[str, Any], memory: int | None) -> None:
    """Raise BadInput if the node's heap leaves less than 256 MiB of the limit `memory`, in bytes; None is unlimited.

    The heap is the setting `heap`; without it, half of the limit, but 256 MiB to 31 GiB.
    """
    jvm.heap_size(settings, memory, besides=_BESIDES)


def jvm_options(node: NodeSpec) -> tuple[int, list[str]]:
    """Return the heap in bytes, and all JVM options; the user's come last and override Loadframe's.

    BadInput if the heap leaves less than 256 MiB of the node's memory limit.
    """
    return jvm.options(node, (*_JVM, *MODULES, *_SERVER), besides=_BESIDES)


def configuration(node: NodeSpec) -> str:
    """Return the text of a node's cassandra.yaml; the user's settings override Loadframe's.

    JSON values are valid YAML.
    """
    data = node.folder / "data"
    settings: dict[str, Any] = {
        "cluster_name": node.cluster,
        "num_tokens": TOKENS,
        **_tokens(node),
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": ",".join(_seeds(node))}],
            }
        ],
        "listen_address": node.address,
        "rpc_address": node.address,
        "storage_port": node.peer_port,
        "native_transport_port": node.port,
        "data_file_directories": [str(data / "tables")],
        "commitlog_directory": str(data / "commitlog"),
        "saved_caches_directory": str(data / "saved_caches"),
        "hints_directory": str(data / "hints"),
        "cdc_raw_directory": str(data / "cdc_raw"),
        "commitlog_sync": COMMITLOG_SYNC,
        # The server rejects a period for the other modes.
        **(
            {}
            if node.settings.get("commitlog_sync", COMMITLOG_SYNC) != COMMITLOG_SYNC
            else {"commitlog_sync_period": "10000ms"}
        ),
        "authenticator": "PasswordAuthenticator",
        # Each node has all roles, so that logins do not depend on other nodes.
        "auth_read_consistency_level": "LOCAL_ONE",
        "auth_write_consistency_level": "ALL",
        # Snapshots of dropped tables would fill the disk.
        "auto_snapshot": False,
        **_encrypted(node),
        **{key: value for key, value in node.settings.items() if key not in jvm.SETTINGS},
    }
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def _encrypted(node: NodeSpec) -> dict[str, Any]:
    """Return the settings for TLS of the connections that the node encrypts; empty without certificates.

    They refuse unencrypted connections.
    """
    if node.certificates is None:
        return {}
    files = {
        # The only factory that reads PEM files.
        "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"},
        "keystore": str(node.folder / BUNDLE),
        "truststore": str(node.folder / AUTHORITY),
    }
    options: dict[str, Any] = {}
    if node.encryption.clients:
        options["client_encryption_options"] = {"enabled": True, "optional": False, **files}
    if node.encryption.nodes:
        options["server_encryption_options"] = {
            "internode_encryption": "all",
            "optional": False,
            # Peers need a certificate of the authority. Its address cannot be checked too: a server with OpenSSL then
            # refuses to start a handshake.
            "require_client_auth": True,
            **files,
        }
    return options


def _seeds(node: NodeSpec) -> list[str]:
    """Return the seeds, host:peer_port: all peers, without the node itself while it joins; itself if none is left.

    A node joins if it is not a founder and has no tables yet: seeds do not fetch data when they join. A restarted node
    is a seed, because it may be the first to start.
    """
    address = f"{node.address}:{node.peer_port}"
    joins = not node.founders and not (node.folder / "data" / "tables").exists()
    return [peer for peer in node.peers if not joins or peer != address] or [address]


def _tokens(node: NodeSpec) -> Mapping[str, Any]:
    """Return the token settings: each founder gets 16 tokens that divide the ring evenly; later nodes choose theirs."""
    if not node.founders:
        return {"allocate_tokens_for_local_replication_factor": 1}
    number, nodes = node.founders.index(node.name), len(node.founders)
    pieces = TOKENS * nodes
    tokens = [-(2**63) + (piece * nodes + number) * 2**64 // pieces for piece in range(TOKENS)]
    return {"initial_token": ",".join(str(token) for token in tokens)}


def identity(folder: Path) -> str:
    """Return the JVM argument that identifies the process of the node in `folder` to `management_command`."""
    return f"-Dcassandra.storagedir={folder / 'data'}"
