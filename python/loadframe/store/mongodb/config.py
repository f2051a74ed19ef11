"""Files and command line of MongoDB processes, and the settings that Loadframe controls."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.base.units import parse_size
from loadframe.store.access import AUTHORITY, BUNDLE, Encryption
from loadframe.store.base import Installation, NodePlan, NodeSpec
from loadframe.store.mongodb.client import server_key

#: Settings of mongod that Loadframe controls.
OURS = (
    *("net.port", "net.bindIp", "net.tls", "net.unixDomainSocket", "storage.dbPath"),
    *("replication.replSetName", "sharding", "systemLog", "processManagement"),
    *("security.keyFile", "security.authorization", "security.clusterAuthMode"),
    "setParameter.enableLocalhostAuthBypass",
)
#: Settings of Loadframe that are sizes: a number of bytes, or a text such as 512m.
_SIZES = ("cache", "chunk_size")
#: Settings of Loadframe, with the type of their values.
OWN: dict[str, type] = {
    "cache": str,
    "replica_set": bool,
    "members": int,
    "config_members": int,
    "routers": int,
    "balancer": bool,
    "layout": str,
    "chunk_size": str,
}
#: Roles of processes in a sharded cluster. Members of a plain replica set and single servers have none.
SHARD, CONFIG, ROUTER = "shard", "config", "router"
#: Whether routers and config servers have separate machines or share the shards' machines.
LAYOUTS = ("apart", "together")
#: Prefix of settings that are server parameters.
PARAMETER = "setParameter."

#: Cache size of WiredTiger in bytes. The server's default is half of the machine for each node.
_CACHE = 2**30
_MIN_CACHE = 2**28
#: Share of a node's memory limit for the cache, as by default; the rest is for connections and sorting.
_CACHE_SHARE = 0.5
#: Time that a server gives its clients before it stops, ms.
_SHUTDOWN_MS = 1000
#: The server's minimum of SCRAM iterations.
_SCRAM_ITERATIONS = 5000
#: File from which a router reads the addresses of the config servers, once it exists.
SEEDS = "config/seeds"
_CONFIG = "config/mongod.conf"
#: The servers' key, and the server's copy: mongod rejects a file that its group can read.
KEY_FILE, _OWN_KEY = "config/key", "run/key"
#: TLS modes: whether servers use TLS for connections to each other, and whether they require it of clients.
_MODES = {Encryption.HTTP: "allowTLS", Encryption.TRANSPORT: "preferTLS", Encryption.BOTH: "requireTLS"}


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for a setting that Loadframe controls, and for an invalid value.

    BadInput also for a setting of sharded clusters without `members`.
    """
    for key, value in settings.items():
        if any(key == ours or key.startswith(f"{ours}.") for ours in OURS):
            raise BadInput(f"the setting {key} is controlled by Loadframe", remedy="leave it out")
        expected = None if key in _SIZES else OWN.get(key)
        if expected and (type(value) is not expected or (value == 0 and expected is int) or str(value).startswith("-")):
            words = {bool: "true or false", int: "a whole number above 0", str: "a text"}[expected]
            raise BadInput(f"the setting {key} must be {words}", where=str(value))
    for key in _SIZES:
        if key in settings:
            parse_size(settings[key])
    if "chunk_size" in settings and not 2**20 <= parse_size(settings["chunk_size"]) <= 2**30:
        raise BadInput("the setting chunk_size must be 1m to 1g", where=str(settings["chunk_size"]))
    if settings.get("layout", "apart") not in LAYOUTS:
        raise BadInput(f"the setting layout must be {' or '.join(LAYOUTS)}", where=str(settings["layout"]))
    for key in ("config_members", "routers", "balancer", "chunk_size", "layout"):
        if key in settings and not sharded(settings):
            raise BadInput(
                f"the setting {key} requires a sharded cluster", remedy="set members: the members of each shard"
            )


def shard_settings(routers: int | None, config_servers: int | None) -> dict[str, Any]:
    """Return the settings of a sharded cluster: `members: 1`, and `routers` and `config_members` unless None."""
    given = {"routers": routers, "config_members": config_servers}
    return {"members": 1, **{key: value for key, value in given.items() if value is not None}}


