"""A MongoDB node's files and command line, and the settings that are loadframe's to decide."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.base.units import parse_size
from loadframe.store.base import Installation, NodePlan, NodeSpec
from loadframe.store.encryption import AUTHORITY, BUNDLE, Encryption
from loadframe.store.mongodb.client import server_key

#: Settings of a node's configuration that loadframe decides.
OURS = (
    *("net.port", "net.bindIp", "net.tls", "net.unixDomainSocket", "storage.dbPath"),
    *("replication.replSetName", "sharding", "systemLog", "processManagement"),
    *("security.keyFile", "security.authorization", "security.clusterAuthMode"),
    "setParameter.enableLocalhostAuthBypass",
)
#: Settings that are loadframe's own, with the kind of value that each wants.
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
#: What processes are for. A member of a plain replica set, and a single server, have none of these.
SHARD, CONFIG, ROUTER = "shard", "config", "router"
#: Whether routers and servers of the configuration have machines of their own, or share those of the shards.
LAYOUTS = ("apart", "together")
#: What settings begin with that are parameters of the server.
PARAMETER = "setParameter."

#: Bytes of the cache of WiredTiger. Without a memory limit it would be half of the machine, for each node.
_CACHE = 2**30
_LEAST_CACHE = 2**28
#: Of a node's memory limit, what the cache may take, as it is without limit; the rest is for connections and sorting.
_CACHE_SHARE = 0.5
#: Milliseconds that a server which is to end gives its clients.
_FAREWELL = 1000
#: The least that the server takes.
_ROUNDS = 5000
#: Where a router finds the members of the set that holds the cluster's configuration, once that is there.
SEEDS = "config/seeds"
_CONFIG = "config/mongod.conf"
#: The key by which servers know each other, and the server's own copy: it takes no file that its group may read, too.
KEY_FILE, _OWN_KEY = "config/key", "run/key"
#: Whether servers connect to each other by TLS, and whether they require it of whoever connects to them.
_MODES = {Encryption.HTTP: "allowTLS", Encryption.TRANSPORT: "preferTLS", Encryption.BOTH: "requireTLS"}


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for a setting that is loadframe's to decide, or that makes no sense."""
    for key, value in settings.items():
        if any(key == ours or key.startswith(f"{ours}.") for ours in OURS):
            raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
        wanted = OWN.get(key)
        if wanted and (type(value) is not wanted or (value == 0 and wanted is int) or str(value).startswith("-")):
            words = {bool: "true or false", int: "a whole number above 0", str: "a text"}[wanted]
            raise BadInput(f"the setting {key} wants {words}", where=str(value))
    if "cache" in settings:
        parse_size(settings["cache"])
    if "chunk_size" in settings and not 2**20 <= parse_size(settings["chunk_size"]) <= 2**30:
        raise BadInput("the setting chunk_size wants 1m to 1g", where=str(settings["chunk_size"]))
    if settings.get("layout", "apart") not in LAYOUTS:
        raise BadInput(f"the setting layout wants {' or '.join(LAYOUTS)}", where=str(settings["layout"]))
    for key in ("config_members", "routers", "balancer", "chunk_size", "layout"):
        if key in settings and not sharded(settings):
            raise BadInput(
                f"the setting {key} is about sharded clusters", remedy="say members, too: how many each shard has"
            )


def sharded(settings: Mapping[str, Any]) -> bool:
    """Whether the nodes are shards behind routers."""
    return "members" in settings


def together(settings: Mapping[str, Any]) -> bool:
    """Whether routers and servers of the configuration share the machines of the shards."""
    return settings.get("layout") == "together"


def set_name(node: NodeSpec) -> str:
    """Return the name of the replica set that a node is a member of; empty for a single server."""
    if node.role == CONFIG:
        return f"{node.cluster}-config"
    if node.role == SHARD:
        return f"{node.cluster}-{shard_of(node.name)}"
    return node.cluster if _is_member(node) else ""


def shard_of(name: str) -> str:
    """Return the shard that a process of that name belongs to: `node-3` of `node-3` and of `node-3-1`."""
    return "-".join(name.split("-")[:2])


def program(installation: Installation, name: str) -> Path | None:
    """Return where an installation has a program: in its folder, in `bin`, or where the wheel has it."""
    home = installation.home
    places = (home, home / "bin", home / "fiftyone" / "db" / "bin")
    return next((place / name for place in places if (place / name).is_file()), None)


