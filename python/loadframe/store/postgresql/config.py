"""A PostgreSQL node's files and command line, and the settings that are loadframe's to decide."""

import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.store.base import Installation, NodePlan, NodeSpec
from loadframe.store.encryption import AUTHORITY, CERTIFICATE, KEY
from loadframe.store.postgresql.client import USER

#: Parameters of the server that loadframe decides.
OURS = (
    *("port", "listen_addresses", "unix_socket_directories", "data_directory", "config_file", "hba_file", "ident_file"),
    *("external_pid_file", "cluster_name", "hot_standby", "primary_conninfo", "primary_slot_name"),
    *("logging_collector", "log_destination", "archive_mode", "restore_command"),
)
#: And these, where the cluster is encrypted.
TLS = ("ssl", "ssl_ca_file", "ssl_cert_file", "ssl_key_file")
#: Loadframe's own setting: which servers are read from, unless an operation says otherwise.
READ_FROM = "read_from"
_PLACES = ("primary", "replica", "prefer_replica", "any")
#: Where a replica finds how to reach the primary, as soon as there is one for it.
SOURCE = "config/source"
#: The superuser's password, for the commands that make or copy the data and for following the primary.
PASSWORD = "config/password"
#: The data, below the node's folder.
DATA = "data/main"

#: Of a node's memory limit, what the server's cache of pages takes; the documentation's advice for a server of its own.
_CACHE_SHARE = 0.25
#: Bytes; the server's own default.
_CACHE = 2**27
#: As many clients as a load may have on one machine. A connection that nobody opens costs next to nothing.
_CONNECTIONS = 500
#: How clients and replicas prove who they are.
_METHOD = "scram-sha-256"
#: Replicas, and the copying of their data.
_SENDERS = 64

_NAME = re.compile(r"[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)?")


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for a setting that is loadframe's to decide, or whose name or value the server cannot read."""
    if (where := settings.get(READ_FROM, _PLACES[0])) not in _PLACES:
        raise BadInput(f"the setting {READ_FROM} wants {', '.join(_PLACES)}", where=str(where))
    for key, value in settings.items():
        if not _NAME.fullmatch(key):
            raise BadInput(f"{key!r} is not the name of a parameter", remedy="see pg_settings of the server")
        if key.lower() in OURS:
            raise BadInput(f"the setting {key} is loadframe's to decide", remedy="leave it out")
        if not isinstance(value, str | int | float) or "\n" in str(value):
            raise BadInput(f"the setting {key} wants a text, a number, true or false", where=str(value))
    if str(settings.get("wal_level", "replica")) == "minimal":
        raise BadInput("with wal_level minimal there are no replicas", remedy="say replica or logical")


def parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are the server's."""
    return {name: value for name, value in settings.items() if name != READ_FROM}


def program(installation: Installation, name: str) -> Path:
    """Return where an installation has a program: in it, in `bin`, or where the wheel has it; BadInput without."""
    home = installation.home
    for place in (home, home / "bin", home / "pgserver" / "pginstall" / "bin"):
        if (place / name).is_file():
            return place / name
    raise BadInput(
        f"there is no {name} in this installation",
        where=str(home),
        remedy="give the folder of a PostgreSQL server with its tools, such as /usr/lib/postgresql/15, with --home",
    )