def sharded(settings: Mapping[str, Any]) -> bool:
    """Whether the nodes are shards behind routers: the setting `members` is there."""
    return "members" in settings


def together(settings: Mapping[str, Any]) -> bool:
    """Whether routers and config servers share the shards' machines: the setting `layout` is `together`."""
    return settings.get("layout") == "together"


def set_name(node: NodeSpec) -> str:
    """Return the name of a node's replica set: CLUSTER, CLUSTER-config, or CLUSTER-node-0 for a shard.

    Empty for a single server. A router has no set and must not be given.
    """
    if node.role == CONFIG:
        return f"{node.cluster}-config"
    if node.role == SHARD:
        return f"{node.cluster}-{shard_of(node.name)}"
    return node.cluster if _is_member(node) else ""


def shard_of(name: str) -> str:
    """Return the shard of a process: `node-3` for `node-3` and `node-3-1`."""
    return "-".join(name.split("-")[:2])


def program(installation: Installation, name: str) -> Path | None:
    """Return the path of a program in an installation: its folder, `bin`, or the wheel's folder. None if absent."""
    home = installation.home
    places = (home, home / "bin", home / "fiftyone" / "db" / "bin")
    return next((place / name for place in places if (place / name).is_file()), None)


def plan(node: NodeSpec, installation: Installation) -> NodePlan:
    """Return the plan of a server or a router, which binds one address and writes only into its folder.

    BadInput if a program is missing.
    """
    mongod, mongos = program(installation, "mongod"), program(installation, "mongos")
    if mongod is None:
        raise BadInput("mongod is missing in this installation", where=str(installation.home))
    if mongos is None and sharded(node.settings):
        # Checked for every process, so that none starts.
        raise BadInput(
            "a sharded cluster needs mongos, which is missing in this installation",
            where=str(installation.home),
            remedy="download a MongoDB that includes mongos with --version 7.0.14; or install the vendor's packages"
            " mongodb-org-server and mongodb-org-mongos; or name the folder of yours with --home FOLDER",
        )
    return _router(node, mongos) if mongos and node.role == ROUTER else _server(node, mongod)


def parameter(name: str, value: Any) -> dict[str, Any]:
    """Return the field of the command `setParameter` for `cache` or `setParameter.NAME`.

    A cache is a size in bytes or a text such as `2GiB`, at least 256 MiB; a smaller one is raised. Parts of a MiB are
    cut.
    """
    if name == "cache":
        return {"wiredTigerEngineRuntimeConfig": f"cache_size={max(parse_size(value), _MIN_CACHE) // 2**20}M"}
    return {name.removeprefix(PARAMETER): value}


def cache(node: NodeSpec) -> int:
    """Return a server's cache size in bytes: the setting, half of the memory limit, or 1 GiB; at least 256 MiB.

    A config server that shares the machine of a shard gets the minimum.
    """
    if node.role == CONFIG and together(node.settings):
        return _MIN_CACHE
    if "cache" in node.settings:
        return max(parse_size(node.settings["cache"]), _MIN_CACHE)
    if node.memory is None:
        return _CACHE
    return max(int(node.memory * _CACHE_SHARE), _MIN_CACHE)


def _server(node: NodeSpec, mongod: Path) -> NodePlan:
    """Return the plan of a mongod: a single server, or a member of a set, of a shard or of the config servers."""
    flat: dict[str, Any] = {
        "storage.wiredTiger.engineConfig.cacheSizeGB": round(cache(node) / 2**30, 3),
        # A primary that stops waits this long for the other members, which stop as well.
        "setParameter.shutdownTimeoutMillisForSignaledShutdown": _SHUTDOWN_MS,
        # Logging in would be measured, and a random password needs no slow hash.
        "setParameter.scramSHA256IterationCount": _SCRAM_ITERATIONS,
        **{key: value for key, value in node.settings.items() if key not in OWN},
        **_common(node),
        "storage.dbPath": str(node.folder / "data"),
    }
    if name := set_name(node):
        flat["replication.replSetName"] = name
    if node.role in (SHARD, CONFIG):
        flat["sharding.clusterRole"] = {SHARD: "shardsvr", CONFIG: "configsvr"}[node.role]
    return NodePlan(
        files={_CONFIG: json.dumps(_nested(flat), indent=1), **_secrets(node)},
        folders=("data", "run"),
        argv=_with_key(node, f"exec {shlex.quote(str(mongod))} --config {shlex.quote(str(node.folder / _CONFIG))}"),
        environment={"LANG": "C.UTF-8"},
        facts={"cache": cache(node), "replica_set": bool(name)},
    )