def plan(node: NodeSpec, installation: Installation) -> NodePlan:
    """Bind one address, write into the folder alone, and be what the role says."""
    mongod, mongos = program(installation, "mongod"), program(installation, "mongos")
    if mongod is None:
        raise BadInput("there is no mongod in this installation", where=str(installation.home))
    if mongos is None and sharded(node.settings):
        # Refused at the first process already, so that no process is started.
        raise BadInput(
            "a sharded cluster needs mongos, and there is none here",
            where=str(installation.home),
            remedy="say --version with one that the vendor has for download, or give MongoDB's folder with --home",
        )
    return _router(node, mongos) if mongos and node.role == ROUTER else _server(node, mongod)


def parameter(name: str, value: Any) -> dict[str, Any]:
    """Return the setting as a parameter that can be set while the server runs."""
    if name == "cache":
        return {"wiredTigerEngineRuntimeConfig": f"cache_size={max(parse_size(value), _LEAST_CACHE) // 2**20}M"}
    return {name.removeprefix(PARAMETER): value}


def cache(node: NodeSpec) -> int:
    """Return the bytes of a node's cache; a server of the configuration beside a shard leaves the memory to that."""
    if node.role == CONFIG and together(node.settings):
        return _LEAST_CACHE
    if "cache" in node.settings:
        return max(parse_size(node.settings["cache"]), _LEAST_CACHE)
    if node.memory is None:
        return _CACHE
    return max(int(node.memory * _CACHE_SHARE), _LEAST_CACHE)


def _server(node: NodeSpec, mongod: Path) -> NodePlan:
    flat: dict[str, Any] = {
        "storage.wiredTiger.engineConfig.cacheSizeGB": round(cache(node) / 2**30, 3),
        # How long a primary that is to end waits for the others, which end with it.
        "setParameter.shutdownTimeoutMillisForSignaledShutdown": _FAREWELL,
        # Logging in is work that would be measured; of a random password no rounds make guessing harder.
        "setParameter.scramSHA256IterationCount": _ROUNDS,
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
    """It has to be told of members that are put together only when all processes run: it waits for that."""
    seeds, config = node.folder / SEEDS, node.folder / _CONFIG
    command = f"{shlex.quote(str(mongos))} --config {shlex.quote(str(config))} --configdb"
    place = shlex.quote(str(seeds))
    waiting = f'while [ ! -s {place} ]; do sleep 0.1; done; exec {command} "$(cat {place})"'
    # It would wait 15 s for clients to go elsewhere.
    flat = {**_common(node), "setParameter.mongosShutdownTimeoutMillisForSignaledShutdown": _FAREWELL}
    return NodePlan(
        files={_CONFIG: json.dumps(_nested(flat), indent=1), SEEDS: "", **_secrets(node)},
        folders=("run",),
        argv=_with_key(node, waiting),
        environment={"LANG": "C.UTF-8"},
        facts={},
    )


def _with_key(node: NodeSpec, command: str) -> tuple[str, ...]:
    """Return the command line of a shell that copies the key and then runs a command."""
    key, copy = (shlex.quote(str(node.folder / name)) for name in (KEY_FILE, _OWN_KEY))
    return ("/bin/sh", "-c", f"(umask 077 && rm -f {copy} && cat {key} > {copy}) || exit 1; {command}")


def _common(node: NodeSpec) -> dict[str, Any]:
    return {
        "net.bindIp": node.address,
        "net.port": node.port,
        "net.unixDomainSocket.enabled": False,
        # Names the node to whoever asks it for its command line.
        "processManagement.pidFilePath": str(node.folder / "run" / f"{node.name}.pid"),
        "security.keyFile": str(node.folder / _OWN_KEY),
        # Else whoever comes first from this machine may make the first user.
        "setParameter.enableLocalhostAuthBypass": False,
        **_encrypted(node),
    }


def _encrypted(node: NodeSpec) -> dict[str, Any]:
    """Return how the server uses TLS; nothing where it does not.

    Clients and other servers come to one port. Where only some of them are to use TLS, it takes both kinds.
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
    return {KEY_FILE: server_key(node.password), **(node.certificates.files(bundled=True) if node.certificates else {})}


def _is_member(node: NodeSpec) -> bool:
    """Whether a node is a member of a set: it is said, or it is one of several, or joins some, or was one before."""
    if "replica_set" in node.settings:
        return bool(node.settings["replica_set"])
    before = None if node.founders or not node.folder.exists() else nofollow.read_text(node.folder, _CONFIG)
    if before is None:
        return len(node.founders) != 1
    return bool(json.loads(before).get("replication"))


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with dots in their names as the mappings in mappings that they stand for."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        place = nested
        *outer, last = name.split(".")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return nested
