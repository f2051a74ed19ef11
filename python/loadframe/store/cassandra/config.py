"""What a Cassandra node is started with: its configuration, its JVM, its log."""

import json
from collections.abc import Mapping
from typing import Any

from loadframe.store import jvm
from loadframe.store.base import NodeSpec
from loadframe.store.encryption import AUTHORITY, BUNDLE

#: Bytes that a node takes besides its heap at least: code, threads, buffers of the network and of files.
_BESIDES = 256 * 2**20

#: How many pieces of the ring a node has; the vendor's own choice.
TOKENS = 16

#: Decided by loadframe, since the cluster would not be found or would reach out of its folder otherwise.
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

#: The packages of the JDK that the server reaches into, as the vendor's options for Java 17 open them.
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

#: What the server and its tools want to be opened for them.
MODULES = (
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
)

#: The collector and its goals are those of the vendor's own configuration, whatever the number of CPUs: a sweep over
#: CPUs must not change the collector on its way, as the JVM would do if it were left to choose.
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

#: On one machine, gossip has settled and a change of the ring is known to all within moments.
RING_DELAY = 2000
_SERVER = (
    f"-Dcassandra.ring_delay_ms={RING_DELAY}",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.consistent.rangemovement=true",
)

#: The user that a new cluster has, and its password.
INITIAL_USER = "cassandra"
#: As many as any cluster has nodes, so that each has all.
COPIES_OF_ROLES = 1000


def initial_roles(node: NodeSpec) -> list[str]:
    """Return the options that have a new cluster's first user be made at once, on each founder."""
    # Hashes of a random password need no rounds, which each new connection would pay for.
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
    """Raise BadInput for a heap that leaves a node too little of its memory limit."""
    jvm.heap_size(settings, memory, besides=_BESIDES)


def jvm_options(node: NodeSpec) -> tuple[int, list[str]]:
    """Return the heap in bytes, and the options that decide how the server runs; the manifest has them."""
    return jvm.options(node, (*_JVM, *MODULES, *_SERVER), besides=_BESIDES)


def configuration(node: NodeSpec) -> str:
    """Return the node's cassandra.yaml. JSON values are YAML values."""
    data = node.folder / "data"
    settings: dict[str, Any] = {
        "cluster_name": node.cluster,
        "num_tokens": TOKENS,
        **_share(node),
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
        "commitlog_sync": "periodic",
        # A server whose log is synced in another way refuses to be told a period.
        **(
            {}
            if node.settings.get("commitlog_sync", "periodic") != "periodic"
            else {"commitlog_sync_period": "10000ms"}
        ),
        "authenticator": "PasswordAuthenticator",
        # Every node has all roles, so none depends on another for letting clients in.
        "auth_read_consistency_level": "LOCAL_ONE",
        "auth_write_consistency_level": "ALL",
        # A dropped table of a test is not to stay on the disk, and a developer's disk is fuller than a server's.
        "auto_snapshot": False,
        **_encrypted(node),
        **{key: value for key, value in node.settings.items() if key not in jvm.SETTINGS},
    }
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())


def _encrypted(node: NodeSpec) -> dict[str, Any]:
    """Return which connections go by TLS, and refuse those that do not; nothing where none do."""
    if node.certificates is None:
        return {}
    files = {
        # The one that reads PEM files.
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
            # Who connects needs a certificate of the authority. That it is for the address cannot be asked: a server
            # whose TLS is OpenSSL refuses to start a handshake then.
            "require_client_auth": True,
            **files,
        }
    return options


def _seeds(node: NodeSpec) -> list[str]:
    """Whom to ask for the cluster: one that joins must not be among them, or it would not fetch its share of the data.

    One that comes back is: it may be the first to do so.
    """
    address = f"{node.address}:{node.peer_port}"
    joins = not node.founders and not (node.folder / "data" / "tables").exists()
    return [peer for peer in node.peers if not joins or peer != address] or [address]


def _share(node: NodeSpec) -> Mapping[str, Any]:
    """Return what gives a node its share of the ring: the founders cut it evenly, who joins later cuts in evenly."""
    if not node.founders:
        return {"allocate_tokens_for_local_replication_factor": 1}
    number, nodes = node.founders.index(node.name), len(node.founders)
    pieces = TOKENS * nodes
    tokens = [-(2**63) + (piece * nodes + number) * 2**64 // pieces for piece in range(TOKENS)]
    return {"initial_token": ",".join(str(token) for token in tokens)}