def slot(name: str) -> str:
    """Return the name that a node has as a replica: of its slot and of its connection to the primary."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def plan(node: NodeSpec, installation: Installation) -> NodePlan:
    """Bind one address, write into the folder alone. The first founder is the primary; all others copy its data."""
    fixed: dict[str, Any] = {
        "listen_addresses": node.address,
        "port": node.port,
        "unix_socket_directories": "",
        "data_directory": str(node.folder / DATA),
        "hba_file": str(node.folder / "config" / "pg_hba.conf"),
        "ident_file": str(node.folder / "config" / "pg_ident.conf"),
    }
    lines: dict[str, Any] = {
        "shared_buffers": f"{cache(node) // 2**20}MB",
        "max_connections": _CONNECTIONS,
        "max_wal_senders": _SENDERS,
        "max_replication_slots": _SENDERS,
        "wal_level": "replica",
        # A replica whose primary was started again looks for it so often; by default every 5 s.
        "wal_retrieve_retry_interval": "500ms",
        **parameters(node.settings),
        **fixed,
        "cluster_name": node.name,
        "hot_standby": True,
        **_encrypted(node),
    }
    clients, nodes = node.encryption.clients, node.encryption.nodes
    return NodePlan(
        files={
            "config/postgresql.conf": "".join(f"{name} = {quoted(value)}\n" for name, value in lines.items()),
            "config/pg_hba.conf": f"{_by(clients)} all all all {_METHOD}\n{_by(nodes)} replication all all {_METHOD}\n",
            "config/pg_ident.conf": "",
            "config/start.sh": _script(node, installation, fixed),
            PASSWORD: node.password,
            SOURCE: "",
            **(node.certificates.files() if node.certificates else {}),
        },
        folders=("data",),
        argv=("/bin/sh", str(node.folder / "config" / "start.sh")),
        environment={"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", **_as_client(node)},
        facts={"shared_buffers": cache(node)},
        # SIGTERM would have the server wait until its last client has left.
        stop_signal=signal.SIGINT,
    )


def require_tls(installation: Installation) -> None:
    """BadInput for a server that was built without TLS."""
    server = program(installation, "postgres")
    if b"libssl" not in server.read_bytes():
        raise BadInput(
            "this server of PostgreSQL was built without TLS",
            where=str(server),
            remedy="give the folder of one that has it with --home, such as /usr/lib/postgresql/15",
        )


def _encrypted(node: NodeSpec) -> dict[str, Any]:
    if node.certificates is None:
        return {}
    files = {"ssl_ca_file": AUTHORITY, "ssl_cert_file": CERTIFICATE, "ssl_key_file": KEY}
    return {"ssl": True, **{name: str(node.folder / file) for name, file in files.items()}}


def _by(tls: bool) -> str:
    """Return the word of pg_hba.conf for connections that are let in: by TLS alone, or in any way."""
    return "hostssl" if tls else "host"


def _as_client(node: NodeSpec) -> dict[str, str]:
    """Return how a replica connects to the primary, which copies and follows by the rules of any client."""
    if not node.encryption.nodes:
        # It would use TLS wherever the other end offers it.
        return {"PGSSLMODE": "disable"} if node.certificates else {}
    return {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(node.folder / AUTHORITY)}


def cache(node: NodeSpec) -> int:
    """Return the bytes of a node's cache of pages, unless `shared_buffers` says otherwise."""
    return int(node.memory * _CACHE_SHARE) if node.memory else _CACHE


def source(name: str, address: str, user: str = USER) -> str:
    """Return how the replica of that node reaches the primary at `address` (host:port)."""
    host, _, port = address.rpartition(":")
    return f"host={host.strip('[]')} port={port} user={user} application_name={slot(name)}"


def _script(node: NodeSpec, installation: Installation, fixed: Mapping[str, Any]) -> str:
    """Return what starts the node: it makes or copies its data if it has none, and becomes the server.

    The `fixed` parameters are on the command line, where ALTER SYSTEM, which writes below the data, cannot change them.
    """
    postgres, initdb, backup = (
        shlex.quote(str(program(installation, name))) for name in ("postgres", "initdb", "pg_basebackup")
    )
    data, told = shlex.quote(str(node.folder / DATA)), shlex.quote(str(node.folder / SOURCE))
    secret = shlex.quote(str(node.folder / PASSWORD))
    config = shlex.quote(str(node.folder / "config" / "postgresql.conf"))
    options = " ".join(shlex.quote(f"--{name}={value}") for name, value in fixed.items())
    founds = "yes" if node.founders and node.founders[0] == node.name else ""
    return f"""\
set -eu
data={data}
# In the environment, and not in primary_conninfo, which statements can show.
PGPASSWORD=$(cat {secret})
export PGPASSWORD
if [ ! -s "$data/PG_VERSION" ] && [ -n "{founds}" ]; then
    rm -rf "$data.new"
    # initdb alone looks up the name of its user. A user without an account borrows a name in a user namespace.
    named=
    id -un >/dev/null 2>&1 || named="unshare --user --map-user=nobody"
    $named {initdb} -D "$data.new" -U {USER} -A {_METHOD} --pwfile={secret} --no-locale -E UTF8 --no-sync
    mv "$data.new" "$data"
elif [ ! -s "$data/PG_VERSION" ] || [ -e "$data/standby.signal" ]; then
    # Whoever takes this node in says where the primary is.
    while [ ! -s {told} ]; do sleep 0.05; done
    source=$(cat {told})
    if [ ! -s "$data/PG_VERSION" ]; then
        rm -rf "$data.new"
        {backup} -D "$data.new" -d "$source" -S {slot(node.name)} -X stream -c fast --no-sync
        touch "$data.new/standby.signal"
        mv "$data.new" "$data"
    fi
    sed -i '/^primary_/d' "$data/postgresql.auto.conf"
    printf "primary_conninfo = '%s'\\nprimary_slot_name = '%s'\\n" "$source" {slot(node.name)} \\
        >> "$data/postgresql.auto.conf"
fi
exec {postgres} --config-file={config} {options}
"""


def quoted(value: object) -> str:
    """Return a value as postgresql.conf has it: between quotes, which every kind of parameter takes."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