def _router(node: NodeSpec, mongos: Path) -> NodePlan:
    """Return the plan of a mongos.

    A shell waits for the config servers' addresses in the file SEEDS, then starts it.
    """
    seeds, config = node.folder / SEEDS, node.folder / _CONFIG
    command = f"{shlex.quote(str(mongos))} --config {shlex.quote(str(config))} --configdb"
    place = shlex.quote(str(seeds))
    waiting = f'while [ ! -s {place} ]; do sleep 0.1; done; exec {command} "$(cat {place})"'
    # The default is to wait 15 s for clients.
    flat = {**_common(node), "setParameter.mongosShutdownTimeoutMillisForSignaledShutdown": _SHUTDOWN_MS}
    return NodePlan(
        files={_CONFIG: json.dumps(_nested(flat), indent=1), SEEDS: "", **_secrets(node)},
        folders=("run",),
        argv=_with_key(node, waiting),
        environment={"LANG": "C.UTF-8"},
        facts={},
    )


def _with_key(node: NodeSpec, command: str) -> tuple[str, ...]:
    """Return a shell command line that copies the servers' key with owner-only permissions, then runs a command."""
    key, copy = (shlex.quote(str(node.folder / name)) for name in (KEY_FILE, _OWN_KEY))
    return ("/bin/sh", "-c", f"(umask 077 && rm -f {copy} && cat {key} > {copy}) || exit 1; {command}")


def _common(node: NodeSpec) -> dict[str, Any]:
    """Return the settings, with dotted names, of all kinds of process: address, port, PID file, key and TLS."""
    return {
        "net.bindIp": node.address,
        "net.port": node.port,
        "net.unixDomainSocket.enabled": False,
        # The file's name identifies the node to clients that read its command line.
        "processManagement.pidFilePath": str(node.folder / "run" / f"{node.name}.pid"),
        "security.keyFile": str(node.folder / _OWN_KEY),
        # Otherwise the first local client could create the first user.
        "setParameter.enableLocalhostAuthBypass": False,
        **_encrypted(node),
    }


def _encrypted(node: NodeSpec) -> dict[str, Any]:
    """Return the settings for TLS; empty without certificates.

    Clients and servers use the same port. If only some of them use TLS, the port accepts both.
    """
    if node.certificates is None:
        return {}
    return {
        "net.tls.mode": _MODES[node.encryption],
        "net.tls.CAFile": str(node.folder / AUTHORITY),
        "net.tls.certificateKeyFile": str(node.folder / BUNDLE),
        "net.tls.allowConnectionsWithoutCertificates": True,
    }


def _secrets(node: NodeSpec) -> dict[str, str]:
    """Return the files with the servers' key and the certificates, by path in the node's folder."""
    return {KEY_FILE: server_key(node.password), **(node.certificates.files(bundled=True) if node.certificates else {})}


def _is_member(node: NodeSpec) -> bool:
    """Whether a node is a member of a set: by the setting `replica_set`, else by the configuration in its folder.

    Without either, unless it is the only founder. A founder's folder does not count.
    """
    if "replica_set" in node.settings:
        return bool(node.settings["replica_set"])
    before = None if node.founders or not node.folder.exists() else nofollow.read_text(node.folder, _CONFIG)
    if before is None:
        return len(node.founders) != 1
    return bool(json.loads(before).get("replication"))


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with dotted names as nested mappings."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        place = nested
        *outer, last = name.split(".")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return nested
